//! What lasts, under a cap and beside others: host functions of 100 ms, and kernels that are longer than any turn.
//!
//! And sixteen threads, each on its own default stream, graphs that decide on the device how long they last, and one that
//! does not end until it is told to.
//! Measured as in `pace`.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::harness::{
    self, Divided, Host, PATIENCE, POINTS, Share, Talk, alone, are, best_of_three, signal, until,
};
use crate::pace::{
    KERNEL_NS, WINDOW, capped, client, machine, meeting, progress, progress_after, progress_now,
    read, running, shares, usage,
};

/// One of the client's long kernels, in its short ones.
const LONG: u64 = 1500;
/// How long a program may stand beside another's kernel that does not end: its drain is given up after 50 ms.
const GETS_ON: Duration = Duration::from_millis(500);

/// A launch beside one that does not end, which is waited for as long: 50 ms, and a kernel, and what a busy host adds.
const BESIDE_NS: u64 = 75_000_000;

/// Two times ten kernels of a millisecond and a host function of 100 ms, if nothing else is waited for. Ten is what a
/// cap saves up for: of more at once, some wait for it.
const BESIDE_CALLBACKS: f64 = 100.0 * 20.0 / 220.0;

/// The client gets `wanted` percent, within `points`, and is charged what its kernels take: not a host function's time,
/// which is a hundred times that of a kernel.
fn is_charged_for_kernels_alone(scenario: &str, cap: u32, wanted: f64, points: f64) {
    let machine = capped(cap);
    let client = client(&machine, scenario);
    let done = || progress_now(&client).0;
    let charged_ns = || usage(&machine).gate_sum(0).used_ns;
    let before = (done(), charged_ns());
    are(&shares(&client, &client.pids), wanted, points);
    let (done, charged_ns) = (done() - before.0, charged_ns() - before.1);
    let part = charged_ns as f64 / (done * KERNEL_NS) as f64;
    println!("{scenario} under {cap} %: charged {part:.3} of what its kernels took");
    assert!((0.8..1.25).contains(&part), "charged {part:.3} of what its kernels took");
}

#[test]
fn host_functions_are_not_charged() {
    let _alone = alone();
    is_charged_for_kernels_alone("callback_loop", 30, BESIDE_CALLBACKS, 2.0);
}

#[test]
fn a_cap_holds_between_host_functions() {
    let _alone = alone();
    is_charged_for_kernels_alone("callback_loop", 5, 5.0, 2.0);
}

#[test]
fn a_cap_holds_beside_host_functions() {
    let _alone = alone();
    is_charged_for_kernels_alone("loop_beside_callbacks", 30, 30.0, POINTS);
}

/// What they are charged is what the device takes from one mark to the next: beside a compiler also the time in which it has
/// nothing to do, because each thread waits for a processor.
#[test]
fn a_cap_holds_for_the_default_streams_of_sixteen_threads() {
    let _alone = alone();
    let machine = capped(30);
    let client = client(&machine, "per_thread_loop");
    are(&shares(&client, &client.pids), 30.0, POINTS);
}

/// A graph of one key lasts a millisecond one time and twenty the next: what it is to be charged is known when it has ended.
#[test]
fn a_cap_holds_for_loops_of_one_kernel_and_of_twenty() {
    let _alone = alone();
    is_charged_for_kernels_alone("while_loop", 30, 30.0, POINTS);
}

/// And eight of any length are under way at once.
#[test]
fn a_cap_holds_for_queues_of_loops() {
    let _alone = alone();
    is_charged_for_kernels_alone("while_queue", 30, 30.0, POINTS);
}

/// When the client has done so many of the long kernels.
fn done_at(client: &Talk, kernels: u64) -> u64 {
    loop {
        let (done, at_ns) = progress(client);
        if done >= kernels * LONG {
            return at_ns;
        }
    }
}

#[test]
fn a_kernel_longer_than_any_turn_is_charged() {
    let _alone = alone();
    let machine = capped(50);
    let client = client(&machine, "long_loop");
    let charged_ns = || usage(&machine).gate_sum(0).used_ns;
    let mut from = (done_at(&client.talk, 1), charged_ns());
    for kernels in 2..4 {
        let host = Host::watch(&client.pids);
        let to = (done_at(&client.talk, kernels), charged_ns());
        let (wall_ns, charged_ns) = ((to.0 - from.0) as f64, (to.1 - from.1) as f64);
        from = to;
        let took_ns = (LONG * KERNEL_NS) as f64;
        let percent = 100.0 * took_ns / wall_ns;
        let part = charged_ns / took_ns;
        let starved = (host.starved_ns() as f64 / wall_ns).min(1.0);
        println!("{percent:.1} %, charged {part:.3} of what it took");
        are(&[Share { percent, late_percent: 0.0, starved }], 50.0, POINTS);
        assert!((0.9..1.1).contains(&part), "charged {part:.3} of what it took");
    }
}

