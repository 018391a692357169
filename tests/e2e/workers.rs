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
    Divided, GIB, Host, Machine, POINTS, Share, Talk, alone, are, best_of_three, client, finish,
    mean, signal,
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
/// Within which whoever is stopped is given no more turns. One that is asleep in a wait for its work is believed for four of
/// its longest kernels behind its last launch, and for a second at most; a host that stalls makes them look long.
const NOT_BELIEVED: Duration = Duration::from_millis(1500);

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

/// Two tenants, of weights 1 and 3, with two workers each.
struct Weighed {
    light: Server,
    heavy: Server,
    /// Whose time of the host they need.
    pids: Vec<u32>,
    /// What the light one has alone.
    alone: f64,
    /// It outlives its tenants.
    divided: Divided,
}

impl Weighed {
    /// Both at work.
    fn start() -> Self {
        let divided = Divided::new(machine());
        let tenant = |weight| {
            let mut command = divided.tenant(&["--weight", weight], &client("workers"));
            Server::start(command.arg("2"))
        };
        let light = tenant("1");
        let mut pids = light.pids.clone();
        pids.extend(divided.machine.simgpud());
        let settled = light.after(light.now().at_ns, SETTLING);
        let alone = windows(&light, 0..2, &pids, settled, 1, WINDOW)[0].sum.percent;
        let heavy = tenant("3");
        pids.extend(&heavy.pids);
        Self { light, heavy, pids, alone, divided }
    }

    /// Turns that went from one to the other so far.
    fn handovers(&self) -> u64 {
        let told = finish(&mut self.divided.divvy(&["daemon", "--status", "--json"]));
        let view: serde_json::Value = serde_json::from_str(&told.out).expect("the daemon answers");
        view["devices"][0]["handovers"].as_u64().expect("a count")
    }

    /// What each did in a window from `from_ns` on, the light one first.
    fn shares(&self, from_ns: u64) -> [Share; 2] {
        let host = Host::watch(&self.pids);
        [&self.light, &self.heavy].map(|server| {
            let from = server.after(from_ns, Duration::ZERO);
            let to = server.after(from_ns, WINDOW);
            let wall_ns = (to.at_ns - from.at_ns) as f64;
            let done = (to.done.iter().sum::<u64>() - from.done.iter().sum::<u64>()) as f64;
            Share {
                percent: 100.0 * done * KERNEL_NS as f64 / wall_ns,
                late_percent: 100.0 * 2.0 * done * host.late_ns() as f64 / wall_ns,
                starved: (host.starved_ns() as f64 / wall_ns).min(1.0),
            }
        })
    }

    /// Who has not its part of what both have, within some points and but for the host, in windows from `from_ns` on.
    fn less_than_their_weights(&self, from_ns: u64) -> BTreeMap<String, String> {
        let mut wrong = BTreeMap::new();
        for number in 0..3 {
            let shares = self.shares(from_ns + number * nanoseconds(WINDOW));
            let both = shares[0].percent + shares[1].percent;
            println!("{:.1} and {:.1} %: {shares:.2?}", shares[0].percent, shares[1].percent);
            for (share, part) in shares.iter().zip([25.0, 75.0]) {
                let wanted = both * part / 100.0;
                if share.due(wanted) < wanted - both * POINTS / 100.0 {
                    wrong.insert(format!("{part} % in window {number}"), format!("{shares:.2?}"));
                }
            }
        }
        wrong
    }
}

/// A tenant that is paused and goes on beside a lighter one: that one never stands, and both are at their weights again
/// from the moment it goes on.
#[test]
fn a_paused_tenant_gets_nothing_back() {
    let _alone = alone();
    let tenants = Weighed::start();
    best_of_three("before the pause", || {
        tenants.less_than_their_weights(now_ns() + nanoseconds(SETTLING))
    });
    best_of_three("a pause and its end", || {
        let from = tenants.light.now();
        tenants.heavy.signal_all("STOP");
        let mut wrong = standstills(&tenants.light, &from, 0..2);
        let from_ns = now_ns();
        tenants.heavy.signal_all("CONT");
        wrong.extend(tenants.less_than_their_weights(from_ns));
        wrong
    });
}

/// Whoever is paused is given no turns, whatever it was at: asleep in a wait for its work, or for its turn. A moment
/// after it has been stopped the device is the other's, in each of some pauses, which begin at moments of their own.
#[test]
fn a_paused_tenant_is_given_no_turns() {
    let _alone = alone();
    let tenants = Weighed::start();
    for _ in 0..6 {
        tenants.heavy.signal_all("STOP");
        let settled = tenants.light.after(now_ns(), NOT_BELIEVED);
        let before = tenants.handovers();
        let pids = &tenants.light.pids;
        let has = windows(&tenants.light, 0..2, pids, settled, 1, WINDOW)[0].sum.percent;
        let handovers = tenants.handovers() - before;
        tenants.heavy.signal_all("CONT");
        println!("{handovers} turns handed over in a pause, {has:.1} of {:.1} %", tenants.alone);
        assert!(handovers <= 2, "{handovers} in {WINDOW:?}, {has:.1} of {:.1} %", tenants.alone);
        tenants.heavy.after(now_ns(), GETS_ON);
    }
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

/// Beside a tenant of high priority that always works one of low priority has the daemon's floor, and nothing without one.
#[test]
fn a_low_one_has_the_floor() {
    let _alone = alone();
    for (floor, least, most) in [("0", 0.0, 5.0), ("40%", 5.0, 50.0)] {
        let divided = Divided::with(machine(), &["--floor", floor]);
        let tenant = |priority| {
            let command = divided.tenant(&["--priority", priority], &client("workers"));
            Server::start({ command }.arg("1"))
        };
        let (low, high) = (tenant("low"), tenant("high"));
        let pids: Vec<_> = low.pids.iter().chain(&high.pids).copied().collect();
        let settled = low.after(high.now().at_ns, SETTLING);
        let has = windows(&low, 0..1, &pids, settled, 1, 2 * WINDOW)[0].sum.percent;
        assert!((least..most).contains(&has), "{has:.1} % with a floor of {floor}");
    }
}
