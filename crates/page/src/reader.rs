//! The owner's side: reads a tenant's files without mapping them, and writes its limits.
//!
//! Reading is by `pread`, so a tenant that shortens or garbles its file harms nobody but itself: a
//! short read is an exact error or zeros, a text loses its control characters before it is printed ([`FieldText`]),
//! and every number is a claim of the tenant. Nothing is allocated: callers walk rows and slots.
//!
//! Files of the version before are read as today's are: what lies where is [`divvy_abi::layout`]'s.
//!
//! Does not judge who owns the files (the reader named the directory), wait for a lock, change the
//! usage file, or say whether a process is who it says it is.

use core::ffi::CStr;

use divvy_abi::config::Config;
use divvy_abi::layout::{self, Layout};
use divvy_abi::usage::{
    self, MAX_SHARED, MemoryKind, SHARED_SLOT, device, line, shared, slot, state,
};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS, Uuid};
use divvy_policy::ledger::{changes, held_bytes};
pub use divvy_policy::turns::{CapEntry, GateEntry};

use crate::directory::Directory;
use crate::error::{AttachError, TenantFile};
pub use crate::field_text::{FieldText, is_shown};
use crate::sys::{Errno, Fd};
use crate::{file, liveness, mark};

/// Words from the count of slots to the end of the device table.
const HEAD_WORDS: usize = (usage::device_at(MAX_DEVICES) - usage::SLOTS_HIGH_AT) / 8;

/// Readings of a row before its totals are given out as inconsistent.
const READINGS: usize = 16;

/// A device of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceEntry {
    /// The device.
    pub uuid: Uuid,
    /// Its index on the machine, where known.
    pub index: Option<u32>,
    /// Its name.
    pub name: FieldText<{ device::NAME_BYTES }>,
    /// Its memory.
    pub total_bytes: u64,
    /// The tenant's limit, `None` for none.
    pub limit_bytes: Option<u64>,
}

/// A device's entry in a tenant's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceName {
    /// The device.
    pub uuid: Uuid,
    /// Its index on the machine, where known.
    pub index: Option<u32>,
}

/// The slots and devices of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Slots to look at: 1 up to this.
    pub slots_high: usize,
    /// The device in each row, if any.
    pub devices: [Option<DeviceName>; MAX_DEVICES],
}

/// A process of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotEntry {
    /// Whether its liveness lock is held. What a dead process held stands in its lines until the next
    /// process joins, asks at the limit or asks how much is used.
    pub alive: bool,
    /// Whether it is still attaching.
    pub starting: bool,
    /// Its pid, in its own pid namespace.
    pub pid: u32,
    /// Inode of that namespace.
    pub pid_namespace: u64,
    /// Its start, in clock ticks since boot.
    pub start_ticks: u64,
    /// The name of the thread that attached.
    pub comm: FieldText<{ slot::COMM_BYTES }>,
    /// Why it was refused memory last; 0 for never.
    pub reason: u32,
}

/// Bytes that one process holds on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineEntry {
    /// Bytes it holds.
    pub held_bytes: u64,
    /// Bytes it is asking for.
    pub asking_bytes: u64,
    /// The largest total of the tenant it has seen.
    pub peak_bytes: u64,
    /// Its requests that were refused.
    pub refusals: u64,
    /// Bytes by kind, in the order of [`MemoryKind::ALL`].
    pub kind_bytes: [u64; MemoryKind::ALL.len()],
}

impl LineEntry {
    /// Bytes held for `kind`.
    pub fn bytes_of(&self, kind: MemoryKind) -> u64 {
        self.kind_bytes.get(kind as usize).copied().unwrap_or(0)
    }

    /// Whether nothing was ever counted here.
    pub fn is_empty(&self) -> bool {
        let Self { held_bytes, asking_bytes, peak_bytes, refusals, kind_bytes } = self;
        [held_bytes, asking_bytes, peak_bytes, refusals].iter().all(|n| **n == 0)
            && kind_bytes.iter().all(|n| *n == 0)
    }
}

/// Bytes that a whole tenant holds on one device.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Held by the living, what they share included. What the dead held is the card's again, though it
    /// stands in the file until somebody asks for memory.
    pub used_bytes: u64,
    /// Of these, memory shared between processes that a living one refers to or an open descriptor keeps.
    pub shared_bytes: u64,
    /// The largest total any process has seen.
    pub peak_bytes: u64,
    /// Requests refused, the dead's included.
    pub refusals: u64,
    /// Whether `used_bytes` is of one instant.
    pub consistent: bool,
}

/// A tenant's usage file, open for reading.
#[derive(Debug)]
pub struct UsageFile {
    fd: Fd,
    layout: &'static Layout,
}

