//! Who else is on the cards: processes of no tenant, and MPS, as NVML tells.
//!
//! A thread of its own asks once a second, and only while tenants share a device, because NVML may take
//! milliseconds and the scheduling thread must not wait. Both sides exchange what they know through a
//! [`Board`], which the scheduling thread only ever tries to take.
//!
//! Where the processes NVML names cannot be told from the tenants' (another pid namespace), nothing is
//! said of foreign ones. Without NVML nothing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nvml_wrapper::Nvml;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Looks between two attempts to load NVML.
const RETRY: u32 = 30;

/// A process: the inode of its pid namespace, and its pid there.
pub(super) type Identity = (u64, u32);

/// What the two threads tell each other.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Devices that tenants share, and the processes of all tenants; from the scheduling thread.
    pub(super) asked: BTreeSet<String>,
    pub(super) known: BTreeSet<Identity>,
    /// What was found, by device.
    pub(super) found: BTreeMap<String, Found>,
}

/// What is on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Processes of no tenant.
    pub(super) foreign: u32,
    /// Whether MPS serves it.
    pub(super) mps: bool,
}

/// Starts the thread.
pub(super) fn start(is_system: bool) -> std::io::Result<Arc<Mutex<Board>>> {
    let board = Arc::new(Mutex::new(Board::default()));
    let shared = Arc::clone(&board);
    std::thread::Builder::new()
        .name("divvy card".to_owned())
        .stack_size(256 << 10)
        .spawn(move || watch(&shared, is_system))?;
    Ok(board)
}

fn watch(board: &Mutex<Board>, is_system: bool) {
    let mut nvml: Option<Nvml> = None;
    let mut looks = 0_u32;
    loop {
        std::thread::sleep(PERIOD);
        let (asked, known) = {
            let board = board.lock().unwrap_or_else(PoisonError::into_inner);
            (board.asked.clone(), board.known.clone())
        };
        let mut found = BTreeMap::new();
        if !asked.is_empty() {
            if nvml.is_none() && looks.is_multiple_of(RETRY) {
                nvml = Nvml::init().ok();
            }
            looks = looks.wrapping_add(1);
            let mps = has_mps_pipe(is_system);
            for uuid in asked {
                let seen = nvml.as_ref().and_then(|nvml| look(nvml, &uuid, &known));
                let seen = seen.unwrap_or_default();
                found.insert(uuid, Found { mps: seen.mps || mps, ..seen });
            }
        }
        board.lock().unwrap_or_else(PoisonError::into_inner).found = found;
    }
}

fn look(nvml: &Nvml, uuid: &str, known: &BTreeSet<Identity>) -> Option<Found> {
    let device = nvml.device_by_uuid(uuid).ok()?;
    let processes = device.running_compute_processes().ok()?;
    let identities: Vec<_> = processes.iter().map(|process| identity(process.pid)).collect();
    let mps = device.mps_running_compute_processes().is_ok_and(|list| !list.is_empty());
    Some(Found { foreign: foreign(&identities, known), mps })
}

/// How many are none of ours; 0 where none of ours is recognised, since then the names mean nothing.
fn foreign(processes: &[Option<Identity>], known: &BTreeSet<Identity>) -> u32 {
    let is_ours = |process: &Option<Identity>| process.is_some_and(|one| known.contains(&one));
    let ours = processes.iter().filter(|process| is_ours(process)).count();
    if ours == 0 {
        return 0;
    }
    u32::try_from(processes.len() - ours).unwrap_or(u32::MAX)
}

/// A process of this machine by the names its tenant knows it by.
fn identity(pid: u32) -> Option<Identity> {
    let namespace = std::fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some((namespace, line.split_whitespace().next_back()?.parse().ok()?))
}

/// Whether an MPS daemon that counts for this daemon's tenants has its pipe open: the user's own or
/// root's, so that no user can take the others' turns away.
fn has_mps_pipe(is_system: bool) -> bool {
    let place = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from);
    let control = place.unwrap_or_else(|| PathBuf::from("/tmp/nvidia-mps")).join("control");
    let uid = crate::tenant_dir::uid();
    std::fs::symlink_metadata(control)
        .is_ok_and(|status| status.uid() == 0 || (status.uid() == uid && !is_system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_counted_where_friends_are_recognised() {
        let known = BTreeSet::from([(1, 10), (1, 11)]);
        assert_eq!(foreign(&[Some((1, 10)), Some((1, 12)), None], &known), 2);
        assert_eq!(foreign(&[Some((1, 10)), Some((1, 11))], &known), 0);
        assert_eq!(foreign(&[Some((2, 10)), None], &known), 0);
        assert_eq!(foreign(&[], &known), 0);
    }

    #[test]
    fn a_process_is_known_by_its_namespace_and_its_pid_there() {
        let (namespace, pid) = identity(std::process::id()).unwrap();
        assert_eq!((Some(namespace), pid), (divvy_page::pid_namespace(), std::process::id()));
        assert_eq!(identity(u32::MAX), None);
    }
}
