//! Stream-ordered memory and its pools ([`crate::account::pool`]), and the synchronisation of a stream, which may let
//! memory of pools go.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{
    CUdeviceptr, CUmemPool_attribute, CUmemPoolProps, CUmemPoolPtrExportData, CUmemoryPool,
    CUresult, CUstream,
};
use divvy_policy::{charge, gate::Waited};

use crate::account::block;
use crate::account::charge::ask;
use crate::account::context::here;
use crate::account::place::{Next, at};
use crate::account::pool::{allocate, settle, synchronised};
use crate::account::reserve::Reserve;
use crate::account::unused::expect_slack;
use crate::gate::{self, submit};
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Opaque, Out, driver, layout, real};

/// Waits for a stream.
pub(crate) fn cuStreamSynchronize(real: real::cuStreamSynchronize, stream: CUstream) -> CUresult {
    let waited = Waited::Stream(gate::stream(stream, real.per_thread()));
    synchronised(submit::synchronise(waited, || real.call(stream)))
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
        && let Some(made) = pool.get()
    {
        match layout::device_of(props).map(at) {
            Some(Next::Count(device)) => Reserve::Pool(made).begin_own(device),
            Some(Next::Forward | Next::Refuse(_)) => {}
            None => Reserve::Pool(made).do_not_count(),
        }
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
    value: Opaque<'_>,
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
    match ask(place.device, charged, MemoryKind::Imported) {
        Ok(held) => block::adopt(place, address, held),
        Err(code) => {
            let _ = driver::mem_free(address);
            code
        }
    }
}
