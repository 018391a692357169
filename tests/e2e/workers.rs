//! Servers of several worker processes under a cap: one is stopped, goes on, or is killed. And `docker pause`: all
//! processes of a tenant are stopped beside another's, which the cgroup's freezer does too, as seen from outside.
//!
//! What is judged is who gets on, how soon, and what of the device's time they have together. The simulated machine
//! is slowed down, as in `pace`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Command;
use std::time::Duration;

use divvy_page::now_ns;

use crate::harness::{
    Divided, GIB, Host, Machine, POINTS, Share, Talk, alone, are, best_of_three, client, mean,
    signal,
};

const SCALE: u64 = 10;
/// A kernel of the client, in time of the slowed machine.
const KERNEL_NS: u64 = 100_000 * SCALE;
const SETTLING: Duration = Duration::from_millis(1000);
const WINDOW: Duration = Duration::from_millis(1500);
const WINDOWS: usize = 3;
const WORKERS: usize = 4;
const CAP: f64 = 50.0;
/// Within which whoever can work gets on, when another process of the tenant has been stopped or killed: twice a round
/// of turns by what the cap leaves of the time, and at least this.
const GETS_ON: Duration = Duration::from_millis(500);

/// A server, and whose time of the host it needs.
struct Server {
    talk: Talk,
    /// The server's own process, then its workers'.
    pids: Vec<u32>,
}

/// Kernels of each worker, at a time.
struct Seen {
    at_ns: u64,
    done: Vec<u64>,
}

impl Server {
    /// A server, all of whose workers work.
    fn start(command: &mut Command) -> Self {
        let talk = Talk::start(command);
        let pids = talk.line().split(' ').map(|pid| pid.parse().expect("a pid")).collect();
        let server = Self { talk, pids };
        while server.next().done.contains(&0) {}
        server
    }

    fn worker(&self, number: usize) -> u32 {
        self.pids[1 + number]
    }

    fn next(&self) -> Seen {
        seen(&self.talk.line())
    }

    /// As it is now: what it said before is passed over.
    fn now(&self) -> Seen {
        seen(&self.talk.newest_line())
    }

    /// The first it says when `time` has passed since `since_ns`.
    fn after(&self, since_ns: u64, time: Duration) -> Seen {
        let until_ns = since_ns + nanoseconds(time);
        loop {
            let seen = self.next();
            if seen.at_ns >= until_ns {
                return seen;
            }
        }
    }

    /// Sends a signal to all its processes, as a container's runtime does.
    fn signal_all(&self, name: &str) {
        self.pids.iter().for_each(|pid| signal(*pid, name));
    }
}

fn seen(line: &str) -> Seen {
    let mut words = line.split(' ').map(|word| word.parse().expect("a number"));
    let at_ns = words.next().expect("a time");
    Seen { at_ns, done: words.collect() }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("short")
}

/// What the workers `who` got in a window, each and together.
struct Window {
    each: Vec<f64>,
    sum: Share,
}

/// The shares of `who` from `from` on, window by window. Whoever of `pids` is starved, it is their loss.
fn windows(
    server: &Server,
    who: Range<usize>,
    pids: &[u32],
    mut from: Seen,
    windows: usize,
    window: Duration,
) -> Vec<Window> {
    let measure = |_| {
        let host = Host::watch(pids);
        let to = server.after(from.at_ns, window);
        let wall_ns = (to.at_ns - from.at_ns) as f64;
        let part = |worker: usize| {
            let done = to.done[worker] - from.done[worker];
            100.0 * (done * KERNEL_NS) as f64 / wall_ns
        };
        let each: Vec<f64> = who.clone().map(part).collect();
        let percent: f64 = each.iter().sum();
        // Twice for each kernel that is waited for, and for each turn of ten.
        let wakes = 2.0 * percent / 100.0 * wall_ns / KERNEL_NS as f64;
        let late_percent = 100.0 * wakes * host.late_ns() as f64 / wall_ns;
        let starved = (host.starved_ns() as f64 / wall_ns).min(1.0);
        from = to;
        println!("{each:.1?}: {percent:.1} %, late {late_percent:.1} %, starved {starved:.2}");
        Window { each, sum: Share { percent, late_percent, starved } }
    };
    (0..windows).map(measure).collect()
}