/// A launch that lasts until it is told to end, as a persistent kernel does. The cap does not stop it, and it is charged when
/// it ends and not before; what is launched beside it meanwhile waits for a drain that is given up, and goes.
#[test]
fn a_launch_without_end_is_charged_when_it_ends() {
    let _alone = alone();
    let machine = capped(30);
    let mut client = running(&machine, "beside_one_without_end");
    let charged_ns = || usage(&machine).gate_sum(0).used_ns;
    let (_, first_ns) = progress(&client);
    best_of_three("beside a launch without end", || {
        let (from, before_ns) = (read(&client.newest_line()), charged_ns());
        let to = progress_after(&client, from.1, WINDOW);
        let (done, wall_ns) = (to.0 - from.0, to.1 - from.1);
        let (each_ns, charged_ns) = (wall_ns / done.max(1), charged_ns() - before_ns);
        println!("{done} beside it, each in {each_ns} ns; charged {charged_ns} of {wall_ns} ns");
        let wrong = [
            ("they wait for it", each_ns > BESIDE_NS, each_ns),
            ("it is charged", charged_ns > done * KERNEL_NS + wall_ns / 10, charged_ns),
        ];
        let wrong = wrong.into_iter().filter(|(_, is_wrong, _)| *is_wrong);
        wrong.map(|(what, _, ns)| (what.to_owned(), format!("{ns} ns"))).collect()
    });
    let (_, last_ns) = read(&client.newest_line());
    let before_ns = charged_ns();
    client.say("end");
    while client.line() != "ended" {}
    until("it is charged", || {
        let part = (charged_ns() - before_ns) as f64 / (last_ns - first_ns) as f64;
        println!("charged {part:.3} of the time in which it was seen");
        part > 0.9
    });
}

/// Who waits for a gate that is closed for seconds can be ended.
#[test]
fn who_has_to_wait_for_seconds_can_be_ended() {
    let _alone = alone();
    let machine = capped(10);
    let client = running(&machine, "long_loop");
    done_at(&client, 1);
    signal(client.pid(), "TERM");
    let ended = client.end_within(PATIENCE).expect("it ends");
    assert_eq!(ended.signal(), Some(15), "{ended}");
}

/// The longest time in which the client did nothing, until another has done so many more of the long kernels.
fn stands_beside(client: &Talk, long: &Talk, kernels: u64) -> Duration {
    let from = progress(long).0 / LONG;
    let (_, mut last_ns) = read(&client.newest_line());
    let mut longest_ns = 0;
    let until_ns = done_at(long, from + kernels);
    while last_ns < until_ns {
        let (_, at_ns) = progress(client);
        longest_ns = longest_ns.max(at_ns - last_ns);
        last_ns = at_ns;
    }
    Duration::from_nanos(longest_ns)
}

/// The client gets on while another's long kernels run.
fn gets_on_beside(client: &Talk, long: &Talk) {
    best_of_three("beside a kernel longer than any turn", || {
        let stood = stands_beside(client, long, 2);
        println!("stood for {stood:?} at most");
        let wrong = (stood > GETS_ON).then(|| ("it stands".to_owned(), format!("{stood:?}")));
        wrong.into_iter().collect()
    });
}

/// And has the device to itself when the other has been killed in the midst of one.
#[test]
fn another_tenant_gets_on_beside_a_kernel_longer_than_any_turn() {
    let _alone = alone();
    let divided = Divided::new(machine());
    let tenant =
        |scenario: &str| Talk::start(divided.tenant(&[], &harness::client("pace")).arg(scenario));
    let percent = |client: &Talk| {
        let from = read(&client.newest_line());
        let to = progress_after(client, from.1, WINDOW);
        100.0 * ((to.0 - from.0) * KERNEL_NS) as f64 / (to.1 - from.1) as f64
    };
    let short = tenant("sync_loop");
    progress(&short);
    let wanted = percent(&short);
    let long = tenant("long_loop");
    gets_on_beside(&short, &long);
    signal(long.pid(), "TERM");
    let ended = long.end_within(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(128 + 15), "{ended}");
    best_of_three("after the other's end", || {
        let percent = percent(&short);
        println!("{percent:.1} of {wanted:.1} %");
        let wrong =
            (percent < wanted - POINTS).then(|| ("less".to_owned(), format!("{percent:.1}")));
        wrong.into_iter().collect()
    });
}

/// Without a daemon, where tenants meet, the caps hold besides: of the long one over a kernel and the time it is paid in.
#[test]
fn a_kernel_longer_than_any_turn_meets_another_tenant() {
    let _alone = alone();
    let machine = capped(30);
    meeting(&machine);
    let short = running(&machine, "sync_loop");
    progress(&short);
    let cache = machine.home().join("second.cache");
    let machine = machine.with("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.display());
    let long = running(&machine, "long_loop");
    gets_on_beside(&short, &long);
    let from = done_at(&long, 1 + progress(&long).0 / LONG);
    let since = progress_after(&short, from, Duration::ZERO);
    let to = done_at(&long, 1 + progress(&long).0 / LONG);
    let percent = 100.0 * (LONG * KERNEL_NS) as f64 / (to - from) as f64;
    let until = progress_after(&short, to, Duration::ZERO);
    let shorts = 100.0 * ((until.0 - since.0) * KERNEL_NS) as f64 / (until.1 - since.1) as f64;
    println!("{percent:.1} and {shorts:.1} of 30 %");
    assert!(percent <= 30.0 + POINTS && shorts <= 30.0 + POINTS, "{percent:.1} and {shorts:.1}");
}
