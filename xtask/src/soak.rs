//! `cargo xtask soak`: the random-kill test, for long.
//!
//! CI runs the same end-to-end test with a few hundred kills; here the number is the caller's and
//! the result is kept under `bench/results`.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{output, run};
use crate::workspace::{cargo, root, shown, target};
use crate::{clients, stage};

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
    let day = output(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let kept = root().join("bench/results").join(format!("soak-{}.json", day.trim()));
    fs::copy(&partial, &kept).with_context(|| kept.display().to_string())?;
    println!("{kills} kills, nothing left behind: {}", shown(&kept));
    Ok(())
}