/// The workers `who` have `wanted` percent together, and each about as much as any other.
fn have(server: &Server, machine: &Machine, who: Range<usize>, wanted: f64) {
    let mut pids = server.pids.clone();
    pids.extend(machine.simgpud());
    let settled = server.after(server.now().at_ns, SETTLING);
    let windows = windows(server, who.clone(), &pids, settled, WINDOWS, WINDOW);
    are(&windows.iter().map(|window| window.sum).collect::<Vec<_>>(), wanted, POINTS);
    let fair = wanted / who.len() as f64;
    let due = |number: usize| {
        let of = |window: &Window| window.each[number] + fair * window.sum.starved;
        mean(windows.iter().map(of))
    };
    let parts: Vec<f64> = (0..who.len()).map(due).collect();
    let most = parts.iter().copied().fold(0.0, f64::max);
    assert!(parts.iter().all(|part| *part > 0.6 * most), "of {wanted} %: {parts:.1?}");
}

/// How long each of `who` stood still at most, from `from` on for twice the time within which they are to get on.
fn standstills(server: &Server, from: &Seen, who: Range<usize>) -> BTreeMap<String, String> {
    let mut last: Vec<(u64, u64)> = from.done.iter().map(|done| (*done, from.at_ns)).collect();
    let mut longest_ns = vec![0; last.len()];
    let until_ns = from.at_ns + 2 * nanoseconds(GETS_ON);
    loop {
        let seen = server.next();
        for worker in who.clone() {
            longest_ns[worker] = longest_ns[worker].max(seen.at_ns - last[worker].1);
            if seen.done[worker] != last[worker].0 {
                last[worker] = (seen.done[worker], seen.at_ns);
            }
        }
        if seen.at_ns >= until_ns {
            break;
        }
    }
    let is_long = |worker: &usize| longest_ns[*worker] > nanoseconds(GETS_ON);
    let told = |worker: usize| {
        (format!("worker {worker} stands"), format!("{} ms", longest_ns[worker] / 1_000_000))
    };
    who.filter(is_long).map(told).collect()
}

/// Four workers under a cap, through the stop of one, its going on, and another's death.
fn workers_come_and_go(machine: &Machine, mut command: Command) {
    let server = Server::start(command.arg(WORKERS.to_string()));
    have(&server, machine, 0..WORKERS, CAP);

    let last = WORKERS - 1;
    best_of_three("one is stopped", || {
        let from = server.now();
        signal(server.worker(last), "STOP");
        let stood = standstills(&server, &from, 0..last);
        signal(server.worker(last), "CONT");
        stood
    });
    signal(server.worker(last), "STOP");
    let before = server.now().done[last];
    have(&server, machine, 0..last, CAP);
    let since = server.now().done[last] - before;
    assert!(since <= 5, "{since} kernels of a process that is stopped: more than it had in flight");
    signal(server.worker(last), "CONT");
    have(&server, machine, 0..WORKERS, CAP);

    let mut left = WORKERS;
    best_of_three("one is killed", || {
        left -= 1;
        let from = server.now();
        signal(server.worker(left), "KILL");
        standstills(&server, &from, 0..left)
    });
    have(&server, machine, 0..left, CAP);
}

fn machine() -> Machine {
    Machine::new().with("SIMGPU_MODE", "calibrated").with("SIMGPU_TIME_SCALE", SCALE)
}

#[test]
fn others_get_on_while_a_worker_is_stopped_and_when_one_is_killed() {
    let _alone = alone();
    let machine = machine().limited(4 * GIB).with("DIVVY_COMPUTE", format!("{CAP}%"));
    workers_come_and_go(&machine, machine.command(client("workers")));
}

