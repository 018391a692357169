//! The devices this process has met, with their place in the tenant's files and their limit.
//!
//! Promises: a device is looked at once, by its UUID, and costs one load afterwards; CUDA's ordinal
//! only finds the entry. `CUDA_VISIBLE_DEVICES` is never read: the driver is asked. A limit rule by
//! index means NVML's, the machine's, however CUDA numbers the devices that the process sees: the rule's writer says which
//! device that is, or NVML is asked. Where neither knows, memory is refused. An instance of a partitioned card goes by the
//! rules of its card where none is its own.
//!
//! Does not decide what is charged.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use divvy_abi::usage::MemoryKind;
use divvy_abi::{MAX_DEVICES, Uuid, config};
use divvy_driver_api::types::{CUdevice, CUdevice_attribute as Attribute};
use divvy_page::{
    self as page, DeviceRow, HostRefusal, MemoryOrder, OwnerWord, ResidenceWords, ShareWords,
    SharedEntry, Tenant,
};
use divvy_policy::gate::{Meeting, Terms};
use divvy_policy::ledger::MemoryRefusal;
use divvy_policy::{limit, share};

use super::names::{DeviceNames, UnknownIndex};
use super::reason::{self, Reason, Size};
use super::{Membership, membership, mps, opens_on_failure};
use crate::sys::driver;
use crate::sys::log::log;
use crate::sys::once::Once;

/// Memory of a context on a card that was not measured, in bytes: the largest figure known.
const UNKNOWN_CONTEXT_BYTES: u64 = 600 << 20;

/// Memory of a context, by the card's name and the driver's major version: measured on idle cards
/// as NVML's figure for the process.
const CONTEXT_BYTES: &[(&str, u64)] = &[("NVIDIA H200", 518 << 20), ("NVIDIA H100", 518 << 20)];

/// A device as this process uses it.
#[derive(Debug)]
pub(crate) struct Device {
    /// The driver's number for it in this process.
    pub(crate) ordinal: CUdevice,
    /// Memory of a context, in bytes.
    pub(crate) context_bytes: u64,
    /// Threads that can be resident at once, all of which get local memory.
    pub(crate) resident_threads: u64,
    /// Handle of the primary context while it is charged, else 0.
    pub(crate) primary: AtomicU64,
    /// Memory of the graphs with memory nodes that have run if each has memory of its own, in bytes, less the part
    /// that a trim has shown to be gone.
    pub(crate) graph_needs: AtomicU64,
    /// Of that, what the next trim may take off.
    pub(crate) aged_graph_needs: AtomicU64,
    /// Trims begun, and one.
    pub(crate) graph_epoch: AtomicU64,
    uuid: Uuid,
    /// The UUID of its card: its own, but for an instance of a partitioned one.
    card: Uuid,
    /// Its card's index on the machine; `u32::MAX` while no rule has asked for it.
    index: AtomicU32,
    total_bytes: u64,
    /// The limits that were read when the tenant's config had this epoch.
    epoch: AtomicU64,
    /// The memory limit; `u64::MAX` for none.
    limit_bytes: AtomicU64,
    /// The cap on device time; 0 for none.
    share_ppm: AtomicU64,
    paused: AtomicBool,
    row: DeviceRow,
    tenant: &'static Tenant,
    /// The state of its gate: one load, on every launch.
    gate: &'static OwnerWord,
    /// The meeting of tenants at work on it, where no daemon makes turns.
    pub(crate) meeting: Meeting,
}

/// State of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KnownDevice {
    /// It is counted.
    Counted(&'static Device),
    /// Its memory must be refused, and why.
    Closed(Reason),
    /// Nothing is counted.
    Open,
}

static DEVICES: [Once<Device>; MAX_DEVICES] = [const { Once::new() }; MAX_DEVICES];

/// Looks a device up by the driver's number.
pub(crate) fn look(ordinal: CUdevice) -> KnownDevice {
    let tenant = match membership() {
        Membership::Member(tenant) => tenant,
        Membership::Closed(reason) => return KnownDevice::Closed(reason),
        Membership::Open => return KnownDevice::Open,
    };
    let slot = usize::try_from(ordinal).ok().and_then(|index| DEVICES.get(index));
    if let Some(device) = slot.and_then(Once::get) {
        return KnownDevice::Counted(device);
    }
    if driver::device_total_bytes(ordinal).is_err() {
        // No such device, or no driver yet: its own error says which.
        return KnownDevice::Open;
    }
    match slot.and_then(|slot| slot.get_or_try_init(|| meet(tenant, ordinal))) {
        Some(device) => KnownDevice::Counted(device),
        None if opens_on_failure(tenant) => KnownDevice::Open,
        None => KnownDevice::Closed(Reason::NoDevice),
    }
}

