//! Finds what a context takes on each idle card, and keeps it for `divvy run`.
//!
//! A client makes one context; NVML says what that process then holds. Promises: a card with another
//! process on it is left alone, and so are all of them inside a tenant or beside an MPS daemon, whose
//! figures mean something else; a figure is kept only if the client was alone on the card to the end;
//! whatever keeps it from being found is said, and the kept figures then stay as they were.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::finding::Finding;
use super::{client, system};
use crate::machine::contexts::{self, ContextFigure, Found};
use crate::machine::install;
use crate::machine::loader::find_library;
use crate::output::reason::Reason;
use crate::output::sizes;
use crate::pause::pause;

/// How often NVML is asked for the client before it is given up, and the time between.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn look() -> Vec<Finding> {
    look_at_all().unwrap_or_else(|error| vec![not_found(&format!("{error:#}"))])
}

fn not_found(why: &str) -> Finding {
    Finding::note(Reason::ContextCost, format!("what a context takes was not found: {why}"))
}

fn look_at_all() -> Result<Vec<Finding>> {
    let library = find_library("libnvidia-ml.so.1");
    let library = library.context("libnvidia-ml.so.1 (NVML) was not found")?;
    if let Some(preloaded) = inside_a_tenant() {
        bail!("{preloaded} is loaded here, so NVML would answer for a tenant");
    }
    if let Some(place) = system::mps_daemon() {
        bail!("an MPS daemon at {} shares contexts", place.display());
    }
    let file = contexts::file().context("neither XDG_CACHE_HOME nor HOME names a directory")?;
    let mut found = match Found::read(&file) {
        Ok(found) => found,
        Err(error) => {
            let fix = format!("delete {}", file.display());
            return Ok(vec![Finding::bad(Reason::ContextCost, format!("{error:#}"), fix)]);
        }
    };
    let nvml = Nvml::builder().lib_path(library.as_os_str()).init();
    let nvml = nvml.context("NVML cannot be used")?;
    let driver = nvml.sys_driver_version().context("NVML does not say the driver's version")?;
    let count = nvml.device_count().context("NVML does not count the cards")?;
    let cards = (0..count).map(|index| card(&nvml, index, &driver, &mut found, &file));
    Ok(cards.collect())
}

/// The preloaded library, when this process has it.
fn inside_a_tenant() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let names = maps.lines().filter_map(|line| Some(line.rsplit_once('/')?.1));
    names.into_iter().find(|name| install::is_library_name(name)).map(str::to_owned)
}

fn card(nvml: &Nvml, index: u32, driver: &str, found: &mut Found, file: &Path) -> Finding {
    let named = || -> Result<_> {
        let device = nvml.device_by_index(index)?;
        let (uuid, name) = (device.uuid()?, device.name()?);
        Ok((device, uuid, name))
    };
    let (device, uuid, name) = match named() {
        Ok(named) => named,
        Err(error) => return not_found(&format!("NVML does not know card {index}: {error:#}")),
    };
    let kept = found.bytes_on(driver, &uuid, &name);
    let entry = measure(&device, &uuid).and_then(|bytes| {
        let entry = ContextFigure { driver: driver.to_owned(), uuid: uuid.clone(), name, bytes };
        found.note(entry.clone())?;
        found.write(file)?;
        Ok(entry)
    });
    match entry {
        Ok(ContextFigure { name, bytes, .. }) => Finding::ok(
            Reason::ContextCost,
            format!(
                "a context takes {} on {name} {uuid} with driver {driver}; kept in {} for divvy run",
                sizes::text(bytes),
                file.display()
            ),
        ),
        Err(error) => {
            let kept = kept.map_or_else(
                || "the built-in table stays in force".to_owned(),
                |bytes| format!("{}, found earlier, stays in force", sizes::text(bytes)),
            );
            Finding::note(
                Reason::ContextCost,
                format!("what a context takes on {uuid} was not found: {error:#}; {kept}"),
            )
        }
    }
}

/// Processes on the card and what each holds, those that draw pictures included.
fn processes(device: &Device<'_>) -> Result<Vec<(u32, UsedGpuMemory)>> {
    let mut processes = device.running_compute_processes().context("NVML lists no processes")?;
    match device.running_graphics_processes() {
        Ok(more) => processes.extend(more),
        Err(NvmlError::NotSupported) => {}
        Err(error) => return Err(error).context("NVML lists no processes"),
    }
    // A process that does both is listed twice.
    processes.sort_by_key(|process| process.pid);
    processes.dedup_by_key(|process| process.pid);
    Ok(processes.into_iter().map(|process| (process.pid, process.used_gpu_memory)).collect())
}

fn measure(device: &Device<'_>, uuid: &str) -> Result<u64> {
    let before = processes(device)?;
    ensure!(before.is_empty(), "it is busy, NVML lists {} process(es) on it", before.len());
    let client = Client::start(uuid)?;
    for _ in 0..ATTEMPTS {
        match judge(client.pid(), &processes(device)?)? {
            Some(bytes) => return Ok(bytes),
            None => pause(PAUSE),
        }
    }
    bail!("NVML does not list a process started here; it may be in another pid namespace")
}

/// Bytes that `pid` holds, if it is alone on the card; `None` while the card is empty.
fn judge(pid: u32, listed: &[(u32, UsedGpuMemory)]) -> Result<Option<u64>> {
    match listed {
        [] => Ok(None),
        [(only, UsedGpuMemory::Used(bytes))] if *only == pid => Ok(Some(*bytes)),
        [(only, UsedGpuMemory::Unavailable)] if *only == pid => {
            bail!("NVML does not say what a process holds here")
        }
        [(other, _)] => bail!(
            "NVML lists process {other} and not {pid}, which was started here: another program \
             came, or this is another pid namespace"
        ),
        _ => bail!("another program came meanwhile, NVML lists {}", listed.len()),
    }
}

/// The program that holds the context; ended when dropped.
#[derive(Debug)]
struct Client(Child);

impl Client {
    /// Returns when the context exists.
    fn start(uuid: &str) -> Result<Self> {
        let mut client = Self(client::start("context_cost", &[uuid])?);
        let mut line = String::new();
        let out = client.0.stdout.take().context("the client has no output")?;
        BufReader::new(out).read_line(&mut line)?;
        if line.is_empty() {
            bail!("no context could be made: {}", client.last_words());
        }
        Ok(client)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The first line it said on standard error, read to its end.
    fn last_words(&mut self) -> String {
        let mut line = String::new();
        if let Some(said) = self.0.stderr.take() {
            let _ = BufReader::new(said).read_line(&mut line);
        }
        if line.is_empty() { "the client said nothing".to_owned() } else { line.trim().to_owned() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Its input ends, and with it the client.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_alone_on_the_card_is_believed() {
        let used = |pid| (pid, UsedGpuMemory::Used(518 << 20));
        assert_eq!(judge(7, &[]).unwrap(), None);
        assert_eq!(judge(7, &[used(7)]).unwrap(), Some(518 << 20));
        assert!(judge(7, &[used(8)]).is_err(), "somebody else's figure");
        assert!(judge(7, &[used(7), used(8)]).is_err(), "not alone");
        assert!(judge(7, &[(7, UsedGpuMemory::Unavailable)]).is_err(), "no figure");
    }
}