impl UsageFile {
    /// Opens the file of the tenant in the directory at `path`; `None` when no process has joined it yet.
    ///
    /// # Errors
    /// [`AttachError`] naming what is wrong with the directory or the file.
    pub fn open(path: &CStr) -> Result<Option<Self>, AttachError> {
        Self::within(&Directory::open(path)?)
    }

    /// The same in a directory that is open.
    ///
    /// # Errors
    /// As [`UsageFile::open`].
    pub fn within(directory: &Directory) -> Result<Option<Self>, AttachError> {
        Self::within_of(directory, &layout::USAGE)
    }

    /// The same where files of these layouts are served.
    ///
    /// # Errors
    /// As [`UsageFile::open`].
    pub fn within_of(
        directory: &Directory,
        served: &'static [Layout],
    ) -> Result<Option<Self>, AttachError> {
        // A daemon reads it a thousand times a second, and each reading would be noted in the inode.
        // Only the file's owner and root may ask for it not to be.
        let opened =
            match directory.open_judged(TenantFile::Usage, libc::O_RDONLY | libc::O_NOATIME) {
                Err(AttachError::Open(_, Errno(libc::EPERM))) => {
                    directory.open_judged(TenantFile::Usage, libc::O_RDONLY)
                }
                opened => opened,
            };
        let Some(fd) = opened? else { return Ok(None) };
        Ok(file::laid_out(&fd, served)?.map(|layout| Self { fd, layout }))
    }

    /// The version of its layout.
    pub fn version(&self) -> u32 {
        self.layout.version
    }

    /// Slots to look at: 1 up to this.
    pub fn slots_high(&self) -> usize {
        let [high] = self.words::<1>(usage::SLOTS_HIGH_AT);
        slots_high(high)
    }

    /// The device in `row`, if any.
    pub fn device(&self, row: usize) -> Option<DeviceEntry> {
        if row >= MAX_DEVICES {
            return None;
        }
        let at = usage::device_at(row);
        let [head, uuid @ .., total_bytes, limit_bytes] = self.words::<5>(at);
        if low(head) == 0 {
            return None;
        }
        let index = high(head);
        Some(DeviceEntry {
            uuid: bytes_of(&uuid),
            index: (index != u32::MAX).then_some(index),
            name: FieldText::new(bytes_of(
                &self.words::<{ device::NAME_BYTES / 8 }>(at + device::NAME),
            )),
            total_bytes,
            limit_bytes: (limit_bytes != 0).then_some(limit_bytes),
        })
    }

    /// The process in slot `index`; `None` for a slot that is nobody's, and for slot 0.
    pub fn slot(&self, index: usize) -> Option<SlotEntry> {
        if index == SHARED_SLOT || index >= MAX_SLOTS {
            return None;
        }
        let [head, start_ticks, pid_namespace, comm @ .., reason] =
            self.words::<6>(usage::slot_at(index));
        let state = low(head);
        (state != state::FREE).then(|| SlotEntry {
            alive: liveness::is_alive(&self.fd, index),
            starting: state == state::STARTING,
            pid: high(head),
            pid_namespace,
            start_ticks,
            comm: FieldText::new(bytes_of(&comm)),
            reason: low(reason),
        })
    }

    /// Why a process that has no slot was refused memory last; 0 for never.
    pub fn reason_without_slot(&self) -> u32 {
        let [word] = self.words::<1>(usage::slot_at(SHARED_SLOT) + slot::REASON);
        low(word)
    }

    /// Line of the process in `slot` for the device in `row`.
    pub fn line(&self, row: usize, slot: usize) -> LineEntry {
        let at = usage::line_at(row.min(MAX_DEVICES - 1), slot.min(MAX_SLOTS - 1));
        let [held, asking_bytes, peak_bytes, refusals, kind_bytes @ ..] = self.words::<16>(at);
        LineEntry { held_bytes: held_bytes(held), asking_bytes, peak_bytes, refusals, kind_bytes }
    }

    /// Whether one of `slots` holds something of the device in `row`.
    ///
    /// Cost: one `pread` for each eight slots in order.
    pub fn holds_any(&self, row: usize, slots: impl IntoIterator<Item = usize>) -> bool {
        const AT_ONCE: usize = 8;
        const WORDS: usize = usage::LINE_BYTES / 8;
        let row = row.min(MAX_DEVICES - 1);
        let (mut first, mut lines) = (MAX_SLOTS, [0; WORDS * AT_ONCE]);
        slots.into_iter().filter(|slot| *slot < MAX_SLOTS).any(|slot| {
            if slot - slot % AT_ONCE != first {
                first = slot - slot % AT_ONCE;
                lines = self.words(usage::line_at(row, first));
            }
            lines.get((slot - first) * WORDS).is_some_and(|held| held_bytes(*held) != 0)
        })
    }

