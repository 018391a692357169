//! What is left of programs and commands that were killed: nothing, once the daemon or the next command has looked.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::harness::{Machine, Running, finish, signal, until};

/// What lies in the places of this user's tenants.
fn left(machine: &Machine) -> Vec<PathBuf> {
    let uid = divvy_page::effective_uid();
    let home = machine.home().join(format!("run/divvy-{uid}"));
    let mut found = Vec::new();
    for folder in [home.clone(), home.join("tenants")] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.is_dir() && name != "tenants" && !name.starts_with('.')
        }));
    }
    found
}

/// Starts a demonstration, waits until it has tenants, and sends it a signal.
fn interrupted(machine: &Machine, name: &str) {
    let mut command = machine.divvy(&["demo", "--sim", "--seconds", "60"]);
    let demo = Running::start(command.stdin(Stdio::null()));
    until("the demonstration has a place and a tenant", || left(machine).len() >= 2);
    signal(demo.pid(), name);
    let _ = demo.finish();
}

#[test]
fn an_interrupted_demonstration_leaves_nothing_for_the_next_command_to_show() {
    for name in ["INT", "KILL"] {
        let machine = Machine::new().native();
        interrupted(&machine, name);
        let is_clean = || {
            let shown = finish(&mut machine.divvy(&["ps"]));
            shown.out.contains("No tenants") && left(&machine).is_empty()
        };
        until("nothing is left", is_clean);
    }
}

#[test]
fn a_daemon_takes_what_is_left_without_a_command() {
    let machine = Machine::new().native();
    let mut daemon = Running::start(machine.divvy(&["daemon"]).stdin(Stdio::null()));
    interrupted(&machine, "KILL");
    until("nothing is left", || left(&machine).is_empty());
    daemon.kill();
    let _ = daemon.finish();
}

#[test]
fn a_killed_daemon_leaves_nothing_that_is_shown() {
    let machine = Machine::new().native();
    let mut daemon = Running::start(machine.divvy(&["daemon"]).stdin(Stdio::null()));
    until("it answers", || finish(&mut machine.divvy(&["daemon", "--status"])).code() == Some(0));
    daemon.kill();
    let _ = daemon.finish();
    assert_eq!(finish(&mut machine.divvy(&["daemon", "--status"])).code(), Some(1));
    let shown = finish(&mut machine.divvy(&["ps"]));
    assert!(shown.out.contains("No tenants"), "{shown}");
    let again = finish(&mut machine.divvy(&["run", "--sim", "--memory", "1GiB", "--", "true"]));
    assert!(again.code() == Some(0) && left(&machine).is_empty(), "{again}");
}

/// A program in a paused tenant waits in a call, and an interpreter does not notice an interrupt there.
#[test]
fn an_interrupt_ends_a_program_of_a_paused_tenant_and_says_so() {
    let machine = Machine::new().native();
    let script = "trap '' INT; touch ready; while :; do sleep 0.05; done";
    let arguments = ["run", "--name", "held", "--memory", "1GiB", "--", "sh", "-c", script];
    let mut command = machine.divvy(&arguments);
    let program = Running::start(command.current_dir(machine.home()));
    until("it runs", || machine.home().join("ready").exists());
    let set = || finish(&mut machine.divvy(&["set", "held", "--pause"])).code() == Some(0);
    until("it is paused", set);
    signal(program.pid(), "INT");
    let ended = program.finish();
    assert!(
        ended.err.contains("held is paused; resume it with `divvy set held --resume`"),
        "{ended}"
    );
    assert!(!ended.hung && ended.code() == Some(128 + 15), "{ended}");
}
