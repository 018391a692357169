//! The commit built again, in two directories of different names, and compared byte by byte.
//!
//! Shows that neither place, order nor time of a build is in the artefacts. Does not show that another machine makes
//! the same of another toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::arguments::Arch;
use super::commit::Commit;
use super::cross::Checkout;
use super::make::{self, Artefacts};
use crate::command::run;
use crate::workspace::{root, target};

/// Builds `commit` twice elsewhere; both, and `made`, must be the same.
///
/// # Errors
/// Names the first file that differs.
pub(super) fn compare(made: &Artefacts, commit: &Commit, archs: &[Arch]) -> Result<()> {
    ensure!(
        commit.is_clean,
        "files differ from the commit, which is what is built again: commit them"
    );
    for name in ["again", "once-more/in a deeper folder"] {
        let checkout = export(&target().join("release-twice").join(name), commit)?;
        eprintln!("the same in {}", checkout.root.display());
        let again = make::all(&checkout, commit, archs)?;
        for (name, bytes) in made {
            if again.get(name) != Some(bytes) {
                bail!("{name} differs in {}", checkout.root.display());
            }
        }
        println!("{} files are the same in {}", made.len(), checkout.root.display());
    }
    Ok(())
}

/// The commit's files in a new folder, with a target directory of its own.
fn export(folder: &Path, commit: &Commit) -> Result<Checkout> {
    let _ = std::fs::remove_dir_all(folder);
    let place = |name: &str| -> PathBuf { folder.join(name) };
    let sources = place("sources");
    std::fs::create_dir_all(&sources).with_context(|| sources.display().to_string())?;
    let archive = place("sources.tar");
    let mut git = Command::new("git");
    git.current_dir(root()).args(["archive", "--format=tar", "--output"]).arg(&archive);
    run(git.arg(&commit.hash))?;
    let bytes = std::fs::read(&archive)?;
    tar::Archive::new(&*bytes).unpack(&sources)?;
    Ok(Checkout { root: sources, target: place("target") })
}