/// The device of this number, where it is counted.
fn counted(ordinal: CUdevice) -> Option<&'static Device> {
    match look(ordinal) {
        KnownDevice::Counted(device) => Some(device),
        KnownDevice::Closed(_) | KnownDevice::Open => None,
    }
}

/// This process's words about memory that may leave the device of this number; none where none may.
pub(crate) fn residence(ordinal: CUdevice) -> Option<ResidenceWords> {
    counted(ordinal)?.residence()
}

/// The owner's order about memory that may leave the device of this number; none without an owner.
pub(crate) fn memory_order(ordinal: CUdevice) -> Option<MemoryOrder> {
    let device = counted(ordinal)?;
    device.tenant.order(device.row)
}

/// The memory of the card of this number; 0 where it is not counted.
pub(crate) fn total_bytes(ordinal: CUdevice) -> u64 {
    counted(ordinal).map_or(0, Device::total_bytes)
}

/// The devices that this process has met.
pub(crate) fn all_met() -> impl Iterator<Item = &'static Device> {
    DEVICES.iter().filter_map(Once::get)
}

fn meet(tenant: &'static Tenant, ordinal: CUdevice) -> Option<Device> {
    let uuid = driver::device_uuid(ordinal).ok()?;
    let total_bytes = driver::device_total_bytes(ordinal).ok()?;
    let mut name = [0_u8; 96];
    let length = driver::device_name(ordinal, &mut name).unwrap_or(0);
    let name = name.get(..length).unwrap_or(&[]);
    let card = driver::card_uuid(ordinal).unwrap_or(uuid);
    let names = DeviceNames { uuid, card, ordinal: Some(ordinal) };
    let seen = DeviceFacts { names, total_bytes, name };
    let (row, limit_bytes, index) = register(tenant, &seen)?;
    let attribute = |which| u64::try_from(driver::device_attribute(ordinal, which).unwrap_or(0));
    let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap_or(0);
    let threads =
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR).unwrap_or(0);
    let device = Device {
        ordinal,
        uuid,
        card,
        index: AtomicU32::new(index.unwrap_or(u32::MAX)),
        total_bytes,
        // Read at the first use: nothing is known of the cap yet.
        epoch: AtomicU64::new(u64::MAX),
        limit_bytes: AtomicU64::new(limit_bytes.unwrap_or(u64::MAX)),
        share_ppm: AtomicU64::new(0),
        paused: AtomicBool::new(false),
        context_bytes: context_bytes(tenant, name),
        resident_threads: processors.saturating_mul(threads),
        primary: AtomicU64::new(0),
        graph_needs: AtomicU64::new(0),
        aged_graph_needs: AtomicU64::new(0),
        graph_epoch: AtomicU64::new(1),
        row,
        tenant,
        gate: tenant.gate_word(row),
        meeting: Meeting::new(),
    };
    if mps::is_client() {
        device.join();
    }
    Some(device)
}

/// A device as one of the two libraries describes it.
pub(crate) struct DeviceFacts<'a> {
    /// Names of it.
    pub(crate) names: DeviceNames,
    /// The card's memory.
    pub(crate) total_bytes: u64,
    /// Its name.
    pub(crate) name: &'a [u8],
}

/// Registers a device in the tenant's files and finds its limit, and its index where a rule asks for it; `None`, said
/// once, when that cannot be done.
pub(crate) fn register(
    tenant: &Tenant,
    seen: &DeviceFacts<'_>,
) -> Option<(DeviceRow, Option<u64>, Option<u32>)> {
    let live = tenant.live_config();
    let config = live.as_ref().unwrap_or_else(|| tenant.config());
    let (rules, names) = (config.rules(), &seen.names);
    let index = names.index(config).ok()?;
    let limit_bytes = match limit::resolve(rules, index, names.in_rules(rules), seen.total_bytes) {
        Ok(limit_bytes) => limit_bytes,
        Err(error) => {
            reason::tell(Reason::BadLimit, format_args!("{error}"));
            return None;
        }
    };
    let device = page::NewDevice {
        uuid: names.uuid,
        index,
        total_bytes: seen.total_bytes,
        limit_bytes,
        name: seen.name,
    };
    match tenant.device_row(&device) {
        Ok(row) => {
            let limit = Size(limit_bytes.unwrap_or(seen.total_bytes));
            let total = Size(seen.total_bytes);
            log!(Info, "{}: limit {limit} of {total}", limit::UuidText(&seen.names.uuid));
            Some((row, limit_bytes, index))
        }
        Err(error) => {
            reason::tell(
                Reason::NoDevice,
                format_args!("{}: {error}", limit::UuidText(&names.uuid)),
            );
            None
        }
    }
}

