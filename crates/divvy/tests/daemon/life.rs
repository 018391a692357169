//! How a daemon starts, ends, dies, and comes back.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use divvy_abi::config::{GateLine, gate};
use divvy_page::now_ns;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fake::{Fake, MS, Root, take_turns, until};

/// Processes that are a daemon of `root`.
fn daemons(root: &Root) -> Vec<u32> {
    let home = root.home().display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_daemon = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.contains(&&b"--on-demand"[..]) && words.contains(&home.as_bytes())
    };
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_daemon)
        .collect()
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
    for _ in 0..300 {
        for fake in [&one, &two] {
            let line = fake.line();
            let is_known = (10 * MS..=100 * MS).contains(&line.quantum_ns);
            assert!(line.gate != gate::CLOSED || is_known, "{line:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn programs_that_run_start_a_killed_daemon_again() {
    let root = Root::new("again");
    let start = |arguments: &[&str]| {
        root.divvy(arguments).args(["--", "sleep", "60"]).stderr(Stdio::piped()).spawn().unwrap()
    };
    let programs = [start(&["run"]), start(&["run"])];
    let serves_both = || {
        let view = root.view().unwrap_or_default();
        let served = root.own_tenants(&view).iter().filter(|t| t["reason"].is_null()).count();
        (served == 2).then(|| view["pid"].as_u64()).flatten()
    };
    until("both are served", || serves_both().is_some());
    for _ in 0..3 {
        until("one is left", || daemons(&root).len() == 1);
        let old = daemons(&root);
        kill(Pid::from_raw(i32::try_from(old[0]).unwrap()), Signal::SIGKILL).unwrap();
        let dead = Instant::now();
        until("both are served again", || {
            serves_both().is_some_and(|pid| pid != u64::from(old[0]))
        });
        println!("served again after {:?}", dead.elapsed());
    }
    // Whoever noticed as well has had its turn by now, or sees soon that it is not needed.
    std::thread::sleep(Duration::from_secs(1));
    until("one is left", || daemons(&root).len() == 1);
    let daemon = daemons(&root);
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon[0])).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    // SIGHUP, SIGINT and SIGTERM, which it waits for.
    assert_eq!(u64::from_str_radix(blocked.trim(), 16), Ok(0x4003));
    let sessions = [daemon[0], std::process::id()].map(session);
    assert_ne!(sessions[0], sessions[1]);
    for program in programs {
        assert_eq!(end(program), Some(128 + 15));
    }

    kill(Pid::from_raw(i32::try_from(daemon[0]).unwrap()), Signal::SIGTERM).unwrap();
    until("it ends", || daemons(&root).is_empty());
    let without = start(&["run", "--no-daemon"]);
    // Before that a signal ends the command itself.
    let children = format!("/proc/{0}/task/{0}/children", without.id());
    until("the program runs", || {
        std::fs::read_to_string(&children).is_ok_and(|all| !all.is_empty())
    });
    std::thread::sleep(Duration::from_secs(1));
    assert!(daemons(&root).is_empty());
    assert_eq!(end(without), Some(128 + 15));
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
    std::thread::sleep(Duration::from_millis(600));
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
    let wakes = || root.view().unwrap()["wakes"].as_u64().unwrap();
    let (began, before) = (Instant::now(), wakes());
    std::thread::sleep(Duration::from_secs(2));
    let wakes = wakes() - before;
    // Twenty a second renew the leases; each of the two views may be of a tenth of a second ago.
    let most = (began.elapsed().as_secs_f64() + 0.2) * 20.0;
    assert!(wakes as f64 <= most, "{wakes} wake-ups in {:?}", began.elapsed());
    assert_eq!((fake.line().gate, fake.tenant.any_gate().load(SEQ)), (gate::FREE, 0));
}

const SEQ: std::sync::atomic::Ordering = std::sync::atomic::Ordering::SeqCst;

#[test]
fn two_that_compete_take_turns_until_the_daemon_is_told_to_end() {
    let root = Root::new("turns");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let mut daemon = root.daemon(&[]);
    take_turns(&one, &two);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended(), 0);
    for fake in [&one, &two] {
        assert_eq!((fake.line().gate, fake.tenant.any_gate().load(SEQ)), (gate::FREE, 0));
    }
}

/// Calls of `read` and its kin that process `pid` has made.
fn reads(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let calls = text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap();
    calls.parse().unwrap()
}

#[test]
fn a_step_reads_a_tenant_once_and_the_rest_is_read_rarely() {
    let root = Root::new("reads");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let daemon = root.daemon(&[]);
    take_turns(&one, &two);
    let look = || {
        let view = root.view().unwrap();
        let tenants = view["tenants"].as_array().unwrap().len() as u64;
        (Instant::now(), reads(daemon.pid()), view["wakes"].as_u64().unwrap(), tenants)
    };
    let (began, reads_before, wakes_before, _) = look();
    std::thread::sleep(Duration::from_secs(1));
    let (ended, reads_after, wakes_after, tenants) = look();
    let (reads, wakes) = (reads_after - reads_before, wakes_after - wakes_before);
    println!("{reads} reads, {wakes} steps");
    // A glance at a tenant is three, twenty times a second; a look at all of it five or more.
    let chores = (ended - began).as_millis() as u64 * 130 * tenants / 1000;
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
        std::thread::sleep(Duration::from_millis(110));
        one.goes_on("the first goes on without a daemon");
        two.goes_on("the second goes on without a daemon");
    }
}

#[test]
fn a_stopped_daemon_lets_everybody_go_on_and_then_resumes() {
    let root = Root::new("stopped");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let daemon = root.daemon(&[]);
    take_turns(&one, &two);
    daemon.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(110));
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
