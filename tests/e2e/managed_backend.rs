//! Memory that leaves the card as managed memory: tenants by turns, a process larger than the card, and the bound of all such
//! memory together.

mod deaths;
mod faults;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Divided, GIB, MIB, Machine, PATIENCE, Talk, client, finish, signal, until};
use crate::turns::{all_end_well, count, machine_of, memory, status};

/// Bytes of a block of the client.
const BLOCK: u64 = 40 * MIB;

/// A machine whose daemon has these arguments.
/// A tenant of so many blocks, and one, that works for `ms` and until it is told, started with more arguments of `divvy run`.
fn tenant(machine: &Divided, name: &str, more: &[&str], blocks: u64, ms: u64) -> Talk {
    Talk::start(&mut command(machine, name, more, blocks, ms))
}

fn command(machine: &Divided, name: &str, more: &[&str], blocks: u64, ms: u64) -> Command {
    let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--name", name]);
    command.args(more).arg("--").arg(client("turns")).arg("works");
    command.env("TURNS_BLOCKS", blocks.to_string()).env("TURNS_MS", ms.to_string());
    command.env("TURNS_TOLD", "1");
    command
}

const MANAGED: &[&str] = &["--backend", "managed"];

/// A tenant as `divvy ps` shows it.
fn shown(machine: &Divided, name: &str) -> Value {
    let told = finish(&mut machine.divvy(&["ps", "--json"]));
    let all: Value = serde_json::from_str(&told.out).unwrap_or_default();
    let tenants = all["tenants"].as_array().cloned().unwrap_or_default();
    tenants.into_iter().find(|tenant| tenant["name"] == name).unwrap_or_default()
}

/// What it says of where its memory is.
fn residence(machine: &Divided, name: &str) -> Value {
    shown(machine, name)["devices"][0]["residence"].clone()
}

#[test]
fn two_managed_tenants_take_turns() {
    let machine = machine_of(Machine::new(), &["--capacity", "300MiB", "--managed-limit", "1GiB"]);
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, MANAGED, 4, 2000));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    assert_eq!(count(&memory(&machine), "managed_limit_bytes"), GIB);
    until("the daemon has counted what both have", || {
        count(&memory(&machine), "managed_bytes") >= 2 * 5 * BLOCK
    });
    // Charged once, as plain blocks are.
    let kinds = shown(&machine, "a")["devices"][0]["by_kind"].clone();
    assert_eq!(
        (kinds["blocks"].as_u64(), kinds["managed"].as_u64().unwrap_or(0)),
        (Some(5 * BLOCK), 0)
    );
    until("memory has been handed over", || {
        let memory = memory(&machine);
        assert!(count(&memory, "resident_bytes") <= count(&memory, "capacity_bytes"), "{memory}");
        count(&memory, "hand_overs") >= 1
    });
    all_end_well(tenants);
}

/// A card with 464 MiB beside the contexts of two processes.
fn small() -> Divided {
    let card = Machine::new().with("SIMGPU_MEMORY", "1500MiB");
    machine_of(card, &["--managed-limit", "2GiB"])
}

#[test]
fn a_process_larger_than_the_card_runs_beside_another() {
    let machine = small();
    // By its limit the back end is chosen.
    let larger = tenant(&machine, "larger", &["--memory", "1700MiB"], 14, 6000);
    larger.expect("ready");
    let other = tenant(&machine, "other", &[], 3, 4000);
    other.expect("ready");
    assert!(residence(&machine, "larger")["managed_bytes"].as_u64() >= Some(15 * BLOCK));
    assert_eq!(residence(&machine, "other")["managed_bytes"], 0);
    all_end_well([larger, other]);
}

#[test]
fn a_process_larger_than_the_card_sees_its_limit_and_runs_alone() {
    let machine = small();
    let mut larger = command(&machine, "larger", &["--memory", "1700MiB"], 26, 3000);
    let larger = Talk::start(larger.env("TURNS_TOTAL", (1700 * MIB).to_string()));
    larger.expect("ready");
    until("it runs with a part away", || {
        let status = status(&machine);
        let there = residence(&machine, "larger");
        status["tenants"][0]["memory"] == "runs" && there["away_bytes"].as_u64() > Some(0)
    });
    all_end_well([larger]);
}

#[test]
fn calls_of_the_driver_that_fail_lose_no_bytes() {
    let card = Machine::new().with("SIMGPU_FAULTS", "cuMemPrefetchAsync@/3=fail:2");
    let machine = machine_of(card, &["--capacity", "300MiB", "--managed-limit", "1GiB"]);
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, MANAGED, 4, 4000));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    until("memory has been handed over", || count(&memory(&machine), "hand_overs") >= 1);
    all_end_well(tenants);
}

#[test]
fn it_leaves_and_comes_back_by_hand() {
    let machine = machine_of(Machine::new(), &["--managed-limit", "1GiB"]);
    let tenant = tenant(&machine, "a", MANAGED, 4, 500);
    tenant.expect("ready");
    for _ in 0..3 {
        let frozen = finish(&mut machine.divvy(&["freeze", "--json", "a"]));
        assert_eq!(frozen.code(), Some(0), "{frozen}");
        let thawed = finish(&mut machine.divvy(&["thaw", "--json", "a"]));
        assert_eq!(thawed.code(), Some(0), "{thawed}");
    }
    assert!(residence(&machine, "a")["left"].as_u64() >= Some(1));
    all_end_well([tenant]);
}

