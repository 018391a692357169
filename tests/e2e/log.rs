//! The log: who changed which limit, what was refused, which daemons came and went, as `divvy log` tells it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{Finished, MIB, Machine, Running, Talk, client, finish, until};

/// A machine whose daemon, tenants and log are the test's own.
fn machine() -> Machine {
    Machine::new().native()
}

fn run(machine: &Machine, arguments: &[&str]) -> Finished {
    finish(&mut machine.divvy(arguments))
}

/// The lines of the log.
fn log(machine: &Machine, arguments: &[&str]) -> Vec<Value> {
    let finished = run(machine, &[&["log", "--json"], arguments].concat());
    assert_eq!(finished.code(), Some(0), "{finished}");
    let report: Value = serde_json::from_str(&finished.out).expect("JSON");
    report["lines"].as_array().expect("lines").clone()
}

/// Those of one event, by a field of each.
fn of(lines: &[Value], event: &str, field: &str) -> Vec<String> {
    let of = lines.iter().filter(|line| line["event"] == event);
    of.map(|line| line[field].as_str().unwrap_or_default().to_owned()).collect()
}

/// A `divvy run` whose program holds some memory and waits.
fn holding(machine: &Machine, name: &str, options: &[&str]) -> Talk {
    let line = [&["run", "-n", name, "--memory", "2GiB"], options, &["--"]].concat();
    let mut command = machine.divvy(&line);
    // One process, until its input ends.
    command.arg(client("hold")).arg("1");
    let running = Talk::start(&mut command);
    running.expect("{\"ready\":1}");
    running
}

#[test]
fn each_change_is_told_with_who_made_it() {
    let machine = machine();
    let none = run(&machine, &["log"]);
    assert_eq!(none.code(), Some(1), "{none}");
    assert!(none.err.contains("there is no log"), "{none}");
    let mut tenant = holding(&machine, "train", &["--oversubscribe"]);
    for change in [
        &["--memory", "1GiB"][..],
        &["--compute", "50%"],
        &["--weight", "3"],
        &["--priority", "high"],
        &["--class", "latency"],
        &["--quantum", "500ms"],
        &["--pause"],
        &["--resume"],
        &["--oversubscribe", "off"],
        &["--oversubscribe", "on"],
    ] {
        let set = run(&machine, &[&["set", "train"], change].concat());
        assert_eq!(set.code(), Some(0), "{set}");
    }
    for wish in ["freeze", "thaw"] {
        let done = run(&machine, &[wish, "train"]);
        assert_eq!(done.code(), Some(0), "{done}");
    }
    for to in ["off", "on"] {
        let done = run(&machine, &["daemon", "--schedule", to]);
        assert_eq!(done.code(), Some(0), "{done}");
    }
    until("the daemon has written", || of(&log(&machine, &[]), "changed", "setting").len() >= 14);
    let lines = log(&machine, &[]);
    assert_eq!(
        of(&lines, "changed", "setting"),
        [
            "memory limit",
            "compute limit",
            "weight",
            "priority",
            "class",
            "quantum",
            "paused",
            "paused",
            "oversubscribe",
            "oversubscribe",
            "frozen",
            "frozen",
            "schedule",
            "schedule"
        ]
    );
    let first = lines.iter().find(|line| line["setting"] == "memory limit").expect("a line");
    assert_eq!((&first["old"], &first["new"]), (&"2 GiB".into(), &"1 GiB".into()));
    assert!(first["uid"].is_u64() && first["pid"].is_u64() && first["device"].is_string());
    assert_eq!((&first["tenant"], &first["by"]), (&"train".into(), &"divvy set".into()));
    assert_eq!(of(&lines, "adopted", "tenant"), ["train"]);
    assert_eq!(of(&lines, "started", "event").len(), 1);
    // The same in words, of one tenant and of a time.
    let told = run(&machine, &["log", "train", "--since", "1h"]);
    assert!(told.out.contains(": 2 GiB -> 1 GiB by uid "), "{told}");
    assert!(
        told.out.contains("paused by uid ") && !told.out.contains("the daemon began"),
        "{told}"
    );
    assert_eq!(log(&machine, &["--since", "2999-01-01"]).len(), 0);
    assert_eq!(run(&machine, &["log", "--since", "soon"]).code(), Some(2));
    let file = machine.home().join("run").join(format!("divvy-{}", first["uid"]));
    let mode = fs::metadata(file.join("events.log")).expect("the log").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    tenant.kill();
}

