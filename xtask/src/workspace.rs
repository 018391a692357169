//! Where things lie: the workspace, cargo's target directory, cargo itself.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root, fixed when this binary was built.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Cargo's target directory: `CARGO_TARGET_DIR`, taken from the root when relative, or `target`.
pub(crate) fn target() -> PathBuf {
    let chosen =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(chosen)
}

/// The cargo that runs us, started in the root.
pub(crate) fn cargo() -> Command {
    in_root(Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())))
}

/// The cargo of another toolchain, started in the root; rustup names it.
pub(crate) fn cargo_of(toolchain: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]);
    for of_ours in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(of_ours);
    }
    in_root(command)
}

fn in_root(mut command: Command) -> Command {
    // Variables that `cargo run` sets for this binary are not meant for the builds it starts.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(name);
        }
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    command.current_dir(root());
    command
}

/// A path as the reader of a message knows it: relative to the root where it lies below it.
pub(crate) fn shown(path: &Path) -> std::path::Display<'_> {
    path.strip_prefix(root()).unwrap_or(path).display()
}