    /// Sums of the living over the device in `row`: read until two readings have the same change
    /// counters.
    ///
    /// Cost: at least two `pread`s for each slot below [`UsageFile::slots_high`], a look at the lock of
    /// each that holds something, and 64 KiB more where memory is shared.
    pub fn totals(&self, row: usize) -> Totals {
        let (mut totals, mut before) = self.sum(row);
        for _ in 0..READINGS {
            let (again, now) = self.sum(row);
            totals = Totals { consistent: now == before, ..again };
            if totals.consistent {
                break;
            }
            before = now;
        }
        totals
    }

    /// Totals of one reading, and the sum of its change counters.
    fn sum(&self, row: usize) -> (Totals, u64) {
        let row = row.min(MAX_DEVICES - 1);
        let mut totals = Totals::default();
        let mut living = Living::of(self);
        let mut sum = 0_u64;
        for slot in 0..self.slots_high() {
            let [held, _, peak_bytes, refusals] = self.words::<4>(usage::line_at(row, slot));
            let bytes = match (held_bytes(held), slot) {
                (0, _) => 0,
                (bytes, SHARED_SLOT) => bytes.min(self.shared_bytes(row, &mut living)),
                (bytes, _) if living.has(slot) => bytes,
                _ => 0,
            };
            totals.used_bytes = totals.used_bytes.saturating_add(bytes);
            totals.peak_bytes = totals.peak_bytes.max(peak_bytes);
            totals.refusals = totals.refusals.saturating_add(refusals);
            if slot == SHARED_SLOT {
                totals.shared_bytes = bytes;
            }
            sum = sum.wrapping_add(changes(held));
        }
        (totals, sum)
    }

    /// The memory of the device in `row` that is shared and that somebody keeps: a living process that
    /// refers to it, or a descriptor that is open somewhere, a copy of one by which it was exported.
    ///
    /// Cost: where nobody refers to some of it, the kernel's list of locks is read, some ten
    /// milliseconds.
    fn shared_bytes(&self, row: usize, living: &mut Living<'_>) -> u64 {
        /// Entries that are read at once.
        const AT_ONCE: usize = 8;
        const WORDS: usize = usage::SHARED_BYTES / 8;
        let mut sum = 0_u64;
        let mut orphans = [(0_u64, 0_u64); MAX_SHARED];
        let mut count = 0_usize;
        for first in (0..MAX_SHARED).step_by(AT_ONCE) {
            let entries = self.words::<{ WORDS * AT_ONCE }>(usage::shared_at(first));
            for entry in entries.chunks_exact(WORDS) {
                let word = |at: usize| entry.get(at / 8).copied().unwrap_or(0);
                let head = word(shared::STATE);
                if low(head) == 0 || high(head) as usize != row {
                    continue;
                }
                let refers =
                    |slot: &usize| word(shared::USERS + 8 * (slot / 64)) & (1 << (slot % 64)) != 0;
                if (0..MAX_SLOTS).filter(refers).any(|slot| living.has(slot)) {
                    sum = sum.saturating_add(word(shared::BYTES));
                    continue;
                }
                let handle = core::array::from_fn(|at| word(shared::HANDLE + 8 * at));
                if let (Some(mark), Some(orphan)) =
                    (mark::in_handle(&handle), orphans.get_mut(count))
                {
                    *orphan = (mark.key(), word(shared::BYTES));
                    count += 1;
                }
            }
        }
        sum.saturating_add(kept_bytes(orphans.get_mut(..count).unwrap_or_default()))
    }

    /// The tenant's slots and devices.
    ///
    /// Cost: one `pread` of 3 KiB.
    pub fn head(&self) -> Head {
        let words = self.words::<HEAD_WORDS>(usage::SLOTS_HIGH_AT);
        let word = |at: usize| {
            words.get(at.saturating_sub(usage::SLOTS_HIGH_AT) / 8).copied().unwrap_or(0)
        };
        let devices = core::array::from_fn(|row| {
            let at = usage::device_at(row);
            let head = word(at);
            let uuid = [word(at + device::UUID), word(at + device::UUID + 8)];
            let index = high(head);
            let index = (index != u32::MAX).then_some(index);
            (low(head) != 0).then(|| DeviceName { uuid: bytes_of(&uuid), index })
        });
        Head { slots_high: slots_high(word(usage::SLOTS_HIGH_AT)), devices }
    }

