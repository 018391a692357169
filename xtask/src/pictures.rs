//! `cargo xtask pictures`: the plots and the screen that the documentation shows, below `docs/pictures`.
//!
//! Plots are drawn by the benchmarks out of stored results, the screen by `divvy top` out of the cells it gives a
//! terminal; both by tests, which fail where a committed picture is another. This writes them again, and with `--check`
//! runs the tests alone. Promises: a picture that no test writes is gone afterwards. Draws nothing itself.

use std::fs;

use anyhow::{Context, Result};

use crate::command::run;
use crate::workspace::{cargo, root, shown};

/// Tests that draw: the package, its target, and the module they are in.
const DRAWN: [[&str; 3]; 2] =
    [["divvy-bench", "--bins", "pictures::"], ["divvy", "--lib", "top::tests::recording::"]];

/// Whether they are written or compared.
#[derive(clap::Args, Debug)]
pub(crate) struct Pictures {
    /// Write nothing; fail where a committed picture is not what would be written.
    #[arg(long)]
    check: bool,
}

pub(crate) fn chore(wanted: &Pictures) -> Result<()> {
    let folder = root().join("docs/pictures");
    if !wanted.check && folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for [package, target, module] in DRAWN {
        let mut test = cargo();
        test.args(["test", "--quiet", "--package", package, target, "--", module]);
        if !wanted.check {
            test.env("DIVVY_GOLDEN", "write");
        }
        run(&mut test)?;
    }
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut pictures = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    pictures.sort();
    pictures.iter().for_each(|picture| println!("{}", shown(picture)));
    Ok(())
}
