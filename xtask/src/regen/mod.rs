//! `cargo xtask regen`: makes `crates/driver-api/src/generated/` anew from NVIDIA's headers.
//!
//! Promises: the same headers give the same bytes; an entry point without a line in
//! `crates/driver-api/effects.txt` stops it with its name; a signature that differs between two
//! headers under one symbol stops it with both. Header files come from the PyPI packages named in
//! [`crate::headers`]; nothing of their prose is kept.
//!
//! Does not decide anything: what Divvy does with a call stands in `effects.txt` alone.

mod effects;
mod emit;
mod introduced;
mod read;

use std::path::Path;

use anyhow::{Context, Result};

use crate::headers::{self, Header};

/// Regenerates the table under `root`, fetching headers when they are not there yet.
pub(crate) fn run(root: &Path) -> Result<()> {
    let cuda = headers::cuda(root)?;
    let nvml = headers::nvml(root)?;
    let stubs = root.join("xtask/stub-headers");
    let api = root.join("crates/driver-api");
    let exports = std::fs::read_to_string(api.join("exports-580.txt"))
        .context("crates/driver-api/exports-580.txt")?;
    let out = api.join("src/generated");
    std::fs::create_dir_all(&out)?;

    let driver = union(&cuda, &stubs, read::Flavour::Cuda)?;
    let rules = effects::load(&api.join("effects.txt"))?;
    let introduced = introduced::Introduced::load(&cuda)?;
    emit::driver(&driver, &rules, &introduced, &exports, &out)?;
    let management = union(&nvml, &stubs, read::Flavour::Nvml)?;
    let rules = effects::load(&api.join("effects-nvml.txt"))?;
    emit::nvml(&management, &rules, &out)?;
    println!("{} driver and {} NVML entry points", driver.entries.len(), management.entries.len());
    Ok(())
}

fn union(headers: &[Header], stubs: &Path, flavour: read::Flavour) -> Result<read::Surface> {
    let mut all = read::Surface::default();
    // Newest first: a type that changed is taken in its newest form.
    for header in headers.iter().rev() {
        println!("reading {}", header.version);
        all.absorb(read::header(header, stubs, flavour)?)?;
    }
    Ok(all)
}
