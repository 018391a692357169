//! Unused reserves of pools and graphs: settled when the program synchronises, and handed back to the driver
//! before anything is refused.
//!
//! Freed memory goes back to the card when the program synchronises, which is why those calls are
//! watched once something was freed.
//!
//! A pool that is destroyed while work or allocations use its memory keeps that until they end, and
//! then nobody can be asked how much it is. So the driver's pool is destroyed when it holds nothing:
//! until then it is nobody's but ours, trimmed and asked whenever pools are settled.
//!
//! Asks for no memory: it is what asking falls back on.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::CUmemoryPool;

use super::reserve::{self, Growth, Reserve};
use crate::gate::relaxed;
use crate::sys::driver;
use crate::tenant::device::Device;

/// Whether pools have been freed into, or told to keep less, since they were last settled.
pub(super) static SLACK: AtomicBool = AtomicBool::new(false);

/// Pools that the program has destroyed and the driver has not yet.
pub(super) static ENDED: AtomicU32 = AtomicU32::new(0);

/// Pools of one device looked at when memory is short.
const MOST_POOLS: usize = 64;

/// The next synchronisation may let memory of pools go.
#[inline(never)]
pub(crate) fn expect_slack() {
    if !SLACK.load(Relaxed) {
        SLACK.store(true, Relaxed);
    }
}

/// Settles all reserves of the device: what the driver gave back unseen is free for others.
pub(super) fn settle_all(device: &'static Device) {
    if reserved(device) != 0 {
        settle_each(device, false);
    }
}

/// Hands unused memory of pools and graphs back to the driver; whether that made room.
#[cold]
pub(super) fn reclaim(device: &'static Device) -> bool {
    let before = reserved(device);
    if before != 0 {
        settle_each(device, true);
    }
    reserved(device) < before
}

/// Reserves of this process's pools and graphs.
pub(super) fn reserved(device: &Device) -> u64 {
    device.own_bytes(MemoryKind::Pool).saturating_add(device.own_bytes(MemoryKind::Graph))
}

/// Settles all reserves of the device, which give back what is unused if they are to `shrink`.
#[inline(never)]
fn settle_each(device: &'static Device, shrink: bool) {
    let mut reserves = [None; MOST_POOLS];
    reserve::of_device(device.ordinal, &mut reserves);
    for reserve in reserves.into_iter().flatten() {
        match reserve {
            Reserve::Pool(pool) if reserve.is_ended() => {
                trim(device, pool);
                if bury(reserve) {
                    relaxed(|| {
                        let _ = driver::pool_destroy(pool);
                    });
                }
            }
            Reserve::Pool(pool) if shrink => trim(device, pool),
            Reserve::Graphs(_) if shrink => trim_graphs(device),
            _ => reserve.settle_or_hold(device, Growth::NONE),
        }
    }
    if ENDED.load(Relaxed) != 0 {
        expect_slack();
    }
}

/// Has a pool let go of what is not in use.
#[inline(never)]
pub(super) fn trim(device: &'static Device, pool: CUmemoryPool) {
    let reserve = Reserve::Pool(pool);
    let Some(_look) = reserve.look(device) else { return };
    relaxed(|| {
        let _ = driver::pool_trim(pool, 0);
    });
    reserve.settle_or_hold(device, Growth::NONE);
}

/// Whether nothing is left of a pool that the program has destroyed, and the caller is to destroy it.
pub(super) fn bury(reserve: Reserve) -> bool {
    let is_over = reserve.bury();
    if is_over {
        ENDED.fetch_sub(1, Relaxed);
    }
    is_over
}

/// Hands unused graph memory of a device back to the driver.
fn trim_graphs(device: &'static Device) {
    let aged = age(device);
    relaxed(|| {
        let _ = driver::graph_mem_trim(device.ordinal);
    });
    trimmed(device, aged);
}

/// Before a trim: whatever graph runs from now on is counted anew. What has been counted until now.
pub(crate) fn age(device: &Device) -> u64 {
    device.graph_epoch.fetch_add(1, SeqCst);
    device.aged_graph_needs.swap(0, SeqCst)
}

/// Settles after a trim: of the graphs counted before it, which could have `aged` bytes, no more is left than is
/// reserved. They stay among the device's needs until that is known.
#[inline(never)]
pub(crate) fn trimmed(device: &'static Device, aged: u64) {
    let reserve = Reserve::Graphs(device.ordinal);
    reserve.settle_or_hold(device, Growth::NONE);
    let left = aged.min(reserve.charged_bytes());
    device.aged_graph_needs.fetch_add(left, SeqCst);
    device.graph_needs.fetch_sub(aged.saturating_sub(left), SeqCst);
}
