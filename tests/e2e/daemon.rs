//! The daemon beside the simulated driver's NVML: who else is on a card, and what asking costs.

use serde_json::Value;

use crate::harness::{MIB, Machine, Running, client, finish, until};

/// A machine whose daemons and tenants are the test's own.
fn machine() -> Machine {
    Machine::new().native()
}

/// A program with a context, until it is killed.
fn program(mut command: std::process::Command) -> Running {
    let [hidden, asked, ms] = [MIB, MIB, 60_000].map(|number| number.to_string());
    Running::start(command.args([hidden, asked, ms]))
}

/// Waits until what the daemon says of the one device is as `is_so` wants it.
fn until_device(machine: &Machine, what: &str, is_so: impl Fn(&Value) -> bool) {
    until(what, || {
        let told = finish(&mut machine.divvy(&["daemon", "--status", "--json"]));
        let view: Value = serde_json::from_str(&told.out).unwrap_or_default();
        is_so(&view["devices"][0])
    });
}

#[test]
fn a_stranger_on_a_shared_card_is_named_without_nvml_in_the_daemon() {
    let machine = machine();
    let mut daemon = Running::start(&mut machine.divvy(&["daemon"]));
    let beyond = client("beyond");
    let tenant = || {
        let mut command = machine.divvy(&["run", "--no-daemon", "--memory", "2GiB", "--"]);
        command.arg(&beyond);
        program(command)
    };
    let mut tenants = [tenant(), tenant()];
    until_device(&machine, "the tenants share the card", |device| device["mode"].is_string());
    let mut stranger = program(machine.command(&beyond));
    until_device(&machine, "the stranger is seen", |device| device["reason"] == "DV062");

    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", daemon.pid())).expect("smaps");
    assert!(!smaps.contains("libnvidia-ml"), "NVML stays loaded:\n{smaps}");
    let resident_kib: u64 = smaps
        .lines()
        .filter_map(|line| {
            line.strip_prefix("Rss:")?.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum();
    println!("{resident_kib} KiB are resident");
    assert!((100..20 << 10).contains(&resident_kib), "{resident_kib} KiB are resident");

    stranger.kill();
    until_device(&machine, "the stranger is gone", |device| device["reason"].is_null());
    for running in tenants.iter_mut().chain([&mut daemon]) {
        running.kill_with_children();
    }
    for running in tenants.into_iter().chain([daemon, stranger]) {
        let _ = running.finish();
    }
}
