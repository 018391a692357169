//! How a daemon starts, ends, dies, and comes back.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Instant;

use divvy_abi::config::{GateLine, gate};
use divvy_page::now_ns;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fake::{Fake, MS, Root, Seen, take_turns, until};

/// Processes that are a daemon of `root`.
fn daemons(root: &Root) -> Vec<u32> {
    processes(root, "--on-demand")
}

/// Processes of `root` that have this option.
fn processes(root: &Root, option: &str) -> Vec<u32> {
    let home = root.home().display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let has_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.contains(&option.as_bytes()) && words.contains(&home.as_bytes())
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_it).collect()
}

#[test]
fn twenty_programs_at_once_start_one_daemon_which_ends_with_its_home() {
    let root = Root::new("race");
    let children: Vec<_> = (0..20)
        .map(|_| root.divvy(&["run", "--", "sleep", "1"]).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && words.is_empty(), "{words}");
    }
    assert_eq!(daemons(&root).len(), 1);
    assert_eq!(root.view().unwrap()["pid"], daemons(&root)[0]);
    std::fs::remove_dir_all(&root.0).unwrap();
    until("a daemon without its home ends", || daemons(&root).is_empty());
}

/// Ends a program of `divvy run` by SIGTERM: its exit code.
fn end(mut program: Child) -> Option<i32> {
    kill(Pid::from_raw(i32::try_from(program.id()).unwrap()), Signal::SIGTERM).unwrap();
    let mut words = String::new();
    program.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(words, "");
    program.wait().unwrap().code()
}

/// A cap saves up at most for a turn, so who waits for one must know how long they are: a 30 % and a
/// 70 % tenant got 87 % of the device together when closed gates did not say it.
#[test]
fn a_closed_gate_says_how_long_turns_are() {
    let root = Root::new("quantum");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let _daemon = root.daemon(&[]);
    take_turns(&one, &two);
    for fake in [&one, &two] {
        let mut turns = BTreeSet::new();
        until("its gate is closed in ten turns", || {
            let line = fake.line();
            if line.gate == gate::CLOSED {
                assert!((10 * MS..=100 * MS).contains(&line.quantum_ns), "{line:?}");
                turns.insert(line.epoch);
            }
            turns.len() >= 10
        });
    }
}

#[test]
fn programs_that_run_start_a_killed_daemon_again() {
    let root = Root::new("again");
    let programs = [start(&root, &["run"]), start(&root, &["run"])];
    let serves_both = || {
        let view = root.view().unwrap_or_default();
        let served = root.own_tenants(&view).iter().filter(|t| t["reason"].is_null()).count();
        (served == 2).then(|| view["pid"].as_u64()).flatten()
    };
    until("both are served", || serves_both().is_some());
    for _ in 0..3 {
        let old = kill_the_daemon(&root);
        let dead = Instant::now();
        until("both are served again", || serves_both().is_some_and(|pid| pid != u64::from(old)));
        println!("served again after {:?}", dead.elapsed());
    }
    let daemon = one_daemon(&root);
    let status = std::fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    // SIGHUP, SIGINT and SIGTERM, which it waits for.
    assert_eq!(u64::from_str_radix(blocked.trim(), 16), Ok(0x4003));
    let sessions = [daemon, std::process::id()].map(session);
    assert_ne!(sessions[0], sessions[1]);
    for program in programs {
        assert_eq!(end(program), Some(128 + 15));
    }

    // Whoever noticed as well has seen by then that it is not needed.
    kill(Pid::from_raw(i32::try_from(one_daemon(&root)).unwrap()), Signal::SIGTERM).unwrap();
    until("it ends", || daemons(&root).is_empty());
    let without = start(&root, &["run", "--no-daemon"]);
    // Before that a signal ends the command itself.
    let children = format!("/proc/{0}/task/{0}/children", without.id());
    until("the program runs", || {
        std::fs::read_to_string(&children).is_ok_and(|all| !all.is_empty())
    });
    // In the time in which a program elsewhere that misses its daemon has started one, and once more.
    let other = Root::new("again-other");
    let with = start(&other, &["run"]);
    for _ in 0..2 {
        kill_the_daemon(&other);
        until("another has noticed", || !daemons(&other).is_empty());
    }
    assert!(daemons(&root).is_empty());
    assert_eq!([end(with), end(without)], [Some(128 + 15); 2]);
    // Else it would outlive the test for as long as it stays without tenants.
    kill_the_daemon(&other);
}

