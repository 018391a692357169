//! The staged tree the tests use: `DIVVY_STAGE`, or what `cargo xtask stage` lays out once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        here.canonicalize().unwrap_or(here)
    })
}

/// The staged tree: `bin/divvy`, `bin/divvy-bench`, `bin/divvy-kube`, `lib/libdivvy.so`, `sim/`, `clients/`.
pub(crate) fn stage() -> &'static Path {
    static STAGE: OnceLock<PathBuf> = OnceLock::new();
    STAGE.get_or_init(|| {
        let path = match std::env::var_os("DIVVY_STAGE") {
            Some(path) => PathBuf::from(path),
            None => build(),
        };
        let programs = ["bin/divvy", "bin/divvy-bench", "bin/divvy-kube", "sim/simgpud"];
        for part in programs.into_iter().chain(["lib/libdivvy.so", "sim/libcuda.so.1"]) {
            assert!(path.join(part).exists(), "{} has no {part}", path.display());
        }
        path
    })
}

fn build() -> PathBuf {
    eprintln!("DIVVY_STAGE is not set: building the tree with cargo xtask stage, once");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "stage"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo xtask stage failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    PathBuf::from(text.lines().last().expect("cargo xtask stage prints the tree's path"))
}
