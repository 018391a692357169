//! `cargo xtask soak`: the random-kill test, for long; `cargo xtask soak share`: the searcher, for long.
//!
//! CI runs the same end-to-end test with a few hundred kills, and the searcher with a few seeds; here the number is
//! the caller's and the result is kept under `bench/results`.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{output, run};
use crate::workspace::{cargo, root, shown, target};
use crate::{clients, stage};

/// What else is done for long.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Of {
    /// Run drawn programs in simulated time, and list those whose shares are farthest off.
    Share(Range),
}

/// Which seeds.
#[derive(clap::Args, Debug)]
pub(crate) struct Range {
    /// How many; each is a lone tenant, two cases of tenants beside each other and a hundred short ones.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// For so long instead, whatever `--seeds` says.
    #[arg(long)]
    hours: Option<f64>,
}

pub(crate) fn share(range: &Range) -> Result<()> {
    let partial = target().join("soak-share.json");
    if partial.exists() {
        fs::remove_file(&partial).with_context(|| partial.display().to_string())?;
    }
    let mut search = cargo();
    search.args(["test", "--package", "divvy-searcher", "--test", "soak", "--", "--nocapture"]);
    search.env("DIVVY_RESULT", &partial).env("FROM", range.from.to_string());
    match range.hours {
        Some(hours) => search.env("DIVVY_SECONDS", (hours * 3_600.0).to_string()),
        None => search.env("SEEDS", range.seeds.to_string()),
    };
    let searched = run(&mut search);
    if partial.exists() {
        let kept = kept("soak-share", &partial)?;
        println!("what was searched, and the worst of it: {}", shown(&kept));
    }
    searched
}

/// Keeps a result under `bench/results`, with the day in its name.
fn kept(name: &str, partial: &std::path::Path) -> Result<std::path::PathBuf> {
    let day = output(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let kept = root().join("bench/results").join(format!("{name}-{}.json", day.trim()));
    fs::copy(partial, &kept).with_context(|| kept.display().to_string())?;
    Ok(kept)
}

/// The end-to-end test that kills; it reads `DIVVY_KILLS` and writes `DIVVY_RESULT`.
pub(crate) const TEST: &str = "kill::random_kills_leave_nothing";

pub(crate) fn chore(kills: u32) -> Result<()> {
    let stage = stage::build(clients::ALL)?;
    let partial = target().join("soak.json");
    if partial.exists() {
        fs::remove_file(&partial).with_context(|| partial.display().to_string())?;
    }
    run(cargo()
        .args(["test", "--package", "divvy-tests", "--test", "e2e", "--"])
        .args(["--exact", TEST, "--nocapture"])
        .env("DIVVY_STAGE", stage.path())
        .env("DIVVY_KILLS", kills.to_string())
        .env("DIVVY_RESULT", &partial))?;
    let Ok(text) = fs::read_to_string(&partial) else {
        bail!("{TEST} passed but wrote no result; is it still called that, and does it run here?");
    };
    let result: Value = serde_json::from_str(&text).context("the test's result")?;
    let done = result.get("kills").and_then(Value::as_u64).unwrap_or(0);
    if done < u64::from(kills) {
        bail!("only {done} of {kills} processes were killed before the test's time was up");
    }
    let kept = kept("soak", &partial)?;
    println!("{kills} kills, nothing left behind: {}", shown(&kept));
    Ok(())
}
