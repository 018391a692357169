//! A program that keeps the GPU busy with kernels of one length, under limits or on the bare driver.
//!
//! Promises: its work is what the device itself has counted, read from outside; dropped, the program is ended and its tenant
//! removed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::commands::run;
use crate::log::changed;
use crate::machine::install;
use crate::pause::pause;
use crate::stage::ClientStage;
use crate::stage::client::{self, StageClient, number};
use crate::tenants::tenant_dir::{OwnerNote, TenantDir};
use crate::tenants::{ledger, limits};
use crate::wire::LimitChange;

/// A client that has nothing to say for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the file that kernels are counted in.
const FILE_BYTES: u64 = 4096;
/// Length of a kernel.
const KERNEL_NS: u64 = 1_000_000;

/// A kernel of fixed work, as long as it is on the bare driver.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct FixedKernel {
    iterations: u64,
    /// Time of one in a full queue.
    pub(super) ns: f64,
}

impl FixedKernel {
    /// Finds the work that takes a millisecond.
    pub(super) fn find(stage: &ClientStage) -> Result<Self> {
        let mut command = stage.command(&install::client("kernel_time")?);
        command.args([KERNEL_NS.to_string(), "0".to_owned()]);
        let answer = client::run(command, PATIENCE).context("a kernel cannot be measured")?;
        Ok(Self { iterations: number(&answer, "iterations")? as u64, ns: number(&answer, "ns")? })
    }
}

/// A program that is ready or runs.
#[derive(Debug)]
pub(super) struct Worker {
    client: StageClient,
    counter: File,
    path: PathBuf,
    kernel: FixedKernel,
    /// Absent on the bare driver.
    tenant: Option<TenantDir>,
}

impl Worker {
    /// Starts one in a new tenant with a cap, and waits until it is ready.
    pub(super) fn in_tenant(
        stage: &ClientStage,
        library: &Path,
        name: &str,
        cap: &str,
        kernel: FixedKernel,
    ) -> Result<Self> {
        let owner = OwnerNote {
            pid: std::process::id(),
            command: vec!["divvy".to_owned(), "demo".to_owned(), name.to_owned()],
        };
        let tenant = TenantDir::make(&format!("demo-{name}"), &owner)?;
        let rules = limits::rules(&[], &[])?;
        let config = limits::config(&format!("demo-{name}"), &rules, false, false);
        ledger::write_config(tenant.path(), &config)?;
        let compute = vec![cap.to_owned()];
        changed::make(tenant.path(), &LimitChange { compute, ..LimitChange::default() })?;
        run::ensure_daemon(tenant.path());
        Self::start(stage, Some((library, tenant)), name, kernel)
    }

    /// Starts one without Divvy.
    pub(super) fn bare(stage: &ClientStage, name: &str, kernel: FixedKernel) -> Result<Self> {
        Self::start(stage, None, name, kernel)
    }

    fn start(
        stage: &ClientStage,
        tenant: Option<(&Path, TenantDir)>,
        name: &str,
        kernel: FixedKernel,
    ) -> Result<Self> {
        let path = stage.scratch().join(format!("counter-{name}"));
        let counter =
            File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let counter = counter.with_context(|| format!("{} cannot be made", path.display()))?;
        counter.set_len(FILE_BYTES)?;
        let mut command = stage.command(&install::client("busy")?);
        let place = if stage.is_simulated() { "mapped" } else { "mirror" };
        command.args([
            "mode=async".to_owned(),
            format!("iterations={}", kernel.iterations),
            format!("kernel={}", kernel.ns as u64),
            format!("file={}", path.display()),
            format!("place={place}"),
        ]);
        if let Some((library, tenant)) = &tenant {
            run::join_tenant(&mut command, library, tenant.path());
        }
        let mut client = StageClient::start(command)?;
        client.answer(PATIENCE).with_context(|| format!("{name} is not ready"))?;
        let tenant = tenant.map(|(_, tenant)| tenant);
        Ok(Self { client, counter, path, kernel, tenant })
    }

    /// Tells it to work.
    pub(super) fn go(&mut self) -> Result<()> {
        self.client.go()
    }

    /// Changes its tenant's limits, as `divvy set` does.
    pub(super) fn change(&self, change: &LimitChange) -> Result<()> {
        if let Some(tenant) = &self.tenant {
            changed::make(tenant.path(), change)?;
        }
        Ok(())
    }

    /// Device time of the kernels that are done.
    pub(super) fn work_ns(&self) -> Result<f64> {
        let mut word = [0; 8];
        self.counter.read_exact_at(&mut word, 0).context("the counter cannot be read")?;
        Ok(u64::from_le_bytes(word) as f64 * self.kernel.ns)
    }

    /// Ends its input.
    pub(super) fn stop(&mut self) {
        self.client.stop();
    }

    /// Waits for its last words: whether all kernels it has launched were counted.
    pub(super) fn is_all_counted(&mut self) -> Result<bool> {
        let end = self.client.answer(PATIENCE)?;
        Ok(number(&end, "launched")? == number(&end, "count")?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
        if let Some(tenant) = self.tenant.take() {
            // Its process must be gone first.
            let deadline = Instant::now() + Duration::from_secs(5);
            while self.client.is_running() && Instant::now() < deadline {
                pause(Duration::from_millis(2));
            }
            self.client.kill();
            tenant.remove();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}
