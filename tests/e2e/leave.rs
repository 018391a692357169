//! Memory that may leave the card: bytes, pointers, graphs and threads of a program whose memory is taken away and comes
//! back, by `divvy freeze` and by the program's own calls.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Finished, GIB, MIB, Machine, Talk, finish, stage, until};

/// A machine whose tenant oversubscribes.
fn machine() -> Machine {
    Machine::new().limited(4 * GIB).with("DIVVY_OVERSUBSCRIBE", "true")
}

fn divvy(machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = machine.command(stage().join("bin/divvy"));
    command.env_remove("LD_PRELOAD").args(arguments).arg(machine.tenant());
    command
}

/// What `divvy freeze` or `divvy thaw` says.
fn wished(machine: &Machine, wish: &str) -> Value {
    let finished = finish(&mut divvy(machine, &[wish, "--json"]));
    assert_eq!(finished.code(), Some(0), "{finished}");
    serde_json::from_str(&finished.out).expect("JSON")
}

/// The same where it does not come about within a second.
fn is_not_fulfilled(machine: &Machine, wish: &str) -> Finished {
    let finished = finish(&mut divvy(machine, &[wish, "--timeout", "1"]));
    assert_eq!(finished.code(), Some(1), "{finished}");
    finished
}

fn bytes(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"))
}

/// What `divvy ps` says of the tenant's memory.
fn residence(machine: &Machine) -> Value {
    let mut command = machine.command(stage().join("bin/divvy"));
    let root = machine.tenant();
    let root = root.parent().expect("a directory of tenants");
    command.env_remove("LD_PRELOAD").args(["ps", "--json", "--root"]).arg(root);
    let finished = finish(&mut command);
    let all: Value = serde_json::from_str(&finished.out).unwrap_or_else(|_| panic!("{finished}"));
    all["tenants"][0]["devices"][0]["residence"].clone()
}

/// A client that plays a scenario of `leave`, ready to be taken off the card.
fn playing(machine: &Machine, scenario: &str) -> Talk {
    let client = Talk::start(&mut machine.scenario("leave", scenario));
    client.expect("ready");
    client
}

/// Blocks of the client, in bytes of the granules that it takes.
const BLOCKS_BYTES: u64 = 364 * MIB;

#[test]
fn bytes_pointers_and_graphs_survive() {
    let machine = machine();
    let mut client = playing(&machine, "bytes_and_pointers_survive");
    let context = machine.card_used_bytes();
    for round in 0..10 {
        let frozen = wished(&machine, "freeze");
        assert!(bytes(&frozen, "away_bytes") >= BLOCKS_BYTES, "round {round}: {frozen}");
        assert_eq!((bytes(&frozen, "resident_bytes"), bytes(&frozen, "pinned_bytes")), (0, 0));
        let left = context - machine.card_used_bytes();
        assert_eq!(left, bytes(&frozen, "away_bytes"), "round {round}: the card is free of it");
        client.go();
        client.expect("ready");
        let back = residence(&machine);
        assert_eq!((bytes(&back, "away_bytes"), bytes(&back, "left")), (0, round + 1), "{back}");
        assert_eq!(bytes(&back, "in_bytes"), bytes(&back, "out_bytes"), "{back}");
        assert_eq!(context, machine.card_used_bytes(), "round {round}");
    }
    client.ends_well();
    machine.all_was_simulated();
}

#[test]
fn thawed_memory_is_back_before_it_is_needed() {
    let machine = machine();
    let mut client = playing(&machine, "bytes_and_pointers_survive");
    let before = machine.card_used_bytes();
    // A wish that is there already is fulfilled, and nothing moves.
    wished(&machine, "thaw");
    for _ in 0..3 {
        wished(&machine, "freeze");
        assert!(machine.card_used_bytes() + BLOCKS_BYTES <= before);
        let thawed = wished(&machine, "thaw");
        assert_eq!(bytes(&thawed, "away_bytes"), 0, "{thawed}");
        assert_eq!(machine.card_used_bytes(), before);
    }
    client.go();
    client.expect("ready");
    client.ends_well();
}

#[test]
fn pointers_are_answered_for() {
    machine().plays("leave", "pointers_are_answered_for");
    // So it is for plain blocks.
    Machine::new().limited(4 * GIB).plays("leave", "pointers_are_answered_for");
    Machine::new().native().plays("leave", "pointers_are_answered_for");
}

