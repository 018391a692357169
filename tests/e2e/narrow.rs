//! Little stack, and system calls that a filter forbids: commands do their work or say in words why they cannot; none
//! aborts or panics.

use std::process::Command;

use crate::harness::{Finished, Machine, client, finish, stage};

/// The commands that are tried: a program under limits, and those that look at tenants or wait.
const COMMANDS: &[&[&str]] = &[
    &["run", "--no-daemon", "--memory", "1GiB", "--", "true"],
    &["run", "--sim", "--no-daemon", "--memory", "0=1GiB", "--compute", "30%", "--", "true"],
    &["run", "--memory", "1GiB", "--", "true"],
    &["ps"],
    &["daemon", "--status"],
    &["--help"],
    &["run", "--memory", "wrong", "--", "true"],
];

/// Codes of Rust's for a panic and of the shell's for an abort and an invalid access.
fn is_orderly(finished: &Finished) -> bool {
    let words = ["panicked", "overflow", "assertion"];
    finished.code().is_some_and(|code| ![101, 134, 139].contains(&code))
        && words.iter().all(|word| !finished.err.contains(word))
}

fn end_as_ever(machine: &Machine, commands: &[&[&str]], wrap: impl Fn() -> Command) {
    for arguments in commands {
        let plain = finish(&mut machine.divvy(arguments));
        let mut wrapped = wrap();
        let narrow = finish(wrapped.arg(stage().join("bin/divvy")).args(*arguments));
        if narrow.code() == Some(77) {
            println!("SKIPPED forbidden calls: {}", narrow.out.trim());
            return;
        }
        assert!(is_orderly(&narrow), "{arguments:?}: {narrow}");
        assert_eq!(narrow.code(), plain.code(), "{arguments:?}: {narrow}\n{plain}");
    }
}

#[test]
fn a_small_stack_is_enough() {
    let machine = Machine::new().native();
    // With 16 the dynamic linker itself has too little, now and then.
    for kib in [32, 64, 128] {
        end_as_ever(&machine, COMMANDS, || {
            let mut command = machine.command("/bin/sh");
            command.args(["-c", &format!("ulimit -s {kib}; exec \"$@\""), "sh"]);
            command
        });
    }
}

#[test]
fn sleeping_may_be_forbidden() {
    let machine = Machine::new().native();
    // clock_nanosleep and nanosleep, by permission and by name.
    let calls = if cfg!(target_arch = "x86_64") { ["230", "35"] } else { ["115", "101"] };
    for call in calls {
        for errno in ["1", "38"] {
            end_as_ever(&machine, COMMANDS, || {
                let mut command = machine.command(client("forbid"));
                command.args([call, errno]);
                command
            });
        }
    }
}
