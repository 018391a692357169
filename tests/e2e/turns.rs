//! Tenants that want more memory together than the card has: whose is there, and that all of it is right.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{MIB, Machine, Running, Talk, client, finish, signal, stage, until};

/// Bytes of a block of the client, and of its blocks for `blocks` of them: it has one more.
const fn size(blocks: u64) -> u64 {
    (blocks + 1) * 40 * MIB
}

/// A machine whose daemons and tenants are the test's own, and a daemon for which the card has `capacity` bytes.
fn machine(capacity: u64) -> (Machine, Running) {
    let machine = Machine::new().native();
    let runtime = machine.home().join("runtime");
    std::fs::create_dir(&runtime).expect("a directory of the test's own");
    let locks = machine.home().join("locks");
    let machine = machine
        .with("XDG_RUNTIME_DIR", runtime.display())
        .with("DIVVY_DEVICE_LOCKS", locks.display());
    let capacity = format!("{}MiB", capacity / MIB);
    let daemon = Running::start(&mut divvy(&machine, &["daemon", "--capacity", &capacity]));
    until("the daemon answers", || status(&machine)["pid"].is_u64());
    (machine, daemon)
}

fn divvy(machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = machine.command(stage().join("bin/divvy"));
    command.args(arguments);
    command
}

/// What the daemon says.
fn status(machine: &Machine) -> Value {
    let told = finish(&mut divvy(machine, &["daemon", "--status", "--json"]));
    serde_json::from_str(&told.out).unwrap_or_default()
}

/// What it says of the memory on the one device.
fn memory(machine: &Machine) -> Value {
    status(machine)["devices"][0]["memory"].clone()
}

fn count(memory: &Value, name: &str) -> u64 {
    memory[name].as_u64().unwrap_or_else(|| panic!("{name} in {memory}"))
}

/// A tenant of so many blocks that works for `ms`, with pauses of `idle_ms`.
fn tenant(machine: &Machine, name: &str, blocks: u64, ms: u64, idle_ms: u64) -> Talk {
    let mut command =
        divvy(machine, &["run", "--no-daemon", "--oversubscribe", "--name", name, "--"]);
    command.arg(client("turns")).arg("works");
    command.env("TURNS_BLOCKS", blocks.to_string()).env("TURNS_MS", ms.to_string());
    command.env("TURNS_IDLE_MS", idle_ms.to_string());
    Talk::start(&mut command)
}

/// Ends the daemon, and looks that every client found its bytes right.
fn all_end_well(mut daemon: Running, tenants: impl IntoIterator<Item = Talk>) {
    for tenant in tenants {
        let line = tenant.line_within(Duration::from_secs(60));
        println!("{line:?}");
        assert!(line.is_some_and(|line| line.contains("rounds")), "its bytes are right");
        tenant.ends_well();
    }
    daemon.kill();
    let _ = daemon.finish();
}

/// The pids of programs that the tenant runs.
fn programs(machine: &Machine, name: &str) -> Vec<u32> {
    let told = finish(&mut divvy(machine, &["ps", "--json"]));
    let all: Value = serde_json::from_str(&told.out).unwrap_or_default();
    let tenants = all["tenants"].as_array().cloned().unwrap_or_default();
    let of_tenant = tenants.into_iter().filter(|tenant| tenant["name"] == name);
    let processes = of_tenant.flat_map(|t| t["processes"].as_array().cloned().unwrap_or_default());
    processes.filter_map(|process| u32::try_from(process["pid"].as_u64()?).ok()).collect()
}

#[test]
fn two_that_do_not_fit_take_turns() {
    let (machine, daemon) = machine(300 * MIB);
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, 4, 6000, 0));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    let mut most = 0;
    until("memory has been handed over", || {
        let memory = memory(&machine);
        if memory.is_null() {
            return false;
        }
        let capacity = count(&memory, "capacity_bytes");
        most = most.max(count(&memory, "resident_bytes"));
        assert!(most <= capacity, "{memory}");
        count(&memory, "hand_overs") >= 1
    });
    assert!(most >= size(4), "{most}");
    all_end_well(daemon, tenants);
}

#[test]
fn where_all_fits_nothing_moves() {
    let (machine, daemon) = machine(500 * MIB);
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, 4, 3000, 0));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    until("all of both is there", || {
        let memory = memory(&machine);
        let moved = ["out_bytes", "waits", "hand_overs"];
        assert!(memory.is_null() || moved.iter().all(|name| memory[name] == 0), "{memory}");
        memory["resident_bytes"] == 2 * size(4)
    });
    all_end_well(daemon, tenants);
}

#[test]
fn one_that_is_idle_gives_way_at_once() {
    let (machine, daemon) = machine(300 * MIB);
    // Its pauses are long beside what moving takes.
    let idle = tenant(&machine, "idle", 4, 6000, 3000);
    idle.expect("ready");
    let from = Instant::now();
    let busy = tenant(&machine, "busy", 4, 500, 0);
    busy.expect("ready");
    println!("{:?} until it had its memory", from.elapsed());
    all_end_well(daemon, [busy, idle]);
}

#[test]
fn a_death_and_a_new_daemon_lose_no_bytes() {
    let (machine, mut daemon) = machine(300 * MIB);
    let killed = tenant(&machine, "killed", 3, 120_000, 0);
    let [other, third] = ["other", "third"].map(|name| tenant(&machine, name, 3, 5000, 0));
    for tenant in [&killed, &other, &third] {
        tenant.expect("ready");
    }
    let pids = programs(&machine, "killed");
    assert!(!pids.is_empty());
    pids.iter().for_each(|pid| signal(*pid, "KILL"));
    daemon.kill();
    let _ = daemon.finish();
    // Without a daemon they come back as there is room.
    let daemon = Running::start(&mut divvy(&machine, &["daemon", "--capacity", "300MiB"]));
    all_end_well(daemon, [other, third]);
    assert!(!killed.end_within(Duration::from_secs(20)).is_some_and(|status| status.success()));
}

#[test]
fn one_that_is_stopped_keeps_what_it_has_until_it_goes_on() {
    let (machine, daemon) = machine(300 * MIB);
    let [stopped, other] = ["stopped", "other"].map(|name| tenant(&machine, name, 4, 3000, 0));
    for tenant in [&stopped, &other] {
        tenant.expect("ready");
    }
    let pids = programs(&machine, "stopped");
    assert!(!pids.is_empty());
    pids.iter().for_each(|pid| signal(*pid, "STOP"));
    std::thread::sleep(Duration::from_secs(3));
    pids.iter().for_each(|pid| signal(*pid, "CONT"));
    all_end_well(daemon, [stopped, other]);
}

#[test]
fn what_the_card_cannot_hold_is_refused() {
    let (machine, daemon) = machine(300 * MIB);
    let other = tenant(&machine, "other", 2, 3000, 0);
    other.expect("ready");
    let mut command = divvy(&machine, &["run", "--no-daemon", "--oversubscribe", "--"]);
    command.arg(client("turns")).arg("works").env("TURNS_BLOCKS", "9");
    let refused = finish(&mut command);
    assert!(refused.code() != Some(0) && refused.err.contains("is 2, wanted 0"), "{refused}");
    all_end_well(daemon, [other]);
}