fn context_bytes(tenant: &Tenant, name: &[u8]) -> u64 {
    match tenant.config().context_bytes {
        0 => CONTEXT_BYTES
            .iter()
            .find(|(known, _)| name.starts_with(known.as_bytes()))
            .map_or(UNKNOWN_CONTEXT_BYTES, |(_, bytes)| *bytes),
        bytes => bytes,
    }
}

impl Device {
    /// The tenant's limit in bytes, as it is now.
    pub(crate) fn limit_bytes(&self) -> Option<u64> {
        self.follow();
        let bytes = self.limit_bytes.load(Relaxed);
        (bytes != u64::MAX).then_some(bytes)
    }

    /// Size and free bytes of the card as the tenant is to see them ([`super::card_as_seen`]).
    pub(crate) fn card_as_seen(&self, card: (u64, u64)) -> (u64, u64) {
        super::card_as_seen(self.tenant, self.limit_bytes(), card)
    }

    /// The number that messages have for it: the machine's where a limit made it known, else CUDA's.
    pub(crate) fn number(&self) -> u32 {
        match self.index.load(Relaxed) {
            u32::MAX => self.ordinal.unsigned_abs(),
            index => index,
        }
    }

    /// The card's memory.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The terms that the share gate goes by, as they are now.
    ///
    /// Cost: four loads while the tenant's config stays as it is.
    #[inline(always)]
    pub(crate) fn terms(&self) -> Terms {
        self.follow();
        Terms { share_ppm: self.share_ppm.load(Relaxed), paused: self.paused.load(Relaxed) }
    }

    /// Reads the limits anew if they have changed since they were read last.
    #[inline]
    fn follow(&self) {
        if self.tenant.config_epoch() != self.epoch.load(Relaxed) {
            self.read_limits();
        }
    }

    #[cold]
    #[inline(never)]
    fn read_limits(&self) {
        // While it is being written, what was read before holds.
        let Some(config) = self.tenant.live_config() else { return };
        self.take_rules(&config);
        self.paused.store(config.paused != 0, Relaxed);
        self.epoch.store(config.epoch, Relaxed);
    }

    /// Goes by the rules of `config`; by those that held before where they cannot be understood.
    fn take_rules(&self, config: &config::Config) {
        let ordinal = Some(self.ordinal);
        let names = DeviceNames { uuid: self.uuid, card: self.card, ordinal };
        let index = match self.index.load(Relaxed) {
            u32::MAX => match names.index(config) {
                Ok(index) => index,
                Err(UnknownIndex) => return,
            },
            index => Some(index),
        };
        self.index.store(index.unwrap_or(u32::MAX), Relaxed);
        let (rules, caps) = (config.rules(), config.compute_rules());
        match limit::resolve(rules, index, names.in_rules(rules), self.total_bytes) {
            Ok(limit) => {
                self.limit_bytes.store(limit.unwrap_or(u64::MAX), Relaxed);
                self.tenant.note_limit_bytes(self.row, limit);
            }
            Err(error) => reason::tell(Reason::BadLimit, format_args!("{error}")),
        }
        match share::resolve(caps, index, names.in_rules(caps)) {
            Ok(share_ppm) => self.share_ppm.store(share_ppm.map_or(0, u64::from), Relaxed),
            Err(error) => reason::tell(Reason::BadLimit, format_args!("{error}")),
        }
    }

    /// This process's words of the compute share; none where it can get no slot.
    #[inline(always)]
    pub(crate) fn share(&self) -> Option<ShareWords> {
        self.tenant.share(self.row)
    }

    /// This process's words about memory that may leave the device; none where none may.
    pub(crate) fn residence(&self) -> Option<ResidenceWords> {
        self.tenant.residence(self.row)
    }

    /// The board where tenants meet on the device.
    pub(crate) fn meet_file(&self) -> Option<page::MeetFile> {
        self.tenant.meet_file(&self.uuid)
    }

    /// The state of the device's gate, one of `divvy_abi::config::gate`.
    #[inline]
    pub(crate) fn gate_state(&self) -> u32 {
        self.gate.load()
    }

