//! How much of the device a tenant gets under a cap, and programs that a cap must not break.
//!
//! The simulated machine is slowed down tenfold, so that its times hold on a busy host. More than its
//! share, but for some points, a client gets in no window. Less, on average, only as far as the host was
//! late with waking it and the simulated device: that is measured, and on an idle host it is less than a
//! point.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use divvy_abi::config::{GateLine, gate};
use divvy_page::owner::Owner;
use divvy_page::reader::{GateEntry, UsageFile};

use crate::harness::{Finished, GIB, Host, Machine, POINTS, Share, Talk, alone, are, mean};

const SCALE: u64 = 10;
/// A kernel of the client, in time of the slowed machine.
pub(crate) const KERNEL_NS: u64 = 100_000 * SCALE;
const SETTLING: Duration = Duration::from_millis(1000);
pub(crate) const WINDOW: Duration = Duration::from_millis(1500);
const WINDOWS: usize = 3;

pub(crate) fn machine() -> Machine {
    let machine = Machine::new().limited(4 * GIB).with("SIMGPU_MODE", "calibrated");
    machine.with("SIMGPU_TIME_SCALE", SCALE)
}

pub(crate) fn capped(percent: u32) -> Machine {
    machine().with("DIVVY_COMPUTE", format!("{percent}%"))
}

pub(crate) fn usage(machine: &Machine) -> UsageFile {
    let usage = UsageFile::open(&machine.tenant_directory()).expect("it can be read");
    usage.expect("the tenant has a usage file")
}

pub(crate) fn running(machine: &Machine, scenario: &str) -> Talk {
    Talk::start(&mut machine.scenario("pace", scenario))
}

/// What the client has done, and when, on its own clock.
pub(crate) fn progress(client: &Talk) -> (u64, u64) {
    read(&client.line())
}

/// The newest it has said.
pub(crate) fn progress_now(client: &Client) -> (u64, u64) {
    read(&client.talk.newest_line())
}

pub(crate) fn read(line: &str) -> (u64, u64) {
    let mut words = line.split(' ').map(|word| word.parse().expect("a number"));
    (words.next().expect("a count"), words.next().expect("a time"))
}

/// Progress as soon as `time` has passed since `since_ns`.
pub(crate) fn progress_after(client: &Talk, since_ns: u64, time: Duration) -> (u64, u64) {
    let until_ns = since_ns + u64::try_from(time.as_nanos()).expect("short");
    loop {
        let (done, at_ns) = progress(client);
        if at_ns >= until_ns {
            return (done, at_ns);
        }
    }
}

/// A client of a scenario, how often it and the device must be woken for each of its kernels, and both
/// their processes.
pub(crate) struct Client {
    /// It, as it talks.
    pub(crate) talk: Talk,
    wakes: f64,
    /// The client's process and the device's.
    pub(crate) pids: Vec<u32>,
}

pub(crate) fn client(machine: &Machine, scenario: &str) -> Client {
    // Twice for each wait: the device for the work, the client for its end. Queues and graphs wait once
    // for so many.
    let wakes = match scenario {
        "async_loop" | "two_contexts" | "callback_loop" | "loop_beside_callbacks" => 2.0 / 20.0,
        "uneven_loop" => 2.0 * 2.0 / 20.0,
        "graph_loop" => 2.0 / 5.0,
        _ => 2.0,
    };
    let talk = running(machine, scenario);
    progress(&talk);
    let pids = [Some(talk.pid()), machine.simgpud()].into_iter().flatten().collect();
    Client { talk, wakes, pids }
}

/// The client's share from now on, once it has settled, window by window; whoever of `pids` is starved, it
/// is the client's loss.
pub(crate) fn shares(client: &Client, pids: &[u32]) -> Vec<Share> {
    // What it has said while another started is of a time in which it was alone.
    let (_, now_ns) = progress_now(client);
    let mut from = progress_after(&client.talk, now_ns, SETTLING);
    let window = |_| {
        let host = Host::watch(pids);
        let to = progress_after(&client.talk, from.1, WINDOW);
        let (done, wall_ns) = ((to.0 - from.0) as f64, (to.1 - from.1) as f64);
        from = to;
        let percent = 100.0 * done * KERNEL_NS as f64 / wall_ns;
        // At its full share it would have waited more often than it did.
        let late_percent = 100.0 * done * client.wakes * host.late_ns() as f64 / wall_ns;
        let starved = (host.starved_ns() as f64 / wall_ns).min(1.0);
        println!(
            "{percent:.1} %, less {late_percent:.1} % that the host was late, {starved:.2} of all starved"
        );
        Share { percent, late_percent, starved }
    };
    (0..WINDOWS).map(window).collect()
}

/// One that meets another: it must be woken for each of its turns too, which last ten kernels.
fn meeting_client(machine: &Machine, scenario: &str) -> Client {
    let client = client(machine, scenario);
    Client { wakes: client.wakes + 2.0 / 10.0, ..client }
}

/// The client gets `wanted` percent.
fn gets(client: &Client, wanted: f64) {
    are(&shares(client, &client.pids), wanted, POINTS);
}