#[test]
fn memory_for_a_network_card_stays() {
    let machine = machine();
    let mut client = playing(&machine, "memory_for_a_network_card_stays");
    let frozen = wished(&machine, "freeze");
    assert_eq!(bytes(&frozen, "pinned_bytes"), 64 * MIB, "{frozen}");
    assert_eq!(bytes(&frozen, "resident_bytes"), 64 * MIB, "{frozen}");
    assert_eq!(bytes(&frozen, "away_bytes"), 40 * MIB, "{frozen}");
    client.go();
    client.expect("ready");
    client.ends_well();
}

#[test]
fn a_capture_keeps_everything() {
    let machine = machine();
    let mut client = playing(&machine, "a_capture_keeps_everything");
    let said = is_not_fulfilled(&machine, "freeze");
    assert!(said.err.contains("captured"), "{said}");
    assert_eq!(bytes(&residence(&machine), "away_bytes"), 0);
    client.go();
    client.expect("ready");
    // The wish stands: with the capture's end all leaves.
    until("everything has left", || bytes(&residence(&machine), "away_bytes") == 40 * MIB);
    client.go();
    client.ends_well();
}

#[test]
fn threads_find_their_bytes() {
    let machine = machine();
    let client = playing(&machine, "threads_find_their_bytes");
    for _ in 0..20 {
        wished(&machine, "freeze");
    }
    let moved = residence(&machine);
    // A wish that comes while all is still away for the one before is fulfilled by that.
    assert!(bytes(&moved, "left") >= 10, "{moved}");
    client.ends_well();
    machine.all_was_simulated();
}

#[test]
fn a_context_ends_with_its_memory() {
    let machine = machine();
    let mut client = playing(&machine, "a_context_ends_with_its_memory");
    wished(&machine, "freeze");
    client.go();
    client.expect("ready");
    wished(&machine, "freeze");
    client.go();
    client.ends_well();
}

#[test]
fn a_child_has_none() {
    let machine = machine();
    let mut client = playing(&machine, "a_child_has_none");
    wished(&machine, "freeze");
    client.go();
    client.ends_well();
}

#[test]
fn refused_blocks_leave_nothing() {
    let machine = machine().limited(GIB);
    let mut client = playing(&machine, "refused_blocks_leave_nothing");
    // An empty slab is kept.
    let kept = machine.card_used_bytes() - 518 * MIB;
    assert!(kept <= 300 * MIB, "{kept}");
    wished(&machine, "freeze");
    client.go();
    client.ends_well();
}

#[test]
fn freed_beside_captures_goes() {
    for mode in ["fast", "calibrated"] {
        let machine = machine().limited(2 * GIB).with("SIMGPU_MODE", mode);
        machine.plays("leave", "freed_beside_captures_goes");
    }
}

#[test]
fn a_capture_begins_beside_a_free() {
    machine().with("SIMGPU_MODE", "calibrated").plays("leave", "a_capture_begins_beside_a_free");
}

/// Plays a scenario whose work runs for a while when its memory is to leave.
fn leaves_behind_work(machine: &Machine, scenario: &str) {
    let mut client = playing(machine, scenario);
    let frozen = wished(machine, "freeze");
    assert!(bytes(&frozen, "away_bytes") >= 40 * MIB, "{frozen}");
    client.go();
    client.ends_well();
}

#[test]
fn peers_reach_it() {
    let machine = machine().with("SIMGPU_DEVICES", 2);
    let mut client = playing(&machine, "peers_reach_it");
    for _ in 0..2 {
        let frozen = wished(&machine, "freeze");
        assert!(bytes(&frozen, "away_bytes") >= 60 * MIB, "{frozen}");
        client.go();
        client.expect("ready");
    }
    client.go();
    client.ends_well();
}

#[test]
fn work_of_another_device_is_waited_for() {
    let machine = machine().with("SIMGPU_DEVICES", 2).with("SIMGPU_MODE", "calibrated");
    leaves_behind_work(&machine, "work_of_another_device_is_waited_for");
}

#[test]
fn work_of_a_green_context_is_waited_for() {
    let machine = machine().with("SIMGPU_MODE", "calibrated");
    leaves_behind_work(&machine, "work_of_a_green_context_is_waited_for");
}

#[test]
fn all_of_many_contexts_are_waited_for() {
    let machine = machine().limited(60 * GIB).with("SIMGPU_MEMORY", "80GiB");
    leaves_behind_work(&machine, "all_of_many_contexts_are_waited_for");
}

#[test]
fn graphs_are_made_of_what_is_away() {
    let machine = machine();
    let mut client = playing(&machine, "graphs_are_made_of_what_is_away");
    for step in 0..4 {
        wished(&machine, "freeze");
        client.go();
        if step < 3 {
            client.expect("ready");
        }
    }
    client.ends_well();
}

