//! The command as tests ask it: what it knows of the machine is in a directory of the test's own.

use std::path::Path;
use std::process::{Command, Stdio};

/// `divvy` with these words, whose tenants, daemon, locks, defaults and figures lie in `base`.
pub(crate) fn divvy(base: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
    command.args(arguments).env("XDG_RUNTIME_DIR", base).stdin(Stdio::null());
    // Doctor may find a figure for a card; it is kept here.
    command.env("XDG_CACHE_HOME", base).env("DIVVY_LIBRARY", env!("CARGO_BIN_EXE_divvy"));
    command.env("DIVVY_TENANT_ROOT", base.join("tenants")).env_remove("DIVVY_TENANT");
    command.env("DIVVY_DEVICE_LOCKS", base.join("locks"));
    command.env("XDG_CONFIG_HOME", base.join("config")).env("DIVVY_ONLY_RUNTIME_DIR", "1");
    command
}
