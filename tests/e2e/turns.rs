//! Tenants that want more memory together than the card has: whose is there, and that all of it is right.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Divided, MIB, Machine, PATIENCE, Talk, client, finish, signal, until};
use crate::hostile::can_unshare;

/// Bytes of a block of the client, and of its blocks for `blocks` of them: it has one more.
pub(crate) const fn size(blocks: u64) -> u64 {
    (blocks + 1) * 40 * MIB
}

/// A machine for whose daemon the card has `capacity`.
pub(crate) fn machine(capacity: &str) -> Divided {
    machine_with(&["--capacity", capacity])
}

/// A machine with these arguments of the daemon.
fn machine_with(arguments: &[&str]) -> Divided {
    machine_of(Machine::new(), arguments)
}

/// The same of a machine with another card.
pub(crate) fn machine_of(machine: Machine, arguments: &[&str]) -> Divided {
    let divided = Divided::with(machine, arguments);
    until("the daemon answers", || status(&divided)["pid"].is_u64());
    divided
}

/// What the daemon says.
pub(crate) fn status(machine: &Divided) -> Value {
    let told = finish(&mut machine.divvy(&["daemon", "--status", "--json"]));
    serde_json::from_str(&told.out).unwrap_or_default()
}

/// What it says of the memory on the one device.
pub(crate) fn memory(machine: &Divided) -> Value {
    status(machine)["devices"][0]["memory"].clone()
}

pub(crate) fn count(memory: &Value, name: &str) -> u64 {
    memory[name].as_u64().unwrap_or_else(|| panic!("{name} in {memory}"))
}

/// A tenant of so many blocks that works for `ms` and until it is told, with pauses of `idle_ms`.
pub(crate) fn tenant(machine: &Divided, name: &str, blocks: u64, ms: u64, idle_ms: u64) -> Talk {
    let mut command =
        machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--name", name, "--"]);
    works(&mut command, blocks, ms, idle_ms)
}

/// Starts the client of so many blocks behind `command`.
fn works(command: &mut Command, blocks: u64, ms: u64, idle_ms: u64) -> Talk {
    command.arg(client("turns")).arg("works");
    command.env("TURNS_BLOCKS", blocks.to_string()).env("TURNS_MS", ms.to_string());
    command.env("TURNS_IDLE_MS", idle_ms.to_string()).env("TURNS_TOLD", "1");
    Talk::start(command)
}

/// Tells every client to end, and looks that it found its bytes right.
pub(crate) fn all_end_well(tenants: impl IntoIterator<Item = Talk>) {
    all_end_within(PATIENCE, tenants);
}

/// The same, each in `time`.
pub(crate) fn all_end_within(time: Duration, tenants: impl IntoIterator<Item = Talk>) {
    let mut tenants: Vec<_> = tenants.into_iter().collect();
    tenants.iter_mut().for_each(Talk::go);
    for tenant in tenants {
        let line = tenant.line_within(time);
        println!("{line:?}");
        assert!(line.is_some_and(|line| line.contains("rounds")), "its bytes are right");
        tenant.ends_well();
    }
}

/// The pids of programs that the tenant runs.
pub(crate) fn programs(machine: &Divided, name: &str) -> Vec<u32> {
    let told = finish(&mut machine.divvy(&["ps", "--json"]));
    let all: Value = serde_json::from_str(&told.out).unwrap_or_default();
    let tenants = all["tenants"].as_array().cloned().unwrap_or_default();
    let of_tenant = tenants.into_iter().filter(|tenant| tenant["name"] == name);
    let processes = of_tenant.flat_map(|t| t["processes"].as_array().cloned().unwrap_or_default());
    processes.filter_map(|process| u32::try_from(process["pid"].as_u64()?).ok()).collect()
}

#[test]
fn two_that_do_not_fit_take_turns() {
    let machine = machine("300MiB");
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, 4, 2000, 0));
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
    all_end_well(tenants);
}

#[test]
fn where_all_fits_nothing_moves() {
    let machine = machine("500MiB");
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, 4, 1000, 0));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    until("all of both is there", || {
        let memory = memory(&machine);
        let moved = ["out_bytes", "waits", "hand_overs"];
        assert!(memory.is_null() || moved.iter().all(|name| memory[name] == 0), "{memory}");
        memory["resident_bytes"] == 2 * size(4)
    });
    all_end_well(tenants);
}

