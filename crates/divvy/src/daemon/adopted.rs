//! An adopted tenant: its open files, and the daemon's readings of its limits, devices and processes.
//!
//! Tenants do not register: the daemon reads their directories again every fraction of a second, so one that
//! was started again finds what the one before it knew. A lock on the directory keeps two daemons from writing
//! one tenant's gates.
//!
//! A glance looks often and cheaply for what must be known soon: other limits, devices, contexts, processes
//! that came or died. It reads some forty bytes of the limits, the usage file's head, and the next slot, or
//! all slots where the head has changed. A whole reading is rarer, and also finds accidents and
//! malice: files that were cut or replaced, gates that were overwritten, contexts that were given up.
//!
//! Promises: no reading or writing waits for a tenant; a tenant's words are claims and change only its own
//! seat; files that are cut, replaced, garbled or another's give a [`NotAdopted`] with a reason
//! code. Does not decide anything: that is `divvy_policy::turns`, whose step reads and writes the gates
//! through [`Open`].

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use divvy_abi::config::{Config, GateLine};
use divvy_page::AttachError;
use divvy_page::owner::Owner;
use divvy_page::reader::{CapEntry, GateEntry, Head, UsageFile};
use divvy_policy::turns::{Files, Served};
use nix::fcntl::Flock;

use crate::output::reason::Reason;
use crate::tenants::dir::{Dir, FileIdentity};
use crate::tenants::tenant_dir;

/// Least value of [`Adopted::most_slots`]. The number of slots read for a tenant is bounded, since it may claim a thousand
/// and each costs two system calls.
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
    /// A look at the parts that must be known soon.
    Glance,
    /// Everything.
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
    /// The directory's owner.
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
    /// [`Hand`].
    _lock: Flock<File>,
    /// Slots below this are looked at.
    pub(super) most_slots: usize,
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
        let mut adopted = Self { served, _lock: lock, most_slots: LEAST_SLOTS };
        adopted.refresh(ReadDepth::Whole)?;
        Ok(adopted)
    }

    /// The handles that the daemon's other threads share.
    pub(super) fn hand(&self) -> &Arc<Hand> {
        &self.served.files.hand
    }

    /// True if a process of the tenant is alive, or its owner, which may be about to start one.
    pub(super) fn is_in_use(&self) -> bool {
        self.served.files.processes.iter().any(|process| process.alive)
            || tenant_dir::is_owner_alive(&self.hand().dir)
    }

    /// The processes that live, by pid namespace and pid.
    pub(super) fn living(&self) -> impl Iterator<Item = (u64, u32)> {
        let living = self.served.files.processes.iter().filter(|process| process.alive);
        living.map(|process| process.identity)
    }

    /// Reads limits, devices and processes again; true if any of them has changed.
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
        Ok(self.served.take_limits(config))
    }
}

impl Open {
    /// Reads the owner and liveness of all slots below `most`, or of the next one alone; true if one has changed.
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

    /// Opens the usage file again if the directory holds another than the open one.
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
            // The limits may have changed since they were read, so the rows are matched again.
            self.head = None;
        }
        Ok(config)
    }
}

impl Hand {
    /// True while the open config is the file that the directory names, which new processes open.
    pub(super) fn has_its_config(&self) -> bool {
        self.owner.identity().ok() == self.dir.identity_of("config")
    }
}
