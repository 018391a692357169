//! The suite of metrics: what a daemon serves and what is deployed beside it, by the parsers of Prometheus and Grafana.
//!
//! An end-to-end test leaves the pages that were served while two tenants took turns; `tests/metrics`, a module of Go, and
//! `promtool` judge them, the rules of alerts and the dashboard. Promises: what is not there, Go, its modules or
//! `promtool`, is a counted skip, never a pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::checks::{check, run_tests};
use super::golang::GoModule;
use super::tally::Tally;
use crate::clients;
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
    let variables = [("DIVVY_PAGES", pages.clone())];
    GoModule { folder: "tests/metrics", variables: &variables, arguments: &[] }.test(tally)?;
    promtool(tally, &pages)
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
