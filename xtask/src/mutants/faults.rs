//! Faults that are planted, one at a time, and must be found: those that gates once had, and one at least for each thing
//! that the searcher promises to judge.
//!
//! They stand in `faults.txt`, as changes of today's text, and are compiled behind switches like mutants.
//!
//! Promises: a fault is found where its text stands exactly once, else it is named; each is run in the test that is
//! named for it, which passes without it. Does not look for other tests that would fail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::edits::Edits;
use super::list::{Genre, Mutant};
use super::switch::Switched;
use super::unit::{Outcome, Unit};
use super::{Arguments, tree};
use crate::soak;
use crate::workspace::root;

const TEXT: &str = include_str!("faults.txt");

/// A fault, as `faults.txt` has it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Fault {
    name: String,
    what: String,
    breaks: String,
    test: String,
    changes: Vec<Change>,
}

/// One of its changes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Change {
    file: String,
    within: Option<String>,
    original: String,
    replacement: String,
}

/// Which text the lines that follow belong to.
#[derive(Clone, Copy)]
enum Part {
    Within,
    Original,
    Replacement,
}

fn parse(text: &str) -> Result<Vec<Fault>> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut part = None;
    for (line, number) in text.lines().zip(1..) {
        let at = || format!("faults.txt:{number}: {line}");
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').with_context(at)?.to_owned();
            faults.push(Fault { name, ..Fault::default() });
            continue;
        }
        if line.starts_with('#') || line.is_empty() && !matches!(part, Some(Part::Within)) {
            part = None;
            continue;
        }
        let fault = faults.last_mut().with_context(at)?;
        let field = line
            .split_once(": ")
            .filter(|(name, _)| ["what", "breaks", "test", "file", "in"].contains(name));
        match field {
            Some(("what", value)) => value.clone_into(&mut fault.what),
            Some(("breaks", value)) => value.clone_into(&mut fault.breaks),
            Some(("test", value)) => value.clone_into(&mut fault.test),
            Some(("file", value)) => {
                let file = format!("crates/policy/src/{value}");
                fault.changes.push(Change { file, ..Change::default() });
            }
            _ => {
                let change = fault.changes.last_mut().with_context(at)?;
                let (begun, rest) = match field {
                    Some((_, value)) => (Some(Part::Within), value),
                    None => match line.split_at_checked(2) {
                        Some(("- ", rest)) => (Some(Part::Original), rest),
                        Some(("+ ", rest)) => (Some(Part::Replacement), rest),
                        _ => (None, line),
                    },
                };
                let is_next = begun.is_none();
                part = begun.or(part);
                let text = match part.with_context(at)? {
                    Part::Within => change.within.get_or_insert_default(),
                    Part::Original => &mut change.original,
                    Part::Replacement => &mut change.replacement,
                };
                text.push_str(if is_next { "\n" } else { "" });
                text.push_str(rest);
            }
        }
    }
    for fault in &faults {
        let texts = [&fault.what, &fault.breaks, &fault.test];
        let is_whole = !fault.changes.is_empty()
            && texts.iter().all(|text| !text.is_empty())
            && fault.changes.iter().all(|change| !change.original.is_empty());
        if !is_whole {
            bail!(
                "faults.txt: [{}] does not say what, breaks, test, file and what stands there",
                fault.name
            );
        }
    }
    Ok(faults)
}

/// Where a text stands, once.
fn place(text: &str, wanted: &str) -> Result<Range<usize>> {
    let mut places = text.match_indices(wanted).map(|(at, _)| at..at + wanted.len());
    match (places.next(), places.count()) {
        (Some(place), 0) => Ok(place),
        (None, _) => bail!("does not stand there any more: {wanted}"),
        (Some(_), more) => bail!("stands there {} times: {wanted}", more + 1),
    }
}

impl Change {
    /// The bytes of a file that it replaces.
    fn bytes(&self, text: &str) -> Result<Range<usize>> {
        let Some(within) = &self.within else { return place(text, &self.original) };
        let outer = place(text, within)?;
        let inner = place(within, &self.original)?;
        Ok(outer.start + inner.start..outer.start + inner.end)
    }
}

