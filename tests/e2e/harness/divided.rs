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
        Self::with(machine, &[])
    }

    /// The same with these arguments of the daemon.
    pub(crate) fn with(machine: Machine, arguments: &[&str]) -> Self {
        let machine = machine.native();
        let mut divided = Self { machine, daemon: None };
        divided.start(arguments);
        divided
    }

    /// Kills the daemon, if there is one, and starts one with these arguments.
    pub(crate) fn start(&mut self, arguments: &[&str]) {
        self.kill();
        self.daemon = Some(Running::start(self.divvy(&["daemon"]).args(arguments)));
    }

    fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill();
            let _ = daemon.finish();
        }
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
        self.kill();
    }
}