#[test]
fn others_get_on_under_a_daemon_too() {
    let _alone = alone();
    let divided = Divided::new(machine());
    let command = divided.tenant(&["--compute", &format!("{CAP}%")], &client("workers"));
    workers_come_and_go(&divided.machine, command);
}

/// What each of two servers did from `from_ns` on for `time`, in percent of the device's time.
fn both(servers: [&Server; 2], from_ns: u64, time: Duration) -> [f64; 2] {
    let percent = |server: &Server| {
        let from = server.after(from_ns, Duration::ZERO);
        let to = server.after(from_ns, time);
        let done: u64 = to.done.iter().sum::<u64>() - from.done.iter().sum::<u64>();
        100.0 * (done * KERNEL_NS) as f64 / (to.at_ns - from.at_ns) as f64
    };
    let both = servers.map(percent);
    println!("{both:.1?}");
    both
}

/// The first has three quarters of what both have, within some points, in each of some windows from `from_ns` on.
fn are_at_their_weights(
    servers: [&Server; 2],
    from_ns: u64,
    window: Duration,
) -> BTreeMap<String, String> {
    let mut wrong = BTreeMap::new();
    for number in 0..3 {
        let [heavy, light] = both(servers, from_ns + number * nanoseconds(window), window);
        let part = 100.0 * heavy / (heavy + light);
        if (part - 75.0).abs() > POINTS {
            wrong.insert(format!("window {number}"), format!("{part:.1} of 75 %"));
        }
    }
    wrong
}

/// Tenants of weights 3 and 1, of which the heavier is paused and goes on.
#[test]
fn a_paused_tenant_leaves_the_device_to_the_other_and_gets_nothing_back() {
    let _alone = alone();
    let divided = Divided::new(machine());
    let light = Server::start(divided.tenant(&["--weight", "1"], &client("workers")).arg("2"));
    let mut pids = light.pids.clone();
    pids.extend(divided.machine.simgpud());
    let settled = light.after(light.now().at_ns, SETTLING);
    let alone = windows(&light, 0..2, &pids, settled, 1, WINDOW);
    let heavy = Server::start(divided.tenant(&["--weight", "3"], &client("workers")).arg("2"));
    let servers = [&heavy, &light];
    best_of_three("before the pause", || {
        are_at_their_weights(servers, now_ns() + nanoseconds(SETTLING), WINDOW)
    });
    best_of_three("a pause and its end", || {
        let from = light.now();
        heavy.signal_all("STOP");
        let mut wrong = standstills(&light, &from, 0..2);
        let has = windows(&light, 0..2, &pids, light.now(), 1, WINDOW);
        let (wanted, has) = (alone[0].sum.percent, has[0].sum);
        if has.due(wanted) < wanted - POINTS {
            wrong.insert("beside one that is paused".to_owned(), format!("{has:?} of {wanted:.1}"));
        }
        let from_ns = now_ns();
        heavy.signal_all("CONT");
        wrong.extend(are_at_their_weights(servers, from_ns, WINDOW));
        wrong
    });
}

/// A cap saves up nothing for a tenant that is paused.
#[test]
fn a_paused_tenant_gets_no_more_than_its_cap_afterwards() {
    let _alone = alone();
    let machine = machine().limited(4 * GIB).with("DIVVY_COMPUTE", format!("{CAP}%"));
    let mut command = machine.command(client("workers"));
    let server = Server::start(command.arg(WORKERS.to_string()));
    have(&server, &machine, 0..WORKERS, CAP);
    for _ in 0..3 {
        server.signal_all("STOP");
        std::thread::sleep(2 * SETTLING);
        let from_ns = now_ns();
        server.signal_all("CONT");
        let from = server.after(from_ns, Duration::ZERO);
        let windows = windows(&server, 0..WORKERS, &server.pids, from, 3, GETS_ON);
        for Window { sum, .. } in windows {
            assert!(sum.percent <= CAP + POINTS, "{sum:?}");
        }
    }
}
