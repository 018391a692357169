//! Strangers on the cards: processes of no tenant, and MPS, as NVML tells.
//!
//! An answer takes milliseconds of waiting and, by the process that NVML is asked in, tens of
//! milliseconds of a processor, which users pay for. So a thread of its own asks, only while processes share a
//! device or one with a cap has it, and only when there may be something new: the tenants' processes or
//! devices have changed, or the driver has more or fewer users than before, which the kernel counts as open
//! descriptors of its files. Nobody has a context without such descriptors.
//!
//! Promises: what comes together is one question, asked when all has been still for [`SETTLE`], and at
//! most one in [`GAP`]; so a context of a stranger counts, as a rule, half a second after it has come,
//! and at most [`GAP`] and a tick after, however much else comes and goes. Where the kernel counts
//! users, a question that nothing led to is asked every [`LONGEST`]: a stranger may come in the instant
//! another goes. Where it does not (no such files), every [`UNCOUNTED`] and no sooner seen than that.
//!
//! Both sides exchange what they know through a [`CardNews`], which the scheduling thread only ever tries
//! to take. Where the processes NVML names cannot be told from the tenants' (another pid namespace),
//! nothing is said of foreign ones. Without NVML nothing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::look::{self, Seen};
use crate::pause::pause;
use crate::tenants::dir::Dir;

/// Time between two looks at what costs little.
const TICK: Duration = Duration::from_millis(250);
/// How long everything must have been as it is, and how long that is waited for.
const SETTLE: Duration = TICK;
const PATIENCE: Duration = Duration::from_secs(1);
/// Shortest time between two questions.
const GAP: Duration = Duration::from_millis(2_500);
/// Longest time between two questions: where the kernel counts users, where it does not, and after NVML
/// could not be asked.
const LONGEST: Duration = Duration::from_secs(60);
const UNCOUNTED: Duration = GAP;
const RETRY: Duration = Duration::from_secs(30);
/// Where the kernel counts the driver's users: open descriptors of its device files.
const USES: [&str; 2] = ["/sys/module/nvidia/refcnt", "/sys/module/nvidia_uvm/refcnt"];

/// A process: the inode of its pid namespace, and its pid there.
pub(super) type ProcessId = (u64, u32);

/// State that the two threads share.
#[derive(Debug, Default)]
pub(super) struct CardNews {
    /// Devices that tenants share or one has a cap on, and the processes of all tenants; from the scheduling thread.
    pub(super) asked: BTreeSet<String>,
    pub(super) known: BTreeSet<ProcessId>,
    /// The findings, by device.
    pub(super) found: BTreeMap<String, Found>,
}

/// Strangers on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Processes of no tenant.
    pub(super) foreign: u32,
    /// Whether MPS serves it.
    pub(super) mps: bool,
}

/// Facts that an answer depends on, as far as they are cheap to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Circumstances {
    asked: BTreeSet<String>,
    known: BTreeSet<ProcessId>,
    uses: [Option<String>; 2],
}

/// When NVML is asked, and what it said.
#[derive(Debug, Default)]
struct Inquiry {
    /// As they were at the last tick, and for how long they have been.
    now: Circumstances,
    still: Duration,
    /// How long they have not been those of the last answer.
    new_for: Duration,
    /// Under which it was asked last, and how long ago; `None` when it has not been.
    last: Option<(Circumstances, Duration)>,
    /// `None` when NVML could not be asked.
    found: Option<BTreeMap<String, Found>>,
}

/// Starts the thread.
pub(super) fn start(is_system: bool) -> std::io::Result<Arc<Mutex<CardNews>>> {
    let news = Arc::new(Mutex::new(CardNews::default()));
    let shared = Arc::clone(&news);
    std::thread::Builder::new()
        .name("divvy card".to_owned())
        .stack_size(256 << 10)
        .spawn(move || watch(&shared, is_system))?;
    Ok(news)
}

