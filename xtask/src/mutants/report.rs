//! Report on the mutants: counts per file and per test, and every survivor by name.
//!
//! Promises: the rate is of those chosen that can be switched, reached or not; those that were not run are not counted
//! as killed or survived, and are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Value, json};

use super::judge::Verdict;
use super::list::Mutant;
use super::tree::Tree;
use super::unit::Unit;

/// Of a file, or of all.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    killed: usize,
    hung: usize,
    survived: usize,
    unreached: usize,
    not_run: usize,
}

impl Counts {
    fn judged(&self) -> usize {
        self.killed + self.survived + self.unreached
    }

    /// Percent killed of all that were judged.
    fn rate(&self) -> f64 {
        100.0 * self.killed as f64 / self.judged().max(1) as f64
    }

    fn json(&self) -> Value {
        json!({
            "killed": self.killed, "of_them_by_hanging": self.hung, "survived": self.survived,
            "unreached": self.unreached, "not_run": self.not_run,
        })
    }
}

/// The report, printed and stored.
#[derive(Debug)]
pub(super) struct Report<'a> {
    listed: [usize; 4],
    seed: u64,
    files: BTreeMap<&'a str, Counts>,
    all: Counts,
    killers: BTreeMap<&'a str, usize>,
    /// Units that a survivor that they reach was not asked in.
    unasked: BTreeSet<&'a str>,
    survivors: Vec<(&'a str, &'a Verdict)>,
    unreached: Vec<&'a str>,
    seconds: f64,
}

/// A name as it is reported: without what all have in common.
fn short(name: &str) -> &str {
    name.strip_prefix("crates/policy/src/").unwrap_or(name)
}

impl<'a> Report<'a> {
    pub(super) fn new(
        mutants: &[Mutant],
        tree: &Tree,
        units: &'a [Unit],
        chosen: &[&'a Mutant],
        verdicts: &'a BTreeMap<String, Verdict>,
        seed: u64,
    ) -> Self {
        let listed = [mutants.len(), tree.switched.len(), tree.constant.len(), tree.unviable.len()];
        let mut report = Self {
            listed,
            seed,
            files: BTreeMap::new(),
            all: Counts::default(),
            killers: BTreeMap::new(),
            unasked: BTreeSet::new(),
            survivors: Vec::new(),
            unreached: Vec::new(),
            seconds: 0.0,
        };
        let mut chosen = chosen.to_vec();
        chosen.sort_by_key(|mutant| mutant.number);
        for mutant in chosen {
            report.add(mutant, units, verdicts.get(&mutant.name));
        }
        report
    }

    fn add(&mut self, mutant: &'a Mutant, units: &'a [Unit], verdict: Option<&'a Verdict>) {
        let name = short(&mutant.name);
        let mut one = Counts::default();
        let reach: Vec<&Unit> =
            units.iter().filter(|unit| unit.reached.contains(&mutant.number)).collect();
        match verdict {
            _ if reach.is_empty() => {
                one.unreached = 1;
                self.unreached.push(name);
            }
            None => one.not_run = 1,
            Some(verdict) => {
                self.seconds += verdict.seconds;
                if let Some(killer) = &verdict.killer {
                    (one.killed, one.hung) = (1, usize::from(verdict.why == "hung"));
                    *self.killers.entry(killer).or_default() += 1;
                } else {
                    one.survived = 1;
                    self.survivors.push((name, verdict));
                    let left = reach.iter().map(|unit| unit.name.as_str());
                    let is_left = |unit: &&str| !verdict.survived.iter().any(|asked| asked == unit);
                    self.unasked.extend(left.filter(is_left));
                }
            }
        }
        let file = self.files.entry(short(&mutant.file)).or_default();
        for sum in [file, &mut self.all] {
            sum.killed += one.killed;
            sum.hung += one.hung;
            sum.survived += one.survived;
            sum.unreached += one.unreached;
            sum.not_run += one.not_run;
        }
    }

    pub(super) fn json(&self) -> String {
        let [listed, switched, constant, unviable] = self.listed;
        let files = self.files.iter().map(|(name, counts)| ((*name).to_owned(), counts.json()));
        let survivors = |is_alike: bool| -> Vec<&str> {
            let of = self.survivors.iter().filter(|(_, one)| one.differs.is_empty() == is_alike);
            of.map(|(name, _)| *name).collect()
        };
        let value = json!({
            "listed": listed, "switched": switched, "of_constants": constant, "not_viable": unviable,
            "seed": self.seed, "all": self.all.json(),
            "killed_percent": (self.all.rate() * 10.0).round() / 10.0,
            "files": files.collect::<serde_json::Map<_, _>>(), "killed_by": self.killers,
            "survivors_not_asked_in": self.unasked, "seconds": self.seconds.round(),
            "survivors_that_print_another": survivors(false), "survivors_alike": survivors(true),
            "unreached": self.unreached,
        });
        serde_json::to_string_pretty(&value).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut row = |line: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        row(format_args!("{:24} killed survived unreached not run", ""));
        for (name, one) in
            self.files.iter().map(|(name, one)| (*name, one)).chain([("all", &self.all)])
        {
            row(format_args!(
                "{name:24} {:6} {:8} {:9} {:7}",
                one.killed, one.survived, one.unreached, one.not_run
            ));
        }
        for (killer, kills) in &self.killers {
            row(format_args!("{kills:5} killed by {killer}"));
        }
        for (name, verdict) in &self.survivors {
            let what = if verdict.differs.is_empty() { "all alike" } else { "prints another" };
            row(format_args!("SURVIVED ({what}) {name}"));
        }
        for name in &self.unreached {
            row(format_args!("UNREACHED {name}"));
        }
        for name in &self.unasked {
            row(format_args!("survivors were not asked in {name}"));
        }
        row(format_args!(
            "{} of {} killed, {:.1} %; {} of them by hanging; {} not run; {:.0} s",
            self.all.killed,
            self.all.judged(),
            self.all.rate(),
            self.all.hung,
            self.all.not_run,
            self.seconds
        ));
        text
    }
}
