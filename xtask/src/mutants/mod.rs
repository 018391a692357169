//! `cargo xtask mutants`: whether the searcher notices when policy's gates, turns and pace are wrong.
//!
//! The mutants are cargo-mutants' (`list`). They are compiled once, all of them, each behind a switch (`switch`,
//! `edits`) in a copy of what the searcher is made of (`tree`); the searcher's own tests are then run with one
//! switch on at a time (`unit`, `judge`), and what came of it is counted (`report`).
//!
//! Promises: nothing but the searcher's tests judges; the same seed takes the same sample, and a longer one begins
//! with a shorter one; a run goes on where another of the same source was interrupted. Does not say why a mutant
//! survives: docs/mutants.md does.
//!
//! With `--faults` what is switched on is written by hand (`faults`): each fault in the test that must find it.
//!
//! Parsing Rust needs what nothing else here does, so it is behind the feature `mutants`; without it this binary starts
//! cargo once more with the feature on.

#[cfg(feature = "mutants")]
mod edits;
#[cfg(feature = "mutants")]
mod faults;
#[cfg(feature = "mutants")]
mod judge;
#[cfg(feature = "mutants")]
mod list;
#[cfg(feature = "mutants")]
mod report;
#[cfg(feature = "mutants")]
mod switch;
#[cfg(feature = "mutants")]
mod tree;
#[cfg(feature = "mutants")]
mod unit;

use anyhow::Result;

/// Which mutants, and how.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// So many, drawn at random; by default all.
    #[arg(long)]
    sample: Option<usize>,
    /// Which draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only those whose names contain one of these: files, functions, changes.
    #[arg(long)]
    only: Vec<String>,
    /// Faults that are planted instead, each in the test that must find it.
    #[arg(long, conflicts_with_all = ["sample", "each", "known", "anew"])]
    faults: bool,
    /// With the one fault that `--only` names: make a case that fails with it alone small, and keep it. As `soak share`'s.
    #[arg(long, num_args = 2, value_names = ["KIND", "SEED"], requires = "faults")]
    shrink: Vec<String>,
    /// How many are run at once.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Only tests that take so many seconds or less, which makes a kill rate a lower bound.
    #[arg(long, default_value_t = f64::MAX, hide_default_value = true)]
    each: f64,
    /// Forget what earlier runs over the same source found.
    #[arg(long)]
    anew: bool,
    /// Run none: say what is known of those chosen.
    #[arg(long)]
    known: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Keep the result under bench/results.
    #[arg(long)]
    keep: bool,
}

#[cfg(not(feature = "mutants"))]
pub(crate) fn chore(_: &Arguments) -> Result<()> {
    let mut again = crate::workspace::cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "mutants", "--"]);
    crate::command::run(again.args(std::env::args_os().skip(1)))
}

#[cfg(feature = "mutants")]
pub(crate) fn chore(arguments: &Arguments) -> Result<()> {
    use anyhow::Context;

    if arguments.faults {
        return faults::chore(arguments);
    }
    let mutants = list::all()?;
    std::fs::create_dir_all(tree::folder())?;
    let tree = tree::build("tree", &mutants)?;
    eprintln!(
        "{} mutants: {} with a switch, {} of constants, {} not viable",
        mutants.len(),
        tree.switched.len(),
        tree.constant.len(),
        tree.unviable.len()
    );
    let units = unit::all(&tree)?;
    let switched = mutants.iter().filter(|mutant| tree.switched.contains(&mutant.number));
    let mut chosen: Vec<_> = switched.filter(|mutant| arguments.names(&mutant.name)).collect();
    let seed = fnv(FNV_BASIS, &arguments.seed.to_le_bytes());
    chosen.sort_by_key(|mutant| fnv(seed, mutant.name.as_bytes()));
    chosen.truncate(arguments.sample.unwrap_or(usize::MAX));
    let results = tree::folder().join(format!("results-{}.jsonl", tree.hash));
    if arguments.anew && results.exists() {
        std::fs::remove_file(&results).with_context(|| results.display().to_string())?;
    }
    let verdicts = match arguments.known {
        true => judge::stored(&results),
        false => judge::judge(&chosen, &units, arguments.each, arguments.jobs.max(1), &results)?,
    };
    let report = report::Report::new(&mutants, &tree, &units, &chosen, &verdicts, arguments.seed);
    if arguments.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text());
    }
    if arguments.keep {
        keep("mutants", &report.json())?;
    }
    Ok(())
}

#[cfg(feature = "mutants")]
impl Arguments {
    /// Whether a mutant of this name is asked for.
    fn names(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }
}

/// Keeps a result under bench/results, with the day in its name.
#[cfg(feature = "mutants")]
fn keep(name: &str, text: &str) -> Result<()> {
    use anyhow::Context;

    let day = crate::command::output(std::process::Command::new("date").args(["-u", "+%F"]))?;
    let name = format!("bench/results/{name}-{}.json", day.trim());
    let path = crate::workspace::root().join(&name);
    std::fs::write(&path, format!("{text}\n")).with_context(|| name.clone())?;
    eprintln!("kept: {name}");
    Ok(())
}

/// What FNV-1a begins with.
#[cfg(feature = "mutants")]
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, mixed at its end, so that names that differ in their last letter lie far apart.
#[cfg(feature = "mutants")]
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
