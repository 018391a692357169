//! Runs units against mutants until one fails, and keeps what came of each as it comes.
//!
//! Promises: a mutant is killed only by a test that passes without it, and survives only what it is said to have
//! survived; each result is on disk before the next mutant is begun, so that an interrupted run is gone on with.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::list::Mutant;
use super::unit::{Kills, Outcome, Unit};

/// Verdict on a mutant.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Verdict {
    pub(super) name: String,
    /// The unit that killed it.
    pub(super) killer: Option<String>,
    /// Its message; `hung` if it had to be ended.
    pub(super) why: String,
    /// The units that it was asked in and survived.
    pub(super) survived: Vec<String>,
    /// Of those, in which what is printed was another.
    pub(super) differs: Vec<String>,
    pub(super) seconds: f64,
}

impl Verdict {
    /// Whether no unit that was to be asked is left.
    fn is_done(&self, asked: &[&Unit]) -> bool {
        self.killer.is_some() || asked.iter().all(|unit| self.survived.contains(&unit.name))
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "killer": self.killer, "why": self.why, "survived": self.survived,
            "differs": self.differs, "seconds": self.seconds,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let list = |name: &str| -> Option<Vec<String>> {
            value[name].as_array()?.iter().map(text).collect()
        };
        Some(Self {
            name: text(&value["name"])?,
            killer: text(&value["killer"]),
            why: text(&value["why"])?,
            survived: list("survived")?,
            differs: list("differs")?,
            seconds: value["seconds"].as_f64()?,
        })
    }
}

/// Verdicts stored by now, the last of each mutant.
pub(super) fn stored(path: &Path) -> BTreeMap<String, Verdict> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let values = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let verdicts = values.filter_map(|value: Value| Verdict::from_json(&value));
    verdicts.map(|verdict| (verdict.name.clone(), verdict)).collect()
}

/// The units that a mutant is asked in: those that reach it and cost no more than is wanted.
pub(super) fn asked<'a>(units: &'a [Unit], mutant: &Mutant, most_s: f64) -> Vec<&'a Unit> {
    let is_asked = |unit: &&Unit| unit.reached.contains(&mutant.number) && unit.seconds <= most_s;
    units.iter().filter(is_asked).collect()
}

/// State that several workers share.
struct Shared<'a> {
    units: &'a [Unit],
    most_s: f64,
    file: Mutex<File>,
    kills: Mutex<Kills>,
    known: Mutex<BTreeMap<String, Verdict>>,
    queue: Mutex<std::vec::IntoIter<&'a Mutant>>,
    done: Mutex<(usize, usize)>,
    count: usize,
    begun: Instant,
}

/// Judges all mutants without a verdict; returns all verdicts.
pub(super) fn judge(
    mutants: &[&Mutant],
    units: &[Unit],
    most_s: f64,
    jobs: usize,
    path: &Path,
) -> Result<BTreeMap<String, Verdict>> {
    let known = stored(path);
    let mut kills = Kills::default();
    for verdict in known.values() {
        verdict.survived.iter().for_each(|unit| kills.count(unit, false));
        verdict.killer.iter().for_each(|unit| kills.count(unit, true));
    }
    let is_open = |mutant: &&Mutant| {
        let asked = asked(units, mutant, most_s);
        !asked.is_empty() && !known.get(&mutant.name).is_some_and(|one| one.is_done(&asked))
    };
    let open: Vec<&Mutant> = mutants.iter().copied().filter(is_open).collect();
    let file = OpenOptions::new().create(true).append(true).open(path);
    let shared = Shared {
        units,
        most_s,
        file: Mutex::new(file.with_context(|| path.display().to_string())?),
        kills: Mutex::new(kills),
        known: Mutex::new(known),
        count: open.len(),
        queue: Mutex::new(open.into_iter()),
        done: Mutex::new((0, 0)),
        begun: Instant::now(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| shared.work())).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(locked(&shared.known).clone())
}

/// The value behind a lock: no thread panics while it holds one.
fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared<'_> {
    fn work(&self) -> Result<()> {
        loop {
            let Some(mutant) = locked(&self.queue).next() else { return Ok(()) };
            let verdict = self.verdict(mutant)?;
            writeln!(locked(&self.file), "{}", verdict.json()).context("the results")?;
            self.say(&verdict);
            locked(&self.known).insert(verdict.name.clone(), verdict);
        }
    }

    fn verdict(&self, mutant: &Mutant) -> Result<Verdict> {
        let begun = Instant::now();
        let before = locked(&self.known).get(&mutant.name).cloned();
        let mut verdict = before.unwrap_or_else(|| Verdict {
            name: mutant.name.clone(),
            killer: None,
            why: String::new(),
            survived: Vec::new(),
            differs: Vec::new(),
            seconds: 0.0,
        });
        let mut asked = asked(self.units, mutant, self.most_s);
        asked.retain(|unit| !verdict.survived.contains(&unit.name));
        {
            let kills = locked(&self.kills);
            asked.sort_by(|a, b| kills.rate(b).total_cmp(&kills.rate(a)));
        }
        for unit in asked {
            let outcome = unit.run(mutant.number)?;
            let is_alive = matches!(outcome, Outcome::Passed { .. });
            locked(&self.kills).count(&unit.name, !is_alive);
            match outcome {
                Outcome::Passed { is_alike } => {
                    verdict.survived.push(unit.name.clone());
                    verdict.differs.extend((!is_alike).then(|| unit.name.clone()));
                    continue;
                }
                Outcome::Failed(why) => verdict.why = why,
                Outcome::Hung => verdict.why = "hung".to_owned(),
            }
            verdict.killer = Some(unit.name.clone());
            break;
        }
        verdict.seconds += begun.elapsed().as_secs_f64();
        Ok(verdict)
    }

    fn say(&self, verdict: &Verdict) {
        let (done, killed) = {
            let mut done = locked(&self.done);
            *done = (done.0 + 1, done.1 + usize::from(verdict.killer.is_some()));
            *done
        };
        let passed_s = self.begun.elapsed().as_secs_f64();
        let left_s = passed_s / done as f64 * (self.count - done) as f64;
        eprintln!(
            "{done} of {}, {killed} killed, {:.0} min left: {} {:.1} s {}",
            self.count,
            left_s / 60.0,
            verdict.name,
            verdict.seconds,
            verdict.killer.as_deref().unwrap_or("SURVIVED")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_was_written_and_the_last_counts() {
        let path = std::env::temp_dir().join(format!("divvy-mutants-{}", std::process::id()));
        let one = Verdict {
            name: "a.rs:1:2: replace + with -".to_owned(),
            killer: None,
            why: String::new(),
            survived: vec!["seeds: a".to_owned()],
            differs: Vec::new(),
            seconds: 1.5,
        };
        let two = Verdict { killer: Some("lone: b".to_owned()), ..one.clone() };
        fs::write(&path, format!("{}\n{}\n{{cut", one.json(), two.json())).expect("written");
        let known = stored(&path);
        fs::remove_file(&path).expect("removed");
        assert_eq!(known.into_values().collect::<Vec<_>>(), [two]);
        assert!(one.is_done(&[]));
    }
}
