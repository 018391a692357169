//! Memory the driver reserves by itself: stream-ordered pools, and the pool behind graphs' memory
//! nodes.
//!
//! Charged by what is reserved, not by what is allocated, since reserved memory is gone for others.
//! Before a call that may make a reserve grow, its largest growth is asked for and noted as
//! *provisional*; after it the driver is asked what is reserved and the charge settles to that.
//! Several threads may do so at once without a lock: the sum of settled and provisional bytes never
//! falls below what is reserved, and a reading is used only if nobody changed the record since.
//! A call may concern a pool that is not its argument, which another thread may destroy meanwhile. So the
//! driver is asked about a pool only under a [`PoolGuard`], and a pool that the program destroyed while its
//! memory was in use is destroyed in the driver only when no guard is left.
//!
//! Does not allocate in the driver, nor free there.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUdevice, CUgraphMem_attribute, CUmemPool_attribute, CUmemoryPool};
use divvy_policy::charge::GRANULE_BYTES;

use super::place::{Next, at};
use crate::gate::relaxed;
use crate::sys::driver;
use crate::sys::map::Map;
use crate::tenant::device::{Device, Reservation};

/// Reserves by pool handle, or by device number for the one behind graphs.
static RESERVES: Map = Map::new(4);

const FIELD: u64 = (1 << 28) - 1;

/// Accounting record of a reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    charged_granules: u64,
    provisional_granules: u64,
    ordinal: CUdevice,
    /// Memory of the host: not counted here.
    uncounted: bool,
    /// The program made it and may destroy it.
    own: bool,
    /// Destroyed by the program, while memory of it is in use.
    ended: bool,
    /// Number of changes of this record, by which a stale reading is noticed.
    epoch: u32,
    /// Guards that are alive.
    lookers: u32,
}

impl Record {
    const fn new(ordinal: CUdevice) -> Self {
        Self {
            charged_granules: 0,
            provisional_granules: 0,
            ordinal,
            uncounted: false,
            own: false,
            ended: false,
            epoch: 0,
            lookers: 0,
        }
    }

    fn whole_granules(self) -> u64 {
        self.charged_granules.saturating_add(self.provisional_granules)
    }

    fn pack(self) -> [u64; 2] {
        let word = (self.charged_granules & FIELD)
            | (self.provisional_granules & FIELD) << 28
            | u64::from(self.ordinal.cast_unsigned() & 0xf) << 56
            | u64::from(self.uncounted) << 60
            | u64::from(self.own) << 61
            | u64::from(self.ended) << 62;
        [word, u64::from(self.epoch) | u64::from(self.lookers) << 32]
    }

    fn unpack([word, rest]: [u64; 2]) -> Self {
        Self {
            charged_granules: word & FIELD,
            provisional_granules: word >> 28 & FIELD,
            ordinal: CUdevice::try_from(word >> 56 & 0xf).unwrap_or(0),
            uncounted: word >> 60 & 1 != 0,
            own: word >> 61 & 1 != 0,
            ended: word >> 62 & 1 != 0,
            epoch: rest as u32,
            lookers: (rest >> 32) as u32,
        }
    }

    fn changed(self) -> Self {
        Self { epoch: self.epoch.wrapping_add(1), ..self }
    }
}

/// One reserve.
#[derive(Clone, Copy)]
pub(crate) enum Reserve {
    /// A stream-ordered pool.
    Pool(CUmemoryPool),
    /// The pool behind the memory nodes of a device's graphs.
    Graphs(CUdevice),
}

/// Growth asked for; settle it with [`Reserve::settle`].
#[derive(Debug)]
#[must_use = "it must be settled"]
pub(super) struct Growth {
    granules: u64,
}

impl Growth {
    /// No growth.
    pub(super) const NONE: Self = Self { granules: 0 };

    /// Growth of so many bytes, which a claim or an expectation has made provisional for a graph.
    pub(super) const fn of(bytes: u64) -> Self {
        Self { granules: bytes / GRANULE_BYTES }
    }
}

impl Reserve {
    fn key(self) -> u64 {
        match self {
            Self::Pool(pool) => pool.0.expose_provenance() as u64,
            // Handles are addresses, so small numbers are free.
            Self::Graphs(ordinal) => u64::from(ordinal.cast_unsigned()).saturating_add(1),
        }
    }

    pub(super) fn kind(self) -> MemoryKind {
        match self {
            Self::Pool(_) => MemoryKind::Pool,
            Self::Graphs(_) => MemoryKind::Graph,
        }
    }

