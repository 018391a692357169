//! `cargo xtask soak`: the random-kill test, for long; `cargo xtask soak share`: the searcher, for long; `cargo xtask soak
//! handovers`: memory that leaves the card and comes back, for long.
//!
//! CI runs the same end-to-end tests with a few hundred kills and hand-overs, and the searcher with a few seeds; here the
//! number is the caller's and the result is kept under `bench/results`, the searcher's with a plot of its worst cases
//! beside it.

mod plot;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{output, run};
use crate::workspace::{cargo, root, shown, target};
use crate::{clients, stage};

/// Chores that take long.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Of {
    /// Run drawn programs in simulated time, and list those whose shares are farthest off.
    Share(Range),
    /// Let two tenants have the card by turns, compare every byte after each hand-over, and store how many there were.
    Handovers(Handovers),
}

/// How many hand-overs.
#[derive(clap::Args, Debug)]
pub(crate) struct Handovers {
    /// How many.
    #[arg(long, default_value_t = 10_000)]
    count: u32,
    /// For so long at most, however many that are; the result says how many there were to be.
    #[arg(long)]
    minutes: Option<f64>,
}

/// Which seeds.
#[derive(clap::Args, Debug)]
pub(crate) struct Range {
    /// How many; each is a lone tenant, two cases of tenants beside each other and 150 short ones.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// For so long instead, whatever `--seeds` says.
    #[arg(long)]
    hours: Option<f64>,
    /// Only tenants' memory.
    #[arg(long)]
    memory: bool,
    /// Make what fails small instead, and keep it: short, mixed, lone, beside or caps and a seed, or case and a file.
    #[arg(long, num_args = 2, value_names = ["KIND", "SEED"])]
    shrink: Vec<String>,
    /// Draw the worst cases of a stored result instead, as SVG beside it.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The kept case that a shrinker writes; its test reads the environment ([`shrink`]).
const SHRINKER: &str = "what_fails_is_made_small";

/// Has a test binary make what fails small, and keeps it among the searcher's cases.
///
/// `search` begins the test `kept`; `fault` is the number and name of the planted fault with which alone it fails.
pub(crate) fn shrink(
    mut search: std::process::Command,
    what: &[String],
    fault: Option<(u32, &str)>,
) -> Result<()> {
    let [kind, which] = what else { bail!("--shrink takes a kind and a seed or file") };
    let commit = output(std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]))?;
    // A file's name, whatever a fault is called.
    let part = |text: &str| -> String {
        let stem = Path::new(text).file_stem().unwrap_or_default().to_string_lossy();
        stem.replace(|one: char| !one.is_alphanumeric(), "-")
    };
    let name = match (kind.as_str(), fault) {
        ("case", _) => part(which),
        (_, Some((_, fault))) => part(fault),
        (_, None) => format!("{kind}-{}", part(which)),
    };
    let kept = root().join("crates/searcher/cases").join(name + ".json");
    let which = std::path::absolute(which).ok().filter(|_| kind == "case");
    let asked = which.map_or_else(|| what.join(" "), |path| format!("case {}", path.display()));
    search.args(["--exact", SHRINKER, "--nocapture"]);
    search.env("DIVVY_SHRINK", asked).env("DIVVY_RESULT", &kept);
    search.env("DIVVY_COMMIT", commit.trim());
    if let Some((number, name)) = fault {
        search.env("DIVVY_FAULT", number.to_string()).env("DIVVY_FAULT_NAME", name);
    }
    run(&mut search)?;
    println!("kept: {}; say in it what it found", shown(&kept));
    Ok(())
}

