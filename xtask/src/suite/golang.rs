//! Modules of Go: tests that are written against other people's own code, where that is in Go.
//!
//! Promises: each of their tests is one of ours, and so is each subtest; where Go or a module is missing, the module is one
//! counted skip, with the reason. Fetches modules, never a toolchain.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::tally::Tally;
use crate::command::lines;
use crate::workspace::root;

/// A module's folder below the root, and variables that its tests read.
#[derive(Debug)]
pub(super) struct GoModule<'a> {
    pub(super) folder: &'a str,
    pub(super) variables: &'a [(&'a str, PathBuf)],
    /// Arguments of `go test`.
    pub(super) arguments: &'a [&'a str],
}

impl GoModule<'_> {
    fn go(&self, arguments: &[&str]) -> Command {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(root().join(self.folder));
        // Another toolchain is not fetched behind anybody's back.
        go.env("GOTOOLCHAIN", "local");
        go.envs(self.variables.iter().map(|(name, value)| (name, value)));
        go
    }

    /// The reason why it cannot run, or nothing.
    fn missing(&self) -> Result<Option<String>> {
        let Ok(version) = self.go(&["version"]).output() else {
            return Ok(Some("there is no go; install golang".to_owned()));
        };
        if !version.status.success() {
            return Ok(Some("go does not say its version".to_owned()));
        }
        let fetched = self.go(&["mod", "download"]).output().context("go mod download")?;
        if fetched.status.success() {
            return Ok(None);
        }
        let why = String::from_utf8_lossy(&fetched.stderr);
        let why = why.lines().next().unwrap_or_default();
        Ok(Some(format!("its modules cannot be had: {why}")))
    }

    /// Compiles its tests; where something is missing, [`Self::test`] says so.
    pub(super) fn build(&self, tally: &mut Tally) -> Result<()> {
        if self.missing()?.is_some() {
            return Ok(());
        }
        let mut build = self.go(&["test", "-count=1", "-run", "^$"]);
        let status = build.args(self.arguments).arg("./...").status().context("go test")?;
        tally.check(&format!("build of {}", self.folder), status.success());
        Ok(())
    }

    /// Runs its tests.
    pub(super) fn test(&self, tally: &mut Tally) -> Result<()> {
        let skip =
            |tally: &mut Tally, why: &str| tally.skipped.push(format!("{}: {why}", self.folder));
        if let Some(why) = self.missing()? {
            skip(tally, &why);
            return Ok(());
        }
        let before = tally.passed + tally.failed.len();
        let mut test = self.go(&["test", "-count=1", "-v"]);
        test.args(self.arguments).arg("./...");
        let status = lines(&mut test, |line| {
            // Subtests stand indented below theirs.
            let words = line.trim_start();
            if let Some(name) = words.strip_prefix("--- PASS: ") {
                tally.check(name, true);
            } else if let Some(name) = words.strip_prefix("--- FAIL: ") {
                tally.check(name, false);
            } else if let Some(name) = words.strip_prefix("--- SKIP: ") {
                skip(tally, name);
            } else {
                println!("{line}");
            }
        })?;
        let has_run = tally.passed + tally.failed.len() > before;
        tally.check(&format!("go test in {}", self.folder), status.success() && has_run);
        Ok(())
    }
}