/// A program of `divvy run` that lasts.
fn start(root: &Root, arguments: &[&str]) -> Child {
    let mut command = root.divvy(arguments);
    command.args(["--", "sleep", "600"]).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// The daemon of `root`, once nobody starts another any more.
fn one_daemon(root: &Root) -> u32 {
    until("one is left", || processes(root, "--launch").is_empty() && daemons(root).len() == 1);
    daemons(root)[0]
}

/// Kills the daemon of `root`, waits until it is gone, and returns its pid.
fn kill_the_daemon(root: &Root) -> u32 {
    let daemon = one_daemon(root);
    kill(Pid::from_raw(i32::try_from(daemon).unwrap()), Signal::SIGKILL).unwrap();
    until("it is gone", || !daemons(root).contains(&daemon));
    daemon
}

fn session(pid: u32) -> i32 {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    nix::unistd::getsid(Some(pid)).unwrap().as_raw()
}

#[test]
fn no_daemon_is_started_where_none_is_wanted() {
    let root = Root::new("none");
    assert!(root.run(&["run", "--no-daemon", "--", "true"]).status.success());
    assert!(daemons(&root).is_empty() && !root.home().join("daemon.lock").exists());
}

#[test]
fn a_daemon_ends_some_time_after_its_last_tenant() {
    let root = Root::new("linger");
    let mut program = root.divvy(&["run", "--no-daemon", "--", "sleep", "60"]).spawn().unwrap();
    let is_tenant = |entry: &std::fs::DirEntry| entry.file_name() != ".meet";
    until("there is a tenant", || {
        std::fs::read_dir(root.tenants()).unwrap().flatten().filter(is_tenant).count() == 1
    });
    let mut daemon = root.daemon(&["--linger", "0"]);
    // It looks for tenants at every step, or at every fourth: without one it would end at the second look.
    root.goes_through(12);
    assert!(daemon.0.try_wait().unwrap().is_none());
    let pid = Pid::from_raw(i32::try_from(program.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    program.wait().unwrap();
    assert_eq!(daemon.ended(), 0);
    assert!(!root.home().join("daemon.sock").exists());
}

#[test]
fn a_second_daemon_in_one_home_says_who_the_first_is() {
    let root = Root::new("second");
    let daemon = root.daemon(&[]);
    let output = root.run(&["daemon"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains(&format!("pid {}", daemon.pid())), "{words}");
}

#[test]
fn where_no_daemon_answers_the_status_says_so_in_json_too() {
    let root = Root::new("status");
    for arguments in [&["daemon", "--status"][..], &["daemon", "--status", "--json"]] {
        let output = root.run(arguments);
        assert_eq!(output.status.code(), Some(1));
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(words.contains("no daemon answers in"), "{words}");
        let view: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if arguments.contains(&"--json") {
            assert!(view["pid"].is_null() && view.get("pid").is_some(), "{view}");
            assert!(words.contains(view["error"].as_str().unwrap()), "{view}");
        }
    }
}

#[test]
fn a_lone_tenant_is_free_and_the_daemon_sleeps() {
    let root = Root::new("lone");
    let fake = Fake::busy(&root, "a", 1);
    let _daemon = root.daemon(&[]);
    until("it is adopted", || root.view().unwrap()["devices"][0]["mode"] == "free");
    let [before, after] = root.goes_through(20);
    // Twenty a second renew the leases: by the daemon's own clock, however late it is.
    let (wakes, ns) = (after.wakes - before.wakes, after.seen_ns - before.seen_ns);
    assert!(wakes * 50 * MS <= ns + 100 * MS, "{wakes} wake-ups in {ns} ns");
    assert_eq!((fake.line().gate, fake.tenant.any_gate().load()), (gate::FREE, 0));
}

#[test]
fn two_that_compete_take_turns_until_the_daemon_is_told_to_end() {
    let root = Root::new("turns");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let mut daemon = root.daemon(&[]);
    take_turns(&one, &two);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended(), 0);
    for fake in [&one, &two] {
        assert_eq!((fake.line().gate, fake.tenant.any_gate().load()), (gate::FREE, 0));
    }
}

/// Calls of `read` and its kin that process `pid` has made.
fn reads(pid: u32) -> u64 {
    crate::calls::reads(format!("/proc/{pid}"))
}

#[test]
fn a_step_reads_a_tenant_once_and_the_rest_is_read_rarely() {
    let root = Root::new("reads");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let daemon = root.daemon(&[]);
    take_turns(&one, &two);
    // What is read lies between two views, so that no step that reads is left out.
    let before = Seen::of(&root.view().unwrap());
    let reads_before = reads(daemon.pid());
    root.goes_through(200);
    let (reads, until_ns) = (reads(daemon.pid()) - reads_before, now_ns());
    let mut view = root.view().unwrap();
    until("it has shown what it did", || {
        view = root.view().unwrap();
        Seen::of(&view).seen_ns >= until_ns
    });
    let after = Seen::of(&view);
    let tenants = view["tenants"].as_array().unwrap().len() as u64;
    let (wakes, ms) = (after.wakes - before.wakes, (after.seen_ns - before.seen_ns) / MS);
    println!("{reads} reads, {wakes} steps");
    // A glance at a tenant is three, twenty times a second; a look at all of it five or more.
    let chores = ms * 130 * tenants / 1000;
    let most = 2 * wakes + chores + 100;
    assert!(reads <= most, "{reads} reads in {wakes} steps, beside {tenants} tenants: over {most}");
}

#[test]
fn a_killed_daemon_leaves_no_gate_closed_beyond_its_lease_and_the_next_goes_on() {
    let root = Root::new("killed");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    for _ in 0..3 {
        let mut daemon = root.daemon(&[]);
        take_turns(&one, &two);
        daemon.signal(Signal::SIGKILL);
        daemon.0.wait().unwrap();
        let dead_ns = now_ns();
        for fake in [&one, &two] {
            let line = fake.line();
            let most_ns = if line.gate == gate::CLOSED { 100 * MS } else { 1_000 * MS };
            assert!(line.lease_ns <= dead_ns + most_ns);
        }
        leases_end(&[&one, &two]);
        one.goes_on("the first goes on without a daemon");
        two.goes_on("the second goes on without a daemon");
    }
}

/// Waits until no gate is closed by a lease that nobody renews.
fn leases_end(fakes: &[&Fake]) {
    let is_over = |line: GateLine| line.gate != gate::CLOSED || line.lease_ns < now_ns();
    until("the leases end", || fakes.iter().all(|fake| is_over(fake.line())));
}

#[test]
fn a_stopped_daemon_lets_everybody_go_on_and_then_resumes() {
    let root = Root::new("stopped");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let daemon = root.daemon(&[]);
    take_turns(&one, &two);
    daemon.signal(Signal::SIGSTOP);
    leases_end(&[&one, &two]);
    one.goes_on("the first goes on");
    two.goes_on("the second goes on");
    daemon.signal(Signal::SIGCONT);
    take_turns(&one, &two);
}

#[test]
fn what_a_dead_daemon_left_closed_is_opened() {
    let root = Root::new("left");
    let fake = Fake::idle(&root, "a", 1);
    let far_ns = now_ns() + 3_600_000 * MS;
    let closed = GateLine { gate: gate::CLOSED, lease_ns: far_ns, ..GateLine::default() };
    fake.owner().set_gate(0, &closed).unwrap();
    fake.owner().set_gate(9, &closed).unwrap();
    fake.owner().raise_any_gate().unwrap();
    let _daemon = root.daemon(&[]);
    until("all gates are open", || {
        let config = fake.owner().read().unwrap();
        config.gates.iter().all(|line| line.gate == gate::FREE) && config.any_gate == 0
    });
}

#[test]
fn a_second_daemon_counts_where_the_first_divides() {
    let root = Root::new("devices");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let _first = root.daemon(&[]);
    take_turns(&one, &two);
    // Another user of the machine, as it were: another home, the same lock files.
    let other = Root::new("devices-other");
    let (three, four) = (Fake::busy(&other, "c", 1), Fake::busy(&other, "d", 1));
    let mut command = other.divvy(&["daemon"]);
    command.env("DIVVY_DEVICE_LOCKS", root.0.join("locks"));
    let mut second = crate::fake::Daemon(command.spawn().unwrap());
    let device = || other.view().map(|view| view["devices"][0].clone()).unwrap_or_default();
    until("the device is the other's", || device()["reason"] == "DV061");
    assert_eq!(device()["mode"], "counted");
    until("both are counted", || {
        [&three, &four]
            .iter()
            .all(|fake| fake.line().gate == gate::TIMED && fake.line().active >= 2)
    });
    let listing = other.run(&["ps", "--json"]);
    let listing: serde_json::Value = serde_json::from_slice(&listing.stdout).unwrap();
    let mine = listing["tenants"].as_array().unwrap().iter().find(|t| t["name"] == "c").unwrap();
    assert_eq!(mine["devices"][0]["reasons"][0]["reason"], "DV061");
    drop(_first);
    until("it takes over", || device()["reason"].is_null());
    take_turns(&three, &four);
    second.0.kill().unwrap();
}