    /// `N` words at `offset`; what the file does not have is zero.
    pub(crate) fn words<const N: usize>(&self, offset: usize) -> [u64; N] {
        let mut bytes = [[0_u8; 8]; N];
        self.read(bytes.as_flattened_mut(), offset);
        bytes.map(u64::from_ne_bytes)
    }

    /// Reads at `offset`; bytes beyond the file stay as they are in `into`.
    pub(crate) fn read(&self, into: &mut [u8], offset: usize) {
        file::read_through(&self.fd, self.layout, into, offset);
    }
}

/// Which slots are held by living processes, each asked for once.
#[derive(Debug)]
pub(crate) struct Living<'a> {
    file: &'a UsageFile,
    asked: [u64; MAX_SLOTS / 64],
    alive: [u64; MAX_SLOTS / 64],
}

impl<'a> Living<'a> {
    pub(crate) fn of(file: &'a UsageFile) -> Self {
        Self { file, asked: [0; MAX_SLOTS / 64], alive: [0; MAX_SLOTS / 64] }
    }

    pub(crate) fn has(&mut self, slot: usize) -> bool {
        let bit = 1 << (slot % 64);
        let words = (self.asked.get_mut(slot / 64), self.alive.get_mut(slot / 64));
        let (Some(asked), Some(alive)) = words else { return false };
        if *asked & bit == 0 {
            *asked |= bit;
            *alive |= if liveness::is_alive(&self.file.fd, slot) { bit } else { 0 };
        }
        *alive & bit != 0
    }
}

/// Reads the limits of the tenant in `directory`; `None` when nobody has written any.
///
/// # Errors
/// [`AttachError`] naming what is wrong with the file.
pub fn read_config(directory: &Directory) -> Result<Option<Config>, AttachError> {
    match directory.open_judged(TenantFile::Config, libc::O_RDONLY)? {
        Some(fd) => file::parse_served(&fd, &layout::CONFIG),
        None => Ok(None),
    }
}

/// Writes the limits of a new tenant in `directory` as its owner, in one step; the old ones stay where
/// that fails. Limits of a tenant that runs are changed by [`crate::owner::Owner::update`]: its
/// processes have this file mapped. `epoch` is counted up from the file there was.
///
/// # Errors
/// [`AttachError::NoSpace`] or [`AttachError::Open`].
pub fn write_config(directory: &Directory, new: &Config) -> Result<(), AttachError> {
    let before = read_config(directory).ok().flatten().map_or(0, |config| config.epoch & !1);
    let config = Config { epoch: before.wrapping_add(2), ..new.clone() };
    file::replace_config(directory, &config)
}

/// Of memory to which no process refers, by its marks' keys, what open descriptors keep; all of it where
/// the kernel does not say.
fn kept_bytes(orphans: &mut [(u64, u64)]) -> u64 {
    if orphans.is_empty() {
        return 0;
    }
    let all = orphans.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let mut kept = 0_u64;
    let is_told = mark::for_each_listed(|listed| {
        for (_, bytes) in orphans.iter_mut().filter(|(key, _)| *key == listed) {
            // Once, however many copies there are.
            kept = kept.saturating_add(core::mem::take(bytes));
        }
    });
    if is_told { kept } else { all }
}

fn slots_high(word: u64) -> usize {
    (low(word) as usize).clamp(1, MAX_SLOTS)
}

/// The first half of a word, as it lies in the file.
fn low(word: u64) -> u32 {
    u32::from_ne_bytes(word.to_ne_bytes().first_chunk().copied().unwrap_or_default())
}

/// The second half of a word, as it lies in the file.
fn high(word: u64) -> u32 {
    u32::from_ne_bytes(word.to_ne_bytes().last_chunk().copied().unwrap_or_default())
}

/// Words as the bytes they are in the file.
fn bytes_of<const N: usize>(words: &[u64]) -> [u8; N] {
    let mut bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    core::array::from_fn(|_| bytes.next().unwrap_or(0))
}

const _: () = assert!(device::UUID == 8 && device::TOTAL_BYTES == 24 && device::LIMIT_BYTES == 32);
const _: () = assert!(slot::START_TICKS == 8 && slot::PID_NAMESPACE == 16 && slot::COMM == 24);
const _: () = assert!(slot::REASON == 40 && device::INDEX == 4 && slot::PID == 4);
const _: () = assert!(line::HELD == 0 && line::ASKING == 8 && line::PEAK == 16);
const _: () = assert!(shared::STATE == 0 && shared::ROW == 4);
const _: () = assert!(MAX_SHARED.is_multiple_of(8) && MAX_SLOTS.is_multiple_of(64));
const _: () = assert!(line::REFUSALS == 24 && line::KINDS == 32);
const _: () = assert!(usage::SLOTS_HIGH_AT < usage::DEVICES_AT);
