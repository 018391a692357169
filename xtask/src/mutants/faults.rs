//! Faults that are planted, one at a time, and must be found.
//!
//! Promises: each is run in the test that is named for it, which passes without it. Does not look for other tests
//! that would fail, nor know what the faults are: that is `planted`.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::keep::keep;
use super::planted::{self, Fault};
use super::scope::Scope;
use super::tree;
use super::unit::{Outcome, Unit};
use crate::soak;
use crate::workspace::root;

/// Outcome of a fault.
struct Came<'a> {
    fault: &'a Fault,
    outcome: Outcome,
    seconds: f64,
    is_reached: bool,
}

impl Came<'_> {
    fn why(&self) -> &str {
        match &self.outcome {
            Outcome::Failed(why) => why,
            Outcome::Hung => "hung",
            Outcome::Passed { .. } if !self.is_reached => "SURVIVED, and is never reached",
            Outcome::Passed { .. } => "SURVIVED",
        }
    }

    fn is_found(&self) -> bool {
        !matches!(self.outcome, Outcome::Passed { .. })
    }

    fn json(&self) -> Value {
        json!({
            "fault": self.fault.name, "what": self.fault.what, "breaks": self.fault.breaks,
            "killed_by": self.is_found().then_some(&self.fault.test), "why": self.why(),
            "seconds": (self.seconds * 10.0).round() / 10.0,
        })
    }
}

pub(super) fn chore(arguments: &Arguments) -> Result<()> {
    let faults = planted::parse(planted::TEXT)?;
    let mutants = planted::mutants(&faults, root())?;
    std::fs::create_dir_all(tree::folder())?;
    let tree = tree::build("faults", Scope::Share, &mutants)?;
    if let Some(number) = tree.unviable.iter().chain(&tree.constant).next() {
        let fault = faults.get(*number as usize - 1).map_or("", |fault| &fault.name);
        bail!("the fault [{fault}] of faults.txt does not compile behind a switch");
    }
    let chosen = || faults.iter().zip(1..).filter(|(one, _)| arguments.names(&one.name));
    if !arguments.shrink.is_empty() {
        let mut chosen = chosen();
        let (Some((fault, number)), None) = (chosen.next(), chosen.next()) else {
            bail!("--shrink is of one fault: `--only` names none or several");
        };
        let kept = tree.binaries.get("kept").context("the searcher has no test `kept`")?;
        return soak::shrink(Command::new(kept), &arguments.shrink, Some((number, &fault.name)));
    }
    let mut units: BTreeMap<&str, Unit> = BTreeMap::new();
    let mut all = Vec::new();
    for (fault, number) in chosen() {
        if !units.contains_key(fault.test.as_str()) {
            let unit = Unit::named(&tree, &fault.test);
            let unit = unit.with_context(|| format!("the test of the fault [{}]", fault.name))?;
            units.insert(&fault.test, unit);
        }
        let unit = &units[fault.test.as_str()];
        let begun = Instant::now();
        let outcome = unit.run(number)?;
        let seconds = begun.elapsed().as_secs_f64();
        let came = Came { fault, outcome, seconds, is_reached: unit.reached.contains(&number) };
        eprintln!("{seconds:6.1} s {}: {}: {}", fault.name, fault.test, came.why());
        all.push(came);
    }
    let survived = all.iter().filter(|came| !came.is_found()).count();
    let value = json!({
        "planted": all.len(), "survived": survived, "faults": all.iter().map(Came::json).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&value)?;
    if arguments.json {
        println!("{text}");
    }
    if arguments.keep {
        keep("faults", &text)?;
    }
    if survived != 0 {
        bail!("{survived} of {} planted faults survived", all.len());
    }
    eprintln!("{} planted faults, all found", all.len());
    Ok(())
}
