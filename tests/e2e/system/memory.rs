//! Memory of several users' tenants that takes turns under the machine's daemon.
//!
//! Promises: every byte of each is compared through the turns; nobody reads another's bytes or writes another's words, and one who
//! lies in its own costs the others no bytes.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use divvy_abi::usage::{residence, residence_at};

use super::{CARD, INSIDE, System, USERS, finish, open, until};
use crate::harness::Talk;
use crate::hostile::{can_unshare, is_root};
use crate::turns::all_end_within;

/// Longest time until a program has ended that works for far less.
const DEADLINE: Duration = Duration::from_secs(120);

/// The machine with its daemon, and 300 MiB of the card for memory that can move.
fn system() -> Option<System> {
    if !is_root() || !can_unshare(&["--mount"]) {
        println!(
            "SKIPPED users whose memory takes turns: only root with mounts of its own can play it"
        );
        return None;
    }
    let mut system = System::new();
    system.daemon_with(&["--capacity", "300MiB"]);
    Some(system)
}

/// A tenant of this user's with 200 MiB, which works for so long and until it is told.
fn tenant(system: &System, uid: u32, name: &str, ms: u64) -> Talk {
    let options = ["run", "--oversubscribe", "--memory", "2GiB", "--name", name, "--"];
    let mut command = system.divvy(uid, &options);
    command.arg(format!("{INSIDE}/tree/turns")).arg("works");
    command.env("TURNS_BLOCKS", "4").env("TURNS_MS", ms.to_string()).env("TURNS_TOLD", "1");
    let tenant = Talk::start(&mut command);
    tenant.expect("ready");
    tenant
}

fn await_hand_over(system: &System) {
    until("memory has been handed over", || {
        let device = &system.view(0)["devices"][0];
        device["uuid"] == CARD && device["memory"]["hand_overs"].as_u64() >= Some(1)
    });
}

/// Where the tenant of this name of a user has its files.
fn directory(system: &System, uid: u32, name: &str) -> String {
    let told = system.run(uid, &["ps", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&told.out).unwrap_or_default();
    let tenants = all["tenants"].as_array().cloned().unwrap_or_default();
    let found = tenants.iter().find(|tenant| tenant["name"] == name);
    found.and_then(|tenant| tenant["directory"].as_str()).expect("the tenant").to_owned()
}

#[test]
fn users_take_turns_and_reach_nothing_of_each_other() {
    let Some(system) = system() else { return };
    let [one, two] = USERS;
    let tenants =
        [(one, "first"), (two, "second")].map(|(uid, name)| tenant(&system, uid, name, 2000));
    await_hand_over(&system);
    let theirs = directory(&system, two, "second");
    // Even where its owner lets everybody in.
    for path in ["/dev/shm/divvy-1002", "/dev/shm/divvy-1002/tenants", &theirs] {
        open(&system.outside(path), 0o755);
    }
    let processes = system.run(two, &["ps", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&processes.out).unwrap_or_default();
    let pids = all["tenants"][0]["processes"].as_array().cloned().unwrap_or_default();
    let pids: Vec<_> = pids.iter().filter_map(|process| process["pid"].as_u64()).collect();
    assert!(!pids.is_empty(), "{processes}");
    let as_user = |uid, words: &str| {
        let mut command = system.inside(uid, "sh");
        finish(command.args(["-c", words]))
    };
    let there = as_user(two, &format!(": >> {theirs}/usage && : >> {theirs}/config"));
    assert_eq!(there.code(), Some(0), "its owner may: {there}");
    let mut attempts = vec![
        format!(": >> {theirs}/config"),
        format!(": >> {theirs}/usage"),
        format!("rm {theirs}/config"),
        format!("mv {theirs}/usage {theirs}/other"),
        format!("echo > {theirs}/new"),
    ];
    // Copies of what is away are the process's own memory.
    attempts.extend(pids.iter().map(|pid| format!(": < /proc/{pid}/mem")));
    attempts.extend(pids.iter().map(|pid| format!("ls /proc/{pid}/fd/")));
    for attempt in attempts {
        let refused = as_user(one, &attempt);
        assert!(refused.code() != Some(0), "{refused}");
        assert!(refused.err.contains("denied") || refused.err.contains("cannot"), "{refused}");
    }
    all_end_within(DEADLINE, tenants);
}

/// A process whose words about its memory are nonsense: the tenants of others go on, with their bytes.
#[test]
fn a_user_that_lies_of_its_memory_costs_others_no_bytes() {
    let Some(system) = system() else { return };
    let [one, two] = USERS;
    let _liar = tenant(&system, one, "liar", 300_000);
    // They have their memory before: what it says that it has is room that others are refused, as if it had it.
    let others = ["second", "third"].map(|name| tenant(&system, two, name, 8_000));
    let path = system.outside(&format!("{}/usage", directory(&system, one, "liar")));
    let usage = OpenOptions::new().write(true).open(path).expect("its usage");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut state, values) = (1_u64, [0, 1, 200 << 20, 1 << 62, u64::MAX]);
            while !ended.load(Relaxed) {
                for slot in 1..4 {
                    let mut line = [0_u8; 8 * residence::WORDS];
                    for word in line.chunks_exact_mut(8) {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let value: u64 = values[(state >> 33) as usize % values.len()];
                        word.copy_from_slice(&value.to_le_bytes());
                    }
                    let at = residence_at(0, slot) as u64;
                    usage.write_all_at(&line, at).expect("its own file");
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            all_end_within(DEADLINE, others);
            assert!(!system.view(0)["pid"].is_null(), "the daemon lives");
        }));
        ended.store(true, Relaxed);
        judged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
