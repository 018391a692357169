//! The owner's hand on a tenant's config: limits changed as a whole, gates word by word.
//!
//! Promises: everything is written by `pwrite` and the mapping serves only to name a futex, so a
//! tenant of the same user that shortens the file cannot end its owner; a reader sees the old limits
//! or the new, never a mixture; two owners (a daemon, and a command that changes a limit) exclude each
//! other by a lock of the file. A gate's state is written after what describes it.
//!
//! Does not decide which gate is open: that is `divvy_policy::turns`.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use divvy_abi::config::{self, Config, GateLine, OrderLine, gate};
use divvy_abi::layout::{self, Layout};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS, usage};
use divvy_policy::share;
use zerocopy::IntoBytes;

use crate::admission::PATIENCE_NS;
use crate::directory::Directory;
use crate::error::{AttachError, TenantFile};
use crate::file;
use crate::sys::{self, Errno, Fd, Lock};

/// Byte of the config file whose lock a writer of limits holds, beyond the data: the same as that of the
/// usage file's lock, so that one type holds either.
const WRITER_LOCK_AT: u64 = usage::ADMISSION_LOCK_AT;

/// A tenant's config, open for its owner.
#[derive(Debug)]
pub struct Owner {
    fd: Fd,
    base: *mut u8,
    /// Where things lie in this file: it keeps its version, and another one gets another file.
    layout: &'static Layout,
    /// Whether a thread of this process writes limits by this value. Its descriptor's lock keeps all
    /// others out.
    writing: AtomicBool,
}

