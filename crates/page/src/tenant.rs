//! A process's view of its tenant: what the shim calls.
//!
//! Everything but the slow path of [`Tenant::ask`] is a few atomic operations; the slow path takes
//! the admission lock, within a second, for at most 100 ms and never while a driver is called.

use core::ffi::CStr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE};
use divvy_abi::usage::{self, MemoryKind, SHARED_SLOT, device, line, slot, state};
use divvy_abi::{MAX_DEVICES, Uuid};
use divvy_policy::ledger::{self, MemoryRefusal, held_bytes};

use crate::admission::AdmissionGuard;
use crate::error::AttachError;
use crate::fork_page::ForkPage;
use crate::live::{Live, OwnerWord};
use crate::path::Path;
use crate::patience::Patience;
use crate::residence::{MemoryOrder, ResidenceWords};
use crate::share::ShareWords;
use crate::slow_path::SlowPath;
use crate::source::ConfigSource;
use crate::sys::{self, Errno, Fd};
use crate::trust::Trust;
use crate::usage::Usage;
use crate::{file, liveness, renew, settle, shared_table};

/// A device's place in the tenant's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceRow(u8);

impl DeviceRow {
    /// The row's number, below [`MAX_DEVICES`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Entry of a device, written when a tenant first sees it.
#[derive(Clone, Copy, Debug)]
pub struct NewDevice<'a> {
    /// As `cuDeviceGetUuid` gives it.
    pub uuid: Uuid,
    /// Index on the machine, where known.
    pub index: Option<u32>,
    /// The card's memory.
    pub total_bytes: u64,
    /// The tenant's limit, for display; decisions use the caller's.
    pub limit_bytes: Option<u64>,
    /// The card's name.
    pub name: &'a [u8],
}

/// One process's use of a device.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ProcessUse {
    /// The process, in its own pid namespace.
    pub pid: u32,
    /// Inode of that namespace.
    pub pid_namespace: u64,
    /// Bytes it holds on the device.
    pub bytes: u64,
}

/// A process's attachment to its tenant.
#[derive(Debug)]
pub struct Tenant {
    usage: Usage,
    fork: ForkPage,
    path: Path,
    pub(crate) file: (u64, u64),
    config: Config,
    live: Live,
}

impl Tenant {
    /// Joins the tenant in `directory` and takes a slot.
    ///
    /// Cost: about a dozen system calls; a new tenant's first process also lays the file out.
    pub fn attach(directory: &CStr, source: &ConfigSource<'_>) -> Result<Self, AttachError> {
        let mut patience = Patience::new();
        loop {
            match Self::attach_once(directory, source) {
                Err(error) if patience.lasts(&error) => {}
                attached => return attached,
            }
        }
    }

    #[inline(never)]
    fn attach_once(directory: &CStr, source: &ConfigSource<'_>) -> Result<Self, AttachError> {
        let trust = Trust::of(directory, source.own().is_some())?;
        let path = Path::join(directory, b"/usage")?;
        let fd = renew::open_usage(&trust, source)?;
        let stat = sys::stat(&fd).map_err(AttachError::System)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base =
            sys::map_shared(&fd, usage::USAGE_BYTES, protection).map_err(AttachError::System)?;
        // SAFETY: 1. the mapping has `USAGE_BYTES` bytes (the file was judged to be as long), readable and writable.
        // 2. It is taken down only when attaching fails, below, with no copy of `usage` left.
        let usage = unsafe { Usage::new(base) };
        let fork = ForkPage::new()?;
        let identity = (stat.device, stat.inode);
        let mut config = None;
        let claimed = crate::slot::claim(&fork, &usage, path.as_c_str(), identity, |fd, me| {
            let read = settle::config(&trust, source, fd, &usage, me)?;
            config = Some((read, Live::map(&trust)?));
            Ok(())
        });
        match (claimed, config) {
            (Ok(_), Some((config, live))) => {
                Ok(Self { usage, fork, path, file: identity, config, live })
            }
            (result, _) => {
                fork.discard();
                // SAFETY: 1. mapped above, whole. 2. `claim` and `settle` borrowed `usage` and keep none of its words,
                // and this function ends.
                unsafe { sys::unmap(usage.base(), usage::USAGE_BYTES) };
                Err(result.err().unwrap_or(AttachError::NoConfig))
            }
        }
    }