#[test]
fn a_refusal_is_one_line_with_a_daemon_and_without() {
    let machine = machine();
    let beyond = client("beyond").display().to_string();
    let (block, most) = ((400 * MIB).to_string(), MIB.to_string());
    for (name, daemon) in [("served", &[][..]), ("alone", &["--no-daemon"][..])] {
        let line = [&["run", "-n", name, "--memory", "200MiB"], daemon, &["--"]].concat();
        let program = [beyond.as_str(), &block, &most, "0"];
        let refused = run(&machine, &[line.as_slice(), &program].concat());
        assert!(refused.err.contains("DV206"), "{refused}");
        let lines = log(&machine, &[name]);
        assert_eq!(of(&lines, "refused", "code"), ["DV206"], "{lines:?}");
        let line = lines.iter().find(|line| line["event"] == "refused").expect("a line");
        assert_eq!((&line["tenant"], &line["by"]), (&name.into(), &"beyond".into()));
        assert!(line["pid"].is_u64() && line["device"].is_string(), "{line}");
    }
    // A daemon that looks again finds nothing new, and one that is started anew neither.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(of(&log(&machine, &[]), "refused", "code"), ["DV206", "DV206"]);
    let metrics = run(&machine, &["daemon", "--status", "--json"]);
    let view: Value = serde_json::from_str(&metrics.out).expect("JSON");
    assert!(view["refusals"]["DV206"].as_u64() >= Some(1), "{metrics}");
}

#[test]
fn a_log_outlives_daemons_and_says_who_took_over() {
    let machine = machine();
    let home = machine.home().join("home").display().to_string();
    let daemon = |more: &[&str]| {
        Running::start(&mut machine.divvy(&[&["daemon", "--home", &home], more].concat()))
    };
    let told = |event: &str| of(&log_or_none(&machine), event, "message").len();
    let first = daemon(&[]);
    until("the first has begun", || told("started") == 1);
    let mut second = daemon(&["--stand-by"]);
    end(first);
    until("the second has taken over", || told("took-over") == 1);
    // Its lock is taken away.
    fs::remove_file(machine.home().join("home/daemon.lock")).expect("the lock");
    until("it has ended", || second.ended());
    let lines = log_or_none(&machine);
    assert_eq!(of(&lines, "lock-lost", "code"), ["DV061"], "{lines:?}");
    assert_eq!(
        of(&lines, "stopped", "message"),
        ["it was asked to", "its lock was taken away"],
        "{lines:?}"
    );
    let pid = second.pid();
    assert!(lines.iter().any(|line| line["event"] == "took-over" && line["pid"] == pid));
}

fn log_or_none(machine: &Machine) -> Vec<Value> {
    match run(machine, &["log"]).code() {
        Some(0) => log(machine, &[]),
        _ => Vec::new(),
    }
}

/// Ends a daemon as its user would.
fn end(mut daemon: Running) {
    let pid = daemon.pid().to_string();
    let killed = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    until("it has ended", || daemon.ended());
}

#[test]
fn a_program_says_its_tenant_and_limits_where_it_is_asked_to() {
    let machine = machine().with("DIVVY_LOG", "info");
    let beyond = client("beyond").display().to_string();
    let line = ["run", "-n", "told", "--memory", "2GiB", "--no-daemon", "--", &beyond];
    let told = run(&machine, &[&line[..], &["1048576", "1048576", "0"]].concat());
    assert!(told.err.contains("joined") && told.err.contains("/told-"), "{told}");
    assert!(told.err.contains("limit 2048 MiB of 16384 MiB"), "{told}");
}