// SAFETY: the mapping is this value's own until it is dropped, and is only named to the kernel.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// Opens the config of the tenant in the directory at `path`, which must have been written before.
    ///
    /// # Errors
    /// [`AttachError`] naming what is wrong with the file; [`AttachError::NoConfig`] without one.
    pub fn open(path: &CStr) -> Result<Self, AttachError> {
        Self::within(&Directory::open(path)?)
    }

    /// The same in a directory that is open. What is changed by this value later is this file, whatever
    /// lies in the directory then.
    ///
    /// # Errors
    /// As [`Owner::open`].
    pub fn within(directory: &Directory) -> Result<Self, AttachError> {
        Self::within_of(directory, &layout::CONFIG)
    }

    /// The same where files of these layouts are served.
    ///
    /// # Errors
    /// As [`Owner::open`].
    pub fn within_of(
        directory: &Directory,
        served: &'static [Layout],
    ) -> Result<Self, AttachError> {
        let opened = directory.open_judged(TenantFile::Config, libc::O_RDWR)?;
        let fd = opened.ok_or(AttachError::NoConfig)?;
        let config = file::parse_served(&fd, served)?.ok_or(AttachError::NoConfig)?;
        let layout = layout::of(config.version, served).ok_or(AttachError::NoConfig)?;
        let base =
            sys::map_shared(&fd, layout.bytes, libc::PROT_READ).map_err(AttachError::System)?;
        Ok(Self { fd, base, layout, writing: AtomicBool::new(false) })
    }

    /// The version of the file's layout.
    pub fn version(&self) -> u32 {
        self.layout.version
    }

    /// Device and inode of the file.
    ///
    /// # Errors
    /// [`AttachError::System`].
    pub fn identity(&self) -> Result<(u64, u64), AttachError> {
        let stat = sys::stat(&self.fd).map_err(AttachError::System)?;
        Ok((stat.device, stat.inode))
    }

    /// The config as it stands.
    ///
    /// # Errors
    /// [`AttachError`] when it was replaced by something else.
    pub fn read(&self) -> Result<Config, AttachError> {
        file::parse_served(&self.fd, core::slice::from_ref(self.layout))?
            .ok_or(AttachError::NoConfig)
    }

    /// The config, where its limits or [`Config::any_gate`] are not those of `known` any more.
    ///
    /// Cost: a `pread` of 44 bytes while they are. Gate lines may differ all the same.
    ///
    /// # Errors
    /// As [`Owner::read`].
    pub fn read_changed(&self, known: &Config) -> Result<Option<Config>, AttachError> {
        let mut head = [0; HEAD_BYTES];
        let same = file::read_through(&self.fd, self.layout, &mut head, 0)
            && known.epoch.is_multiple_of(2)
            && known.as_bytes().get(..HEAD_BYTES) == Some(&head);
        if same { Ok(None) } else { self.read().map(Some) }
    }

    /// Changes the limits: `change` gets the config as it stands. Gate lines and
    /// [`Config::any_gate`] that it changes are not written; the word is set where the new limits need
    /// it. Processes go by the new limits at their next request or launch that looks, and those that
    /// wait at a gate are woken.
    ///
    /// # Errors
    /// [`AttachError`] when the file is not a config any more, cannot be written, or another writer
    /// kept its lock for a second.
    pub fn update(&self, change: impl FnOnce(&mut Config)) -> Result<Config, AttachError> {
        let _writer = self.writer(PATIENCE_NS)?;
        let mut new = self.read()?;
        // Odd where a writer died half-way: what it wrote is overwritten now.
        let before = new.epoch & !1;
        change(&mut new);
        new.epoch = before.wrapping_add(2);
        let bytes = new.as_bytes();
        let part = |from: usize, to: usize| bytes.get(from..to).unwrap_or(&[]);
        self.has_place_for(part(FLAGS_AT, config::EPOCH_AT), FLAGS_AT)?;
        self.has_place_for(part(RULES_AT, config::gate_at(0)), RULES_AT)?;
        self.put(&before.wrapping_add(1).to_ne_bytes(), config::EPOCH_AT)?;
        self.put(part(FLAGS_AT, config::EPOCH_AT), FLAGS_AT)?;
        self.put(part(RULES_AT, config::gate_at(0)), RULES_AT)?;
        self.put(&new.epoch.to_ne_bytes(), config::EPOCH_AT)?;
        // Never cleared here: a daemon sets it without the lock, and what was read is older than that.
        if share::needs_gate(&new) {
            self.raise_any_gate()?;
            new.any_gate = 1;
        }
        (0..MAX_DEVICES).for_each(|row| self.wake(row));
        self.tell_orders()?;
        Ok(new)
    }

    /// Makes launches look at their gates. Needs no lock: nobody clears the word but a daemon, by
    /// [`Owner::lower_any_gate`], and a tenant has one daemon.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn raise_any_gate(&self) -> Result<(), AttachError> {
        self.put(&1_u32.to_ne_bytes(), config::ANY_GATE_AT)
    }

    /// Lets launches pass without a look at their gates, unless limits or gates that stand need one;
    /// the config as it is then. For the tenant's daemon, which must wait for nobody: `None` while
    /// somebody changes limits, and nothing is changed.
    ///
    /// # Errors
    /// As [`Owner::update`], but for the lock.
    pub fn lower_any_gate(&self) -> Result<Option<Config>, AttachError> {
        let _writer = match self.writer(0) {
            Err(AttachError::LockTimeout) => return Ok(None),
            writer => writer?,
        };
        if !share::needs_gate(&self.read()?) {
            self.put(&0_u32.to_ne_bytes(), config::ANY_GATE_AT)?;
        }
        // The first process of a tenant without an owner writes its limits under another lock.
        let now = self.read()?;
        if share::needs_gate(&now) {
            self.raise_any_gate()?;
            return Ok(Some(Config { any_gate: 1, ..now }));
        }
        Ok(Some(now))
    }

    /// Becomes the one writer of limits, within `patience_ns`.
    fn writer(&self, patience_ns: u64) -> Result<Writer<'_>, AttachError> {
        let deadline_ns = sys::now_ns().saturating_add(patience_ns);
        loop {
            if !self.writing.swap(true, SeqCst) {
                let writer = Writer(self);
                let lock = sys::set_lock(&self.fd, WRITER_LOCK_AT, Lock::Write);
                if lock.map_err(AttachError::System)? {
                    // Another file has its name now, and nobody goes by this one.
                    let stat = sys::stat(&self.fd).map_err(AttachError::System)?;
                    let gone = AttachError::Open(TenantFile::Config, Errno(libc::ENOENT));
                    return if stat.links == 0 { Err(gone) } else { Ok(writer) };
                }
            }
            if sys::now_ns() >= deadline_ns {
                return Err(AttachError::LockTimeout);
            }
            sys::sleep_ns(100_000);
        }
    }

    /// Writes the gate line of device `row`, its state last, and wakes those who wait when it opens.
    ///
    /// Cost: two writes of at most 52 bytes, and one call when it opens.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn set_gate(&self, row: usize, line: &GateLine) -> Result<(), AttachError> {
        self.describe_gate(row, line)?;
        let at = config::gate_at(row.min(MAX_DEVICES - 1));
        self.put(&line.gate.to_ne_bytes(), at)?;
        if line.gate != gate::CLOSED {
            self.wake(row);
        }
        Ok(())
    }

    /// Writes the gate line of device `row` but for its state, which stands there already.
    ///
    /// Cost: one write of 52 bytes.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn describe_gate(&self, row: usize, line: &GateLine) -> Result<(), AttachError> {
        let at = config::gate_at(row.min(MAX_DEVICES - 1));
        self.put(line.as_bytes().get(4..LINE_USED_BYTES).unwrap_or(&[]), at + 4)
    }

    /// Writes the lease of device `row` alone.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn renew(&self, row: usize, lease_ns: u64) -> Result<(), AttachError> {
        let at = config::gate_at(row.min(MAX_DEVICES - 1));
        self.put(&lease_ns.to_ne_bytes(), at + core::mem::offset_of!(GateLine, lease_ns))
    }

    /// Writes the order about the memory of device `row`, but for the ceilings.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn set_order(&self, row: usize, line: &OrderLine) -> Result<(), AttachError> {
        let at = config::order_at(row.min(MAX_DEVICES - 1));
        self.put(line.as_bytes(), at)
    }

    /// Writes the ceiling of the process in `slot` on device `row`.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn set_allowed(&self, row: usize, slot: usize, bytes: u64) -> Result<(), AttachError> {
        let at = config::allowed_at(row.min(MAX_DEVICES - 1), slot.min(MAX_SLOTS - 1));
        self.put(&bytes.to_ne_bytes(), at)
    }

    /// Writes the ceiling of managed memory of the process in `slot` for device `row`, as `divvy_abi::config::managed_at`
    /// has it.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn set_managed(&self, row: usize, slot: usize, word: u64) -> Result<(), AttachError> {
        let at = config::managed_at(row.min(MAX_DEVICES - 1), slot.min(MAX_SLOTS - 1));
        self.put(&word.to_ne_bytes(), at)
    }

    /// Has the tenant's processes look at the orders that were written.
    ///
    /// # Errors
    /// [`AttachError::Open`] when the file cannot be written.
    pub fn tell_orders(&self) -> Result<(), AttachError> {
        // By the clock, since others may write it at the same time: what matters is that it is another number.
        let number = (sys::now_ns() >> 6) as u32;
        self.put(&number.to_ne_bytes(), config::ORDERS_WORD_AT)?;
        self.wake_at(config::ORDERS_WORD_AT);
        Ok(())
    }

    /// Wakes all who wait at the gate of device `row`.
    pub fn wake(&self, row: usize) {
        self.wake_at(config::gate_at(row.min(MAX_DEVICES - 1)));
    }

    /// Wakes all who wait for the word at `at`.
    fn wake_at(&self, at: usize) {
        if let Some(at) = self.layout.place(at) {
            sys::futex_wake(self.base.wrapping_add(at), u32::MAX);
        }
    }

    /// Whether the file has a place for all of `bytes` that say something.
    fn has_place_for(&self, bytes: &[u8], at: usize) -> Result<(), AttachError> {
        self.runs(bytes, at, |place, part| match place {
            None if part.iter().any(|byte| *byte != 0) => {
                Err(AttachError::OtherLibrary { found: self.layout.version })
            }
            _ => Ok(()),
        })
    }

    /// Writes what lies at `at` in today's layout; what the file has no place for is nothing that its
    /// readers know.
    fn put(&self, bytes: &[u8], at: usize) -> Result<(), AttachError> {
        self.runs(bytes, at, |place, part| match place {
            Some(place) => sys::write_at(&self.fd, part, place as u64)
                .map_err(|errno| AttachError::Open(TenantFile::Config, errno)),
            None => Ok(()),
        })
    }

    /// Calls `each` with the parts of `bytes` that lie together in the file.
    fn runs(
        &self,
        mut bytes: &[u8],
        mut at: usize,
        mut each: impl FnMut(Option<usize>, &[u8]) -> Result<(), AttachError>,
    ) -> Result<(), AttachError> {
        while !bytes.is_empty() {
            let run = self.layout.run(at, bytes.len());
            let (part, rest) = bytes.split_at_checked(run.bytes.max(1)).unwrap_or((bytes, &[]));
            each(run.at, part)?;
            at = at.saturating_add(part.len());
            bytes = rest;
        }
        Ok(())
    }
}

/// The right to write limits, until dropped.
struct Writer<'a>(&'a Owner);

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let _ = sys::set_lock(&self.0.fd, WRITER_LOCK_AT, Lock::None);
        self.0.writing.store(false, SeqCst);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: 1. mapped by `within_of`, with so many bytes. 2. No reference into it was ever made, and `self` ends
        // here.
        unsafe { sys::unmap(self.base, self.layout.bytes) };
    }
}

const FLAGS_AT: usize = core::mem::offset_of!(Config, flags);
/// Offset of the rules, behind `any_gate`.
const RULES_AT: usize = config::ANY_GATE_AT + 4;
/// The magic, the version, the epoch, `any_gate` and what lies between them.
const HEAD_BYTES: usize = RULES_AT;
const LINE_USED_BYTES: usize = core::mem::offset_of!(GateLine, reserved);

const _: () = assert!(LINE_USED_BYTES == 64 && core::mem::offset_of!(GateLine, gate) == 0);
const _: () = assert!(core::mem::offset_of!(Config, compute_rule_count) == RULES_AT);
const _: () = assert!(config::EPOCH_AT + 8 == config::ANY_GATE_AT);
