//! The faults that are planted: those that gates once had, and one at least for each thing that the searcher promises
//! to judge.
//!
//! They stand in `faults.txt`, as changes of today's text, and are compiled behind switches like mutants.
//!
//! Promises: a fault is found where its text stands exactly once, else it is named. Does not run anything.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::edits::Edits;
use super::list::{Genre, Mutant};
use super::switch::Switched;

/// All of them.
pub(super) const TEXT: &str = include_str!("faults.txt");

/// A fault, as `faults.txt` has it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) breaks: String,
    pub(super) test: String,
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

/// Reads faults.
pub(super) fn parse(text: &str) -> Result<Vec<Fault>> {
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
pub(super) fn mutants(faults: &[Fault], root: &Path) -> Result<Vec<Mutant>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

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