pub(crate) fn share(range: &Range) -> Result<()> {
    if let Some(stored) = &range.plot {
        return draw(stored);
    }
    if !range.shrink.is_empty() {
        let mut search = cargo();
        search.args(["test", "--package", "divvy-searcher", "--test", "kept", "--"]);
        return shrink(search, &range.shrink, None);
    }
    let partial = target().join("soak-share.json");
    if partial.exists() {
        fs::remove_file(&partial).with_context(|| partial.display().to_string())?;
    }
    let mut search = cargo();
    search.args(["test", "--profile", "soak", "--package", "divvy-searcher", "--test", "soak"]);
    search.args(["--", "--nocapture"]);
    let (name, result) = match range.memory {
        true => ("soak-memory", "DIVVY_MEMORY_RESULT"),
        false => ("soak-share", "DIVVY_RESULT"),
    };
    search.env(result, &partial).env("FROM", range.from.to_string());
    match range.hours {
        Some(hours) => search.env("DIVVY_SECONDS", (hours * 3_600.0).to_string()),
        None => search.env("SEEDS", range.seeds.to_string()),
    };
    let searched = run(&mut search);
    if partial.exists() {
        let kept = kept(name, &partial)?;
        println!("what was searched, and the worst of it: {}", shown(&kept));
        draw(&kept)?;
    }
    searched
}

/// Draws the worst cases of a stored result beside it.
fn draw(stored: &Path) -> Result<()> {
    let text = fs::read_to_string(stored).with_context(|| stored.display().to_string())?;
    let result = serde_json::from_str(&text).with_context(|| stored.display().to_string())?;
    let name = stored.file_name().unwrap_or_default().to_string_lossy();
    let drawn = stored.with_extension("svg");
    fs::write(&drawn, plot::svg(&result, &name)?).with_context(|| drawn.display().to_string())?;
    println!("drawn: {}", shown(&drawn));
    Ok(())
}

/// Keeps a result under `bench/results`, with the day in its name.
fn kept(name: &str, partial: &Path) -> Result<PathBuf> {
    let day = output(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let kept = root().join("bench/results").join(format!("{name}-{}.json", day.trim()));
    fs::copy(partial, &kept).with_context(|| kept.display().to_string())?;
    Ok(kept)
}

/// The end-to-end test that kills; it reads `DIVVY_KILLS` and writes `DIVVY_RESULT`.
pub(crate) const TEST: &str = "kill::random_kills_leave_nothing";

/// The end-to-end test of hand-overs; it reads `DIVVY_HANDOVERS` and `DIVVY_SECONDS`, and writes `DIVVY_RESULT`.
const HANDOVERS: &str = "handovers::every_byte_survives_hand_overs";

/// Plays an end-to-end test with these settings: what it wrote, and in which file.
fn played(test: &str, settings: &[(&str, String)]) -> Result<(Value, PathBuf)> {
    let stage = stage::build(clients::ALL)?;
    let partial = target().join("soak.json");
    if partial.exists() {
        fs::remove_file(&partial).with_context(|| partial.display().to_string())?;
    }
    run(cargo()
        .args(["test", "--package", "divvy-tests", "--test", "e2e", "--"])
        .args(["--exact", test, "--nocapture"])
        .env("DIVVY_STAGE", stage.path())
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .env("DIVVY_RESULT", &partial))?;
    let Ok(text) = fs::read_to_string(&partial) else {
        bail!("{test} passed but wrote no result; is it still called that, and does it run here?");
    };
    Ok((serde_json::from_str(&text).context("the test's result")?, partial))
}

pub(crate) fn chore(kills: u32) -> Result<()> {
    let (result, partial) = played(TEST, &[("DIVVY_KILLS", kills.to_string())])?;
    let done = result.get("kills").and_then(Value::as_u64).unwrap_or(0);
    if done < u64::from(kills) {
        bail!("only {done} of {kills} processes were killed before the test's time was up");
    }
    let kept = kept("soak", &partial)?;
    println!("{kills} kills, nothing left behind: {}", shown(&kept));
    Ok(())
}

pub(crate) fn handovers(wanted: &Handovers) -> Result<()> {
    let mut settings = vec![("DIVVY_HANDOVERS", wanted.count.to_string())];
    if let Some(minutes) = wanted.minutes {
        settings.push(("DIVVY_SECONDS", format!("{:.0}", minutes * 60.0)));
    }
    let (result, partial) = played(HANDOVERS, &settings)?;
    let done = result.get("handovers").and_then(Value::as_u64).unwrap_or(0);
    let kept = kept("soak-handovers", &partial)?;
    println!("{done} of {} hand-overs, no byte lost: {}", wanted.count, shown(&kept));
    Ok(())
}
