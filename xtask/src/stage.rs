//! The staged tree: what a user would have installed, built from this checkout.
//!
//! ```text
//! bin/divvy, bin/divvy-bench, bin/divvy-kube
//! lib/divvy/libdivvy-VERSION-CONTENT.so, lib/divvy/libdivvy.so -> the newest of them
//! lib/{libdivvy,libvgpu,libnvshare}.so   links to that
//! sim/libcuda.so.1, sim/libnvidia-ml.so.1, sim/simgpud
//! clients/<name>                    C programs of tests/clients and bench/clients
//! lib/divvy/{sim,clients}           links: where an installed `divvy` looks for them
//! ```
//!
//! Promises: everything in it comes from the sources as they are now; the end-to-end tests, the
//! demo, the budgets and `dist` all use this one layout. The shim is built in a cargo invocation of
//! its own, because features that other packages ask of shared crates must not reach it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::clients;
use crate::command::run;
use crate::workspace::{cargo, target};

/// The command and the programs it starts: packages, each with a program of its name.
const PROGRAMS: [&str; 3] = ["divvy", "divvy-bench", "divvy-kube"];

/// The profile of [`build_for_demo`], which is also the folder that cargo builds it in.
const DEMO: &str = "demo";

/// A staged tree.
#[derive(Clone, Debug)]
pub(crate) struct Stage(PathBuf);

impl Stage {
    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The command-line program.
    pub(crate) fn divvy(&self) -> PathBuf {
        self.0.join("bin/divvy")
    }
}

/// Builds everything in release mode, with the C programs of the folders `programs`, and lays it out
/// below the target directory.
pub(crate) fn build(programs: &[&str]) -> Result<Stage> {
    let stage = Stage(target().join("stage"));
    let built = target().join("release");
    build_shim()?;
    run(&mut others())?;
    for program in PROGRAMS {
        place(&built.join(program), &stage.0.join("bin").join(program))?;
    }
    lay_simulator(&built, &stage)?;
    install_shim(&stage.0, &built.join("libdivvy.so"))?;
    link_parts(&stage.0)?;
    clients::build(&stage.0, programs)?;
    Ok(stage)
}

/// Builds what the demonstration starts, and no more: quickly rather than for speed, and with cargo's progress.
pub(crate) fn build_for_demo() -> Result<Stage> {
    let stage = Stage(target().join("stage-demo"));
    let built = target().join(DEMO);
    let build = |packages: &[&str]| {
        let mut build = cargo();
        build.args(["build", "--profile", DEMO, "--target-dir"]).arg(target());
        packages.iter().for_each(|package| {
            build.args(["--package", package]);
        });
        run(build.env_remove("DIVVY_UNHOOK"))
    };
    build(&["divvy-shim"])?;
    build(&["divvy", "simgpu", "simgpu-cuda", "simgpu-nvml"])?;
    place(&built.join("divvy"), &stage.divvy())?;
    lay_simulator(&built, &stage)?;
    install_shim(&stage.0, &built.join("libdivvy.so"))?;
    link_parts(&stage.0)?;
    clients::build(&stage.0, clients::BENCH)?;
    Ok(stage)
}

fn lay_simulator(built: &Path, stage: &Stage) -> Result<()> {
    place(&built.join("simgpud"), &stage.0.join("sim/simgpud"))?;
    place(&built.join("libsimcuda.so"), &stage.0.join("sim/libcuda.so.1"))?;
    place(&built.join("libsimnvml.so"), &stage.0.join("sim/libnvidia-ml.so.1"))
}

/// Builds the library alone, as it ships, and says where cargo put it.
pub(crate) fn build_shim() -> Result<PathBuf> {
    run(&mut shim(&target()))?;
    Ok(target().join("release/libdivvy.so"))
}

/// A second tree, whose library forwards `symbol` as if it had no hook for it.
///
/// The library is compiled anew for each symbol (its build script reads `DIVVY_UNHOOK`), so nothing
/// of this is in the one that ships.
pub(crate) fn build_without(whole: &Stage, symbol: &str) -> Result<Stage> {
    let stage = Stage(target().join("stage-unhook"));
    let programs = PROGRAMS.map(|program| format!("bin/{program}"));
    let simulator = ["sim/simgpud", "sim/libcuda.so.1", "sim/libnvidia-ml.so.1"];
    for part in programs.iter().map(String::as_str).chain(simulator) {
        place(&whole.0.join(part), &stage.0.join(part))?;
    }
    let clients = whole.0.join("clients");
    if clients.exists() {
        for client in fs::read_dir(&clients).with_context(|| clients.display().to_string())? {
            let client = client?;
            place(&client.path(), &stage.0.join("clients").join(client.file_name()))?;
        }
    }
    let own = target().join("unhook");
    link_parts(&stage.0)?;
    // A hook that nothing calls is dead code here, and meant to be.
    run(shim(&own).env("DIVVY_UNHOOK", symbol).env("RUSTFLAGS", "-Adead_code"))?;
    install_shim(&stage.0, &own.join("release/libdivvy.so"))?;
    Ok(stage)
}

fn shim(into: &Path) -> Command {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--package", "divvy-shim", "--target-dir"]);
    // Only [`build_without`] may leave a hook out.
    build.arg(into).env_remove("DIVVY_UNHOOK");
    build
}

fn others() -> Command {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--target-dir"]).arg(target());
    for package in PROGRAMS.into_iter().chain(["simgpu", "simgpu-cuda", "simgpu-nvml"]) {
        build.args(["--package", package]);
    }
    build
}

/// Installs `library` as users do: beside those that may still be mapped.
pub(crate) fn install_shim(stage: &Path, library: &Path) -> Result<()> {
    let mut install = Command::new(stage.join("bin/divvy"));
    install.args(["install", "--only-library"]).arg(stage).env("DIVVY_LIBRARY", library);
    run(install.stdout(Stdio::null()))
}

/// Links to where an installed `divvy` looks for them.
pub(crate) fn link_parts(stage: &Path) -> Result<()> {
    link("../../sim", &stage.join("lib/divvy/sim"))?;
    link("../../clients", &stage.join("lib/divvy/clients"))
}

fn link(to: &str, at: &Path) -> Result<()> {
    if fs::symlink_metadata(at).is_ok() {
        return Ok(());
    }
    let folder = at.parent().with_context(|| at.display().to_string())?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    std::os::unix::fs::symlink(to, at).with_context(|| at.display().to_string())
}

/// Puts a copy of `from` at `to`, never touching a file that a running process has mapped.
pub(crate) fn place(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("{} -> {}", from.display(), to.display());
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(what)?;
    }
    let mut name = to.file_name().with_context(what)?.to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = to.with_file_name(name);
    fs::copy(from, &new).with_context(what)?;
    fs::rename(&new, to).with_context(what)
}

/// `cargo xtask stage`: builds the tree; its path is the last line printed.
pub(crate) fn chore() -> Result<()> {
    let stage = build(clients::ALL)?;
    let path = stage.path().canonicalize().with_context(|| stage.path().display().to_string())?;
    println!("{}", path.display());
    Ok(())
}