#[test]
fn one_that_is_idle_gives_way_at_once() {
    let machine = machine("300MiB");
    // Its pauses are long beside what moving takes.
    let idle = tenant(&machine, "idle", 4, 6000, 3000);
    idle.expect("ready");
    let from = Instant::now();
    let busy = tenant(&machine, "busy", 4, 500, 0);
    busy.expect("ready");
    println!("{:?} until it had its memory", from.elapsed());
    all_end_well([busy, idle]);
}

#[test]
fn a_death_and_a_new_daemon_lose_no_bytes() {
    let mut machine = machine("300MiB");
    let killed = tenant(&machine, "killed", 3, 120_000, 0);
    let [other, third] = ["other", "third"].map(|name| tenant(&machine, name, 3, 5000, 0));
    for tenant in [&killed, &other, &third] {
        tenant.expect("ready");
    }
    let pids = programs(&machine, "killed");
    assert!(!pids.is_empty());
    pids.iter().for_each(|pid| signal(*pid, "KILL"));
    machine.start(&["--capacity", "300MiB"]);
    all_end_well([other, third]);
    assert!(!killed.end_within(Duration::from_secs(20)).is_some_and(|status| status.success()));
}

#[test]
fn one_that_is_stopped_keeps_what_it_has_until_it_goes_on() {
    let machine = machine("300MiB");
    let [stopped, other] = ["stopped", "other"].map(|name| tenant(&machine, name, 4, 10_000, 0));
    for tenant in [&stopped, &other] {
        tenant.expect("ready");
    }
    let pids = programs(&machine, "stopped");
    assert!(!pids.is_empty());
    pids.iter().for_each(|pid| signal(*pid, "STOP"));
    std::thread::sleep(Duration::from_secs(3));
    pids.iter().for_each(|pid| signal(*pid, "CONT"));
    all_end_well([stopped, other]);
}

/// A tenant in a container without room, which is made up: a limit where a process looks for its own. None where this machine does
/// not let us.
fn boxed(machine: &Divided, name: &str, ms: u64) -> Option<Talk> {
    if !can_unshare(&["--mount"]) {
        println!("SKIPPED a container without room: this machine does not let us mount");
        return None;
    }
    let group = machine.machine.home().join("group");
    fs::create_dir_all(&group).expect("a directory");
    fs::write(group.join("memory.max"), "1048576\n").expect("a limit");
    let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--name", name]);
    command.args(["--", "unshare", "--mount", "sh", "-c"]);
    command.arg("mount --bind \"$0\" /sys/fs/cgroup && exec \"$@\"").arg(&group);
    Some(works(&mut command, 4, ms, 0))
}

/// Waits until one of two runs where its memory is, and the other waits for it.
fn runs_in_place(machine: &Divided) {
    until("the other waits, and it runs", || {
        let tenants = status(machine)["tenants"].as_array().cloned().unwrap_or_default();
        let is_any = |state| tenants.iter().any(|tenant| tenant["memory"] == state);
        is_any("pinned-out") && is_any("runs")
    });
}

#[test]
fn one_whose_container_has_no_room_runs_where_its_memory_is() {
    let machine = machine("300MiB");
    let Some(boxed) = boxed(&machine, "a", 1000) else { return };
    boxed.expect("ready");
    let other = tenant(&machine, "b", 4, 500, 0);
    runs_in_place(&machine);
    // It goes on, and finds its bytes right; the other begins behind it.
    all_end_well([boxed]);
    other.expect("ready");
    all_end_well([other]);
}

/// Another daemon knows nothing of who could not leave, and finds it out again.
#[test]
fn who_runs_in_place_does_under_the_next_daemon() {
    let mut machine = machine("300MiB");
    let Some(boxed) = boxed(&machine, "a", 1000) else { return };
    boxed.expect("ready");
    let other = tenant(&machine, "b", 4, 500, 0);
    for _ in 0..2 {
        runs_in_place(&machine);
        machine.start(&["--capacity", "300MiB"]);
    }
    runs_in_place(&machine);
    all_end_well([boxed]);
    other.expect("ready");
    all_end_well([other]);
}

#[test]
fn what_the_card_cannot_hold_is_refused() {
    let machine = machine("300MiB");
    let other = tenant(&machine, "other", 2, 500, 0);
    other.expect("ready");
    let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--"]);
    command.arg(client("turns")).arg("works").env("TURNS_BLOCKS", "9");
    let refused = finish(&mut command);
    assert!(refused.code() != Some(0) && refused.err.contains("is 2, wanted 0"), "{refused}");
    all_end_well([other]);
}

