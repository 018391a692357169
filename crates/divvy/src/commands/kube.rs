//! `divvy kube`: becomes `divvy-kube`, the program for Kubernetes, which lies beside this one or on `PATH`.
//!
//! Promises: what follows is that program's own, help and mistakes included; where there is none, the error says how it
//! gets there.
//!
//! Does not know what it can do.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::becoming::become_program;
use crate::machine::install;

/// Convert HAMi's manifests to resource claims.
///
/// The program divvy-kube does it, which lies beside this command or on PATH. `divvy kube --help` is its help, and lists
/// what it can do.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Command and its options: `divvy kube --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// # Errors
/// Where the program is missing or cannot be started; else this process is that program.
pub(crate) fn run(args: &Args) -> Result<u8> {
    match become_program(&program()?, args.arguments.iter().cloned())? {}
}

fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own file is not known")?;
    let beside = own.with_file_name(install::KUBE);
    if beside.is_file() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
    };
    // A folder without a leading slash is whatever folder this is called in.
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let Some(found) = folders.map(|folder| folder.join(install::KUBE)).find(is_program) else {
        bail!(
            "{} is missing, and PATH has no {}; build it in Divvy's sources (cargo build --release -p {}), and put \
             it there",
            beside.display(),
            install::KUBE,
            install::KUBE
        );
    };
    Ok(found)
}