#[test]
fn it_ends_with_its_context() {
    let machine = machine_of(Machine::new(), &["--managed-limit", "1GiB"]);
    let options = ["run", "--no-daemon", "--oversubscribe", "--backend", "managed", "--name", "a"];
    let mut command = machine.divvy(&options);
    command.arg("--").arg(client("leave")).arg("a_context_ends_with_its_memory");
    let mut tenant = Talk::start(&mut command);
    for _ in 0..2 {
        tenant.expect("ready");
        let frozen = finish(&mut machine.divvy(&["freeze", "a"]));
        assert_eq!(frozen.code(), Some(0), "{frozen}");
        tenant.go();
    }
    tenant.ends_well();
    until("nothing of it is left", || {
        let memory = memory(&machine);
        memory.is_null() || memory["managed_bytes"] == 0
    });
    assert_eq!(machine.machine.card_used_bytes(), 0);
}

#[test]
fn a_death_leaves_its_room_and_its_managed_bytes() {
    let machine =
        machine_of(Machine::new(), &["--capacity", "300MiB", "--managed-limit", "450MiB"]);
    let killed = tenant(&machine, "killed", MANAGED, 4, 120_000);
    killed.expect("ready");
    let processes = shown(&machine, "killed")["processes"].clone();
    let pids = processes.as_array().expect("a list").iter().filter_map(|one| one["pid"].as_u64());
    pids.for_each(|pid| signal(u32::try_from(pid).expect("a pid"), "KILL"));
    assert!(!killed.end_within(Duration::from_secs(20)).is_some_and(|status| status.success()));
    until("its bytes are free", || {
        let memory = memory(&machine);
        memory.is_null() || memory["managed_bytes"] == 0
    });
    let next = tenant(&machine, "next", MANAGED, 9, 500);
    next.expect("ready");
    all_end_well([next]);
}

#[test]
fn without_a_daemon_it_is_refused_in_words() {
    let machine = Machine::new().limited(4 * GIB).with("DIVVY_OVERSUBSCRIBE", "true");
    let machine = machine.with("DIVVY_BACKEND", "managed");
    let refused = finish(&mut machine.scenario("turns", "works"));
    assert!(refused.code() != Some(0), "{refused}");
    assert!(refused.err.contains("DV212"), "{refused}");
    assert!(refused.err.contains("no daemon answers"), "{refused}");
    assert!(refused.err.contains("is 2, wanted 0"), "{refused}");
}

#[test]
fn an_unknown_back_end_is_refused() {
    let machine = Machine::new().limited(4 * GIB).with("DIVVY_OVERSUBSCRIBE", "true");
    let machine = machine.with("DIVVY_BACKEND", "magic");
    let refused = finish(&mut machine.scenario("turns", "works"));
    assert!(refused.code() != Some(0), "{refused}");
    let words = "DIVVY_BACKEND: \"magic\" is none of auto, vmm and managed";
    assert!(refused.err.contains(words), "{refused}");
}

#[test]
fn the_bound_of_all_is_never_exceeded() {
    let machine = machine_of(Machine::new(), &["--managed-limit", "500MiB"]);
    // Each alone would fit; the four together would not.
    let tenants: Vec<_> = (0..4)
        .map(|number| {
            let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe"]);
            command.args(["--backend", "managed", "--name", &format!("t{number}"), "--"]);
            command.arg(client("turns")).arg("grows").env("TURNS_BLOCKS", "9");
            Talk::start(command.env("TURNS_MS", "1500"))
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(2);
    let mut most = 0;
    while Instant::now() < until {
        let memory = memory(&machine);
        if !memory.is_null() {
            most = most.max(count(&memory, "managed_bytes"));
            assert!(count(&memory, "managed_bytes") <= 500 * MIB, "{memory}");
        }
    }
    println!("{} MiB at most", most / MIB);
    let got: u64 = tenants
        .into_iter()
        .map(|tenant| {
            let line = tenant.line_within(PATIENCE).expect("a line");
            let most = line.strip_suffix(" blocks at most").expect("a number of blocks");
            tenant.ends_well();
            most.parse::<u64>().expect("a number")
        })
        .sum();
    assert!(got >= 1, "somebody had some");
}

#[test]
fn pointers_are_answered_for() {
    let machine = machine_of(Machine::new(), &["--managed-limit", "1GiB"]);
    let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--memory", "4GiB"]);
    command.args(MANAGED).arg("--").arg(client("leave")).arg("pointers_are_answered_for");
    let played = finish(&mut command);
    assert_eq!(played.code(), Some(0), "{played}");
    machine.machine.all_was_simulated();
}

#[test]
fn a_driver_without_handles_has_managed_memory() {
    let card = Machine::new().with("SIMGPU_FAULTS", "cuMemCreate@*=fail:801");
    let machine = machine_of(card, &["--managed-limit", "1GiB"]);
    let automatic = tenant(&machine, "auto", &[], 3, 500);
    automatic.expect("ready");
    assert!(residence(&machine, "auto")["managed_bytes"].as_u64() >= Some(4 * BLOCK));
    all_end_well([automatic]);
    // Plain memory that stays, where handles are wanted.
    let fixed = tenant(&machine, "fixed", &["--backend", "vmm"], 3, 500);
    fixed.expect("ready");
    assert_eq!(residence(&machine, "fixed"), Value::Null);
    all_end_well([fixed]);
}
