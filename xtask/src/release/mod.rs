//! `cargo xtask release`: what users install, made from one commit.
//!
//! For each processor a tarball, a deb and an rpm, all of one tree (`layout`); an image of both; a list of what is
//! in them (`sbom`) and of their sums. Programs are linked by Zig's linker against glibc 2.17 (`cross`).
//!
//! Promises: the same commit gives the same bytes, wherever and by whom it is built (`twice` shows it on one machine); no
//! program asks for a newer glibc, else there is no release. Signs nothing and uploads nothing.
//!
//! Archives need crates that nothing else here does, so they are behind the feature `release`; without it this binary
//! starts cargo once more with the feature on.

mod arguments;
#[cfg(feature = "release")]
mod commit;
#[cfg(feature = "release")]
mod cross;
#[cfg(feature = "release")]
mod deb;
#[cfg(feature = "release")]
mod floor;
#[cfg(feature = "release")]
mod image;
#[cfg(feature = "release")]
mod layout;
#[cfg(feature = "release")]
mod make;
#[cfg(feature = "release")]
mod rpm;
#[cfg(feature = "release")]
mod sbom;
#[cfg(feature = "release")]
mod sums;
#[cfg(feature = "release")]
mod tree;
#[cfg(feature = "release")]
mod twice;
#[cfg(feature = "release")]
mod zig;

use anyhow::Result;

pub(crate) use arguments::Arguments;

#[cfg(not(feature = "release"))]
pub(crate) fn chore(_: &Arguments) -> Result<()> {
    let mut again = crate::workspace::cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "release", "--"]);
    crate::command::run(again.args(std::env::args_os().skip(1)))
}

#[cfg(feature = "release")]
pub(crate) fn chore(arguments: &Arguments) -> Result<()> {
    use crate::workspace::{root, target};

    if arguments.fetch {
        return zig::Zig::installed().map(drop);
    }
    let out = arguments.out.clone().unwrap_or_else(|| target().join("release-artefacts"));
    let commit = commit::Commit::head(root())?;
    if !commit.is_clean {
        eprintln!("files differ from the commit: these artefacts are nobody else's");
    }
    let checkout =
        cross::Checkout { root: root().to_owned(), target: target().join("release-build") };
    let made = make::all(&checkout, &commit, &arguments.arch)?;
    if arguments.twice {
        twice::compare(&made, &commit, &arguments.arch)?;
    }
    make::write(&made, &out)?;
    println!("{}", out.display());
    Ok(())
}
