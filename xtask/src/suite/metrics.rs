//! The suite of metrics: what a daemon serves and what is deployed beside it, by the parsers of Prometheus and Grafana.
//!
//! An end-to-end test leaves the pages that were served while two tenants took turns; `tests/metrics`, a module of Go, and
//! `promtool` judge them, the rules of alerts and the dashboard. Promises: what is not there, Go, its modules or
//! `promtool`, is a counted skip, never a pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::checks::{check, run_tests};
use super::tally::Tally;
use crate::clients;
use crate::command::lines;
use crate::stage;
use crate::workspace::{cargo, root, target};

/// The test that leaves the pages.
const TEST: &str = "pages::both_formats_are_served_while_two_tenants_take_turns";

pub(super) fn suite(tally: &mut Tally) -> Result<()> {
    let pages = target().join("pages");
    // Those of an earlier run prove nothing.
    if pages.exists() {
        std::fs::remove_dir_all(&pages).with_context(|| pages.display().to_string())?;
    }
    let stage = stage::build(clients::ALL)?;
    let mut test = cargo();
    test.args(["test", "--package", "divvy-tests", "--test", "e2e", TEST]);
    test.env("DIVVY_PAGES", &pages);
    run_tests(tally, &mut test, Some(&stage))?;
    go(tally, &pages)?;
    promtool(tally, &pages)
}

/// The tests in Go, each a test of ours.
fn go(tally: &mut Tally, pages: &Path) -> Result<()> {
    let folder = root().join("tests/metrics");
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(&folder).env("DIVVY_PAGES", pages);
        // Another toolchain is not fetched behind anybody's back.
        go.env("GOTOOLCHAIN", "local");
        go
    };
    let skip =
        |tally: &mut Tally, why: &str| tally.skipped.push(format!("metrics, parsers in Go: {why}"));
    let Ok(version) = go(&["version"]).output() else {
        skip(tally, "there is no go; install golang");
        return Ok(());
    };
    if !version.status.success() {
        skip(tally, "go does not say its version");
        return Ok(());
    }
    let fetched = go(&["mod", "download"]).output().context("go mod download")?;
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr);
        let why = why.lines().next().unwrap_or_default();
        skip(tally, &format!("its modules cannot be had: {why}"));
        return Ok(());
    }
    let before = tally.passed + tally.failed.len();
    let mut test = go(&["test", "-count=1", "-v", "./..."]);
    let status = lines(&mut test, |line| {
        if let Some(name) = line.strip_prefix("--- PASS: ") {
            tally.check(name, true);
        } else if let Some(name) = line.strip_prefix("--- FAIL: ") {
            tally.check(name, false);
        } else if let Some(name) = line.strip_prefix("--- SKIP: ") {
            skip(tally, name);
        } else {
            println!("{line}");
        }
    })?;
    let has_run = tally.passed + tally.failed.len() > before;
    tally.check("go test in tests/metrics", status.success() && has_run);
    Ok(())
}

/// Prometheus' own tool: on PATH, or where `.ci/run` has put it.
fn promtool(tally: &mut Tally, pages: &Path) -> Result<()> {
    let own = target().join("tools/promtool");
    let tool = if own.exists() { own } else { PathBuf::from("promtool") };
    if !Command::new(&tool).arg("--version").output().is_ok_and(|told| told.status.success()) {
        tally.skipped.push(
            "metrics, promtool: there is none on PATH; `apt-get install prometheus` brings it"
                .to_owned(),
        );
        return Ok(());
    }
    let deploy = root().join("deploy");
    check(tally, Command::new(&tool).args(["check", "rules"]).arg(deploy.join("alerts.yml")))?;
    check(tally, Command::new(&tool).args(["test", "rules"]).arg(deploy.join("alerts_test.yml")))?;
    let page =
        std::fs::File::open(pages.join("plain.txt")).context("the page that a daemon served")?;
    check(tally, Command::new(&tool).args(["check", "metrics"]).stdin(Stdio::from(page)))
}
