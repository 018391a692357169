//! The searcher's tests as units that are run by themselves: which there are, what each costs and which mutants it
//! reaches.
//!
//! Promises: a unit is run in the copy that has the switches, with one mutant on or none, and ends in time. A mutant
//! that hangs is killed, as is one that takes all memory. Does not decide which are run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::fnv::{FNV_BASIS, fnv};
use super::tree::{Tree, folder};
use crate::command::words;

/// A test of which a part can be run: `SEEDS` says of how many seeds. What is wrong of one seed of `seeds` is wrong
/// of all of them, which is not so of shares, where a few of many may be missed.
const PARTS: [(&str, u32); 1] = [("seeds", 500)];

/// Shortest time of a processor after which a unit hangs, and how many times its usual time it is else: some have two
/// threads. What waits without using a processor is given so many times as long, as others may use it.
const HANGS_S: u64 = 20;
const HANGS_TIMES: f64 = 8.0;
const WAITS_TIMES: u64 = 20;

/// Limit of a unit's time with no mutant on, unless another is asked for.
const MOST_S: u64 = 3_600;

/// As a status less 128: the 124 of `timeout`, and two signals.
const OVER_TIME: i32 = 124 - 128;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// Limit of a unit's address space, in kilobytes: it ends a mutant that allocates without end.
const MOST_KIB: u64 = 16 << 20;

/// One test, or a part of it.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// As it is reported: binary, test, part.
    pub(super) name: String,
    path: PathBuf,
    test: String,
    seeds: Option<u32>,
    /// Its time with no mutant on.
    pub(super) seconds: f64,
    /// The mutants that it reaches.
    pub(super) reached: BTreeSet<u32>,
    /// Hash of its output with no mutant on.
    printed: u64,
}

/// Outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The test passed; whether it printed what it prints without the mutant.
    Passed { is_alike: bool },
    /// It failed, with the first that it said of it.
    Failed(String),
    /// It was killed after its time.
    Hung,
}

/// All units that reach a mutant and take no more than `most_s` seconds of a processor, measured unless that was done
/// before.
pub(super) fn all(tree: &Tree, most_s: f64) -> Result<Vec<Unit>> {
    let limit_s = (most_s < MOST_S as f64).then_some(most_s.ceil() as u64);
    let limit = limit_s.map(|limit_s| format!("-{limit_s}")).unwrap_or_default();
    let stored = folder().join(format!("units-{}{limit}.json", tree.hash));
    if let Ok(text) = fs::read_to_string(&stored)
        && let Ok(Value::Array(values)) = serde_json::from_str(&text)
    {
        let units: Option<Vec<_>> = values.iter().map(Unit::from_json).collect();
        return units.with_context(|| format!("{} is no list of units", stored.display()));
    }
    let mut units = Vec::new();
    for (binary, path) in &tree.binaries {
        for test in tests(path)? {
            let parts = PARTS.iter().filter(|part| part.0 == binary).map(|part| Some(part.1));
            for seeds in parts.chain([None]) {
                let mut unit = Unit::new(binary, path, &test, seeds);
                let is_short = unit.measure(limit_s.unwrap_or(MOST_S))?;
                if is_short && !unit.reached.is_empty() {
                    eprintln!(
                        "{:6.1} s, {:4} mutants: {}",
                        unit.seconds,
                        unit.reached.len(),
                        unit.name
                    );
                    units.push(unit);
                }
            }
        }
    }
    let values: Vec<Value> = units.iter().map(Unit::json).collect();
    fs::write(&stored, Value::from(values).to_string())?;
    Ok(units)
}

