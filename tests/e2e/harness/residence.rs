//! A tenant whose memory may leave the card, as its owner sees it: wishes, and where the memory is.
//!
//! Promises: what is told is what `divvy` printed. Judges only that it could be read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Finished, GIB, Machine, Talk, finish, stage};

/// A tenant with one process, on a machine that it may share with others.
#[derive(Debug)]
pub(crate) struct Movable<'m> {
    machine: &'m Machine,
    home: PathBuf,
}

impl<'m> Movable<'m> {
    /// The tenant `name` of `machine`; none of its files exist before its first process starts.
    pub(crate) fn new(machine: &'m Machine, name: &str) -> Self {
        let home = machine.home().join(name);
        fs::create_dir_all(&home).expect("a directory of the test's own");
        Self { machine, home }
    }

    /// A directory of the tenant's own.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The command that plays `scenario` of a C client in the tenant.
    pub(crate) fn scenario(&self, program: &str, scenario: &str) -> Command {
        let mut command = self.machine.scenario(program, scenario);
        command
            .env("DIVVY_OVERSUBSCRIBE", "true")
            // Cards of tests may be smaller than the limit.
            .env("DIVVY_BACKEND", "vmm")
            .env("DIVVY_MEMORY", (4 * GIB).to_string())
            .env("CUDA_DEVICE_MEMORY_SHARED_CACHE", self.home.join("tenant.cache"));
        command
    }

    /// What the client says before it may be taken off the card for the first time, and the client.
    pub(crate) fn holding(&self, command: &mut Command) -> (Talk, String) {
        let client = Talk::start(command);
        let said = client.line();
        assert!(said.starts_with("ready "), "{said}");
        (client, said)
    }

    fn divvy(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(stage().join("bin/divvy"));
        command.env_remove("LD_PRELOAD").args(arguments);
        command
    }

    /// `divvy freeze` or `divvy thaw`, which waits for `seconds` at most.
    pub(crate) fn wish(&self, wish: &str, seconds: u32) -> Finished {
        let seconds = seconds.to_string();
        let mut command = self.divvy(&[wish, "--json", "--timeout", &seconds]);
        finish(command.arg(self.home.join(".divvy/tenant")))
    }

    /// The same where it must come about: what it says.
    pub(crate) fn wished(&self, wish: &str, seconds: u32) -> Value {
        let finished = self.wish(wish, seconds);
        assert_eq!(finished.code(), Some(0), "{finished}");
        serde_json::from_str(&finished.out).expect("JSON")
    }

    /// What `divvy ps` says of the tenant's first device.
    pub(crate) fn shown(&self) -> Value {
        let root = self.home.join(".divvy").display().to_string();
        let finished = finish(&mut self.divvy(&["ps", "--json", "--root", &root]));
        let all: Value =
            serde_json::from_str(&finished.out).unwrap_or_else(|_| panic!("{finished}"));
        let directory = self.home.join(".divvy/tenant").display().to_string();
        let tenants = all["tenants"].as_array().expect("a list");
        let ours = tenants.iter().find(|tenant| tenant["directory"] == directory.as_str());
        ours.map_or(Value::Null, |tenant| tenant["devices"][0].clone())
    }

    /// A number that `divvy ps` says of where the tenant's memory is.
    pub(crate) fn residence(&self, name: &str) -> u64 {
        let shown = self.shown();
        shown["residence"][name].as_u64().unwrap_or_else(|| panic!("{name} in {shown}"))
    }
}
