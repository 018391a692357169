//! `cargo xtask mutants`: whether the searcher notices when policy's gates, turns and pace are wrong.
//!
//! The mutants are cargo-mutants' (`list`). They are compiled once, all of them, each behind a switch (`switch`,
//! `edits`) in a copy of what the searcher is made of (`tree`); the searcher's own tests are then run with one
//! switch on at a time (`unit`, `judge`), and what came of it is counted (`report`).
//!
//! With `--whole` all of policy and page is changed, and their own tests judge as well (`scope`).
//!
//! Promises: no test judges but those of the scope; the same seed takes the same sample, and a longer one begins
//! with a shorter one; a run goes on where another of the same source was interrupted. Does not say why a mutant
//! survives: docs/mutants.md does.
//!
//! With `--faults` what is switched on is written by hand (`planted`): each fault in the test that must find it
//! (`faults`).
//!
//! Parsing Rust needs what nothing else here does, so it is behind the feature `mutants`; without it this binary starts
//! cargo once more with the feature on.

mod arguments;
#[cfg(feature = "mutants")]
mod edits;
#[cfg(feature = "mutants")]
mod faults;
#[cfg(feature = "mutants")]
mod fnv;
#[cfg(feature = "mutants")]
mod judge;
#[cfg(feature = "mutants")]
mod keep;
#[cfg(feature = "mutants")]
mod list;
#[cfg(feature = "mutants")]
mod planted;
#[cfg(feature = "mutants")]
mod report;
#[cfg(feature = "mutants")]
mod scope;
#[cfg(feature = "mutants")]
mod switch;
#[cfg(feature = "mutants")]
mod tree;
#[cfg(feature = "mutants")]
mod unit;

use anyhow::Result;

pub(crate) use arguments::Arguments;

#[cfg(not(feature = "mutants"))]
pub(crate) fn chore(_: &Arguments) -> Result<()> {
    let mut again = crate::workspace::cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "mutants", "--"]);
    crate::command::run(again.args(std::env::args_os().skip(1)))
}

#[cfg(feature = "mutants")]
pub(crate) fn chore(arguments: &Arguments) -> Result<()> {
    use anyhow::Context;
    use fnv::{FNV_BASIS, fnv};

    if arguments.faults {
        return faults::chore(arguments);
    }
    let scope = if arguments.whole { scope::Scope::Whole } else { scope::Scope::Share };
    let mutants = list::all(scope)?;
    std::fs::create_dir_all(tree::folder())?;
    let tree = tree::build(scope.name(), scope, &mutants)?;
    eprintln!(
        "{} mutants: {} with a switch, {} of constants, {} not viable",
        mutants.len(),
        tree.switched.len(),
        tree.constant.len(),
        tree.unviable.len()
    );
    let units = unit::all(&tree, arguments.each)?;
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
        keep::keep(scope.name(), &report.json())?;
    }
    Ok(())
}