    /// The tenant's limits, as they were when this process attached.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes of the tenant's limits so far; see [`Tenant::live_config`].
    ///
    /// Cost: one load of a line that is rarely written.
    pub fn config_epoch(&self) -> u64 {
        self.live.epoch()
    }

    /// The tenant's limits as they are now; `None` while they are being written, or where their
    /// writer died half-way: the caller then goes by what it has.
    pub fn live_config(&self) -> Option<Config> {
        self.live.read()
    }

    /// The word that is 0 while no gate of the tenant is to be looked at.
    pub fn any_gate(&self) -> &'static OwnerWord {
        self.live.any_gate()
    }

    /// The word that says whether the gate of a device is closed; see `divvy_abi::config::gate`.
    pub fn gate_word(&self, row: DeviceRow) -> &'static OwnerWord {
        self.live.gate(row.index())
    }

    /// The owner's last wish about where memory is: odd if it is to leave the card.
    pub fn frozen(&self) -> u32 {
        self.live.frozen().load()
    }

    /// Number of the orders and wishes that stand.
    pub fn orders(&self) -> u32 {
        self.live.orders().load()
    }

    /// Waits while no others stand than those of number `orders`, at most until `deadline_ns`.
    pub fn wait_orders(&self, orders: u32, deadline_ns: u64) {
        self.live.wait_orders(orders, deadline_ns);
    }

    /// The owner's order about this process's memory on a device; `None` without an owner whose lease lasts.
    pub fn order(&self, row: DeviceRow) -> Option<MemoryOrder> {
        let slot = self.me().ok()?;
        let (line, allowed_bytes, managed) = self.live.order(row.index(), slot);
        (sys::now_ns() < line.lease_ns).then(|| MemoryOrder::new(allowed_bytes, managed, &line))
    }

    /// Whether memory of the tenant's processes may leave the card.
    pub fn oversubscribes(&self) -> bool {
        self.config.flags & FLAG_OVERSUBSCRIBE != 0
    }

    /// This process's words about memory that may leave a device; `None` where it can get no slot, or the tenant does
    /// not oversubscribe.
    pub fn residence(&self, row: DeviceRow) -> Option<ResidenceWords> {
        let slot = self.me().ok().filter(|_| self.usage.may_leave(row.index()))?;
        Some(ResidenceWords::new(self.usage, row.index(), slot))
    }

    /// Notes the tenant's memory limit on a device, for display.
    pub fn note_limit_bytes(&self, row: DeviceRow, limit_bytes: Option<u64>) {
        let at = usage::device_at(row.index()) + device::LIMIT_BYTES;
        let limit = limit_bytes.unwrap_or(0);
        let word = self.usage.u64_at(at);
        if word.load(SeqCst) != limit {
            word.store(limit, SeqCst);
        }
    }

    /// This process's part in the compute share of a device; `None` where it can get no slot.
    #[inline(always)]
    pub fn share(&self, row: DeviceRow) -> Option<ShareWords> {
        let slot = self.me().ok()?;
        Some(ShareWords { usage: self.usage, live: self.live, row: row.index(), slot })
    }

    /// This process's slot, claiming one if it is a forked child that has none yet.
    #[inline(always)]
    pub(crate) fn me(&self) -> Result<usize, AttachError> {
        match self.fork.slot() {
            0 => self.claim(),
            slot => Ok(slot),
        }
    }

    #[cold]
    #[inline(never)]
    fn claim(&self) -> Result<usize, AttachError> {
        let path = self.path.as_c_str();
        crate::slot::claim(&self.fork, &self.usage, path, self.file, |_, _| Ok(()))
    }

    /// The row of `device`, registering it when the tenant has not seen it yet.
    ///
    /// Cost: a look at up to 16 rows; registering takes the admission lock and makes 256 KiB real.
    pub fn device_row(&self, device: &NewDevice<'_>) -> Result<DeviceRow, AttachError> {
        if let Some(row) = self.find_row(&device.uuid) {
            self.note_limit_bytes(row, device.limit_bytes);
            self.note_index(row, device.index);
            return Ok(row);
        }
        let fd = self.reopen()?;
        let _held = AdmissionGuard::on(&fd)?;
        if let Some(row) = self.find_row(&device.uuid) {
            return Ok(row);
        }
        let free = (0..MAX_DEVICES).find(|row| self.usage.device_uuid(*row).is_none());
        let index = free.ok_or(AttachError::NoDeviceRow)?;
        let row = DeviceRow(u8::try_from(index).unwrap_or(0));
        let room = |errno| match errno {
            Errno(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => AttachError::NoSpace(errno),
            _ => AttachError::System(errno),
        };
        sys::allocate(&fd, usage::line_at(index, 0), usage::ROW_BYTES).map_err(room)?;
        sys::allocate(&fd, usage::gate_at(index, 0), usage::GATE_ROW_BYTES).map_err(room)?;
        if self.oversubscribes() {
            let at = usage::residence_at(index, 0);
            sys::allocate(&fd, at, usage::RESIDENCE_ROW_BYTES).map_err(room)?;
            self.usage.u32_at(usage::device_at(index) + device::MAY_LEAVE).store(1, SeqCst);
        }
        self.write_device(row, device);
        Ok(row)
    }

    /// Notes a device's index, where it is known, for display.
    fn note_index(&self, row: DeviceRow, index: Option<u32>) {
        let word = self.usage.u32_at(usage::device_at(row.index()) + device::INDEX);
        if let Some(index) = index.filter(|index| word.load(SeqCst) != *index) {
            word.store(index, SeqCst);
        }
    }

    fn find_row(&self, uuid: &Uuid) -> Option<DeviceRow> {
        (0..MAX_DEVICES)
            .find(|row| self.usage.device_uuid(*row).as_ref() == Some(uuid))
            .map(|row| DeviceRow(u8::try_from(row).unwrap_or(0)))
    }

    fn write_device(&self, row: DeviceRow, device: &NewDevice<'_>) {
        let at = usage::device_at(row.index());
        let words = |bytes: &[u8]| {
            u64::from_ne_bytes(core::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0)))
        };
        let (low, high) = device.uuid.split_at(8);
        self.usage.u32_at(at + device::INDEX).store(device.index.unwrap_or(u32::MAX), SeqCst);
        self.usage.write_words(at + device::UUID, &[words(low), words(high)]);
        self.usage.u64_at(at + device::TOTAL_BYTES).store(device.total_bytes, SeqCst);
        let limit = device.limit_bytes.unwrap_or(0);
        self.usage.u64_at(at + device::LIMIT_BYTES).store(limit, SeqCst);
        let name = device.name.get(..device::NAME_BYTES - 1).unwrap_or(device.name);
        for (index, part) in name.chunks(8).enumerate() {
            self.usage.u64_at(at + device::NAME + 8 * index).store(words(part), SeqCst);
        }
        self.usage.u32_at(at + device::STATE).store(1, SeqCst);
    }

    /// Asks for `bytes` under `limit_bytes` (`None`: only counted), which this process holds then.
    ///
    /// Cost: two loads for each slot in use and four additions; at the limit, one lock.
    ///
    /// # Errors
    /// The ledger's, and [`MemoryRefusal::Detached`] where this process has no slot and can get none, or cannot lock
    /// the tenant's file. Other askers are waited for for 100 ms, the lock for a second.
    pub fn ask(
        &self,
        row: DeviceRow,
        bytes: u64,
        kind: MemoryKind,
        limit_bytes: Option<u64>,
    ) -> Result<(), MemoryRefusal> {
        let me = self.me().map_err(|_| MemoryRefusal::Detached)?;
        let line = self.usage.line(row.index());
        let limit = match limit_bytes {
            None if bytes <= ledger::MAX_REQUEST_BYTES => {
                self.hold_as(row, me, bytes, kind);
                return Ok(());
            }
            // No word of ours holds more, and no card.
            limit => limit.unwrap_or(0),
        };
        let asked = match ledger::ask(&line, me, bytes, limit) {
            Some(total_bytes) => Ok(total_bytes),
            None => self.admit(row, me, bytes, limit),
        };
        match asked {
            Ok(total_bytes) => {
                self.usage.add_kind(row.index(), me, kind, bytes);
                self.note_peak(row, me, total_bytes);
            }
            Err(MemoryRefusal::OverLimit { .. } | MemoryRefusal::Contended) => {
                self.count_refusal(row, me);
            }
            // It is no refusal of the tenant's.
            Err(MemoryRefusal::Detached) => {}
        }
        asked.map(|_| ())
    }

    fn admit(
        &self,
        row: DeviceRow,
        me: usize,
        bytes: u64,
        limit: u64,
    ) -> Result<u64, MemoryRefusal> {
        use divvy_policy::ledger::Slots as _;
        let line = &self.usage.line(row.index());
        // This process alone holds too much: no death of another would help.
        if held_bytes(line.held_word(me)).saturating_add(bytes) > limit {
            return Err(MemoryRefusal::OverLimit { held_bytes: ledger::used_bytes(line) });
        }
        // Without a descriptor (none left, or the directory is gone) the ledger decides as rightly
        // without the lock; only the dead are not reaped, and askers who meet may both give up.
        let fd = self.reopen().ok();
        // A refusal needs no lock, unless what is shared must be put in order first.
        if let Some(fd) = &fd
            && held_bytes(line.held_word(SHARED_SLOT)) == 0
        {
            crate::slot::reap(fd, &self.usage, me, row.index());
            if let Some(held_bytes) = ledger::over(line, bytes, limit) {
                return Err(MemoryRefusal::OverLimit { held_bytes });
            }
        }
        let held = fd.as_ref().map(AdmissionGuard::on).transpose();
        let _held = held.map_err(|error| match error {
            AttachError::LockTimeout => MemoryRefusal::Contended,
            _ => MemoryRefusal::Detached,
        })?;
        let mut world = SlowPath::new(fd.as_ref(), self.usage, &self.fork, me, row.index());
        ledger::admit(line, me, bytes, limit, &mut world)
    }

    /// Counts `bytes` that the driver has taken already, limit or not.
    pub fn hold(&self, row: DeviceRow, bytes: u64, kind: MemoryKind) {
        if let Ok(me) = self.me() {
            self.hold_as(row, me, bytes, kind);
        }
    }

    fn hold_as(&self, row: DeviceRow, me: usize, bytes: u64, kind: MemoryKind) {
        let line = self.usage.line(row.index());
        ledger::hold(&line, me, bytes);
        self.usage.add_kind(row.index(), me, kind, bytes);
        self.note_peak(row, me, ledger::used_bytes(&line));
    }

    /// Gives `bytes` back. A forked child without a slot of its own holds nothing to give.
    pub fn give_back(&self, row: DeviceRow, bytes: u64, kind: MemoryKind) {
        let me = self.fork.slot();
        if me != 0 {
            ledger::give_back(&self.usage.line(row.index()), me, bytes);
            self.usage.take_kind(row.index(), me, kind, bytes);
        }
    }

    /// Bytes the tenant's living processes hold on the device, and what they share.
    ///
    /// Cost: one load a slot in use when nobody else holds anything; else the file is opened and the
    /// dead among the holders are reaped first, two system calls and one for each.
    pub fn used_bytes(&self, row: DeviceRow) -> u64 {
        use divvy_policy::ledger::Slots as _;
        let line = self.usage.line(row.index());
        let me = self.fork.slot();
        let mut others = (0..line.high()).filter(|slot| *slot != me);
        if others.any(|slot| held_bytes(line.held_word(slot)) != 0)
            && let Ok(fd) = self.reopen()
        {
            crate::slot::reap(&fd, &self.usage, me, row.index());
            if held_bytes(line.held_word(SHARED_SLOT)) != 0
                && let Some(_held) = AdmissionGuard::at_once(&fd)
            {
                shared_table::settle(&self.usage, &self.fork, me);
            }
        }
        ledger::used_bytes(&line)
    }

    /// Bytes this process holds on the device.
    pub fn own_bytes(&self, row: DeviceRow) -> u64 {
        use divvy_policy::ledger::Slots as _;
        let line = self.usage.line(row.index());
        self.me().map_or(0, |me| held_bytes(line.held_word(me)))
    }

    /// Bytes this process holds on the device for `kind`.
    pub fn own_kind_bytes(&self, row: DeviceRow, kind: MemoryKind) -> u64 {
        let Ok(me) = self.me() else { return 0 };
        let at = usage::line_at(row.index(), me) + line::KINDS + 8 * kind as usize;
        self.usage.u64_at(at).load(SeqCst)
    }

    /// Notes why something was refused last, for `divvy ps` and the log; of a process without a slot in slot 0, which is
    /// no process's.
    pub fn note_reason(&self, reason: u32) {
        let slot = self.fork.slot();
        self.usage.u32_at(usage::slot_at(slot) + slot::REASON).store(reason, SeqCst);
    }

    /// Writes the processes that hold memory on the device; the count that there are, which may be
    /// more than fit. The dead are left out, their slots stay for the next reap.
    pub fn processes(&self, row: DeviceRow, into: &mut [ProcessUse]) -> usize {
        use divvy_policy::ledger::Slots as _;
        let me = self.fork.slot();
        let fd = self.reopen().ok();
        let line = self.usage.line(row.index());
        let mut count = 0;
        for index in 1..self.usage.slots_high() {
            let bytes = held_bytes(line.held_word(index));
            let known = self.usage.slot_state(index) == state::LIVE && bytes != 0;
            let alive =
                || index == me || fd.as_ref().is_none_or(|fd| liveness::is_alive(fd, index));
            if known && alive() {
                let at = usage::slot_at(index);
                if let Some(entry) = into.get_mut(count) {
                    *entry = ProcessUse {
                        pid: self.usage.u32_at(at + slot::PID).load(SeqCst),
                        pid_namespace: self.usage.u64_at(at + slot::PID_NAMESPACE).load(SeqCst),
                        bytes,
                    };
                }
                count += 1;
            }
        }
        count
    }

    /// Runs `act` with this process's slot, under the admission lock.
    pub(crate) fn with_lock<T>(
        &self,
        act: impl FnOnce(&Usage, &ForkPage, usize) -> T,
    ) -> Result<T, AttachError> {
        let me = self.me()?;
        let fd = self.reopen()?;
        let _held = AdmissionGuard::on(&fd)?;
        Ok(act(&self.usage, &self.fork, me))
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn references(&self, entry: usize) -> &AtomicU32 {
        self.fork.references(entry)
    }

    pub(crate) fn usage_path(&self) -> Path {
        self.path
    }

    fn reopen(&self) -> Result<Fd, AttachError> {
        file::reopen_usage(self.path.as_c_str(), self.file.0, self.file.1)
    }

    fn note_peak(&self, row: DeviceRow, me: usize, total_bytes: u64) {
        let word = self.usage.u64_at(usage::line_at(row.index(), me) + line::PEAK);
        if word.load(Relaxed) < total_bytes {
            word.fetch_max(total_bytes, Relaxed);
        }
    }

    fn count_refusal(&self, row: DeviceRow, me: usize) {
        let at = usage::line_at(row.index(), me) + line::REFUSALS;
        self.usage.u64_at(at).fetch_add(1, Relaxed);
    }
}
