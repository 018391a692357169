//! Asking NVML, in a process of its own that ends when it has answered.
//!
//! NVML takes some 20 MiB of memory for as long as it is loaded, more than all else a daemon holds, and
//! the daemon wants one answer in some seconds. What the driver does to that process, which may be to
//! hang it or to end it, is done to nobody else: it ends itself after [`PATIENCE_S`], or with its
//! daemon.
//!
//! Does not decide when to ask, nor what an answer means: that is [`super::card`].

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::alarm;
use nvml_wrapper::Nvml;

use crate::machine::gpus::{self, Gpu};
use crate::output::json;

/// The option of `divvy daemon` that names a device to ask about.
const LOOK: &str = "--look";
/// How long an answer may take, in seconds. It takes some ten milliseconds.
const PATIENCE_S: u32 = 5;

/// NVML's answer about one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Seen {
    /// Processes with a context, by their pids.
    pub(super) pids: Vec<u32>,
    /// Whether there are clients of an MPS daemon.
    pub(super) mps: bool,
}

/// NVML's answers about the devices with these UUIDs, without those that it cannot tell of; `None` if
/// it cannot be asked at all. Cost: a process, and some tens of milliseconds of waiting for it.
pub(super) fn ask(uuids: &BTreeSet<String>) -> Option<BTreeMap<String, Seen>> {
    let mut asker = Command::new("/proc/self/exe");
    asker.arg0("divvy").arg("daemon").stdin(Stdio::null()).stderr(Stdio::null());
    for uuid in uuids {
        asker.args([LOOK, uuid]);
    }
    let output = asker.output().ok().filter(|output| output.status.success())?;
    serde_json::from_slice(&output.stdout).ok()
}

/// The other half of [`ask`]: what the process of its own does.
///
/// # Errors
/// When NVML cannot be loaded.
pub(super) fn answer(uuids: &[String]) -> Result<u8> {
    // Where these fail the process ends later, or by itself.
    let _ = alarm::set(PATIENCE_S);
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let nvml = Nvml::init().context("NVML cannot be loaded")?;
    let gpus = gpus::list(Path::new(gpus::PROC));
    let seen = uuids.iter().filter_map(|uuid| Some((uuid, look(&nvml, &gpus, uuid)?)));
    json::bare(&seen.collect::<BTreeMap<_, _>>())?;
    Ok(0)
}

fn look(nvml: &Nvml, gpus: &[Gpu], uuid: &str) -> Option<Seen> {
    // By its UUID, NVML may wake other cards on its way to this one, which can take a second each.
    let bus = gpus.iter().find(|gpu| gpu.uuid.eq_ignore_ascii_case(uuid)).map(|gpu| &*gpu.bus);
    let device = bus.and_then(|bus| nvml.device_by_pci_bus_id(bus).ok());
    let device = device.or_else(|| nvml.device_by_uuid(uuid).ok())?;
    let processes = device.running_compute_processes().ok()?;
    let mps = device.mps_running_compute_processes().is_ok_and(|list| !list.is_empty());
    Some(Seen { pids: processes.iter().map(|process| process.pid).collect(), mps })
}
