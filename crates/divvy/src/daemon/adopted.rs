//! An adopted tenant: its open files, and the daemon's readings of its limits, devices and processes.
//!
//! Tenants do not register: the daemon reads their directories again every fraction of a second, so a daemon that
//! is restarted finds all that the one before it knew. A lock on the directory keeps two daemons from writing
//! one tenant's gates.
//!
//! A glance looks often and cheaply for what must be known soon: changed limits, devices, contexts and processes. It
//! reads some forty bytes of the limits, the usage file's head, and the next slot in turn, or all slots if the head has
//! changed; so a process that comes is seen at once, and one that dies after as many glances as slots are looked at.
//! A whole reading is rarer, and also finds a usage file that was replaced, gates that were overwritten, and
//! contexts that are gone without a word in the head.
//!
//! Promises: no reading or writing waits for a tenant; what a tenant's processes write is not trusted, and changes
//! only that tenant's own seat; limits or a usage file that cannot be understood, or are another user's, give a
//! [`NotAdopted`] with a reason code. A usage file that was replaced is opened in place of the old one. If the directory
//! has none any more, the processes that were found last stay listed, and with them the tenant, until its directory goes.
//! Does not decide anything: that is `divvy_policy::turns`, whose step reads and writes the gates through [`Open`].

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use divvy_abi::config::{Config, GateLine};
use divvy_page::AttachError;
use divvy_page::owner::Owner;
use divvy_page::reader::{CapEntry, GateEntry, Head, UsageFile};
use divvy_policy::turns::{Files, Served};
use nix::fcntl::Flock;

use crate::log::change::Subject;
use crate::output::reason::Reason;
use crate::tenants::dir::{Dir, FileIdentity};
use crate::tenants::tenant_dir;

/// Value of [`Adopted::most_slots`] to begin with, and its least: 32 processes, as slot 0 is none's. The number of slots
/// that are read for a tenant is bounded, since it may claim a thousand, and each costs two system calls.
pub(super) const LEAST_SLOTS: usize = 33;
/// Most slots that are read for all tenants of one user together, in a daemon that serves several users.
pub(super) const MOST_SLOTS: usize = 2048;

/// Reason why this daemon does not write a tenant's gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotAdopted {
    pub(super) reason: Reason,
    pub(super) detail: String,
}

impl From<AttachError> for NotAdopted {
    fn from(error: AttachError) -> Self {
        Self { reason: Reason::GatesNotHeld, detail: error.to_string() }
    }
}

/// Depth of a reading of a tenant's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadDepth {
    /// The parts that must be known soon.
    Glance,
    /// All limits, the usage file itself, contexts, and all slots below [`Adopted::most_slots`].
    Whole,
}

/// A slot that a process has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    slot: usize,
    /// True while the process is alive.
    alive: bool,
    /// Its pid namespace, and its pid there.
    identity: (u64, u32),
}

/// Open handles of a tenant's directory and limits, for the daemon's other threads: they use these and not the path, which
/// may come to name another tenant.
#[derive(Debug)]
pub(super) struct Hand {
    /// Path of the directory; nothing is opened by it.
    pub(super) path: PathBuf,
    /// The user whose directory it is.
    pub(super) uid: u32,
    pub(super) dir: Dir,
    pub(super) owner: Owner,
}

/// A tenant's files, as the scheduler's step reads and writes them.
#[derive(Debug)]
pub(super) struct Open {
    hand: Arc<Hand>,
    usage: Option<(UsageFile, FileIdentity)>,
    /// Head of the usage file from which rows were last matched to devices; `None` if that is due again.
    head: Option<Head>,
    processes: Vec<Process>,
    /// The slot that the next glance looks at.
    next_slot: usize,
}

/// A tenant whose gates this daemon writes.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) served: Served<Open>,
    /// Lock by which no other daemon writes its gates. It ends with the adoption, even while other threads have the
    /// [`Hand`], by which they change limits but no gates.
    _lock: Flock<File>,
    /// Number below which slots are looked at.
    pub(super) most_slots: usize,
    /// Its rows of devices on which its memory stays though it could leave, a bit each.
    pub(super) stays: u32,
    /// Those on which its calls may use its memory, by the orders that stand.
    pub(super) runs: u32,
    /// Whether its limits have changed since the last call.
    has_change: bool,
}

