//! What a context takes is found on an idle card by `divvy doctor` and charged by `divvy run`.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Finished, MIB, Machine, Running, client, finish, stage};

/// What the simulated card takes for a context, and what is charged on a card nobody knows.
const TRUE_BYTES: u64 = 518 * MIB;
const UNKNOWN_BYTES: u64 = 600 * MIB;

/// A machine whose card is in no table, with a cache directory of its own.
fn machine() -> Machine {
    let machine = Machine::new().native().with("SIMGPU_NAME", "Some Card");
    let cache = machine.home().join("cache");
    machine.with("XDG_CACHE_HOME", cache.display())
}

fn file(machine: &Machine) -> PathBuf {
    machine.home().join("cache/divvy/contexts.json")
}

/// Level and words of doctor's finding about contexts; other findings may be what they are.
fn doctor(machine: &Machine) -> (String, String) {
    let finished = finish(machine.command(stage().join("bin/divvy")).args(["doctor", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&finished.out).expect("doctor's JSON");
    let findings = report["findings"].as_array().expect("findings");
    let mut about = findings.iter().filter(|finding| finding["code"] == "DV035");
    let finding = about.next().unwrap_or_else(|| panic!("no DV035\n{finished}"));
    assert_eq!(about.next(), None, "one card, one finding");
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    (text("level"), text("found"))
}

/// The most a program with one context and a block of 2 MiB held under `divvy run`.
fn peak_bytes(machine: &Machine) -> (u64, Finished) {
    let mut command = machine.command(stage().join("bin/divvy"));
    command.args(["run", "--json", "--memory", "4GiB", "--"]).arg(client("beyond"));
    command.args([0.to_string(), (2 * MIB).to_string(), "0".to_owned()]);
    let finished = finish(&mut command);
    let summary = finished.err.lines().find(|line| line.starts_with('{'));
    let summary = summary.unwrap_or_else(|| panic!("no summary\n{finished}"));
    let summary: serde_json::Value = serde_json::from_str(summary).expect("the summary is JSON");
    let peak = summary["devices"][0]["peak_bytes"].as_u64().expect("a peak");
    (peak, finished)
}

#[test]
fn found_on_an_idle_card_and_charged_from_then_on() {
    let machine = machine();
    let (before, _) = peak_bytes(&machine);
    let (level, found) = doctor(&machine);
    assert_eq!(level, "ok", "{found}");
    assert!(found.contains("518 MiB") && found.contains("Some Card"), "{found}");
    let kept = fs::read_to_string(file(&machine)).expect("the figure is kept");
    assert!(kept.contains(&format!("\"bytes\": {TRUE_BYTES}")), "{kept}");
    let (after, finished) = peak_bytes(&machine);
    assert_eq!(before - after, UNKNOWN_BYTES - TRUE_BYTES, "{finished}");
}

#[test]
fn a_busy_card_is_left_alone_and_said_to_be() {
    let machine = machine();
    let mut busy = machine.command(client("beyond"));
    busy.args([0.to_string(), (2 * MIB).to_string(), "20000".to_owned()]);
    let mut busy = Running::start(&mut busy);
    // It has its context when the card lists it; until then doctor may find the card idle.
    let words = loop {
        assert!(!busy.ended(), "the other program ended first");
        let (level, found) = doctor(&machine);
        if level == "note" {
            break found;
        }
        let _ = fs::remove_file(file(&machine));
    };
    busy.kill();
    busy.finish();
    assert!(words.contains("busy") || words.contains("another program"), "{words}");
    assert!(!file(&machine).exists(), "nothing is kept of a busy card");
}

#[test]
fn a_file_that_is_not_understood_is_named_and_not_used() {
    let machine = machine();
    let (before, _) = peak_bytes(&machine);
    let file = file(&machine);
    fs::create_dir_all(file.parent().expect("a directory")).expect("it is writable");
    fs::write(&file, "{\"format\":1,\"contexts\":[{\"bytes\":\"all\"}]}").expect("it is writable");
    let (after, finished) = peak_bytes(&machine);
    assert_eq!(before, after, "{finished}");
    for words in ["DV035", "delete it", file.to_str().expect("text")] {
        assert!(finished.err.contains(words), "{words}\n{finished}");
    }
    let (level, found) = doctor(&machine);
    assert_eq!(level, "bad", "{found}");
    assert!(file.exists(), "doctor changes nothing it does not understand");
}
