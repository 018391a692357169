//! Stream-ordered memory: charged by what the pools reserve (see [`super::reserve`]).
//!
//! An allocation asks for the largest growth of its pool, calls, and settles: whether the driver serves
//! it from what the pool holds unused or reserves more is known only afterwards. Before anything is
//! refused, unused memory of all pools and graphs goes back to the driver ([`super::unused`]). Captured,
//! an allocation is a graph node and takes nothing.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{
    CUdeviceptr, CUmemLocationType, CUmemPool_attribute, CUmemoryPool, CUresult, CUstream,
};
use divvy_policy::charge;

use super::charge::{ask_quietly, refuse};
use super::context::here;
use super::nodes;
use super::place::{CallPlace, Next, OUT_OF_MEMORY, at};
use super::reserve::{Growth, Reserve};
use super::unused::{ENDED, SLACK, bury, expect_slack, reserved, settle_all, trim};
use crate::gate::{is_capturing, relaxed};
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, clock, driver};
use crate::tenant::device::Device;

const INVALID_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// The legacy and the per-thread default stream have handles that are no streams.
fn is_default(stream: CUstream) -> bool {
    stream.0.addr() <= 2
}

/// The device on whose memory a stream's work runs. The stream tells where no context is current.
fn device_of(stream: CUstream, per_thread: bool) -> Next<&'static Device> {
    let current = match here() {
        Next::Count(CallPlace { device, .. }) => Some(device),
        Next::Forward => None,
        Next::Refuse(code) => return Next::Refuse(code),
    };
    let its_own = match is_default(stream) {
        true => None,
        false => driver::stream_ctx_device(stream, per_thread).ok(),
    };
    match (current, its_own) {
        (Some(device), Some(ordinal)) if device.ordinal == ordinal => Next::Count(device),
        (_, Some(ordinal)) => at(ordinal),
        (Some(device), None) => Next::Count(device),
        (None, None) => Next::Forward,
    }
}

/// Longest wait for work that keeps memory of a pool.
const PATIENCE_NS: u64 = 1_000_000_000;

const LOOK_NS: u64 = 50_000;

/// Waits until the stream's work has ended, behind which memory was freed, or for as long as is worth it.
#[inline(never)]
fn wait_for(stream: CUstream, per_thread: bool) {
    let give_up_ns = clock::now_ns().saturating_add(PATIENCE_NS);
    relaxed(|| {
        while !driver::stream_is_done(stream, per_thread) && clock::now_ns() < give_up_ns {
            clock::sleep_until(clock::now_ns().saturating_add(LOOK_NS));
        }
    });
}

/// Asks for `steps` bytes that a call on `stream` may add, whatever the reserve has unused: that may lie
/// in pieces, or be another stream's.
pub(super) fn prepare(
    device: &'static Device,
    reserve: Reserve,
    steps: u64,
    stream: CUstream,
    per_thread: bool,
) -> Result<Growth, CUresult> {
    let mut asked = ask_quietly(device, steps, reserve.kind());
    if asked.is_err() && reserved(device) != 0 {
        wait_for(stream, per_thread);
        asked = ask_quietly(device, steps, reserve.kind());
    }
    match asked {
        Ok(held) => Ok(reserve.expect(device, held)),
        Err(refusal) => Err(refuse(device, steps, reserve.kind(), refusal)),
    }
}

/// Growth that an allocation may cause, asked for before the driver is called.
struct Asked {
    device: &'static Device,
    pool: CUmemoryPool,
    growth: Growth,
}

/// Asks for an allocation from `pool`, or from the device's current pool. None where nothing is counted.
#[inline(never)]
fn ask(
    stream: CUstream,
    per_thread: bool,
    pool: Option<CUmemoryPool>,
    bytes: u64,
) -> Result<Option<Asked>, CUresult> {
    if is_capturing(stream, per_thread) {
        nodes::expect_nodes();
        return Ok(None);
    }
    let device = match device_of(stream, per_thread) {
        Next::Count(device) => device,
        Next::Forward => return Ok(None),
        Next::Refuse(code) => return Err(code),
    };
    let known = match pool {
        Some(pool) => Ok(pool),
        None => driver::current_pool(device.ordinal),
    };
    // A driver without pools refuses by itself.
    let Ok(pool) = known else { return Ok(None) };
    let reserve = Reserve::Pool(pool);
    if reserve.is_ended() {
        return Err(INVALID_VALUE);
    }
    if reserve.ordinal().is_none() && lies_elsewhere(pool) {
        reserve.do_not_count();
    }
    if reserve.is_uncounted() {
        return Ok(None);
    }
    let device = match reserve.ordinal().map(at) {
        Some(Next::Count(owner)) => owner,
        _ => owner_of(pool).unwrap_or(device),
    };
    let growth = prepare(device, reserve, charge::pool_reserve(bytes), stream, per_thread)?;
    Ok(Some(Asked { device, pool, growth }))
}

