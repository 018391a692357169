//! The suite of Kubernetes: `tests/kube`, a module of Go that runs a control plane and a kubelet's parts in its own process, and
//! `tests/helm`, another, with Helm's own code for the chart.
//!
//! Promises: the agent and the daemon that it starts are of these sources; where Go or its modules are missing, that is one
//! counted skip. Building Kubernetes takes minutes once, and what Go keeps of it is used again.

use anyhow::Result;

use super::golang::GoModule;
use super::tally::Tally;
use crate::clients;
use crate::stage;

pub(super) fn suite(tally: &mut Tally) -> Result<()> {
    let stage = stage::build(clients::BENCH)?;
    let variables = [
        ("DIVVY_KUBE", stage.path().join("bin/divvy-kube")),
        ("DIVVY_STAGE", stage.path().to_path_buf()),
    ];
    // A compiler of the largest packages takes a gigabyte; vet would look at all of Kubernetes; what hangs is not waited for.
    let arguments = ["-p", "2", "-vet=off", "-timeout", "30m"];
    GoModule { folder: "tests/helm", variables: &[], arguments: &arguments }.test(tally)?;
    GoModule { folder: "tests/kube", variables: &variables, arguments: &arguments }.test(tally)
}