#[test]
fn threads_of_workers_find_blocks_of_all_lengths_right() {
    let machine = machine("1000MiB");
    let tenants = ["a", "b"].map(|name| {
        let mut command =
            machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--name", name, "--"]);
        command.arg(client("turns")).arg("workers_of_lengths").env("TURNS_MS", "6000");
        Talk::start(&mut command)
    });
    until("both have come", || {
        !programs(&machine, "a").is_empty() && !programs(&machine, "b").is_empty()
    });
    // The length of turns, there and back.
    for quantum in ["150ms", "20s", "default"] {
        let set = finish(&mut machine.divvy(&["set", "a", "--quantum", quantum]));
        assert_eq!(set.code(), Some(0), "{set}");
        std::thread::sleep(Duration::from_millis(300));
    }
    all_end_well(tenants);
}

/// Where the host has room for less than what would have to leave, memory is refused when it is asked for: nobody else loses
/// any. Once another tenant has given its memory back, there is room.
#[test]
fn what_the_host_could_not_hold_is_refused_when_it_is_asked_for() {
    let machine = machine_with(&["--capacity", "300MiB", "--host-memory", "330MiB"]);
    let first = tenant(&machine, "first", 4, 1000, 0);
    first.expect("ready");
    until("its memory is there", || memory(&machine)["resident_bytes"] == size(4));
    // With a second of that size all of both may have to leave: pieces are larger.
    let second = |blocks: &str| {
        let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--"]);
        command.arg(client("turns")).arg("works").env("TURNS_MS", "100");
        finish(command.env("TURNS_BLOCKS", blocks))
    };
    // A program that allocates before the daemon knows of it has what it takes.
    until("it is refused with figures", || {
        let refused = second("4");
        let said = |words: &str| refused.err.contains(words);
        let is_told = said("DV213") && said(" 360 MiB") && said(" 330 MiB are to be had");
        refused.code() != Some(0) && said("is 2, wanted 0") && is_told
    });
    let told = status(&machine)["host"].clone();
    assert!(count(&told, "promised_bytes") + count(&told, "free_bytes") <= 330 * MIB, "{told}");
    // What fits the card beside it needs no host.
    let small = second("1");
    assert_eq!(small.code(), Some(0), "{small}");
    all_end_well([first]);
    let served = second("4");
    assert_eq!(served.code(), Some(0), "{served}");
}

#[test]
fn what_is_promised_stays_where_the_host_has_less() {
    let mut machine = machine_with(&["--capacity", "300MiB", "--host-memory", "400MiB"]);
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, 4, 1000, 0));
    for tenant in &tenants {
        tenant.expect("ready");
    }
    until("all is promised", || status(&machine)["host"]["promised_bytes"] == 2 * size(4));
    let words = finish(&mut machine.divvy(&["daemon", "--status"])).out;
    assert!(words.contains("host memory: 400 MiB promised"), "{words}");
    machine.start(&["--capacity", "300MiB", "--host-memory", "50MiB"]);
    until("another daemon answers", || status(&machine)["host"]["promised_bytes"] == 2 * size(4));
    assert_eq!(status(&machine)["host"]["free_bytes"], 0);
    // A program that allocates before the daemon knows of it has what it takes, and is no new claim then.
    until("another program is refused", || {
        let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--"]);
        command.arg(client("turns")).arg("works").env("TURNS_BLOCKS", "4").env("TURNS_MS", "1");
        let refused = finish(&mut command);
        refused.code() != Some(0) && refused.err.contains("DV213")
    });
    all_end_well(tenants);
}

#[test]
fn a_limit_that_neither_card_nor_host_has_is_said_before_the_start() {
    let machine = machine_with(&["--capacity", "300MiB", "--host-memory", "330MiB"]);
    let first = tenant(&machine, "first", 4, 1000, 0);
    first.expect("ready");
    until("its memory is there", || memory(&machine)["resident_bytes"] == size(4));
    let said = |limit: &str| {
        let options = ["run", "--no-daemon", "--oversubscribe", "--memory", limit, "--", "true"];
        let run = finish(&mut machine.divvy(&options));
        assert_eq!(run.code(), Some(0), "{run}");
        run.err
    };
    let words = said("600MiB");
    for figure in ["has 100 MiB free", "500 MiB that 600 MiB", "for 330 MiB"] {
        assert!(words.contains(figure), "{words}");
    }
    let none = said("400MiB");
    assert!(!none.contains("DV213"), "{none}");
    all_end_well([first]);
}