impl Adopted {
    /// Takes the tenant whose directory is open and was found at `path`.
    pub(super) fn take(path: PathBuf, dir: Dir) -> Result<Self, NotAdopted> {
        let uid = dir.uid();
        let Some(lock) = dir.lock()? else {
            return Err(NotAdopted {
                reason: Reason::OtherDaemon,
                detail: "another daemon writes this tenant's gates".to_owned(),
            });
        };
        let owner = Owner::within(&dir.tenant()?)?;
        let hand = Arc::new(Hand { path, uid, dir, owner });
        let files = Open { hand, usage: None, head: None, processes: Vec::new(), next_slot: 1 };
        let served = Served::take(files)?;
        let mut adopted = Self {
            served,
            _lock: lock,
            most_slots: LEAST_SLOTS,
            stays: 0,
            runs: 0,
            has_change: false,
        };
        adopted.refresh(ReadDepth::Whole)?;
        adopted.has_change = false;
        Ok(adopted)
    }

    /// The handles that the daemon's other threads share.
    pub(super) fn hand(&self) -> &Arc<Hand> {
        &self.served.files.hand
    }

    /// Name, directory and owner of the tenant, for the log.
    pub(super) fn subject(&self) -> Subject {
        let Hand { path, uid, .. } = self.hand().as_ref();
        Subject::of(path, Some(self.served.config()), *uid)
    }

    /// Whether its limits have changed since this was asked last.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_change)
    }

    /// True if a process of the tenant was alive at the last reading, or if the `divvy run` that made it is, which may be
    /// about to start one.
    pub(super) fn is_in_use(&self) -> bool {
        self.served.files.processes.iter().any(|process| process.alive)
            || tenant_dir::is_owner_alive(&self.hand().dir)
    }

    /// Its usage file, if there is one.
    pub(super) fn usage(&self) -> Option<&UsageFile> {
        self.served.files.usage.as_ref().map(|(usage, _)| usage)
    }

    /// The slots that were taken at the last reading, in order.
    pub(super) fn all_slots(&self) -> impl Iterator<Item = usize> {
        self.served.files.processes.iter().map(|process| process.slot)
    }

    /// Those of the processes that were alive.
    pub(super) fn living_slots(&self) -> impl Iterator<Item = usize> {
        let living = self.served.files.processes.iter().filter(|process| process.alive);
        living.map(|process| process.slot)
    }

    /// The processes that were alive at the last reading, by pid namespace and pid.
    pub(super) fn living(&self) -> impl Iterator<Item = (u64, u32)> {
        let living = self.served.files.processes.iter().filter(|process| process.alive);
        living.map(|process| process.identity)
    }

    /// Reads limits, devices, contexts and processes again, as deep as `depth` says; true if any of them has changed.
    pub(super) fn refresh(&mut self, depth: ReadDepth) -> Result<bool, NotAdopted> {
        let mut is_changed = self.refresh_limits(depth)?;
        let files = &mut self.served.files;
        if depth == ReadDepth::Whole || files.usage.is_none() {
            is_changed |= files.refresh_usage()?;
        }
        let Some((usage, _)) = &files.usage else { return Ok(is_changed) };
        let head = usage.head();
        let most = head.slots_high.min(self.most_slots);
        let is_whole = depth == ReadDepth::Whole || files.head != Some(head);
        let is_other = files.look_at_slots(most, is_whole) || files.head != Some(head);
        if is_changed || is_other {
            files.head = Some(head);
            let devices = head.devices.into_iter();
            self.served
                .name_rows(devices.map(|device| device.map(|named| (named.uuid, named.index))));
        }
        Ok(self.served.find_contexts(is_other || depth == ReadDepth::Whole)
            || is_changed
            || is_other)
    }

    fn refresh_limits(&mut self, depth: ReadDepth) -> Result<bool, NotAdopted> {
        let owner = &self.hand().owner;
        let config = match depth {
            ReadDepth::Whole => owner.read()?,
            ReadDepth::Glance => match owner.read_changed(self.served.config())? {
                Some(config) => config,
                None => return Ok(false),
            },
        };
        let is_changed = self.served.take_limits(config);
        self.has_change |= is_changed;
        Ok(is_changed)
    }
}