#[test]
fn a_killed_process_leaves_nothing() {
    let machine = machine();
    let mut client = playing(&machine, "bytes_and_pointers_survive");
    wished(&machine, "freeze");
    client.kill();
    drop(client);
    until("the card is free", || machine.card_used_bytes() == 0);
    // The next process of the tenant was not there when that was wished: what left was the first one's.
    let mut client = playing(&machine, "bytes_and_pointers_survive");
    let now = residence(&machine);
    assert_eq!((bytes(&now, "left"), bytes(&now, "away_bytes")), (1, 0));
    assert!(bytes(&wished(&machine, "freeze"), "away_bytes") >= BLOCKS_BYTES);
    client.go();
    client.expect("ready");
    client.ends_well();
}

#[test]
fn memory_comes_back_when_others_have_made_room() {
    // By a limit above the card the managed back end would be chosen.
    let machine = machine().with("SIMGPU_MEMORY", "2GiB").with("DIVVY_BACKEND", "vmm");
    let mut client = playing(&machine, "bytes_and_pointers_survive");
    wished(&machine, "freeze");
    let filler = machine.home().join("filler");
    std::fs::create_dir(&filler).expect("a directory of the test's own");
    let mut stranger = machine.command(crate::harness::client("watcher"));
    stranger.env_remove("LD_PRELOAD").arg("fill");
    let mut stranger = Talk::start(&mut stranger);
    stranger.expect("full");
    client.go();
    assert_eq!(client.line_within(std::time::Duration::from_millis(300)), None, "it waits");
    until("its call waits for memory that moves", || {
        let waiting = residence(&machine);
        bytes(&waiting, "waiting_ns") > 0 && waiting["moving"] == true
    });
    stranger.kill();
    client.expect("ready");
    client.ends_well();
}

#[test]
fn a_tenant_without_the_option_cannot_be_frozen() {
    let machine = Machine::new().limited(4 * GIB);
    let mut client = playing(&machine, "bytes_and_pointers_survive");
    for wish in ["freeze", "thaw"] {
        let finished = finish(&mut divvy(&machine, &[wish]));
        assert!(
            finished.code() == Some(2) && finished.err.contains("--oversubscribe"),
            "{finished}"
        );
    }
    client.go();
    client.expect("ready");
    client.ends_well();
}

#[test]
fn memory_that_is_to_stay_comes_back_and_cannot_be_frozen() {
    let machine = machine();
    let client = playing(&machine, "bytes_and_pointers_survive");
    let set = |word| finish(divvy(&machine, &["set", "--oversubscribe", word]).arg("--json"));
    assert!(bytes(&wished(&machine, "freeze"), "away_bytes") > 0);
    let said = set("off");
    assert!(said.code() == Some(0) && said.out.contains("takes turns until all of it"), "{said}");
    until("it comes back without a call", || bytes(&residence(&machine), "away_bytes") == 0);
    let refused = finish(&mut divvy(&machine, &["freeze"]));
    assert!(refused.code() == Some(2) && refused.err.contains("--oversubscribe on"), "{refused}");
    assert_eq!(set("on").code(), Some(0));
    assert!(bytes(&wished(&machine, "freeze"), "away_bytes") > 0);
    let refused = set("maybe");
    assert!(refused.code() == Some(2) && refused.err.contains("maybe"), "{refused}");
    client.ends_well();
}

#[test]
fn a_tenant_without_the_option_is_not_given_it() {
    let machine = Machine::new().limited(4 * GIB);
    let client = playing(&machine, "bytes_and_pointers_survive");
    for word in ["on", "off"] {
        let refused = finish(&mut divvy(&machine, &["set", "--oversubscribe", word]));
        let is_told = refused.err.contains("was not started with it");
        assert!(refused.code() == Some(2) && is_told, "{refused}");
    }
    client.ends_well();
}

#[test]
fn a_word_that_is_neither_true_nor_false_is_refused() {
    for name in ["DIVVY_OVERSUBSCRIBE", "CUDA_OVERSUBSCRIBE"] {
        for word in ["yes", "a word that is longer than any that is known"] {
            let machine = Machine::new().limited(4 * GIB).with(name, word);
            let finished = finish(&mut machine.scenario("leave", "pointers_are_answered_for"));
            let named = format!("{name}: \"{word}\"");
            assert!(finished.code() != Some(0) && finished.err.contains(&named), "{finished}");
        }
    }
}
