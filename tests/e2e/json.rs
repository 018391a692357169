//! The demonstration from its beginning to its end; and the JSON of commands that need a driver beside its examples in
//! `docs/json.md`. The other commands are compared in `crates/divvy/tests/json.rs`.

#[path = "../../crates/divvy/tests/shape/mod.rs"]
mod shape;

use std::collections::BTreeMap;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::harness::{Machine, best_of_three, stage};

/// Runs `divvy` on a machine whose tenants are the test's own.
fn divvy(arguments: &[&str]) -> (Output, Machine) {
    let machine = Machine::new().native();
    let mut command = machine.command(stage().join("bin/divvy"));
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("it starts");
    (output, machine)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_demonstration_shows_memory_and_time() {
    best_of_three("the demonstration", || {
        let (output, _machine) = divvy(&["demo", "--sim", "--seconds", "10", "--json"]);
        let printed = text(&output.stdout);
        shape::compare("divvy demo", &printed, &[]);
        let seen: Value = serde_json::from_str(&printed).expect("it is JSON");
        let happened = |expected: &str| {
            let checks = seen["checks"].as_array().expect("a list");
            let is_it = |check: &&Value| {
                check["expected"].as_str().is_some_and(|words| words.contains(expected))
            };
            let check = checks.iter().find(is_it);
            check.unwrap_or_else(|| panic!("{expected} is not checked: {seen}"))["happened"] == true
        };
        for expected in [
            "told its limit",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "steady was never refused",
            "never held more than a limit",
            "every kernel that was launched was done",
        ] {
            assert!(happened(expected), "{expected}: {printed}");
        }
        let time = &seen["time"];
        assert!(time["bare_percent"].is_null(), "a simulated GPU says nothing about a real one");
        let as_expected = seen["as_expected"] == true;
        assert_eq!(output.status.code(), Some(if as_expected { 0 } else { 1 }), "{printed}");
        // On a busy machine a simulated GPU may miss a share by more than the demonstration allows, but not its order.
        let phases = time["phases"].as_array().expect("a list");
        assert_eq!(phases.len(), 3, "{printed}");
        let mut wrong = BTreeMap::new();
        for (phase, serve_has_more) in phases.iter().zip([false, true, true]) {
            let [serve, train] =
                [0, 1].map(|one| phase["reached_percent"][one].as_f64().expect("a share"));
            if (serve > train) != serve_has_more {
                wrong.insert(phase["what"].to_string(), format!("{serve} and {train}"));
            }
        }
        wrong
    });
}

#[test]
fn the_demonstration_fits_80_columns_without_colour() {
    let (output, _machine) = divvy(&["demo", "--sim", "--seconds", "8"]);
    let shown = text(&output.stdout);
    let wide: Vec<_> = shown.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:?}");
    assert!(!shown.contains('\x1b'), "this is no terminal: {shown:?}");
    for words in
        ["1. Memory.", "2. Time.", "steady", "100 %|", "caps of 30 and 70 %", "on a SIMULATED GPU"]
    {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    assert_eq!(text(&output.stderr), "", "progress is for terminals");
}

#[test]
fn a_program_and_a_benchmark_report_what_the_page_shows() {
    let client = stage().join("clients/fill");
    let client = client.display().to_string();
    let (output, _machine) = divvy(&["run", "--sim", "--json", "-m", "1GiB", "--", &client]);
    let said = text(&output.stderr);
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    shape::compare("divvy run", line, &[]);
    let results = std::env::temp_dir().join(format!("divvy-json-results-{}", std::process::id()));
    let only =
        ["--only", "exec", "--rounds", "1", "--json", "--out", &results.display().to_string()];
    let (output, _machine) = divvy(&[&["bench", "overhead", "--sim"][..], &only].concat());
    let _ = std::fs::remove_dir_all(&results);
    shape::compare("divvy bench", &text(&output.stdout), &[]);
}
