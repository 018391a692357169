//! Zig's compiler and linker, from Python packages whose versions and hashes `packaging/zig.txt` has.
//!
//! They lie in the target directory, with their caches. Promises: nothing outside of it is written.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::arguments::Arch;
use crate::command::run;
use crate::workspace::{root, target};

/// The oldest glibc that what is released starts on; of both processors, arm64 having none before.
pub(super) const GLIBC: (u32, u32) = (2, 17);

/// The installed tools.
#[derive(Debug)]
pub(super) struct Zig(PathBuf);

impl Zig {
    /// Installs what is listed, where it is not there yet.
    ///
    /// # Errors
    /// When pip cannot fetch it.
    pub(super) fn installed() -> Result<Self> {
        let list = root().join("packaging/zig.txt");
        let zig = Self(target().join("zig"));
        let (wanted, done) = (fs::read(&list)?, zig.0.join("installed.txt"));
        if fs::read(&done).is_ok_and(|there| there == wanted) {
            return Ok(zig);
        }
        eprintln!("fetching ziglang and cargo-zigbuild");
        let mut venv = Command::new("python3");
        run(venv.args(["-m", "venv", "--clear"]).arg(&zig.0))?;
        let mut pip = Command::new(zig.0.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary=:all:", "--require-hashes", "--requirement"]).arg(&list);
        run(&mut pip).context("ziglang and cargo-zigbuild could not be fetched with pip")?;
        fs::write(&done, wanted)?;
        Ok(zig)
    }

    /// Name of the target as both tools have it, with the glibc that is linked against.
    fn target(arch: Arch, separator: &str) -> String {
        format!("{}{separator}.{}.{}", arch.name(), GLIBC.0, GLIBC.1)
    }

    /// The C compiler for glibc of `arch`.
    pub(super) fn cc(&self, arch: Arch) -> Command {
        self.cc_for(&Self::target(arch, "-linux-gnu"))
    }

    /// The C compiler for programs of `arch` that bring all they need.
    pub(super) fn static_cc(&self, arch: Arch) -> Command {
        let mut cc = self.cc_for(&format!("{}-linux-musl", arch.name()));
        cc.arg("-static");
        cc
    }

    fn cc_for(&self, target: &str) -> Command {
        let mut cc = Command::new(self.0.join("bin/python"));
        cc.args(["-m", "ziglang", "cc", "-target", target]);
        self.caches(&mut cc);
        cc
    }

    /// Has `cargo` build for `arch`: by the subcommand that links with Zig.
    pub(super) fn build(&self, cargo: &mut Command, arch: Arch) -> Result<()> {
        let mut path = OsString::from(self.0.join("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        cargo.arg("zigbuild").arg("--target").arg(Self::target(arch, "-unknown-linux-gnu"));
        cargo.env("PATH", path).env("CARGO_ZIGBUILD_CACHE_DIR", self.cache());
        self.caches(cargo);
        Ok(())
    }

    fn caches(&self, command: &mut Command) {
        command.env("ZIG_GLOBAL_CACHE_DIR", self.cache()).env("ZIG_LOCAL_CACHE_DIR", self.cache());
    }

    fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }
}