fn watch(news: &Mutex<CardNews>, is_system: bool) {
    let mut inquiry = Inquiry::default();
    loop {
        pause(TICK);
        let (asked, known) = {
            let news = news.lock().unwrap_or_else(PoisonError::into_inner);
            (news.asked.clone(), news.known.clone())
        };
        let mut found = BTreeMap::new();
        if asked.is_empty() {
            inquiry = Inquiry::default();
        } else {
            // Read before NVML is asked: whoever comes meanwhile makes it be asked again.
            let uses = USES.map(|path| std::fs::read_to_string(path).ok());
            if inquiry.is_due(Circumstances { asked, known, uses }) {
                inquiry.ask();
            }
            let mps = has_mps_pipe(is_system);
            for uuid in &inquiry.now.asked {
                let told = inquiry.found.as_ref().and_then(|found| found.get(uuid).copied());
                let told = told.unwrap_or_default();
                found.insert(uuid.clone(), Found { mps: told.mps || mps, ..told });
            }
        }
        news.lock().unwrap_or_else(PoisonError::into_inner).found = found;
    }
}

impl Inquiry {
    /// Whether NVML is to be asked under the circumstances of `now`. Called once a tick.
    fn is_due(&mut self, now: Circumstances) -> bool {
        self.still = if self.now == now { self.still + TICK } else { Duration::ZERO };
        self.now = now;
        let is_new = self.last.as_ref().is_none_or(|(then, _)| *then != self.now);
        self.new_for = if is_new { self.new_for + TICK } else { Duration::ZERO };
        let is_due = is_new && (self.still >= SETTLE || self.new_for >= PATIENCE);
        let Some((_, ago)) = &mut self.last else { return is_due };
        *ago += TICK;
        match (&self.found, &self.now.uses) {
            (None, _) => *ago >= RETRY,
            (_, [None, None]) => *ago >= UNCOUNTED || is_due && *ago >= GAP,
            _ => *ago >= LONGEST || is_due && *ago >= GAP,
        }
    }

    fn ask(&mut self) {
        let seen = look::ask(&self.now.asked);
        let count = |(uuid, seen)| (uuid, found_in(&seen, &self.now.known));
        self.found = seen.map(|seen| seen.into_iter().map(count).collect());
        self.last = Some((self.now.clone(), Duration::ZERO));
    }
}

fn found_in(seen: &Seen, known: &BTreeSet<ProcessId>) -> Found {
    let identities: Vec<_> = seen.pids.iter().map(|pid| identity(*pid)).collect();
    Found { foreign: foreign(&identities, known), mps: seen.mps }
}

/// How many are none of ours; 0 where none of ours is recognised, since then the names mean nothing.
fn foreign(processes: &[Option<ProcessId>], known: &BTreeSet<ProcessId>) -> u32 {
    let is_ours = |process: &Option<ProcessId>| process.is_some_and(|one| known.contains(&one));
    let ours = processes.iter().filter(|process| is_ours(process)).count();
    if ours == 0 {
        return 0;
    }
    u32::try_from(processes.len() - ours).unwrap_or(u32::MAX)
}

/// A process of this machine by the names its tenant knows it by.
fn identity(pid: u32) -> Option<ProcessId> {
    let namespace = std::fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some((namespace, line.split_whitespace().next_back()?.parse().ok()?))
}

/// Whether an MPS daemon that counts for this daemon's tenants has its pipe open: the user's own or
/// root's, so that no user can take the others' turns away.
fn has_mps_pipe(is_system: bool) -> bool {
    let place = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from);
    let place = place.unwrap_or_else(|| PathBuf::from("/tmp/nvidia-mps"));
    let uid = crate::tenants::tenant_dir::uid();
    is_pipe_of(&place, &[0, if is_system { 0 } else { uid }])
}

