//! The suite of Kubernetes: `tests/kube`, a module of Go that runs a control plane and a kubelet's parts in its own process, and
//! `tests/helm`, another, with Helm's own code for the chart.
//!
//! Promises: the agent and the daemon that it starts are of these sources; where Go or its modules are missing, that is one
//! counted skip. Building Kubernetes takes minutes once, and what Go keeps of it is used again.

use std::path::PathBuf;

use anyhow::Result;

use super::golang::GoModule;
use super::tally::Tally;
use crate::clients;
use crate::stage;

/// A compiler of the largest packages takes a gigabyte; vet would look at all of Kubernetes; what hangs is not waited for.
const ARGUMENTS: [&str; 5] = ["-p", "2", "-vet=off", "-timeout", "30m"];

pub(super) fn suite(tally: &mut Tally) -> Result<()> {
    GoModule { folder: "tests/helm", variables: &[], arguments: &ARGUMENTS }.test(tally)?;
    cluster(tally, &[], &[])
}

/// Compiles those tests, for as long as Go keeps that: minutes, in which nothing waits for a clock.
pub(super) fn build(tally: &mut Tally) -> Result<()> {
    for folder in ["tests/helm", "tests/kube"] {
        GoModule { folder, variables: &[], arguments: &ARGUMENTS }.build(tally)?;
    }
    Ok(())
}

/// A name on the command line, and what it does.
type Named = (&'static str, fn(&mut Tally) -> Result<()>);

/// The same tests with other versions of Kubernetes, as far as those have what they need: the oldest that the agent is for, and the
/// newest that these tests know. Each has a file of modules and a build tag, which its version names.
pub(super) const BY_NAME: [Named; 2] =
    [("oldest", |tally| version(tally, "1.35")), ("newest", |tally| version(tally, "1.37"))];

fn version(tally: &mut Tally, version: &str) -> Result<()> {
    let modules = PathBuf::from(format!("-modfile=go-{version}.mod"));
    let tag = format!("kubernetes{}", version.replace('.', ""));
    cluster(tally, &[("GOFLAGS", modules)], &["-tags", &tag])
}

fn cluster(tally: &mut Tally, more: &[(&str, PathBuf)], arguments: &[&str]) -> Result<()> {
    let stage = stage::build(clients::BENCH)?;
    let mut variables = vec![
        ("DIVVY_KUBE", stage.path().join("bin/divvy-kube")),
        ("DIVVY_STAGE", stage.path().to_path_buf()),
    ];
    variables.extend_from_slice(more);
    let arguments = [&ARGUMENTS, arguments].concat();
    GoModule { folder: "tests/kube", variables: &variables, arguments: &arguments }.test(tally)
}