impl Open {
    /// Reads which process has a slot and whether it is alive: of all slots from 1 to below `most`, or of the next one
    /// alone. True if one has changed.
    fn look_at_slots(&mut self, most: usize, all: bool) -> bool {
        let Some((usage, _)) = &self.usage else { return false };
        let process = |slot| {
            let entry = usage.slot(slot)?;
            Some(Process { slot, alive: entry.alive, identity: (entry.pid_namespace, entry.pid) })
        };
        if all {
            let processes: Vec<_> = (1..most).filter_map(process).collect();
            let is_other = self.processes != processes;
            self.processes = processes;
            return is_other;
        }
        if most <= 1 {
            return false;
        }
        let slot = if (1..most).contains(&self.next_slot) { self.next_slot } else { 1 };
        self.next_slot = slot + 1;
        let at = self.processes.partition_point(|one| one.slot < slot);
        let before = self.processes.get(at).copied().filter(|one| one.slot == slot);
        let now = process(slot);
        drop(self.processes.splice(at..at + usize::from(before.is_some()), now));
        before != now
    }

    /// Opens the usage file that the directory holds, if it is another than the open one, and closes that. True also if it
    /// holds none any more.
    fn refresh_usage(&mut self) -> Result<bool, NotAdopted> {
        let there = self.hand.dir.identity_of("usage");
        if self.usage.as_ref().map(|(_, identity)| *identity) == there {
            return Ok(false);
        }
        self.usage = UsageFile::within(&self.hand.dir.tenant()?)?.zip(there);
        Ok(true)
    }
}

impl Files for Open {
    type Error = AttachError;

    fn processes(&self) -> impl Iterator<Item = (usize, bool)> + Clone {
        self.processes.iter().map(|process| (process.slot, process.alive))
    }

    fn gates(
        &self,
        row: usize,
        slots: impl Iterator<Item = usize>,
        each: impl FnMut(usize, GateEntry),
    ) -> Option<CapEntry> {
        self.usage.as_ref().map(|(usage, _)| usage.gates(row, slots, each))
    }

    fn holds_any(&self, row: usize, slots: impl Iterator<Item = usize>) -> bool {
        self.usage.as_ref().is_some_and(|(usage, _)| usage.holds_any(row, slots))
    }

    fn read(&self) -> Result<Config, AttachError> {
        self.hand.owner.read()
    }

    fn set_gate(&mut self, row: usize, line: &GateLine) -> Result<(), AttachError> {
        self.hand.owner.set_gate(row, line)
    }

    fn describe_gate(&mut self, row: usize, line: &GateLine) -> Result<(), AttachError> {
        self.hand.owner.describe_gate(row, line)
    }

    fn renew(&mut self, row: usize, lease_ns: u64) -> Result<(), AttachError> {
        self.hand.owner.renew(row, lease_ns)
    }

    fn wake(&mut self, row: usize) {
        self.hand.owner.wake(row);
    }

    fn raise_any_gate(&mut self) -> Result<(), AttachError> {
        self.hand.owner.raise_any_gate()
    }

    fn lower_any_gate(&mut self) -> Result<Option<Config>, AttachError> {
        let config = self.hand.owner.lower_any_gate()?;
        if config.is_some() {
            // The caller takes this config, perhaps with other limits than those read last. The next glance compares with
            // it and finds nothing changed, so that clearing the head is what makes it match rows and devices again.
            self.head = None;
        }
        Ok(config)
    }
}

impl Hand {
    /// True while the open config is the file that the directory names now, which new processes open.
    pub(super) fn has_its_config(&self) -> bool {
        self.owner.identity().ok() == self.dir.identity_of("config")
    }
}