/// Whether the pipe in `place` is one of `uids`', and so is the directory, which no link of another's
/// leads to.
fn is_pipe_of(place: &Path, uids: &[u32]) -> bool {
    let dir = Dir::open_through(place).ok().filter(|dir| uids.contains(&dir.uid()));
    let status = dir.and_then(|dir| dir.status(OsStr::new("control")));
    status.is_some_and(|status| uids.contains(&status.st_uid))
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

    /// Users of the driver, and a process of a tenant.
    fn with(uses: Option<u32>, pid: u32) -> Circumstances {
        let uses = [uses.map(|uses| format!("{uses}\n")), None];
        Circumstances { known: BTreeSet::from([(1, pid)]), uses, ..Circumstances::default() }
    }

    /// An inquiry that was answered under `last` just now.
    fn answered(last: &Circumstances) -> Inquiry {
        Inquiry {
            now: last.clone(),
            still: SETTLE,
            new_for: Duration::ZERO,
            last: Some((last.clone(), Duration::ZERO)),
            found: Some(BTreeMap::new()),
        }
    }

    /// Time until it is due while the circumstances are those of `at`, by tick.
    fn due_after(mut inquiry: Inquiry, at: impl Fn(u32) -> Circumstances) -> Duration {
        let ticks = (1..1000).find(|tick| inquiry.is_due(at(*tick)));
        TICK * ticks.expect("it is never due")
    }

    #[test]
    fn what_comes_together_is_one_question() {
        let comes = |tick: u32| with(Some(tick.min(3)), 7);
        let mut inquiry = Inquiry::default();
        let asked: Vec<u32> = (1..60)
            .filter(|tick| {
                let due = inquiry.is_due(comes(*tick));
                if due {
                    inquiry.last = Some((inquiry.now.clone(), Duration::ZERO));
                    inquiry.found = Some(BTreeMap::new());
                }
                due
            })
            .collect();
        assert_eq!(asked, [4], "once, when the last has come");
    }

    #[test]
    fn what_is_new_is_asked_for_soon_and_not_too_often() {
        let (before, more, others) = (with(Some(7), 1), with(Some(8), 1), with(Some(7), 2));
        for new in [&more, &others] {
            assert_eq!(due_after(answered(&before), |_| new.clone()), GAP);
            let mut long_ago = answered(&before);
            assert!((0..40).all(|_| !long_ago.is_due(before.clone())));
            assert_eq!(due_after(long_ago, |_| new.clone()), 2 * TICK);
        }
        // A process comes or goes at every tick.
        assert_eq!(due_after(answered(&before), |tick| with(Some(tick), 9)), GAP);
        assert_eq!(due_after(Inquiry::default(), |tick| with(Some(tick), 9)), PATIENCE);
        assert_eq!(due_after(answered(&before), |_| before.clone()), LONGEST);
        let uncounted = with(None, 1);
        assert_eq!(due_after(answered(&uncounted), |_| uncounted.clone()), UNCOUNTED);
        let refused = Inquiry { found: None, ..answered(&before) };
        assert_eq!(due_after(refused, |_| more.clone()), RETRY);
    }

    #[test]
    fn a_process_is_known_by_its_namespace_and_its_pid_there() {
        let (namespace, pid) = identity(std::process::id()).unwrap();
        assert_eq!((Some(namespace), pid), (divvy_page::pid_namespace(), std::process::id()));
        assert_eq!(identity(u32::MAX), None);
    }

    #[test]
    fn a_pipe_is_believed_of_its_user_in_its_users_place() {
        let base = std::env::temp_dir().join(format!("divvy-mps-{}", std::process::id()));
        let (own, link) = (base.join("own"), base.join("link"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("control"), "").unwrap();
        std::os::unix::fs::symlink("own", &link).unwrap();
        let me = crate::tenants::tenant_dir::uid();
        assert!(is_pipe_of(&own, &[me]) && is_pipe_of(&link, &[me]));
        assert!(!is_pipe_of(&own, &[me + 1]) && !is_pipe_of(&base, &[me]));
        if me == 0 {
            // Another's link to what is root's, and another's directory with something of root's in it.
            std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
            assert!(!is_pipe_of(&link, &[0]));
            std::os::unix::fs::chown(&own, Some(65534), None).unwrap();
            assert!(!is_pipe_of(&own, &[0]));
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