    /// Asks the tenant for `bytes`. A refusal is not yet said to anybody: see [`Device::tell`].
    pub(crate) fn ask(
        &'static self,
        bytes: u64,
        kind: MemoryKind,
    ) -> Result<Reservation, MemoryRefusal> {
        self.tenant.ask(self.row, bytes, kind, self.limit_bytes())?;
        Ok(Reservation { device: self, bytes, kind })
    }

    /// Says why `bytes` were refused: one line, and the reason in the tenant's files.
    pub(crate) fn tell(&self, bytes: u64, kind: MemoryKind, refusal: MemoryRefusal) {
        let device = self.number();
        let what = kind.word();
        let size = Size(bytes);
        match refusal {
            MemoryRefusal::OverLimit { held_bytes } => {
                let reason =
                    if kind == MemoryKind::Context { Reason::Context } else { Reason::OverLimit };
                let held = Size(held_bytes);
                let limit = Size(self.limit_bytes().unwrap_or(0));
                reason::tell(
                    reason,
                    format_args!(
                        "device {device}: {size} for {what} refused, {held} of {limit} held"
                    ),
                );
            }
            MemoryRefusal::Contended => {
                reason::tell(
                    Reason::Contended,
                    format_args!(
                        "device {device}: {size} for {what}: others did not settle in time"
                    ),
                );
            }
            MemoryRefusal::Detached => reason::tell(
                Reason::NoSlot,
                format_args!("device {device}: {size} for {what}: this process has no slot"),
            ),
        }
    }

    /// Notes that `bytes` had to be handed back after the driver took them.
    pub(crate) fn tell_grown(&self, bytes: u64, kind: MemoryKind) {
        let size = Size(bytes);
        reason::tell(
            Reason::Grown,
            format_args!("device {}: {size} more for {} did not fit", self.number(), kind.word()),
        );
    }

    /// Says that a block of `bytes` was refused because of the host's memory.
    pub(crate) fn tell_host(&self, bytes: u64, host: HostRefusal) {
        reason::tell(
            Reason::HostMemory,
            format_args!(
                "device {}: {} for blocks refused: of what may leave the card host memory would have to hold {}, and {} are to be \
                 had; end tenants that oversubscribe, give back memory, or give the host more (`divvy daemon --status`, \
                 --host-memory)",
                self.number(),
                Size(bytes),
                Size(host.needed_bytes),
                Size(host.room_bytes)
            ),
        );
    }

    /// Notes that there is no memory to remember an allocation in.
    pub(crate) fn tell_no_table(&self) {
        reason::tell(
            Reason::NoTable,
            format_args!("device {}: the process has no memory left to keep count", self.number()),
        );
    }

    /// Counts bytes that the driver has taken already.
    pub(crate) fn hold(&self, bytes: u64, kind: MemoryKind) {
        if bytes != 0 {
            self.tenant.hold(self.row, bytes, kind);
        }
    }

    /// Gives `bytes` back.
    pub(crate) fn give_back(&self, bytes: u64, kind: MemoryKind) {
        if bytes != 0 {
            self.tenant.give_back(self.row, bytes, kind);
        }
    }

    /// Bytes the tenant holds on the device.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.tenant.used_bytes(self.row)
    }

    /// Bytes this process holds on the device for `kind`.
    pub(crate) fn own_bytes(&self, kind: MemoryKind) -> u64 {
        self.tenant.own_kind_bytes(self.row, kind)
    }

    /// The process shares memory or events with another: their work may wait for one another's, so they take no
    /// turns between them.
    pub(crate) fn join(&self) {
        if let Some(share) = self.share() {
            divvy_policy::gate::Words::join(&share);
        }
    }

    /// Moves a charge to where all processes that open `handle` share it.
    pub(crate) fn export_shared(
        &self,
        handle: &[u8; 64],
        bytes: u64,
        kind: MemoryKind,
    ) -> Option<SharedEntry> {
        self.join();
        self.tenant.export_shared(handle, self.row, bytes, kind)
    }
}

/// Bytes held for a driver call under way; given back when dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the bytes back"]
pub(crate) struct Reservation {
    device: &'static Device,
    bytes: u64,
    kind: MemoryKind,
}

impl Reservation {
    /// The driver took them: they stay charged.
    pub(crate) fn keep(self) -> u64 {
        let bytes = self.bytes;
        core::mem::forget(self);
        bytes
    }

    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let excess = self.bytes.saturating_sub(bytes);
        self.device.give_back(excess, self.kind);
        self.bytes = self.bytes.saturating_sub(excess);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.device.give_back(self.bytes, self.kind);
    }
}
