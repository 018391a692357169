//! The benchmarks of device time run, and what they find is valid. How good it is, only a card shows.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{Finished, Machine, finish, stage};

/// `divvy bench NAME` on the simulated card, which stores its results in the machine's home.
fn bench(machine: &Machine, name: &str, options: &[&str]) -> Finished {
    let mut command = machine.command(stage().join("bin/divvy"));
    command.args(["bench", name, "--sim"]).args(options);
    finish(command.arg("--out").arg(machine.home().join("results")))
}

/// The figures of `divvy bench NAME --quick` on the simulated card.
fn figures(name: &str) -> Vec<Value> {
    let machine = Machine::new();
    let finished = bench(&machine, name, &["--quick", "--json"]);
    let report: Value = serde_json::from_str(&finished.out)
        .unwrap_or_else(|error| panic!("no report: {error}\n{finished}"));
    let figures = report["figures"].as_array().expect("figures").clone();
    assert!(!figures.is_empty(), "{finished}");
    for figure in &figures {
        let failures = figure["failures"].as_object().expect("failures");
        // How fast a changed cap takes hold is a matter of how good it is.
        let bad: Vec<_> = failures.values().filter(|why| *why != "not within a second").collect();
        assert!(bad.is_empty(), "{}: {bad:?}", figure["name"]);
    }
    figures
}

/// Whether some figure of this name has a value of Divvy's.
fn has(figures: &[Value], name: &str) -> bool {
    let named = figures.iter().filter(|figure| figure["name"] == name);
    named.into_iter().any(|figure| figure["medians"]["divvy"].is_f64())
}

#[test]
fn a_capped_program_is_measured() {
    let figures = figures("share");
    for mode in ["sync", "async"] {
        assert!(has(&figures, &format!("share, 100 us {mode} at 30 %")), "{figures:?}");
    }
}

#[test]
fn programs_that_divide_a_card_are_measured() {
    let figures = figures("fairness");
    assert!(has(&figures, "tenants of 30 and 70 %, 30 %'s share"), "{figures:?}");
    assert!(has(&figures, "3 equal tenants, 100 us sync, sum of one alone"), "{figures:?}");
}

#[test]
fn requests_beside_a_flood_are_measured() {
    let figures = figures("latency");
    assert!(has(&figures, "request beside a flood of 100 us, 99th percentile"), "{figures:?}");
}

/// A machine whose benchmarks' program of kernels fails where one of its arguments is `mode`.
fn failing(mode: &str) -> Machine {
    let machine = Machine::new();
    let clients = machine.home().join("clients");
    std::fs::create_dir(&clients).expect("a directory of the test's own");
    let (path, busy) = (clients.join("busy"), stage().join("clients/busy"));
    let script = format!(
        "#!/bin/sh\ncase $1 in {mode}) echo spoilt >&2; exit 3;; esac\nexec {} \"$@\"\n",
        busy.display()
    );
    std::fs::write(&path, script).expect("it can be written");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("modes can be set");
    machine.with("DIVVY_CLIENTS", clients.display())
}

#[test]
fn what_fails_natively_costs_no_other_figure() {
    let options = ["--seconds", "0.5", "--only", "us ex,us cooperative,us streams", "--json"];
    let machine = failing("mode=cooperative");
    let finished = bench(&machine, "share", &options);
    assert_eq!(finished.code(), Some(0), "{finished}");
    let report: Value = serde_json::from_str(&finished.out).expect("a report");
    let figures = report["figures"].as_array().expect("figures");
    for mode in ["ex", "streams"] {
        assert!(has(figures, &format!("share, 100 us {mode} at 30 %")), "{finished}");
    }
    let spoilt = figures.iter().find(|figure| figure["name"] == "share, 100 us cooperative");
    let why = &spoilt.expect("it is named")["failures"]["native"];
    assert!(why.as_str().is_some_and(|why| !why.is_empty()), "{finished}");
    let stored = std::fs::read_dir(machine.home().join("results")).expect("it was stored");
    assert!(stored.flatten().any(|file| file.path().extension().is_some_and(|e| e == "json")));

    let machine = failing("mode=*");
    let finished = bench(&machine, "share", &options);
    assert!(finished.code() == Some(125) && finished.err.contains("spoilt"), "{finished}");
    assert!(!machine.home().join("results").exists(), "nothing was measured");
}

#[test]
fn what_is_not_measured_is_said_and_nothing_stored() {
    let machine = Machine::new();
    for name in ["share", "fairness", "latency", "overhead"] {
        let finished = bench(&machine, name, &["--only", "noise,nothing"]);
        assert!(!finished.status.success(), "{finished}");
        assert!(finished.err.contains("--only noise,nothing: "), "{finished}");
    }
    assert!(!machine.home().join("results").exists());
}