#[test]
fn cap_holds_for_single_kernels() {
    let _alone = alone();
    gets(&client(&capped(30), "sync_loop"), 30.0);
}

#[test]
fn cap_holds_for_queues() {
    let _alone = alone();
    gets(&client(&capped(30), "async_loop"), 30.0);
}

#[test]
fn cap_holds_for_graphs() {
    let _alone = alone();
    gets(&client(&capped(30), "graph_loop"), 30.0);
}

#[test]
fn cap_by_the_peers_variable_holds() {
    let _alone = alone();
    let machine = machine().with("CUDA_DEVICE_SM_LIMIT", "30");
    gets(&client(&machine, "sync_loop"), 30.0);
}

#[test]
fn policy_disable_lifts_the_peers_cap() {
    let _alone = alone();
    let machine = machine().with("CUDA_DEVICE_SM_LIMIT", "30");
    let machine = machine.with("GPU_CORE_UTILIZATION_POLICY", "disable");
    gets(&client(&machine, "async_loop"), 95.0);
}

/// What two clients get from now on. One may wait for the other's turn to end.
fn both_shares(first: &Client, second: Client) -> [Vec<Share>; 2] {
    let mut pids = [&first.pids[..], &second.pids].concat();
    pids.sort_unstable();
    pids.dedup();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // A receiver of lines is one thread's.
            let second = second;
            shares(&second, &pids)
        });
        [shares(first, &pids), other.join().expect("it does not panic")]
    })
}

/// Makes the directory in which the machine's tenants meet.
pub(crate) fn meeting(machine: &Machine) {
    let beside = machine.tenant().with_file_name(".meet");
    std::fs::create_dir_all(beside).expect("it can be made");
}

/// Two clients get `wanted` percent together, and each about as much as the other: they take turns.
fn share_percents(machine: &Machine, scenario: &str, wanted: f64) {
    let (first, second) = (meeting_client(machine, scenario), meeting_client(machine, scenario));
    let [first, second] = both_shares(&first, second);
    let sums = first.iter().zip(&second).map(|(a, b)| Share {
        percent: a.percent + b.percent,
        late_percent: a.late_percent + b.late_percent,
        starved: a.starved.max(b.starved),
    });
    are(&sums.collect::<Vec<_>>(), wanted, POINTS);
    // Windows of who is starved are longer, so they are not the other's; what it is not given a processor for it does
    // not use.
    let due = |share: &Share| share.percent + wanted / 2.0 * share.starved;
    let [part, other] = [&first, &second].map(|of| mean(of.iter().map(due)));
    assert!(
        part.min(other) / part.max(other) > 0.7,
        "{part:.1} and {other:.1}: {first:?} {second:?}"
    );
}

#[test]
fn processes_of_a_tenant_share_its_cap() {
    let _alone = alone();
    share_percents(&capped(40), "async_loop", 40.0);
}

/// Nobody else's slices are taken for their kernels', and no length for another: two of them had 80 to 95 % where they met
/// as if they were tenants.
#[test]
fn processes_of_a_tenant_share_its_cap_whatever_their_kernels_take() {
    let _alone = alone();
    let machine = capped(40);
    share_percents(&machine, "uneven_loop", 40.0);
    meeting(&machine);
    share_percents(&machine, "uneven_loop", 40.0);
}

#[test]
fn processes_of_a_tenant_that_meet_lose_nothing() {
    let _alone = alone();
    let machine = capped(40);
    meeting(&machine);
    share_percents(&machine, "sync_loop", 40.0);
    share_percents(&machine, "async_loop", 40.0);
}

#[test]
fn contexts_of_a_process_share_its_cap() {
    let _alone = alone();
    gets(&client(&capped(40), "two_contexts"), 40.0);
}

/// Nobody makes turns for them: they meet, and take the device burst by burst.
#[test]
fn tenants_without_a_daemon_keep_their_caps() {
    let _alone = alone();
    tenants_keep_their_caps(|_| ());
}

/// A daemon that died in the middle of turns leaves gates that are open but not free.
#[test]
fn tenants_whose_daemon_died_keep_their_caps() {
    let _alone = alone();
    tenants_keep_their_caps(|tenant| {
        let tenant = CString::new(tenant.as_os_str().as_bytes()).expect("no NUL inside");
        let owner = Owner::open(&tenant).expect("the limits were written");
        let line = GateLine { gate: gate::TIMED, active: 1, lease_ns: 1, ..GateLine::default() };
        owner.set_gate(0, &line).expect("it can be written");
    });
}

