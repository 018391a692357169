//! The library for arm64, built and linked with what the Rust toolchain itself brings.
//!
//! A machine with only gcc has neither a cross linker nor arm64's C library. The toolchain has
//! `rust-lld`, and the C library is stood in for by an empty one that defines the names the x86-64
//! library takes from libc.so.6: a name beyond those is an unresolved symbol, and the link fails.
//! The result is a real file to be checked, not one that has ever run; the stand-in has no symbol
//! versions, so which glibc the file needs is not seen here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{output, run};
use crate::workspace::{cargo, root, target};

/// The target's name.
pub(crate) const TRIPLE: &str = "aarch64-unknown-linux-gnu";

/// Taken from the C library here only: atomics ask the processor once, when the library is loaded,
/// whether it has the instructions of ARMv8.1. glibc has it since 2.16.
const OWN_LIBC_NAMES: [&str; 1] = ["getauxval"];

/// Links with the toolchain's own linker, without a C compiler in between.
const LINKER: [&str; 3] = [
    "-Clinker=rust-lld",
    "-Clinker-flavor=ld.lld",
    // As gcc asks its own linker for; this one's second table is for systems before 2006.
    "-Clink-arg=--hash-style=gnu",
];

/// Names that the library may take from the C library, given those of the x86-64 one.
pub(crate) fn libc_names(native: &BTreeSet<String>) -> BTreeSet<String> {
    native.iter().cloned().chain(OWN_LIBC_NAMES.map(str::to_owned)).collect()
}

/// Builds the library; `libc_names` is what it may take from the C library.
///
/// # Errors
/// When it needs a name that is not among those given.
pub(crate) fn build(libc_names: &BTreeSet<String>) -> Result<PathBuf> {
    build_in(root(), &target(), &[], libc_names)
}

/// The same of the sources in `checkout`, into another target directory, with more arguments for rustc.
///
/// # Errors
/// As [`build`].
pub(crate) fn build_in(
    checkout: &Path,
    target: &Path,
    more: &[OsString],
    libc_names: &BTreeSet<String>,
) -> Result<PathBuf> {
    let stand_in = stand_in(target, libc_names)?;
    let mut flags: Vec<OsString> = LINKER.map(OsString::from).to_vec();
    let mut place = OsString::from("-Lnative=");
    place.push(&stand_in);
    flags.push(place);
    flags.extend_from_slice(more);
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--package", "divvy-shim", "--target", TRIPLE]);
    build.arg("--target-dir").arg(target).env_remove("DIVVY_UNHOOK").current_dir(checkout);
    // A path may have spaces, which RUSTFLAGS cannot say.
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}".as_ref()));
    run(&mut build)?;
    Ok(target.join(TRIPLE).join("release/libdivvy.so"))
}

/// Whether the toolchain can build for the target at all.
///
/// # Errors
/// When it cannot, with what adds it.
pub(crate) fn needs_target() -> Result<()> {
    let mut libdir = Command::new("rustc");
    libdir.args(["--print", "target-libdir", "--target", TRIPLE]);
    let place = output(&mut libdir)?;
    let installed = Path::new(place.trim()).read_dir().is_ok_and(|mut dir| dir.next().is_some());
    if !installed {
        bail!(
            "the toolchain cannot build for {TRIPLE}: {} is not there; `rustup target add {TRIPLE}` \
             adds it and needs network",
            place.trim()
        );
    }
    Ok(())
}

/// A directory with a `libc.so` that calls itself libc.so.6 and defines `names`.
fn stand_in(target: &Path, names: &BTreeSet<String>) -> Result<PathBuf> {
    let directory = target.join(TRIPLE).join("stand-in");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let mut text = String::from(
        "#![no_std]\n\
         #[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }\n",
    );
    for name in names {
        writeln!(text, "#[no_mangle]\npub extern \"C\" fn {name}() {{}}")?;
    }
    let source = directory.join("libc.rs");
    std::fs::write(&source, text).with_context(|| source.display().to_string())?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--crate-type=cdylib", "--edition=2021", "-Cpanic=abort", "--target", TRIPLE]);
    rustc.args(LINKER).args(["-Clink-arg=-soname=libc.so.6", "-o"]);
    rustc.arg(directory.join("libc.so")).arg(&source);
    run(&mut rustc)?;
    // Names that glibc has long had in libc.so.6, and that rustc still asks for: empty linker scripts.
    for library in ["m", "rt", "pthread"] {
        let file = directory.join(format!("lib{library}.so"));
        std::fs::write(&file, "/* all in libc.so */\n")
            .with_context(|| file.display().to_string())?;
    }
    Ok(directory)
}