/// The changes of all faults as mutants: those of one fault have one number, in the order of `faults.txt` from 1 on.
fn mutants(faults: &[Fault], root: &Path) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for (fault, number) in faults.iter().zip(1..) {
        for change in &fault.changes {
            let path = root.join(&change.file);
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| path.display().to_string())?;
            let bytes = change.bytes(&text);
            let bytes = bytes.with_context(|| {
                format!(
                    "the fault [{}] of faults.txt does not apply to {}",
                    fault.name, change.file
                )
            })?;
            mutants.push(Mutant {
                number,
                name: fault.name.clone(),
                file: change.file.clone(),
                genre: Genre::Planted,
                line: 0,
                column: 0,
                replacement: change.replacement.clone(),
                bytes: Some(bytes),
            });
        }
    }
    Ok(mutants)
}

/// Puts faults, all of this file, behind their switches.
pub(super) fn plant(text: &str, mutants: &[&Mutant]) -> Switched {
    let mut all: Vec<_> =
        mutants.iter().filter_map(|one| Some((one, one.bytes.clone()?))).collect();
    // One may lie in another's text.
    all.sort_by_key(|(_, bytes)| (bytes.start, std::cmp::Reverse(bytes.end)));
    let mut edits = Edits::default();
    for (depth, (mutant, bytes)) in all.into_iter().enumerate() {
        let original = text.get(bytes.clone()).unwrap_or_default();
        let is_statement = original.ends_with(';');
        let [opens, closes] = if is_statement { ["", ""] } else { ["(", ")"] };
        let site = edits.site(vec![mutant.number]);
        let (number, replacement) = (mutant.number, &mutant.replacement);
        let begins = format!("{opens}if crate::mutant::is({number}) {{ {replacement} }} else {{ ");
        edits.begin(site, bytes.start, depth, begins);
        edits.end(site, bytes.end, depth, format!(" }}{closes}"));
    }
    let (text, sites) = edits.apply(text);
    Switched { text, sites, constant: Default::default(), unplaced: Default::default() }
}

/// What came of a fault.
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
    let faults = parse(TEXT)?;
    let mutants = mutants(&faults, root())?;
    std::fs::create_dir_all(tree::folder())?;
    let tree = tree::build("faults", &mutants)?;
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
        super::keep("faults", &text)?;
    }
    if survived != 0 {
        bail!("{survived} of {} planted faults survived", all.len());
    }
    eprintln!("{} planted faults, all found", all.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_applies_to_the_text_of_today() {
        let faults = parse(TEXT).expect("faults.txt is read");
        let found = mutants(&faults, root()).expect("each stands once");
        assert!(faults.len() >= 30 && found.len() >= faults.len());
        let mut names: Vec<_> = faults.iter().map(|fault| &fault.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), faults.len(), "each has a name of its own");
    }

    #[test]
    fn what_does_not_apply_is_named() {
        let read = |text: &str| parse(text).map_err(|error| format!("{error:#}"));
        let whole = "[a]\nwhat: b\nbreaks: c\ntest: d: e\nfile: f.rs\n";
        let fault = &read(&format!("{whole}in: x;\n\n  y\n- x\n  z\n+ w\n")).expect("whole")[0];
        let change = &fault.changes[0];
        assert_eq!(change.within.as_deref(), Some("x;\n\n  y"));
        assert_eq!((change.original.as_str(), change.replacement.as_str()), ("x\n  z", "w"));
        assert!(read(whole).expect_err("nothing stands there").contains("[a]"));
        assert!(read("what: b").expect_err("no name").contains("faults.txt:1"));
        let twice = place("a b a", "a").expect_err("two");
        assert!(twice.to_string().contains("2 times: a"), "{twice}");
        let gone = place("a b a", "c").expect_err("none");
        assert!(gone.to_string().contains("any more: c"), "{gone}");
    }

    #[test]
    fn a_fault_in_anothers_text_keeps_its_switch() {
        let text = "f(a + b); g();";
        let of = |number, bytes: Range<usize>, replacement: &str| Mutant {
            number,
            name: String::new(),
            file: String::new(),
            genre: Genre::Planted,
            line: 0,
            column: 0,
            replacement: replacement.to_owned(),
            bytes: Some(bytes),
        };
        let (inner, outer) = (of(1, 2..7, "c"), of(2, 0..9, ""));
        let planted = plant(text, &[&inner, &outer]);
        assert_eq!(
            planted.text,
            "if crate::mutant::is(2) {  } else { f((if crate::mutant::is(1) { c } else { a + b })); } g();"
        );
    }
}