/// Two tenants that meet; `leave` leaves in the directory of each what a daemon has.
fn tenants_keep_their_caps(leave: impl Fn(&Path)) {
    for scenario in ["sync_loop", "async_loop"] {
        let machine = capped(30);
        meeting(&machine);
        let first = meeting_client(&machine, scenario);
        progress(&first.talk);
        leave(&machine.tenant());
        let cache = machine.home().join("second.cache");
        let machine = machine
            .with("DIVVY_COMPUTE", "70%")
            .with("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.display());
        let second = meeting_client(&machine, scenario);
        progress(&second.talk);
        leave(&machine.tenant().with_file_name("second"));
        let [small, large] = both_shares(&first, second);
        are(&small, 30.0, POINTS);
        // What it takes to change over is lost to the larger.
        are(&large, 65.0, 1.5 * POINTS);
    }
}

/// A board that is no file, or full of what nobody believes, keeps nobody waiting.
#[test]
fn a_board_that_cannot_be_used_changes_nothing() {
    let _alone = alone();
    let machine = capped(30);
    meeting(&machine);
    let board = || {
        let beside = machine.tenant().with_file_name(".meet");
        let mut files = std::fs::read_dir(beside).expect("it is there").flatten();
        files.next().expect("a board").path()
    };
    let client = client(&machine, "async_loop");
    gets(&client, 30.0);
    std::fs::write(board(), vec![0xff; 4096]).expect("it can be written");
    gets(&client, 30.0);
    std::fs::write(board(), "short").expect("it can be written");
    gets(&client, 30.0);
    let path = board();
    // The program makes it again as soon as it is missed: until we are first.
    while std::fs::create_dir(&path).is_err() {
        std::fs::remove_file(&path).expect("it can be removed");
    }
    gets(&client, 30.0);
}

#[test]
fn a_changed_cap_is_followed() {
    let _alone = alone();
    let machine = capped(30);
    let client = client(&machine, "async_loop");
    gets(&client, 30.0);
    let owner = Owner::open(&machine.tenant_directory()).expect("the limits were written");
    owner.update(|config| config.compute_rules[0].value = 700_000).expect("it can be changed");
    gets(&client, 70.0);
}

#[test]
fn without_a_cap_nothing_is_counted() {
    let _alone = alone();
    let machine = machine();
    let client = running(&machine, "async_loop");
    for _ in 0..3 {
        progress(&client);
    }
    assert_eq!(usage(&machine).gate_sum(0), GateEntry::default());
}

#[test]
fn copies_from_and_to_the_host_are_not_charged() {
    let _alone = alone();
    let machine = capped(30);
    let client = running(&machine, "copy_loop");
    for _ in 0..5 {
        progress(&client);
    }
    let sum = usage(&machine).gate_sum(0);
    assert_eq!((sum.used_ns, sum.launches, sum.throttled_ns), (0, 0, 0));
}

/// Whoever watches a program that waited must see at once that it works again, and not when the credit in
/// its hand is spent: a request of high priority took 0.09 ms longer beside others for that.
#[test]
fn the_first_launch_after_a_wait_is_seen_at_once() {
    let _alone = alone();
    let machine = capped(90);
    let mut client = running(&machine, "one_at_a_time");
    client.expect("0");
    let usage = usage(&machine);
    // The first are paid one by one, until it is known what they cost.
    for launched in 1..60 {
        client.say("go on");
        client.expect(&launched.to_string());
        assert_eq!(usage.gate_sum(0).launches, launched);
    }
}

/// Plays a scenario under a cap of 10 % in a machine like `machine`.
fn plays_capped(machine: Machine, scenario: &str) -> (Machine, Finished) {
    let machine = machine.with("DIVVY_COMPUTE", "10%");
    let finished = machine.plays("pace", scenario);
    (machine, finished)
}

/// The launch that releases the others comes when the wait for them has been given up.
#[test]
fn work_that_waits_for_later_work_is_let_go() {
    let _alone = alone();
    let (machine, _) = plays_capped(machine(), "a_stream_waits_for_a_later_launch");
    let sum = usage(&machine).gate_sum(0);
    assert!(sum.drains_given_up > 0, "{sum:?}");
}

#[test]
fn forked_between_launches() {
    let _alone = alone();
    plays_capped(machine(), "forked_between_launches");
}

#[test]
fn contexts_destroyed_in_flight() {
    let _alone = alone();
    plays_capped(machine(), "contexts_destroyed_in_flight");
}

#[test]
fn many_contexts_in_turn() {
    let _alone = alone();
    let machine = machine().limited(64 * GIB).with("SIMGPU_MEMORY", "64GiB");
    plays_capped(machine, "many_contexts_in_turn");
}

/// An owner that died while it had closed the gate keeps nobody waiting.
#[test]
fn a_gate_closed_long_ago_is_open() {
    let _alone = alone();
    let machine = machine();
    let client = running(&machine, "sync_loop");
    progress(&client);
    let owner = Owner::open(&machine.tenant_directory()).expect("the limits were written");
    let lease_ns = divvy_page::now_ns().saturating_sub(1);
    let line = GateLine { gate: gate::CLOSED, lease_ns, ..GateLine::default() };
    owner.set_gate(0, &line).expect("the config can be written");
    owner.raise_any_gate().expect("the config can be written");
    let (from, waited_ns) = (progress(&client).0, || usage(&machine).gate_sum(0).waited_ns);
    let before_ns = waited_ns();
    while progress(&client).0 < from + 100 {}
    let waited_ms = (waited_ns() - before_ns) / 1_000_000;
    assert!(waited_ms < 100, "waited for {waited_ms} ms with 100 kernels");
}
