//! Memory the driver reserves by itself: stream-ordered pools, and the pool behind graphs' memory
//! nodes.
//!
//! Charged by what is reserved, not by what is allocated, since reserved memory is gone for others.
//! Before a call that may make a reserve grow, its largest growth is asked for and noted as
//! *provisional*; after it the driver is asked what is reserved and the record is *settled* to that.
//! Several threads may do so at once without a lock, and a reading is used only if no other thread changed the
//! record since. What is charged is the sum of settled and provisional bytes. It is below what is reserved only where a
//! reserve grew without being asked for: until it is settled, or, beyond the limit, until [`Reserve::settle`]'s caller
//! has undone the growth.
//!
//! A call may concern a pool that is not its argument, such as the one that a freed block came from, and another thread
//! may destroy that pool meanwhile. So the driver is asked about a pool only under a [`PoolGuard`]. A pool that the
//! program destroys while its memory is in use stays in the driver until nothing is charged for it and no guard is left:
//! each later settling of the device's reserves tries to bury it ([`Reserve::bury`]).
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

/// Records of reserves, by pool handle; of the one behind a device's graphs by one more than the device's number.
static RESERVES: Map = Map::new(4);

/// Mask of a count of granules in a packed record: 512 TiB, more than any device has.
const FIELD: u64 = (1 << 28) - 1;

/// Accounting record of a reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    settled_granules: u64,
    provisional_granules: u64,
    ordinal: CUdevice,
    /// Memory of the host, which no limit of device memory counts.
    uncounted: bool,
    /// The program made it and may destroy it.
    own: bool,
    /// Destroyed by the program, while memory of it is in use.
    ended: bool,
    /// Number of changes of this record, by which a stale reading is noticed. To take a guard counts as one, since whoever
    /// takes it is about to change the reserve; to drop it does not.
    epoch: u32,
    /// Guards that are alive.
    lookers: u32,
}

