//! What every test stands on: a staged tree, a simulated machine of its own, real processes.
//!
//! Promises: a test shares neither machine, nor tenant, nor file with another; a process that hangs
//! is ended and shown; whatever a test leaves in `unsimulated.log` fails it; what cannot be played
//! here is printed as `SKIPPED <what>: <reason>`. Holds no expectations of its own.

mod clients;
mod divided;
mod host;
mod podman;
mod process;
pub(crate) mod residence;
mod share;
mod stage;
mod talk;
mod trial;

pub(crate) use clients::{build_program, client};
pub(crate) use divided::Divided;
pub(crate) use host::Host;
pub(crate) use podman::{Container, podman_works};
pub(crate) use process::{Finished, Running, finish, signal};
pub(crate) use share::{POINTS, Share, alone, are, mean};
pub(crate) use stage::{root, stage};
pub(crate) use talk::Talk;
pub(crate) use trial::{PATIENCE, Soaking, best_of, best_of_three, until};

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// One gibibyte.
pub(crate) const GIB: u64 = 1 << 30;
/// One mebibyte.
pub(crate) const MIB: u64 = 1 << 20;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A simulated machine and one tenant's settings; dropped with everything in it.
#[derive(Debug)]
pub(crate) struct Machine {
    home: PathBuf,
    environment: Vec<(String, String)>,
    preload: bool,
}

impl Machine {
    /// A machine with one GPU of 16 GiB that does no waiting, and no limit. Its tenants, its daemon and its devices'
    /// locks are its own: it sees none of those of the machine that the test runs on.
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("divvy-e2e-{}-{number}", std::process::id()));
        for folder in ["sim", "run"] {
            fs::create_dir_all(home.join(folder)).expect("the temporary directory is writable");
        }
        let (runtime, locks) = (home.join("run"), home.join("locks"));
        Self { home, environment: Vec::new(), preload: true }
            .with("XDG_RUNTIME_DIR", runtime.display())
            .with("DIVVY_ONLY_RUNTIME_DIR", 1)
            .with("DIVVY_DEVICE_LOCKS", locks.display())
            .with("SIMGPU_MODE", "fast")
            .with("SIMGPU_MEMORY", "16GiB")
            .with("DIVVY_LOG", "warn")
    }

    /// Sets an environment variable of every process started later.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// `divvy` with these arguments.
    pub(crate) fn divvy(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(stage().join("bin/divvy"));
        command.args(arguments);
        command
    }

    /// Takes a variable out of the environment again.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self
    }

    /// A limit for every device, in bytes.
    pub(crate) fn limited(self, bytes: u64) -> Self {
        let cache = self.home.join("tenant.cache");
        self.with("DIVVY_MEMORY", bytes)
            .with("EXPECT_LIMIT", bytes)
            .with("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.display())
    }

    /// Processes started later run without the library under test.
    pub(crate) fn native(mut self) -> Self {
        self.preload = false;
        self
    }

    /// A directory of the test's own.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Where the tenant's files lie, for a machine made by [`Machine::limited`].
    pub(crate) fn tenant(&self) -> PathBuf {
        self.home.join(".divvy/tenant")
    }

    /// The tenant's directory as the page's functions want it.
    pub(crate) fn tenant_directory(&self) -> CString {
        CString::new(self.tenant().as_os_str().as_bytes()).expect("no NUL inside")
    }

    /// A command with this machine's environment, the library under test preloaded.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        // Limits, tenants and devices of whoever runs the tests are not the test's.
        for (name, _) in std::env::vars_os() {
            let begins = ["DIVVY_", "CUDA_", "LD_PRELOAD"];
            if begins.iter().any(|begin| name.as_encoded_bytes().starts_with(begin.as_bytes())) {
                command.env_remove(&name);
            }
        }
        command.env("SIMGPU_DIR", self.home.join("sim"));
        command.env("SIMGPUD", stage().join("sim/simgpud"));
        command.env("LD_LIBRARY_PATH", stage().join("sim"));
        command.env("TMPDIR", &self.home);
        // Figures that `divvy doctor` keeps for this user would count in other tests.
        command.env("XDG_CACHE_HOME", self.home.join("cache"));
        if self.preload {
            command.env("LD_PRELOAD", stage().join("lib/libdivvy.so"));
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The command that plays `scenario` of a C client.
    pub(crate) fn scenario(&self, program: &str, scenario: &str) -> Command {
        let mut command = self.command(client(program));
        command.arg(scenario);
        command
    }

    /// Plays a scenario to its end; anything but success fails the test.
    pub(crate) fn plays(&self, program: &str, scenario: &str) -> Finished {
        let finished = finish(&mut self.scenario(program, scenario));
        if finished.code() == Some(77) {
            println!("SKIPPED {program} {scenario}: {}", finished.out.trim());
        } else {
            assert!(finished.code() == Some(0), "{program} {scenario}\n{finished}");
        }
        self.all_was_simulated();
        finished
    }

    /// Fails when a process called what the simulated driver does not have.
    pub(crate) fn all_was_simulated(&self) {
        let log = self.home.join("sim/unsimulated.log");
        let reached = fs::read_to_string(log).unwrap_or_default();
        assert!(reached.trim().is_empty(), "reached, but not simulated:\n{reached}");
    }

    /// The process that is the simulated machine, once a client has started it.
    pub(crate) fn simgpud(&self) -> Option<u32> {
        let ours = format!("SIMGPU_DIR={}", self.home.join("sim").display()).into_bytes();
        let is_ours = |process: &fs::DirEntry| {
            let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
            read("comm").starts_with(b"simgpud")
                && read("environ").split(|byte| *byte == 0).any(|setting| setting == ours)
        };
        let found = fs::read_dir("/proc").ok()?.flatten().find(is_ours)?;
        found.file_name().to_str()?.parse().ok()
    }

    /// Device memory taken on the whole card, as a program without limits sees it, in bytes;
    /// its own context is left out.
    pub(crate) fn card_used_bytes(&self) -> u64 {
        let mut command = self.scenario("watcher", "used");
        command.env_remove("LD_PRELOAD");
        let finished = finish(&mut command);
        assert_eq!(finished.code(), Some(0), "{finished}");
        finished.out.trim().parse().expect("the watcher prints a number of bytes")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::env::var_os("DIVVY_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.home);
        }
    }
}

/// Tests that only play the scenario of their own name under a limit.
macro_rules! scenarios {
    ($client:literal, $limit:expr; $($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $name() {
                crate::harness::Machine::new().limited($limit).plays($client, stringify!($name));
            }
        )*
    };
}
pub(crate) use scenarios;