fn tests(path: &Path) -> Result<Vec<String>> {
    let text = crate::command::output(Command::new(path).arg("--list"))?;
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

impl Unit {
    fn new(binary: &str, path: &Path, test: &str, seeds: Option<u32>) -> Self {
        let part = seeds.map(|seeds| format!(", {seeds} seeds")).unwrap_or_default();
        Self {
            name: format!("{binary}: {test}{part}"),
            path: path.to_owned(),
            test: test.to_owned(),
            seeds,
            seconds: 0.0,
            reached: BTreeSet::new(),
            printed: 0,
        }
    }

    /// The unit of a name as it is reported, measured.
    pub(super) fn named(tree: &Tree, name: &str) -> Result<Self> {
        let (binary, test) = name.split_once(": ").with_context(|| format!("{name}: no test"))?;
        let path = tree.binaries.get(binary).with_context(|| format!("{name}: no such binary"))?;
        let (test, part) =
            test.split_once(", ").map_or((test, None), |(test, of)| (test, Some(of)));
        let seeds = part.map(|part| part.trim_end_matches(" seeds").parse());
        let seeds = seeds.transpose().with_context(|| format!("{name}: no number of seeds"))?;
        if !tests(path)?.iter().any(|one| one == test) {
            bail!("{name}: {binary} has no such test");
        }
        let mut unit = Self::new(binary, path, test, seeds);
        if !unit.measure(MOST_S)? {
            bail!("{name} takes more than {MOST_S} s with no mutant on");
        }
        Ok(unit)
    }

    /// How much of a processor's time it may take.
    pub(super) fn limit_s(&self) -> u64 {
        // A duration in seconds, and small.
        HANGS_S.max((self.seconds * HANGS_TIMES).ceil() as u64)
    }

    fn command(&self, limit_s: u64) -> Command {
        let mut command = Command::new("sh");
        let limits = format!("ulimit -t {limit_s}; ulimit -v {MOST_KIB}; ulimit -c 0");
        command.args(["-c", &format!("{limits}; exec \"$@\""), "sh"]);
        let waits_s = limit_s.saturating_mul(WAITS_TIMES);
        command.args(["timeout", "-k", "2", &waits_s.to_string()]).arg(&self.path);
        command.args(["--exact", &self.test, "--nocapture", "--test-threads", "1"]);
        for name in ["FROM", "SEEDS", "DIVVY_RESULT", "DIVVY_MUTANT", "DIVVY_MUTANTS_REACHED"] {
            command.env_remove(name);
        }
        command.env("RUST_BACKTRACE", "0");
        // A mutant's failure is no case to be kept, and a test is the same each time.
        command.envs([("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"), ("PROPTEST_RNG_SEED", "1")]);
        if let Some(seeds) = self.seeds {
            command.env("SEEDS", seeds.to_string());
        }
        command
    }

    /// Runs it with a mutant on.
    pub(super) fn run(&self, mutant: u32) -> Result<Outcome> {
        let mut command = self.command(self.limit_s());
        let done = command.env("DIVVY_MUTANT", mutant.to_string()).output();
        let done = done.with_context(|| words(&command))?;
        if done.status.success() {
            return Ok(Outcome::Passed { is_alike: printed(&done.stdout) == self.printed });
        }
        if is_over_time(done.status) {
            return Ok(Outcome::Hung);
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let mut lines = said.lines().skip_while(|line| !line.contains("panicked at"));
        let place = lines.next().and_then(|line| line.split("panicked at ").nth(1));
        let why = match place {
            Some(place) => format!("{place} {}", lines.next().unwrap_or_default()),
            None => format!("{}: {}", done.status, said.lines().last().unwrap_or_default()),
        };
        Ok(Outcome::Failed(why.chars().take(200).collect()))
    }

    /// Runs it with none, and has it say what it reaches. Whether it ended within so much time of a processor.
    fn measure(&mut self, most_s: u64) -> Result<bool> {
        let reached = folder().join("reached");
        if reached.exists() {
            fs::remove_file(&reached)?;
        }
        let mut command = self.command(most_s);
        let begun = Instant::now();
        let done = command.env("DIVVY_MUTANTS_REACHED", &reached).output();
        let done = done.with_context(|| words(&command))?;
        self.seconds = begun.elapsed().as_secs_f64();
        if is_over_time(done.status) {
            return Ok(false);
        }
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            bail!("{} fails with no mutant on, in the copy:\n{said}", self.name);
        }
        self.printed = printed(&done.stdout);
        let text = fs::read_to_string(&reached).unwrap_or_default();
        self.reached = text.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(true)
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "path": self.path, "test": self.test, "seeds": self.seeds,
            "seconds": self.seconds, "reached": self.reached, "printed": self.printed,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let small = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        Some(Self {
            name: text("name")?,
            path: text("path")?.into(),
            test: text("test")?,
            seeds: small(&value["seeds"]),
            seconds: value["seconds"].as_f64()?,
            reached: value["reached"].as_array()?.iter().filter_map(small).collect(),
            printed: value["printed"].as_u64()?,
        })
    }
}

/// Whether it was ended for the time that it took. 124 is what `timeout` says of who is over his time; the others are of
/// who was killed for that, by signal.
fn is_over_time(status: ExitStatus) -> bool {
    let signal = status.signal().or(status.code().map(|code| code - 128));
    matches!(signal, Some(OVER_TIME | SIGKILL | SIGXCPU))
}

/// Hash of a test's output, but for the time it took.
fn printed(stdout: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(stdout);
    let lines = text.lines().filter(|line| !line.starts_with("test result:"));
    lines.fold(FNV_BASIS, |hash, line| fnv(hash, line.as_bytes()))
}

/// How often units killed, so that what kills most for its time is asked first.
#[derive(Default, Debug)]
pub(super) struct Kills(BTreeMap<String, (f64, f64)>);

impl Kills {
    pub(super) fn count(&mut self, unit: &str, has_killed: bool) {
        let (runs, kills) = self.0.entry(unit.to_owned()).or_default();
        *runs += 1.0;
        *kills += f64::from(u8::from(has_killed));
    }

    /// Expected kills a second.
    pub(super) fn rate(&self, unit: &Unit) -> f64 {
        let (runs, kills) = self.0.get(&unit.name).copied().unwrap_or_default();
        (kills + 0.5) / (runs + 2.0) / unit.seconds.max(0.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kills_most_for_its_time_is_asked_first() {
        let unit = |name: &str, seconds| Unit {
            name: name.to_owned(),
            path: PathBuf::new(),
            test: String::new(),
            seeds: None,
            seconds,
            reached: BTreeSet::new(),
            printed: 0,
        };
        let (short, long) = (unit("short", 1.0), unit("long", 4.0));
        let mut kills = Kills::default();
        assert!(kills.rate(&short) > kills.rate(&long));
        for _ in 0..9 {
            kills.count("short", false);
            kills.count("long", true);
        }
        assert!(kills.rate(&short) < kills.rate(&long));
        assert_eq!((short.limit_s(), long.limit_s()), (20, 32));
        let back = Unit::from_json(&long.json()).expect("its own");
        assert_eq!((back.name, back.seconds), (long.name, long.seconds));
    }

    #[test]
    fn the_time_a_test_took_is_not_what_it_printed() {
        let of = |time| printed(format!("a row\ntest result: ok. {time}\n").as_bytes());
        assert_eq!(of("0.1 s"), of("0.2 s"));
        assert_ne!(of("0.1 s"), printed(b"another\n"));
    }
}
