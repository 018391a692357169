//! The stage on which demo and bench play: the machine's driver or a simulated machine of their own,
//! and a clean environment in which client programs start.

pub mod client;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use divvy_policy::variables::{self, LOG, PEER_LOG, Variable, VariableReader};
use nix::fcntl::Flock;

use crate::machine::gpus;
use crate::machine::install::{self, Simulator};
use crate::machine::loader::find_library;
use crate::tenants::tenant_dir::{self, OwnerNote};

/// Variables that would make a client another one's, or another simulated machine's.
const CLEARED: [&str; 5] =
    ["LD_PRELOAD", "SIMGPU_FAULTS", "SIMGPU_DEVICES", "SIMGPU_LINGER", "SIMGPU_SEED"];

/// Whether a client on a stage must not have the variable: it would make it part of some tenant, limit it, or
/// is some other library's.
fn is_cleared(name: &str) -> bool {
    let is_limit = |known: &Variable| {
        known.reader != VariableReader::Command && ![LOG, PEER_LOG].contains(&known.name)
    };
    CLEARED.contains(&name) || variables::find(name).is_some_and(is_limit)
}

/// A directory that is removed when this is dropped. If the process is killed, the daemon or the next command removes it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Scratch {
    /// Makes one on the tmpfs that tenants lie on.
    pub(crate) fn make(purpose: &str) -> Result<Self> {
        // Libraries of programs lie in it: it must be this user's, and so must what it lies in.
        let uid = tenant_dir::uid();
        let mut last = None;
        for root in tenant_dir::roots(uid) {
            match Self::make_in(&root, uid, purpose) {
                Ok(made) => return Ok(made),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("there is no /dev/shm and no /tmp")))
    }

    fn make_in(root: &Path, uid: u32, purpose: &str) -> Result<Self> {
        let pid = std::process::id();
        let path = root.join(format!("{purpose}-{pid}"));
        tenant_dir::make_private(root, uid)?;
        tenant_dir::sweep_home(root);
        let dir = tenant_dir::make_private(&path, uid)?;
        let owner = OwnerNote { pid, command: vec!["divvy".to_owned(), purpose.to_owned()] };
        Ok(Self { _lock: tenant_dir::hold(&dir, &owner)?, path })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A simulated machine's settings.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// `calibrated`, `fast` or `null`.
    pub mode: &'static str,
    /// Memory of the one device, in the grammar of sizes.
    pub memory: &'static str,
}

/// Where clients run.
#[derive(Debug)]
pub struct ClientStage {
    simulated: Option<(Simulator, Simulation)>,
    scratch: Scratch,
}

impl ClientStage {
    /// On the machine's own driver.
    ///
    /// # Errors
    /// When there is none, with the other choice.
    pub fn machine(purpose: &str) -> Result<Self> {
        if !there_is_a_gpu() {
            bail!(
                "no GPU can be used here (no device file or no libcuda.so.1; see divvy doctor); use \
                 the simulated one: --sim"
            );
        }
        Ok(Self { simulated: None, scratch: Scratch::make(purpose)? })
    }

    /// On a simulated machine of its own.
    pub fn simulated(purpose: &str, simulation: Simulation) -> Result<Self> {
        let scratch = Scratch::make(purpose)?;
        let simulator = install::simulator(&scratch.path().join("sim"))?;
        Ok(Self { simulated: Some((simulator, simulation)), scratch })
    }

    /// Whether the GPU is simulated.
    pub fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Name of the driver in a table and in stored results.
    pub fn driver(&self) -> String {
        match &self.simulated {
            Some((_, simulation)) => format!("simulated, {}", simulation.mode),
            None => {
                let version = gpus::module_version(Path::new(gpus::PROC));
                format!("NVIDIA {}", version.as_deref().unwrap_or("of unknown version"))
            }
        }
    }

    /// Names of the machine's cards, each once; `None` on a simulated one, and where the kernel module names none.
    pub fn card(&self) -> Option<String> {
        if self.is_simulated() {
            return None;
        }
        let mut names: Vec<_> =
            gpus::list(Path::new(gpus::PROC)).into_iter().map(|gpu| gpu.name).collect();
        names.sort();
        names.dedup();
        (!names.is_empty()).then(|| names.join(" and "))
    }

    /// A directory for what a run leaves behind until its end.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// A command on this stage, in no tenant.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if is_cleared(&name.to_string_lossy()) {
                command.env_remove(&name);
            }
        }
        if let Some((simulator, simulation)) = &self.simulated {
            command
                .env("LD_LIBRARY_PATH", &simulator.libraries)
                .env("SIMGPUD", &simulator.daemon)
                .env("SIMGPU_DIR", self.scratch.path().join("machine"))
                .env("SIMGPU_MODE", simulation.mode)
                .env("SIMGPU_MEMORY", simulation.memory);
        }
        command
    }
}

/// Whether a GPU's device file and the driver's library are both here.
pub fn there_is_a_gpu() -> bool {
    let device = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"];
    device.iter().any(|path| Path::new(path).exists()) && find_library("libcuda.so.1").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_limits_a_client_is_taken_from_it_and_nothing_else() {
        for name in
            ["DIVVY_TENANT", "DIVVY_MEMORY_1", "DIVVY_COMPUTE", "CUDA_TASK_PRIORITY", "LD_PRELOAD"]
        {
            assert!(is_cleared(name), "{name}");
        }
        for name in ["DIVVY_LOG", "LIBCUDA_LOG_LEVEL", "DIVVY_SIM", "CUDA_VISIBLE_DEVICES", "PATH"]
        {
            assert!(!is_cleared(name), "{name}");
        }
    }
}
