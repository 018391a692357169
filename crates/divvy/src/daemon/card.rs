//! Who else is on the cards: processes of no tenant, and MPS, as NVML tells.
//!
//! A thread of its own decides once a second whether to ask, and only while tenants share a device,
//! because an answer takes milliseconds and the scheduling thread must not wait. NVML is asked anew
//! when the tenants have changed or the driver has more or fewer users than before, which the kernel
//! counts; else every [`LONGEST`]. Both sides exchange what they know through a [`Board`], which the
//! scheduling thread only ever tries to take.
//!
//! Where the processes NVML names cannot be told from the tenants' (another pid namespace), nothing is
//! said of foreign ones. Without NVML nothing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::look::{self, Seen};

/// Time between two decisions.
const PERIOD: Duration = Duration::from_secs(1);
/// Periods after which NVML is asked though nothing is known to have changed, and after it could not
/// be asked.
const LONGEST: u32 = 5;
const RETRY: u32 = 30;
/// Where the kernel counts the driver's users: open descriptors of its device files.
const USES: [&str; 2] = ["/sys/module/nvidia/refcnt", "/sys/module/nvidia_uvm/refcnt"];

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

/// What an answer depends on, as far as it costs nothing to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Circumstances {
    asked: BTreeSet<String>,
    known: BTreeSet<Identity>,
    uses: [Option<String>; 2],
}

/// The last answer.
#[derive(Debug, Default)]
struct Last {
    to: Circumstances,
    /// Periods ago; `None` when there has been no answer yet.
    age: Option<u32>,
    /// `None` when NVML could not be asked.
    found: Option<BTreeMap<String, Found>>,
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
    let mut last = Last::default();
    loop {
        std::thread::sleep(PERIOD);
        let (asked, known) = {
            let board = board.lock().unwrap_or_else(PoisonError::into_inner);
            (board.asked.clone(), board.known.clone())
        };
        // Read before NVML is asked: whoever comes meanwhile makes it be asked again.
        let uses = USES.map(|path| std::fs::read_to_string(path).ok());
        let now = Circumstances { asked, known, uses };
        let mut found = BTreeMap::new();
        if now.asked.is_empty() {
            last = Last::default();
        } else {
            if last.is_due(&now) {
                let seen = look::ask(&now.asked);
                let count = |(uuid, seen)| (uuid, found_in(&seen, &now.known));
                last.found = seen.map(|seen| seen.into_iter().map(count).collect());
                last.to = now.clone();
                last.age = Some(0);
            }
            let mps = has_mps_pipe(is_system);
            for uuid in now.asked {
                let told = last.found.as_ref().and_then(|found| found.get(&uuid).copied());
                let told = told.unwrap_or_default();
                found.insert(uuid, Found { mps: told.mps || mps, ..told });
            }
        }
        board.lock().unwrap_or_else(PoisonError::into_inner).found = found;
    }
}

impl Last {
    /// Whether NVML is to be asked under the circumstances of `now`. Called once a period.
    fn is_due(&mut self, now: &Circumstances) -> bool {
        let Some(age) = &mut self.age else { return true };
        *age += 1;
        match self.found {
            Some(_) => *age >= LONGEST || self.to != *now,
            None => *age >= RETRY,
        }
    }
}

fn found_in(seen: &Seen, known: &BTreeSet<Identity>) -> Found {
    let identities: Vec<_> = seen.pids.iter().map(|pid| identity(*pid)).collect();
    Found { foreign: foreign(&identities, known), mps: seen.mps }
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
    fn nvml_is_asked_when_something_changed_and_now_and_then() {
        let now =
            Circumstances { uses: [Some("7\n".to_owned()), None], ..Circumstances::default() };
        let mut last = Last::default();
        assert!(last.is_due(&now));
        last = Last { to: now.clone(), age: Some(0), found: Some(BTreeMap::new()) };
        assert!(!last.is_due(&now) && !last.is_due(&now));
        let more = Circumstances { uses: [Some("8\n".to_owned()), None], ..now.clone() };
        let others = Circumstances { known: BTreeSet::from([(1, 2)]), ..now.clone() };
        assert!(last.is_due(&more) && last.is_due(&others));
        assert!(last.is_due(&now), "it is long ago");
        last = Last { to: now.clone(), age: Some(0), found: None };
        assert!((1..RETRY).all(|_| !last.is_due(&more)) && last.is_due(&more));
    }

    #[test]
    fn a_process_is_known_by_its_namespace_and_its_pid_there() {
        let (namespace, pid) = identity(std::process::id()).unwrap();
        assert_eq!((Some(namespace), pid), (divvy_page::pid_namespace(), std::process::id()));
        assert_eq!(identity(u32::MAX), None);
    }
}
