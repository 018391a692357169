//! Stream-ordered memory: charged by what the pools reserve (see [`super::reserve`]).
//!
//! An allocation asks for the largest growth of its pool, calls, and settles: whether the driver serves
//! it from what the pool holds unused or reserves more is known only afterwards. Before anything is
//! refused, unused memory of all pools and graphs goes back to the driver. Captured, an allocation is
//! a graph node and takes nothing. What was freed goes back to the card when the program
//! synchronises, which is why those calls are watched once something was freed.
//!
//! A pool that is destroyed while work or allocations use its memory keeps that until they end, and
//! then nobody can be asked how much it is. So the driver's pool is destroyed when it holds nothing:
//! until then it is nobody's but ours, trimmed and asked whenever pools are settled.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUcontext, CUdeviceptr, CUevent, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps,
    CUmemPoolPtrExportData, CUmemoryPool, CUresult, CUstream,
};
use divvy_policy::{charge, gate::Waited};

use super::charge::{Next, OUT_OF_MEMORY, Place, SUCCESS, ask_quietly, at, here};
use super::entry::Entry;
use super::graph;
use super::memory;
use super::reserve::{self, Growth, Reserve};
use crate::gate::{self, is_capturing, relaxed, submit};
use crate::sys::{In, Opaque, Out, clock, driver, layout, real};
use crate::tenant::device::Device;

/// Whether pools have been freed into, or told to keep less, since they were last settled.
static SLACK: AtomicBool = AtomicBool::new(false);

/// Pools that the program has destroyed and the driver has not yet.
static ENDED: AtomicU32 = AtomicU32::new(0);

const INVALID_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Pools of one device looked at when memory is short.
const MOST_POOLS: usize = 64;

/// The legacy and the per-thread default stream have handles that are no streams.
fn is_default(stream: CUstream) -> bool {
    stream.0.addr() <= 2
}

/// The device on whose memory a stream's work runs. The stream tells where no context is current.
fn device_of(stream: CUstream, per_thread: bool) -> Next<&'static Device> {
    let current = match here() {
        Next::Count(Place { device, .. }) => Some(device),
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
pub(crate) fn prepare(
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
        Err(refusal) => {
            device.tell(steps, reserve.kind(), refusal);
            Err(OUT_OF_MEMORY)
        }
    }
}

/// What an allocation may add, asked for before the driver is called.
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
        graph::expect_nodes();
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
        device.tell_grown(over_bytes, Kind::Pool);
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
fn allocate(
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

/// The next synchronisation may let memory of pools go.
#[inline(never)]
fn expect_slack() {
    if !SLACK.load(Relaxed) {
        SLACK.store(true, Relaxed);
    }
}

/// A pointer that is no plain block was freed: its pool may let go of memory at the next
/// synchronisation, and one that was destroyed before it at once.
pub(crate) fn freed() {
    if ENDED.load(Relaxed) != 0 {
        settle_slack();
    }
    expect_slack();
}

/// The program synchronised: pools that were freed into have let memory go, which is free for the
/// tenant's other processes at once.
///
/// Cost: one load while nothing was freed.
fn synchronised(result: CUresult) -> CUresult {
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

/// Waits for the current context.
pub(crate) fn cuCtxSynchronize(real: real::cuCtxSynchronize) -> CUresult {
    synchronised(submit::synchronise(Waited::Current, || real.call()))
}

/// Waits for a context.
pub(crate) fn cuCtxSynchronize_v2(real: real::cuCtxSynchronize_v2, ctx: CUcontext) -> CUresult {
    synchronised(submit::synchronise(Waited::Context(ctx.0.addr() as u64), || real.call(ctx)))
}

/// Waits for a stream.
pub(crate) fn cuStreamSynchronize(real: real::cuStreamSynchronize, stream: CUstream) -> CUresult {
    let waited = Waited::Stream(gate::stream(stream, real.per_thread()));
    synchronised(submit::synchronise(waited, || real.call(stream)))
}

/// Waits for an event.
pub(crate) fn cuEventSynchronize(real: real::cuEventSynchronize, event: CUevent) -> CUresult {
    synchronised(submit::synchronise(Waited::Event, || real.call(event)))
}

/// Settles all reserves of the device: what the driver gave back unseen is free for others.
pub(crate) fn settle_all(device: &'static Device) {
    if reserved(device) != 0 {
        settle_each(device, false);
    }
}

/// Hands unused memory of pools and graphs back to the driver; whether that made room.
#[cold]
pub(crate) fn reclaim(device: &'static Device) -> bool {
    let before = reserved(device);
    if before != 0 {
        settle_each(device, true);
    }
    reserved(device) < before
}

/// What pools and graphs of this process have in reserve.
fn reserved(device: &Device) -> u64 {
    device.own_bytes(Kind::Pool).saturating_add(device.own_bytes(Kind::Graph))
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
            Reserve::Graphs(_) if shrink => graph::trim(device),
            _ => reserve.settle_or_hold(device, Growth::NONE),
        }
    }
    if ENDED.load(Relaxed) != 0 {
        expect_slack();
    }
}

