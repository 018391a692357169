//! The audit of `divvy run`: memory taken behind the library's back comes under the limit too.

use std::process::Command;

use crate::harness::{GIB, MIB, Machine, client, finish, stage};

/// `divvy run --memory 2GiB` of the program that hides a block of `hidden` and asks for `asked`.
fn run(machine: &Machine, hidden: u64, asked: u64) -> Command {
    let mut command = machine.command(stage().join("bin/divvy"));
    command.args(["run", "--json", "--memory", "2GiB", "--"]).arg(client("beyond"));
    // Ten samples' time, of which two are needed.
    command.args([hidden.to_string(), asked.to_string(), "1500".to_owned()]);
    command
}

#[test]
fn hidden_memory_is_charged_as_other() {
    let machine = Machine::new().native();
    let finished = finish(&mut run(&machine, GIB, 800 * MIB));
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(finished.out.contains("hidden 0"), "the driver's own function grants it\n{finished}");
    assert!(finished.out.contains("asked 2"), "and the limit covers it\n{finished}");
    let other = format!("\"other_peak_bytes\":{GIB}");
    assert!(finished.err.contains(&other), "{other} is in the summary\n{finished}");
}

#[test]
fn nothing_is_charged_beyond_a_true_ledger() {
    let machine = Machine::new().native();
    let finished = finish(&mut run(&machine, 4 * MIB, 800 * MIB));
    assert!(finished.out.contains("asked 0"), "{finished}");
}

#[test]
fn the_end_of_a_short_program_is_never_missed() {
    let machine = Machine::new().native();
    for _ in 0..40 {
        let mut command = machine.command(stage().join("bin/divvy"));
        command.args(["run", "--memory", "2GiB", "--"]).arg(client("beyond"));
        command.args([MIB.to_string(), MIB.to_string(), "0".to_owned()]);
        let finished = finish(&mut command);
        assert_eq!(finished.code(), Some(0), "{finished}");
    }
}
