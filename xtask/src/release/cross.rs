//! Builds of programs and libraries for a release: for a processor, against an old glibc, the same wherever they are built.
//!
//! The same bytes need the same compiler (the toolchain's and `packaging/zig.txt`'s) and no path in them: the checkout is
//! called `/divvy`, cargo's folder `/cargo`. Promises: what is built comes from the checkout that is given, in a target
//! directory that nothing else uses.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::arguments::Arch;
use super::commit::Commit;
use super::zig::Zig;
use crate::command::{output, run};
use crate::stage::place;
use crate::workspace::cargo;
use crate::{aarch64, budget, clients};

/// Programs, and the simulated driver's libraries.
const PACKAGES: [&str; 6] =
    ["divvy", "divvy-bench", "divvy-kube", "simgpu", "simgpu-cuda", "simgpu-nvml"];
/// The program of the image.
const COPIER: &str = "packaging/image/copy.c";

/// Sources, and where what is made of them goes.
#[derive(Debug)]
pub(super) struct Checkout {
    pub(super) root: PathBuf,
    pub(super) target: PathBuf,
}

/// Files that were built for one processor.
#[derive(Debug)]
pub(super) struct Built {
    /// Cargo's output folder.
    programs: PathBuf,
    /// The library that is preloaded.
    pub(super) library: PathBuf,
    /// The compiled clients.
    clients: PathBuf,
    /// The program of the image.
    pub(super) copier: PathBuf,
}

impl Built {
    /// A file that cargo has made.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// The programs of demonstration and benchmarks, sorted.
    pub(super) fn clients(&self) -> Result<Vec<PathBuf>> {
        let entries =
            fs::read_dir(&self.clients).with_context(|| self.clients.display().to_string())?;
        let mut found = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        found.sort();
        Ok(found)
    }
}

/// Builds all that a release has for `arch`; `native` is what was built for x86-64, whose library says what that of
/// another processor may take from the C library.
pub(super) fn build(
    checkout: &Checkout,
    commit: &Commit,
    arch: Arch,
    zig: &Zig,
    native: Option<&Built>,
) -> Result<Built> {
    needs_target(arch)?;
    let folder = checkout.target.join(arch.triple());
    let built = Built {
        programs: folder.join("release"),
        library: folder.join("libdivvy.so"),
        clients: folder.join("clients"),
        copier: folder.join("copy"),
    };
    place(&library(checkout, arch, native)?, &built.library)?;
    let mut build = cargo();
    zig.build(&mut build, arch)?;
    build.args(["--quiet", "--locked", "--release"]);
    for package in PACKAGES {
        build.args(["--package", package]);
    }
    build.current_dir(&checkout.root).env("CARGO_TARGET_DIR", &checkout.target);
    build.env("CARGO_ENCODED_RUSTFLAGS", flags(checkout, arch)?.join(OsStr::new("\u{1f}")));
    // Names of functions are for debuggers of a build of one's own.
    build.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    build.env("SOURCE_DATE_EPOCH", commit.epoch_s.to_string());
    // Metrics name the commit: `divvy_build_info`. Files that differ from it are no commit's.
    build.env_remove("DIVVY_COMMIT");
    if commit.is_clean {
        build.env("DIVVY_COMMIT", &commit.hash);
    }
    run(&mut build)?;
    let compiler = || {
        let mut cc = zig.cc(arch);
        let mut map = OsString::from("-ffile-prefix-map=");
        map.push(mapped(&checkout.root, "/divvy"));
        cc.arg("-s").arg(map);
        cc
    };
    clients::build_by(&compiler, &checkout.root, &folder, clients::BENCH)?;
    let mut cc = zig.static_cc(arch);
    cc.args(["-std=gnu11", "-Os", "-s", "-Wall", "-Werror", "-o"]).arg(&built.copier);
    run(cc.arg(checkout.root.join(COPIER)))?;
    Ok(built)
}

/// The preloaded library, which needs the C library's names alone: linked by the toolchain's own linker, as it is
/// everywhere else, with arguments that Zig's does not take. Its versions are checked, not chosen. Its names of functions stay, by which the
/// budget sees that nothing of it can panic.
fn library(checkout: &Checkout, arch: Arch, native: Option<&Built>) -> Result<PathBuf> {
    let flags = flags(checkout, arch)?;
    // Programs and library are built with other features and flags, and would each time undo the other's work.
    let target = checkout.target.join("library");
    if arch != Arch::X86_64 {
        let native = native.context("x86-64 comes first")?;
        let names = budget::libc_names_for_aarch64(&native.library)?;
        return aarch64::build_in(&checkout.root, &target, &flags, &names);
    }
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--release", "--package", "divvy-shim"]);
    build.arg("--target").arg(arch.triple()).arg("--target-dir").arg(&target);
    build.current_dir(&checkout.root).env_remove("DIVVY_UNHOOK");
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join(OsStr::new("\u{1f}")));
    run(&mut build)?;
    Ok(target.join(arch.triple()).join("release/libdivvy.so"))
}

/// Rustc's arguments. They take the place of those in `.cargo/config.toml`.
fn flags(checkout: &Checkout, arch: Arch) -> Result<Vec<OsString>> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    let cargo_home = cargo_home.or_else(home).context("neither CARGO_HOME nor HOME is set")?;
    let mut flags: Vec<OsString> = Vec::new();
    if arch == Arch::X86_64 {
        flags.push("-Cforce-frame-pointers=yes".into());
    }
    // The last that fits is taken: what lies in the checkout comes after it.
    let renamed =
        [(&checkout.root, "/divvy"), (&cargo_home, "/cargo"), (&checkout.target, "/build")];
    for (from, to) in renamed {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(mapped(from, to));
        flags.push(flag);
    }
    Ok(flags)
}

fn mapped(from: &Path, to: &str) -> OsString {
    let mut mapping = from.as_os_str().to_owned();
    mapping.push("=");
    mapping.push(to);
    mapping
}

/// Whether the toolchain can build for `arch`.
///
/// # Errors
/// When it cannot, with what adds it.
fn needs_target(arch: Arch) -> Result<()> {
    let triple = arch.triple();
    let folder =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", &triple]))?;
    let is_there =
        Path::new(folder.trim()).read_dir().is_ok_and(|mut entries| entries.next().is_some());
    anyhow::ensure!(
        is_there,
        "the toolchain cannot build for {triple}; `rustup target add {triple}`"
    );
    Ok(())
}