/// Has a pool let go of what is not in use.
#[inline(never)]
fn trim(device: &'static Device, pool: CUmemoryPool) {
    let reserve = Reserve::Pool(pool);
    let Some(_look) = reserve.look(device) else { return };
    relaxed(|| {
        let _ = driver::pool_trim(pool, 0);
    });
    reserve.settle_or_hold(device, Growth::NONE);
}

/// Whether nothing is left of a pool that the program has destroyed, and the caller is to destroy it.
fn bury(reserve: Reserve) -> bool {
    let is_over = reserve.bury();
    if is_over {
        ENDED.fetch_sub(1, Relaxed);
    }
    is_over
}

/// Settles a pool after a call that may have shrunk it.
fn settle(pool: CUmemoryPool) {
    let reserve = Reserve::Pool(pool);
    if let Some(Next::Count(device)) = reserve.ordinal().map(at)
        && !reserve.is_uncounted()
    {
        reserve.settle_or_hold(device, Growth::NONE);
    }
}

/// Allocates in stream order from the device's current pool.
pub(crate) fn cuMemAllocAsync(
    real: real::cuMemAllocAsync,
    dptr: Out<'_, CUdeviceptr>,
    bytesize: usize,
    stream: CUstream,
) -> CUresult {
    let call = || real.call(dptr, bytesize, stream);
    allocate(stream, real.per_thread(), None, bytesize, dptr, call)
}

/// Allocates in stream order from a pool of the program's choice.
pub(crate) fn cuMemAllocFromPoolAsync(
    real: real::cuMemAllocFromPoolAsync,
    dptr: Out<'_, CUdeviceptr>,
    bytesize: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> CUresult {
    let call = || real.call(dptr, bytesize, pool, stream);
    if pool.0.is_null() {
        return call();
    }
    allocate(stream, real.per_thread(), Some(pool), bytesize, dptr, call)
}

/// Makes a pool; one that is not of a device is not counted.
pub(crate) fn cuMemPoolCreate(
    real: real::cuMemPoolCreate,
    pool: Out<'_, CUmemoryPool>,
    props: In<'_, CUmemPoolProps>,
) -> CUresult {
    let result = real.call(pool, props);
    if result == SUCCESS
        && let (Some(made), Some(props)) = (pool.get(), props.get())
    {
        match layout::device_of(&props.location).map(at) {
            Some(Next::Count(device)) => Reserve::Pool(made).begin_own(device),
            Some(Next::Forward | Next::Refuse(_)) => {}
            None => Reserve::Pool(made).do_not_count(),
        }
    }
    result
}

/// Destroys a pool: for the program, and for the driver when nothing uses its memory.
pub(crate) fn cuMemPoolDestroy(real: real::cuMemPoolDestroy, pool: CUmemoryPool) -> CUresult {
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
            return real.call(pool);
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
    let result = real.call(pool);
    match (result, is_uncounted) {
        (SUCCESS, false) => reserve.end(),
        (SUCCESS, true) | (_, false) => {}
        (_, true) => reserve.do_not_count(),
    }
    result
}

/// Hands unused memory back.
pub(crate) fn cuMemPoolTrimTo(
    real: real::cuMemPoolTrimTo,
    pool: CUmemoryPool,
    keep_bytes: usize,
) -> CUresult {
    let result = real.call(pool, keep_bytes);
    if result == SUCCESS {
        settle(pool);
    }
    result
}

/// A lower release threshold lets memory go at the next synchronisation, not before.
pub(crate) fn cuMemPoolSetAttribute(
    real: real::cuMemPoolSetAttribute,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: Opaque,
) -> CUresult {
    let result = real.call(pool, attribute, value);
    if result == SUCCESS && attribute == CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD {
        expect_slack();
    }
    result
}

/// Memory of another process's pool: charged here too, as imported. Its size is known only
/// afterwards, so what does not fit is let go again.
pub(crate) fn cuMemPoolImportPointer(
    real: real::cuMemPoolImportPointer,
    ptr: Out<'_, CUdeviceptr>,
    pool: CUmemoryPool,
    data: Out<'_, CUmemPoolPtrExportData>,
) -> CUresult {
    let result = real.call(ptr, pool, data);
    if result != SUCCESS {
        return result;
    }
    let Some(address) = ptr.get() else { return result };
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return result,
        Next::Refuse(code) => {
            let _ = driver::mem_free(address);
            return code;
        }
    };
    let bytes = driver::address_range(address).map_or(0, |(_, bytes)| bytes);
    let charged = charge::whole_granules(bytes);
    match ask_quietly(place.device, charged, Kind::Imported) {
        Ok(held) => {
            let entry = Entry {
                bytes: held.keep(),
                kind: Kind::Imported,
                ordinal: place.device.ordinal,
                packed: false,
                shared: false,
                owner: place.context,
            };
            memory::adopt(address, entry, place.device)
        }
        Err(refusal) => {
            place.device.tell(charged, Kind::Imported, refusal);
            let _ = driver::mem_free(address);
            OUT_OF_MEMORY
        }
    }
}
