//! Limits beside the devices there are, as `divvy run` and `divvy set` compare them: what cannot be is
//! refused before anything starts, what surprises is said.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Finished, MIB, Machine, Running, client, finish, until};

/// The simulated cards.
const CARDS: [&str; 2] =
    ["GPU-0a0a0a0a-0000-0000-0000-000000000001", "GPU-0b0b0b0b-0000-0000-0000-000000000002"];

/// A machine of two cards of 16 GiB whose tenants are the test's own.
fn machine() -> Machine {
    let machine = Machine::new().native().with("SIMGPU_DEVICES", 2);
    machine.with("SIMGPU_UUID_0", CARDS[0]).with("SIMGPU_UUID_1", CARDS[1])
}

/// `divvy run` of a program that leaves a file, with these options; whether it was started.
fn run(machine: &Machine, options: &[&str]) -> (Finished, bool) {
    let mark = machine.home().join("started");
    let _ = std::fs::remove_file(&mark);
    let mut command = machine.divvy(&["run", "--no-daemon"]);
    let finished = finish(command.args(options).args(["--", "touch"]).arg(&mark));
    (finished, mark.exists())
}

/// A program with a context on the first card, under `divvy run`, until it is killed.
fn tenant(machine: &Machine, name: &str, memory: &str) -> Running {
    let mut command =
        machine.divvy(&["run", "--no-daemon", "--name", name, "--memory", memory, "--"]);
    let [hidden, asked, ms] = [MIB, MIB, 60_000].map(|number| number.to_string());
    Running::start(command.arg(client("beyond")).args([hidden, asked, ms]))
}

#[test]
fn a_device_that_is_not_there_starts_nothing() {
    let machine = machine();
    let stranger = "GPU-0c0c0c0c-0000-0000-0000-000000000003=8GiB";
    for options in [
        &["--memory", "3=8GiB"][..],
        &["--memory", "8GiB,2=1GiB"],
        &["--memory", stranger],
        &["--memory", "GPU-0c=8GiB"],
        &["--compute", "5=30%"],
        &["--sim", "--memory", "3=8GiB"],
    ] {
        let (finished, started) = run(&machine, options);
        assert!(finished.code() == Some(2) && !started, "{options:?}: {finished}");
        for card in CARDS {
            assert!(finished.err.contains(card), "{options:?} names those that are\n{finished}");
        }
    }
    let made = std::fs::read_dir(machine.home().join("run")).expect("the runtime").flatten();
    let made: Vec<_> = made.filter(|made| made.path().join("tenants").exists()).collect();
    assert!(made.is_empty(), "{made:?}");
}

#[test]
fn devices_that_are_there_are_named_by_index_uuid_and_its_beginning() {
    let machine = machine();
    for memory in ["1=8GiB", "8GiB,0=1GiB", &format!("{}=8GiB", CARDS[1]), "GPU-0b=8GiB", "50%"] {
        let (finished, started) = run(&machine, &["--memory", memory]);
        assert!(finished.code() == Some(0) && started, "{memory}: {finished}");
        assert_eq!(finished.err, "", "{memory}");
    }
}

#[test]
fn a_limit_above_the_card_is_said_and_allowed() {
    let machine = machine();
    let (finished, started) = run(&machine, &["--memory", "1=500GiB", "--json"]);
    assert!(finished.code() == Some(0) && started, "{finished}");
    let note = "the limit of 500 GiB is above the 16 GiB of device 1";
    let (said, summary) = finished.err.split_once('\n').expect("a note and the summary");
    assert!(said.starts_with("divvy: note: ") && said.contains(note), "{finished}");
    let summary: Value = serde_json::from_str(summary).expect("the summary");
    assert!(summary["notes"][0].as_str().is_some_and(|text| text.contains(note)), "{summary}");
}

#[test]
fn limits_above_a_card_in_sum_are_said() {
    let machine = machine();
    let mut first = tenant(&machine, "first", "12GiB");
    let listing = || finish(&mut machine.divvy(&["ps"])).out;
    // Its process is listed before it has used any device.
    let on_the_card = || listing().matches("contexts").count();
    until("the first uses the card", || on_the_card() == 1);
    let mut second = tenant(&machine, "second", "0=6GiB");
    until("both use the card", || on_the_card() == 2);
    let note = "the limits of 2 tenants add up to 18 GiB of the 16 GiB of device 0";
    assert!(listing().contains(note), "{}", listing());
    let set = finish(&mut machine.divvy(&["set", "second", "--memory", "5GiB"]));
    assert!(set.out.contains("add up to 17 GiB"), "{set}");
    let (third, _) = run(&machine, &["--memory", "0=1GiB"]);
    assert!(third.err.contains("the limits of 3 tenants add up to 18 GiB"), "{third}");
    let (elsewhere, _) = run(&machine, &["--memory", "1=16GiB"]);
    assert_eq!(elsewhere.err, "", "{elsewhere}");
    let refused = finish(&mut machine.divvy(&["set", "second", "--memory", "7=1GiB"]));
    assert!(refused.code() == Some(2) && refused.err.contains(CARDS[0]), "{refused}");
    let short = finish(&mut machine.divvy(&["set", "second", "--memory", "GPU-0b0b0b0b=3GiB"]));
    assert!(
        short.code() == Some(0) && short.out.contains("device 1: memory 3 GiB of 16 GiB"),
        "{short}"
    );
    for running in [&mut first, &mut second] {
        running.kill_with_children();
    }
    let said = second.finish();
    assert!(said.err.contains(note), "the second was told when it started\n{said}");
    let _ = first.finish();
}

#[test]
fn without_a_driver_nothing_is_compared_and_that_is_said() {
    if Path::new("/proc/driver/nvidia").exists() {
        println!("SKIPPED limits without a driver: this machine has one");
        return;
    }
    let machine = machine().with("LD_LIBRARY_PATH", "");
    let (finished, started) = run(&machine, &["--memory", "3=500GiB"]);
    assert!(finished.code() == Some(0) && started, "{finished}");
    let note =
        "no NVIDIA driver here, so the limits cannot be checked; to simulate a GPU, add --sim";
    assert!(finished.err.contains(note), "{finished}");
    let (unlimited, _) = run(&machine, &[]);
    assert_eq!(unlimited.err, "", "{unlimited}");
}

#[test]
fn a_driver_that_hangs_holds_nothing_up() {
    let machine = machine().with("SIMGPU_FAULTS", "nvmlInit_v2@*=hang");
    let (finished, started) = run(&machine, &["--memory", "8GiB"]);
    assert!(finished.code() == Some(0) && started, "{finished}");
    assert!(finished.err.contains("NVML did not answer within 3 s"), "{finished}");
}