/// Settles what the driver answered to an allocation.
#[inline(never)]
fn settle_asked(
    asked: Asked,
    result: CUresult,
    dptr: Out<'_, CUdeviceptr>,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    let Asked { device, pool, growth } = asked;
    let reserve = Reserve::Pool(pool);
    let settled = reserve.settle(device, growth);
    if result == SUCCESS
        && let Err(over_bytes) = settled
    {
        let address = dptr.get().unwrap_or(0);
        device.tell_grown(over_bytes, MemoryKind::Pool);
        relaxed(|| {
            let _ = driver::mem_free_async(address, stream, per_thread);
            let _ = driver::pool_trim(pool, 0);
        });
        reserve.settle_or_hold(device, Growth::NONE);
        return OUT_OF_MEMORY;
    }
    result
}

/// Allocates from `pool`, or from the device's current pool.
pub(crate) fn allocate(
    stream: CUstream,
    per_thread: bool,
    pool: Option<CUmemoryPool>,
    bytes: usize,
    dptr: Out<'_, CUdeviceptr>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match ask(stream, per_thread, pool, bytes as u64) {
        Ok(None) => call(),
        Ok(Some(asked)) => settle_asked(asked, call(), dptr, stream, per_thread),
        Err(code) => code,
    }
}

/// Whether the driver says that a pool is of no device's memory; older drivers have no other pools.
fn lies_elsewhere(pool: CUmemoryPool) -> bool {
    let which = CUmemPool_attribute::CU_MEMPOOL_ATTR_LOCATION_TYPE;
    let location = relaxed(|| driver::pool_u64(pool, which)).unwrap_or(0) & 0xffff_ffff;
    let device = u64::from(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE.0);
    location != 0 && location != device
}

/// The device whose default pool this is.
fn owner_of(pool: CUmemoryPool) -> Option<&'static Device> {
    let count = driver::device_count().ok()?;
    (0..count).find_map(|index| {
        let ordinal = driver::device_get(index).ok()?;
        let own = driver::default_pool(ordinal).is_ok_and(|default| default.0 == pool.0);
        match own.then(|| at(ordinal)) {
            Some(Next::Count(device)) => Some(device),
            _ => None,
        }
    })
}

/// A pointer that is no plain block was freed: its pool may let go of memory at the next
/// synchronisation, and one that was destroyed before it at once.
pub(super) fn freed() {
    if ENDED.load(Relaxed) != 0 {
        settle_slack();
    }
    expect_slack();
}

/// The program synchronised: pools that were freed into have let memory go, which is free for the
/// tenant's other processes at once.
///
/// Cost: one load while nothing was freed.
pub(crate) fn synchronised(result: CUresult) -> CUresult {
    if SLACK.load(Relaxed) && result == SUCCESS {
        settle_slack();
    }
    result
}

#[cold]
#[inline(never)]
fn settle_slack() {
    if SLACK.swap(false, Relaxed)
        && let Next::Count(place) = here()
    {
        settle_all(place.device);
    }
}

/// Settles a pool after a call that may have shrunk it.
pub(crate) fn settle(pool: CUmemoryPool) {
    let reserve = Reserve::Pool(pool);
    if let Some(Next::Count(device)) = reserve.ordinal().map(at)
        && !reserve.is_uncounted()
    {
        reserve.settle_or_hold(device, Growth::NONE);
    }
}

/// Destroys a pool: for the program, and for the driver when nothing uses its memory.
pub(crate) fn destroy(pool: CUmemoryPool, call: impl FnOnce() -> CUresult) -> CUresult {
    let reserve = Reserve::Pool(pool);
    if reserve.is_own()
        && let Some(Next::Count(device)) = reserve.ordinal().map(at)
    {
        if !reserve.outlive() {
            return INVALID_VALUE;
        }
        ENDED.fetch_add(1, Relaxed);
        trim(device, pool);
        if bury(reserve) {
            return call();
        }
        // As the driver does with a device's current pool.
        if reserve.is_ended()
            && driver::current_pool(device.ordinal).is_ok_and(|current| current.0 == pool.0)
            && let Ok(default) = driver::default_pool(device.ordinal)
        {
            let _ = driver::set_current_pool(device.ordinal, default);
        }
        expect_slack();
        return SUCCESS;
    }
    let is_uncounted = reserve.forget_uncounted();
    let result = call();
    match (result, is_uncounted) {
        (SUCCESS, false) => reserve.end(),
        (SUCCESS, true) | (_, false) => {}
        (_, true) => reserve.do_not_count(),
    }
    result
}
