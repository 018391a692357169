//! What runtimes and frameworks ask of the driver when they start, recorded once on the card.
//!
//! The replay compares every `cuGetProcAddress` answer and every looked-up name; with the library
//! preloaded the answers must be the same, for a program that was refused a name starts differently.

use crate::harness::{Machine, build_program, finish, root};

fn replay(machine: &Machine) {
    let folder = root().join("tests/startup");
    let program = build_program("replay", &folder.join("replay.c"), &[], &["-Wno-error"]);
    let recorded = std::fs::read_dir(folder.join("recorded")).expect("recorded answers are stored");
    let mut files: Vec<_> = recorded.flatten().map(|entry| entry.path()).collect();
    files.sort();
    assert!(files.len() >= 8, "only {} recorded programs", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let finished = finish(machine.command(&program).arg(file));
        let differs = finished.out.lines().any(|line| line.starts_with("differs"));
        if finished.code() != Some(0) || differs {
            wrong.push(format!("{}\n{finished}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn simulated_driver_answers_recorded_programs() {
    replay(&Machine::new().native());
}

#[test]
fn recorded_programs_are_answered_under_a_limit() {
    replay(&Machine::new().limited(1 << 30));
}