impl Record {
    const fn new(ordinal: CUdevice) -> Self {
        Self {
            settled_granules: 0,
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
        self.settled_granules.saturating_add(self.provisional_granules)
    }

    fn pack(self) -> [u64; 2] {
        let word = (self.settled_granules & FIELD)
            | (self.provisional_granules & FIELD) << 28
            | u64::from(self.ordinal.cast_unsigned() & 0xf) << 56
            | u64::from(self.uncounted) << 60
            | u64::from(self.own) << 61
            | u64::from(self.ended) << 62;
        [word, u64::from(self.epoch) | u64::from(self.lookers) << 32]
    }

    fn unpack([word, rest]: [u64; 2]) -> Self {
        Self {
            settled_granules: word & FIELD,
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

    /// Growth of so many bytes, whole granules, that [`Reserve::claim`] or [`Reserve::expect`] has made provisional for a
    /// graph.
    pub(super) const fn of(bytes: u64) -> Self {
        Self { granules: bytes / GRANULE_BYTES }
    }
}

impl Reserve {
    fn key(self) -> u64 {
        match self {
            Self::Pool(pool) => pool.0.expose_provenance() as u64,
            // A pool's handle is an address, so no handle is such a small number.
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

    /// Takes a guard on the reserve. A device's graphs get a record if they have none; `None` for a pool without one.
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

    /// True if the pool has a record that says that it is not counted.
    pub(super) fn is_uncounted(self) -> bool {
        self.record().is_some_and(|record| record.uncounted)
    }

    /// The device of a reserve that has a record.
    pub(super) fn ordinal(self) -> Option<CUdevice> {
        self.record().map(|record| record.ordinal)
    }

    /// Bytes charged for it now, settled and provisional.
    pub(super) fn charged_bytes(self) -> u64 {
        self.record().map_or(0, |record| record.whole_granules().saturating_mul(GRANULE_BYTES))
    }

    /// Makes the record of a pool whose memory is the host's.
    pub(crate) fn do_not_count(self) {
        let record = Record { uncounted: true, ..Record::new(0) };
        let _ = RESERVES.insert(self.key(), record.pack());
    }

    /// Makes the record of a pool that the program made on `device`. An older record of the same handle is of a pool that
    /// the driver destroyed unseen: what was settled for it is given back, while what calls under way have asked for stays
    /// charged.
    pub(crate) fn begin_own(self, device: &Device) {
        let record = Record { own: true, ..Record::new(device.ordinal) };
        if let Ok(Some(stale)) = RESERVES.insert(self.key(), record.pack()) {
            let bytes = Record::unpack(stale).settled_granules.saturating_mul(GRANULE_BYTES);
            device.give_back(bytes, self.kind());
        }
    }

    /// Notes granted growth before the driver is called.
    pub(super) fn expect(self, device: &Device, held: Reservation) -> Growth {
        let granules = held.keep() / GRANULE_BYTES;
        // Without memory for the record the bytes stay charged for good: too much, never too little.
        let _ = RESERVES.update(self.key(), |old| {
            let record = old.map_or(Record::new(device.ordinal), Record::unpack);
            let provisional_granules = record.provisional_granules.saturating_add(granules);
            Some(Record { provisional_granules, ..record }.changed().pack())
        });
        Growth { granules }
    }

    /// Moves `bytes`, whole granules, from settled to provisional, so that another thread's settling does not give back
    /// what the caller's launch may take. False, with nothing moved, if the reserve has no record, if fewer bytes are
    /// settled, if less than `whole_bytes` is charged for it, which is what all graphs together may take, or if `is_valid`
    /// fails. `whole_bytes` and `is_valid` are asked anew at each attempt to change the record.
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
                && record.settled_granules >= granules
                && record.whole_granules() >= whole_bytes.load(SeqCst) / GRANULE_BYTES;
            let moved = if is_there { granules } else { 0 };
            Record {
                settled_granules: record.settled_granules.saturating_sub(moved),
                provisional_granules: record.provisional_granules.saturating_add(moved),
                ..record
            }
        });
        is_there
    }

    /// Ends `growth`, whose call has returned, and settles the record to the bytes that the driver has reserved. While other
    /// threads have growth under way the charge may stay above that, by their part; and it stays as it is if the driver
    /// does not say what is reserved.
    ///
    /// # Errors
    /// The number of bytes by which the reserve grew unasked and which the limit does not admit. The caller either makes
    /// the driver give them back and settles again, with [`Growth::NONE`], or counts them
    /// ([`Reserve::settle_or_hold`]).
    pub(super) fn settle(self, device: &'static Device, growth: Growth) -> Result<(), u64> {
        let Growth { granules: done } = growth;
        // A pool without a record has ended, which gave all back, or there was no memory for its record.
        let Some(_look) = self.look(device) else { return Ok(()) };
        // A record that other threads keep changing is settled at the eighth attempt without a reading.
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
                    // The driver did not say, or the record has changed since: what is charged stays.
                    _ => old_sum,
                };
                // Other threads' growth may be in the reading already, or may come after it. So their part stays
                // charged beside the reading, but no more than was charged before.
                let sum = needed.saturating_add(provisional).min(old_sum).max(needed);
                let charged = sum.saturating_sub(provisional);
                grown = sum.saturating_sub(old_sum);
                shrunk = old_sum.saturating_sub(sum);
                let next = Record {
                    settled_granules: charged,
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
                    // The ledger has not charged it, so the record must not say so.
                    self.change(|record| Record {
                        settled_granules: record.settled_granules.saturating_sub(grown),
                        ..record
                    });
                    Err(bytes)
                }
            };
        }
        Ok(())
    }

    /// Settles; growth that does not fit is charged beyond the limit and logged, since it cannot be undone.
    pub(super) fn settle_or_hold(self, device: &'static Device, growth: Growth) {
        // The guard keeps the record between the two changes of it.
        let _look = self.look(device);
        if let Err(bytes) = self.settle(device, growth) {
            device.tell_grown(bytes, self.kind());
            device.hold(bytes, self.kind());
            self.change(|record| Record {
                settled_granules: record
                    .settled_granules
                    .saturating_add(bytes.div_ceil(GRANULE_BYTES)),
                ..record
            });
        }
    }

    /// True if the program made the pool, and it is counted.
    pub(super) fn is_own(self) -> bool {
        self.record().is_some_and(|record| record.own && !record.uncounted)
    }

    /// True if the program has destroyed it while its memory was in use.
    pub(super) fn is_ended(self) -> bool {
        self.record().is_some_and(|record| record.ended)
    }

    /// Marks the record of a pool that the program has destroyed as ended. The record stays, since memory of the pool may be
    /// in use. False if it was marked before, or there is no record.
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
            let is_empty = record.settled_granules == 0 && record.provisional_granules == 0;
            is_over = record.ended && is_empty && record.lookers == 0;
            (!is_over).then(|| record.pack())
        });
        is_over
    }

    /// Forgets a pool that is not counted; true if it was one. The caller destroys it afterwards: once it is destroyed,
    /// another thread may get its handle for a new pool, whose record must not be taken.
    pub(super) fn forget_uncounted(self) -> bool {
        let mut is_uncounted = false;
        let _ = RESERVES.update(self.key(), |old| {
            is_uncounted = Record::unpack(old?).uncounted;
            old.filter(|_| !is_uncounted)
        });
        is_uncounted
    }

    /// Removes the record of a pool that is gone, and gives back all that is charged for it.
    pub(super) fn end(self) {
        let Some(record) = RESERVES.take(self.key()).map(Record::unpack) else { return };
        let granules = record.settled_granules.saturating_add(record.provisional_granules);
        if let Next::Count(device) = at(record.ordinal) {
            device.give_back(granules.saturating_mul(GRANULE_BYTES), self.kind());
        }
    }
}

/// While it lives, [`Reserve::bury`] leaves the record, so that no thread destroys a pool whose handle the guard's holder
/// uses.
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
