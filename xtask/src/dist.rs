//! `cargo xtask dist`: a folder that runs where there is no toolchain.
//!
//! The staged tree, plus the compiled C clients, the GPU scripts and the conformance programs with
//! their sources. Promises: nothing in it refers back to the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::clients;
use crate::command::run;
use crate::headers;
use crate::stage::{self, place};
use crate::workspace::{root, target};

/// Folders of the checkout that go along as they are.
const SOURCES: [&str; 5] =
    ["tests/gpu", "tests/conformance", "tests/startup", "tests/clients", "bench/clients"];
/// Single files that go along.
const FILES: [&str; 2] = ["LICENSE", "README.md"];

pub(crate) fn chore(out: Option<PathBuf>) -> Result<()> {
    let out = out.unwrap_or_else(|| target().join("dist"));
    let stage = stage::build(clients::ALL)?;
    if out.exists() {
        // Only a folder that an earlier run made is cleared.
        if !out.join("bin/divvy").exists() && fs::read_dir(&out)?.next().is_some() {
            bail!("{} is not empty and no earlier dist; name another folder", out.display());
        }
        fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
    }
    copy(stage.path(), &out)?;
    conformance(&out)?;
    for folder in SOURCES {
        let from = root().join(folder);
        if from.exists() {
            copy(&from, &out.join(folder))?;
        }
    }
    for file in FILES {
        place(&root().join(file), &out.join(file))?;
    }
    for library in ["sim/libcuda.so.1", "sim/libnvidia-ml.so.1"] {
        run(Command::new("strip").arg("--strip-unneeded").arg(out.join(library)))?;
    }
    library(stage.path(), &out)?;
    println!("{}", out.display());
    Ok(())
}

/// Installs the staged library, stripped: its name says what it holds, so it is stripped before. Those of
/// earlier builds, which the staged tree keeps, stay behind.
fn library(stage: &Path, out: &Path) -> Result<()> {
    fs::remove_dir_all(out.join("lib"))?;
    let stripped = target().join("libdivvy.dist.so");
    let staged = stage.join("lib/libdivvy.so");
    run(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(&stripped).arg(staged))?;
    stage::install_shim(out, &stripped)?;
    stage::link_parts(out)
}

/// Compiles the conformance programs, so that the machine with the GPU needs no compiler.
fn conformance(out: &Path) -> Result<()> {
    let script = root().join("tests/conformance/build.sh");
    if !script.exists() {
        return Ok(());
    }
    let headers = headers::client_includes(root())?;
    let cuda = headers.first().context("the driver's headers come first")?;
    run(Command::new("sh").arg(script).arg(cuda).arg(out.join("conformance")))
}

/// Copies a folder; links stay links, and Python's caches stay behind.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if entry.file_name() != "__pycache__" {
                copy(&source, &target)?;
            }
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)
                .with_context(|| target.display().to_string())?;
        } else {
            place(&source, &target)?;
        }
    }
    Ok(())
}
