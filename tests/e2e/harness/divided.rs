//! A machine whose tenants a daemon of the test's own divides.
//!
//! Promises: the daemon serves nobody else and ends with the test. Starts no tenant itself.

use std::path::Path;
use std::process::Command;

use super::{Machine, Running, stage};

/// A machine and its daemon.
#[derive(Debug)]
pub(crate) struct Divided {
    /// What runs there without a tenant of its own runs without the library.
    pub(crate) machine: Machine,
    daemon: Option<Running>,
}

impl Divided {
    /// Starts a daemon on `machine`.
    pub(crate) fn new(machine: Machine) -> Self {
        let machine = machine.native();
        let runtime = machine.home().join("runtime");
        std::fs::create_dir(&runtime).expect("a directory of the test's own");
        let locks = machine.home().join("locks");
        let machine = machine
            .with("XDG_RUNTIME_DIR", runtime.display())
            .with("DIVVY_DEVICE_LOCKS", locks.display());
        let mut divided = Self { machine, daemon: None };
        divided.daemon = Some(Running::start(&mut divided.divvy(&["daemon"])));
        divided
    }

    /// Divvy with these arguments.
    pub(crate) fn divvy(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(stage().join("bin/divvy"));
        command.args(arguments);
        command
    }

    /// A program as a tenant of the daemon's.
    pub(crate) fn tenant(&self, share: &[&str], program: &Path) -> Command {
        let mut command = self.divvy(&["run", "--no-daemon", "--memory", "4GiB"]);
        command.args(share).arg("--").arg(program);
        command
    }
}

impl Drop for Divided {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill();
            let _ = daemon.finish();
        }
    }
}