    /// Bytes that the driver has reserved now; `None` if it does not say.
    fn reserved_bytes(self) -> Option<u64> {
        match self {
            Self::Pool(pool) => relaxed(|| {
                driver::pool_u64(pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
            }),
            Self::Graphs(ordinal) => driver::graph_mem_u64(
                ordinal,
                CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
            ),
        }
        .ok()
    }

    /// Changes the record; a pool that was destroyed meanwhile stays forgotten.
    fn change(self, mut change: impl FnMut(Record) -> Record) {
        let _ =
            RESERVES.update(self.key(), |old| Some(change(Record::unpack(old?)).changed().pack()));
    }

    /// Takes a guard on the reserve; `None` for a pool without a record.
    pub(super) fn look(self, device: &Device) -> Option<PoolGuard> {
        let mut is_known = false;
        let _ = RESERVES.update(self.key(), |old| {
            let record = match (old, self) {
                (Some(words), _) => Record::unpack(words),
                (None, Self::Graphs(_)) => Record::new(device.ordinal),
                (None, Self::Pool(_)) => return None,
            };
            is_known = true;
            let lookers = record.lookers.saturating_add(1);
            Some(Record { lookers, ..record }.changed().pack())
        });
        is_known.then_some(PoolGuard(self))
    }

    fn record(self) -> Option<Record> {
        RESERVES.get(self.key()).map(Record::unpack)
    }

    /// Whether it is known, and not to be counted.
    pub(super) fn is_uncounted(self) -> bool {
        self.record().is_some_and(|record| record.uncounted)
    }

    /// The device of a reserve that is known.
    pub(super) fn ordinal(self) -> Option<CUdevice> {
        self.record().map(|record| record.ordinal)
    }

    /// Bytes charged for it now, what is asked for included.
    pub(super) fn charged_bytes(self) -> u64 {
        self.record().map_or(0, |record| record.whole_granules().saturating_mul(GRANULE_BYTES))
    }

    /// Notes a pool that is not of a device.
    pub(crate) fn do_not_count(self) {
        let record = Record { uncounted: true, ..Record::new(0) };
        let _ = RESERVES.insert(self.key(), record.pack());
    }

    /// Makes the record of a pool that the program made.
    pub(crate) fn begin_own(self, device: &Device) {
        let record = Record { own: true, ..Record::new(device.ordinal) };
        if let Ok(Some(stale)) = RESERVES.insert(self.key(), record.pack()) {
            let bytes = Record::unpack(stale).charged_granules.saturating_mul(GRANULE_BYTES);
            device.give_back(bytes, self.kind());
        }
    }

    /// Notes granted growth before the driver is called.
    pub(super) fn expect(self, device: &Device, held: Reservation) -> Growth {
        let granules = held.keep() / GRANULE_BYTES;
        // Without memory for the record the charge only errs upwards.
        let _ = RESERVES.update(self.key(), |old| {
            let record = old.map_or(Record::new(device.ordinal), Record::unpack);
            let provisional_granules = record.provisional_granules.saturating_add(granules);
            Some(Record { provisional_granules, ..record }.changed().pack())
        });
        Growth { granules }
    }

    /// Moves `bytes` from charged to provisional, so that another thread's settling does not give back the bytes that
    /// this call may take. False, and nothing moved, if fewer are charged, if charged and provisional bytes together are
    /// below `whole_bytes`, or if `is_valid` fails.
    pub(super) fn claim(
        self,
        bytes: u64,
        whole_bytes: &AtomicU64,
        is_valid: impl Fn() -> bool,
    ) -> bool {
        let granules = bytes / GRANULE_BYTES;
        let mut is_there = false;
        self.change(|record| {
            is_there = is_valid()
                && record.charged_granules >= granules
                && record.whole_granules() >= whole_bytes.load(SeqCst) / GRANULE_BYTES;
            let moved = if is_there { granules } else { 0 };
            Record {
                charged_granules: record.charged_granules.saturating_sub(moved),
                provisional_granules: record.provisional_granules.saturating_add(moved),
                ..record
            }
        });
        is_there
    }

    /// Sets the charge to the bytes that the driver has reserved, and ends `growth`, whose call has returned. The error is
    /// the number of bytes by which the reserve grew unasked and which the limit does not admit: the caller must undo the
    /// growth and settle again.
    pub(super) fn settle(self, device: &'static Device, growth: Growth) -> Result<(), u64> {
        let Growth { granules: done } = growth;
        // Without a record nothing can be settled: the pool's end gave all back, or the charge stays.
        let Some(_look) = self.look(device) else { return Ok(()) };
        for round in 0..8_u32 {
            let Some(before) = self.record() else { return Ok(()) };
            let reserved = self.reserved_bytes();
            let (mut grown, mut shrunk) = (0_u64, 0_u64);
            let mut settled = false;
            let _ = RESERVES.update(self.key(), |old| {
                let record = Record::unpack(old?);
                if record.epoch != before.epoch && round != 7 {
                    return Some(record.pack());
                }
                settled = true;
                let provisional = record.provisional_granules.saturating_sub(done);
                let old_sum = record.whole_granules();
                let needed = match reserved {
                    Some(bytes) if record.epoch == before.epoch => bytes.div_ceil(GRANULE_BYTES),
                    // The reading failed, or the record has changed since: the sum stays.
                    _ => old_sum,
                };
                // Provisional bytes of other threads may be part of the reading already, or come after it: they stay
                // charged.
                let sum = needed.saturating_add(provisional).min(old_sum).max(needed);
                let charged = sum.saturating_sub(provisional);
                grown = sum.saturating_sub(old_sum);
                shrunk = old_sum.saturating_sub(sum);
                let next = Record {
                    charged_granules: charged,
                    provisional_granules: provisional,
                    ..record
                };
                Some(next.changed().pack())
            });
            if !settled {
                continue;
            }
            device.give_back(shrunk.saturating_mul(GRANULE_BYTES), self.kind());
            if grown == 0 {
                return Ok(());
            }
            let bytes = grown.saturating_mul(GRANULE_BYTES);
            return match device.ask(bytes, self.kind()) {
                Ok(held) => {
                    held.keep();
                    Ok(())
                }
                Err(_) => {
                    // The ledger does not hold it, so the record must not either.
                    self.change(|record| Record {
                        charged_granules: record.charged_granules.saturating_sub(grown),
                        ..record
                    });
                    Err(bytes)
                }
            };
        }
        Ok(())
    }

    /// Settles; growth that does not fit is counted all the same, since it cannot be undone.
    pub(super) fn settle_or_hold(self, device: &'static Device, growth: Growth) {
        let _look = self.look(device);
        if let Err(bytes) = self.settle(device, growth) {
            device.tell_grown(bytes, self.kind());
            device.hold(bytes, self.kind());
            self.change(|record| Record {
                charged_granules: record
                    .charged_granules
                    .saturating_add(bytes.div_ceil(GRANULE_BYTES)),
                ..record
            });
        }
    }

    /// Whether the program made it, and it is counted.
    pub(super) fn is_own(self) -> bool {
        self.record().is_some_and(|record| record.own && !record.uncounted)
    }

    /// True if the program has destroyed it while its memory was in use.
    pub(super) fn is_ended(self) -> bool {
        self.record().is_some_and(|record| record.ended)
    }

    /// Memory of a pool may be in use after the program has destroyed it, so the record stays and is marked as
    /// ended; false where it was marked before.
    pub(super) fn outlive(self) -> bool {
        let mut is_first = false;
        self.change(|record| {
            is_first = !record.ended;
            Record { ended: true, ..record }
        });
        is_first
    }

    /// Removes the record of an ended pool if nothing is charged for it and no guard is left; true for the one thread that
    /// removed it, which then destroys the pool in the driver.
    pub(super) fn bury(self) -> bool {
        let mut is_over = false;
        let _ = RESERVES.update(self.key(), |old| {
            let record = Record::unpack(old?);
            let is_empty = record.charged_granules == 0 && record.provisional_granules == 0;
            is_over = record.ended && is_empty && record.lookers == 0;
            (!is_over).then(|| record.pack())
        });
        is_over
    }

    /// Forgets a pool that is not counted, before it is destroyed: its handle may be another's at once.
    pub(super) fn forget_uncounted(self) -> bool {
        let mut is_uncounted = false;
        let _ = RESERVES.update(self.key(), |old| {
            is_uncounted = Record::unpack(old?).uncounted;
            old.filter(|_| !is_uncounted)
        });
        is_uncounted
    }

    /// Removes the record of a pool that the driver has destroyed, and gives back all that is charged for it.
    pub(super) fn end(self) {
        let Some(record) = RESERVES.take(self.key()).map(Record::unpack) else { return };
        let granules = record.charged_granules.saturating_add(record.provisional_granules);
        if let Next::Count(device) = at(record.ordinal) {
            device.give_back(granules.saturating_mul(GRANULE_BYTES), self.kind());
        }
    }
}

/// Keeps a pool that the program has destroyed from being destroyed in the driver too, so that its handle may be used.
#[must_use = "the pool may be gone when this is dropped"]
pub(super) struct PoolGuard(Reserve);

impl Drop for PoolGuard {
    fn drop(&mut self) {
        let _ = RESERVES.update(self.0.key(), |old| {
            let record = Record::unpack(old?);
            Some(Record { lookers: record.lookers.saturating_sub(1), ..record }.pack())
        });
    }
}

/// The pool with this handle.
fn pool_of(handle: u64) -> CUmemoryPool {
    CUmemoryPool(core::ptr::with_exposed_provenance_mut(usize::try_from(handle).unwrap_or(0)))
}

/// Writes the device's reserves into `into` as far as they fit; how many were written.
pub(super) fn of_device(ordinal: CUdevice, into: &mut [Option<Reserve>]) -> usize {
    let mut count = 0_usize;
    RESERVES.for_each(|key, words| {
        let record = Record::unpack(words);
        if record.ordinal != ordinal || record.uncounted {
            return;
        }
        let reserve = match key {
            1..=16 => Reserve::Graphs(ordinal),
            _ => Reserve::Pool(pool_of(key)),
        };
        if let Some(place) = into.get_mut(count) {
            *place = Some(reserve);
            count = count.saturating_add(1);
        }
    });
    count
}
