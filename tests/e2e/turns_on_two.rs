//! Tenants whose programs need the memory of two devices at once, of which one or both are too small for all.
//!
//! Promises: each works on, with its bytes right, in whatever order they came to the devices; what hangs fails.

use std::time::Duration;

use serde_json::Value;

use crate::harness::{Divided, Machine, Talk, client, finish, until};

/// Longest time until a program has ended that works for far less.
const DEADLINE: Duration = Duration::from_secs(120);

/// Two devices, each with 300 MiB for memory that can move.
fn machine() -> Divided {
    let divided =
        Divided::with(Machine::new().with("SIMGPU_DEVICES", 2), &["--capacity", "300MiB"]);
    until("the daemon answers", || status(&divided)["pid"].is_u64());
    divided
}

fn status(machine: &Divided) -> Value {
    let told = finish(&mut machine.divvy(&["daemon", "--status", "--json"]));
    serde_json::from_str(&told.out).unwrap_or_default()
}

/// Hand-overs on both devices so far.
fn hand_overs(machine: &Divided) -> Vec<u64> {
    let devices = status(machine)["devices"].as_array().cloned().unwrap_or_default();
    devices.iter().filter_map(|device| device["memory"]["hand_overs"].as_u64()).collect()
}

/// A program that needs `blocks` and one on each device until it is told to end, which it meets in the order of `first`.
fn tenant(machine: &Divided, name: &str, blocks: [u32; 2], first: u32) -> Talk {
    let mut command =
        machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--name", name, "--"]);
    command.arg(client("turns")).arg("works_on_two").env("TURNS_FIRST", first.to_string());
    command.env("TURNS_BLOCKS", blocks[0].to_string()).env("TURNS_OTHER", blocks[1].to_string());
    Talk::start(command.env("TURNS_MS", "3000").env("TURNS_TOLD", "1"))
}

/// The tenants are told to end, each after many rounds, with all bytes right.
fn all_end_well(machine: &Divided, tenants: impl IntoIterator<Item = Talk>) {
    let mut tenants: Vec<_> = tenants.into_iter().collect();
    tenants.iter_mut().for_each(Talk::go);
    for tenant in tenants {
        let line = tenant.line_within(DEADLINE);
        println!("{line:?}, {:?} hand-overs", hand_overs(machine));
        let rounds = line.as_deref().and_then(|line| line.strip_suffix(" rounds"));
        let rounds = rounds.and_then(|rounds| rounds.parse::<u64>().ok());
        assert!(rounds >= Some(1), "its bytes are right");
        tenant.ends_well();
    }
}

/// Each of two could wait for ever with one device for the other, which the other has.
#[test]
fn who_needs_both_and_comes_to_them_the_other_way_round_waits_for_no_circle() {
    let machine = machine();
    let tenants = [("a", 0), ("b", 1)].map(|(name, first)| tenant(&machine, name, [4, 4], first));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    until("memory has been handed over on both", || {
        let all = hand_overs(&machine);
        all.len() == 2 && all.iter().all(|count| *count >= 1)
    });
    all_end_well(&machine, tenants);
}

/// One of them is short, of three tenants.
#[test]
fn one_short_device_of_two_goes_by_turns() {
    let machine = machine();
    let tenants =
        [("a", 0), ("b", 1), ("c", 0)].map(|(name, first)| tenant(&machine, name, [4, 1], first));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    until("memory has been handed over", || hand_overs(&machine).iter().any(|count| *count >= 1));
    all_end_well(&machine, tenants);
}
