//! The simulated driver against the transcript of a real H200: codes, sizes, orders, states.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::harness::{Machine, build_program, finish, root};

const PARTS: [&str; 12] = [
    "topics", "memory", "contexts", "vmm", "pools", "streams", "code", "graphs", "trouble",
    "edges", "threads", "managed",
];

/// The lines of each part of a transcript, in order.
fn parts(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(next) = line.strip_prefix("## ") {
            next.clone_into(&mut name);
            parts.entry(name.clone()).or_default();
        } else if let Some(lines) = parts.get_mut(&name) {
            lines.push(line.to_owned());
        }
    }
    parts
}

/// The conformance program, built once.
pub(crate) fn program() -> PathBuf {
    let folder = root().join("tests/conformance");
    let more: Vec<_> = PARTS.iter().map(|part| folder.join(format!("{part}.c"))).collect();
    build_program("conform", &folder.join("conform.c"), &more, &["-Wno-unused-result"])
}

/// How `ours` differs from `card`, line by line.
fn differences(name: &str, card: &[String], ours: &[String]) -> Vec<String> {
    (0..card.len().max(ours.len()))
        .filter_map(|at| {
            let (wanted, got) = (card.get(at), ours.get(at));
            (wanted != got).then(|| {
                let show =
                    |line: Option<&String>| line.map_or("(nothing)", String::as_str).to_owned();
                format!("{name} line {}:\n  card {}\n  here {}", at + 1, show(wanted), show(got))
            })
        })
        .collect()
}

#[test]
fn simulated_driver_answers_as_the_h200_did() {
    let stored = std::fs::read_to_string(root().join("tests/conformance/h200.txt"))
        .expect("the transcript of the card is stored");
    let machine = Machine::new()
        .native()
        .with("SIMGPU_MODE", "calibrated")
        .with("SIMGPU_MEMORY", "150109880320");
    let card = parts(&stored);
    let mut topics: Vec<&str> = card.keys().filter_map(|name| name.split(':').next()).collect();
    topics.dedup();
    let mut differing = Vec::new();
    for topic in topics {
        differing.extend(compare(&machine, &card, topic));
    }
    machine.all_was_simulated();
    let wrong = differing.len();
    // The first differences of a part are the cause of most that follow.
    differing.truncate(60);
    assert!(wrong == 0, "{wrong} lines differ from the card:\n{}", differing.join("\n"));
}

/// Differences of one topic. A few lines say whether a call waited for 300 ms of work; a machine that
/// is busy otherwise may get those wrong, so a topic that differs is asked again, twice.
fn compare(machine: &Machine, card: &BTreeMap<String, Vec<String>>, topic: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attempt in 1..=3 {
        let finished = finish(machine.command(program()).arg(topic));
        let here = parts(&finished.out);
        found = card
            .iter()
            .filter(|(name, _)| name.split(':').next() == Some(topic))
            .flat_map(|(name, lines)| {
                differences(name, lines, &here.get(name).cloned().unwrap_or_default())
            })
            .collect();
        if found.is_empty() {
            break;
        }
        println!("{topic}, attempt {attempt}: {} lines differ", found.len());
    }
    found
}
