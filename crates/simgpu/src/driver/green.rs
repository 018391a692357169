//! Green contexts: a part of a device's multiprocessors, in the memory of the primary context.
//!
//! Promises: 132 multiprocessors split in groups of at least 8, in steps of 8; each green context
//! takes 6 MiB that stay until the primary context ends, as does what was allocated in its view,
//! and while one lives the primary context cannot be reset, as measured. A kernel's time grows by
//! the share of multiprocessors its stream may use.

use core::ffi::{c_int, c_uint, c_ulonglong};

use divvy_driver_api::types::*;

use super::call::Call;
use super::context::{activate, retain_primary};
use super::error::*;
use super::machine::Purpose;
use super::objects::context::{Context, Green, Origin, Resources};
use super::objects::stream::Stream;
use super::state::begin_free;
use crate::calibration::MULTIPROCESSORS;
use crate::sys::driver::{Answer, Handle, In, InArray, Out, OutArray};

const GREEN_BYTES: u64 = 6 << 20;
const SMALLEST: u32 = 8;

fn resource(multiprocessors: u32) -> CUdevResource {
    let sm = CUdevSmResource {
        smCount: multiprocessors,
        minSmPartitionSize: SMALLEST,
        smCoscheduledAlignment: SMALLEST,
        flags: 0,
        localityDomainId: 0,
    };
    CUdevResource {
        type_: CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM,
        _internal_padding: [0; 92],
        __bindgen_anon_1: CUdevResource_st__bindgen_ty_1 { sm },
        nextResource: core::ptr::null_mut(),
    }
}

fn put_sm(resource_out: Out<CUdevResource>, kind: CUdevResourceType, count: u32) -> Answer {
    if kind != CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM {
        return Err(INVALID_RESOURCE_TYPE);
    }
    resource_out.put(resource(count))
}

pub fn cuDeviceGetDevResource(
    _: Call,
    device: CUdevice,
    out: Out<CUdevResource>,
    kind: CUdevResourceType,
) -> Answer {
    let (_, state) = begin_free()?;
    state.device(device)?;
    put_sm(out, kind, MULTIPROCESSORS)
}

pub fn cuCtxGetDevResource(
    _: Call,
    context: CUcontext,
    out: Out<CUdevResource>,
    kind: CUdevResourceType,
) -> Answer {
    let (_, state) = begin_free()?;
    state.context(context.key())?;
    let green = state.greens.iter().find(|(_, green)| green.context == context.key());
    let count = green.map_or(MULTIPROCESSORS, |(_, green)| green.multiprocessors);
    put_sm(out, kind, count)
}

pub fn cuGreenCtxGetDevResource(
    _: Call,
    green: CUgreenCtx,
    out: Out<CUdevResource>,
    kind: CUdevResourceType,
) -> Answer {
    let (_, state) = begin_free()?;
    put_sm(out, kind, state.greens.of(green)?.multiprocessors)
}

pub fn cuDevSmResourceSplitByCount(
    _: Call,
    result: OutArray<CUdevResource>,
    groups: Out<c_uint>,
    input: In<CUdevResource>,
    remainder: Out<CUdevResource>,
    _flags: c_uint,
    least: c_uint,
) -> Answer {
    let input = input.given()?;
    if input.type_ != CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM {
        return Err(INVALID_RESOURCE_TYPE);
    }
    let total = input.sm_count();
    let wanted = groups.get()?;
    let size = least.max(1).checked_next_multiple_of(SMALLEST).ok_or(INVALID_VALUE)?;
    if size > total || (!result.is_null() && wanted == 0) {
        return Err(INVALID_RESOURCE_CONFIGURATION);
    }
    let possible = total / size;
    let made = if result.is_null() { possible } else { wanted.min(possible) };
    for index in 0..made {
        result.put(index as usize, resource(size))?;
    }
    remainder.offer(resource(total - made * size));
    groups.put(made)
}

pub fn cuDevResourceGenerateDesc(
    _: Call,
    description: Out<CUdevResourceDesc>,
    resources: InArray<CUdevResource>,
    _: c_uint,
) -> Answer {
    let (_, mut state) = begin_free()?;
    description.check()?;
    let mut multiprocessors = 0;
    for resource in resources.given()? {
        if resource.type_ != CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM {
            return Err(INVALID_RESOURCE_TYPE);
        }
        multiprocessors += resource.sm_count();
    }
    if multiprocessors == 0 || multiprocessors > MULTIPROCESSORS {
        return Err(INVALID_RESOURCE_CONFIGURATION);
    }
    let key = state.resources.insert(Resources { multiprocessors });
    description.put(CUdevResourceDesc::from_key(key))
}

pub fn cuGreenCtxCreate(
    _: Call,
    green: Out<CUgreenCtx>,
    description: CUdevResourceDesc,
    device: CUdevice,
    flags: c_uint,
) -> Answer {
    let (driver, mut state) = begin_free()?;
    green.check()?;
    // CU_GREEN_CTX_DEFAULT_STREAM is required.
    if flags != 1 {
        return Err(INVALID_VALUE);
    }
    let multiprocessors = state.resources.of(description)?.multiprocessors;
    let primary = retain_primary(driver, &mut state, device)?;
    let charge = match driver.allocate(&state, device, GREEN_BYTES, Purpose::Overhead) {
        Ok(charge) => charge,
        Err(error) => {
            let record = state.device_mut(device)?;
            record.retained -= 1;
            let last = record.retained == 0;
            drop(state);
            if last {
                super::context::end(driver, primary)?;
            }
            return Err(error);
        }
    };
    state.contexts.get_mut(primary)?.green_charges.push(charge);
    let context = state.contexts.insert(Context::new(device, Origin::Green));
    activate(driver, &mut state, context)?;
    let id = state.fresh_id();
    let key = state.greens.insert(Green { device, multiprocessors, context, id });
    green.put(CUgreenCtx::from_key(key))
}

pub fn cuGreenCtxDestroy(_: Call, green: CUgreenCtx) -> Answer {
    let (driver, mut state) = begin_free()?;
    let gone = state.greens.remove(green.key())?;
    let record = state.device_mut(gone.device)?;
    record.retained = record.retained.saturating_sub(1);
    let (left, primary) = (record.retained, record.primary);
    state.space.hand_over(gone.context, primary);
    drop(state);
    super::context::end(driver, gone.context)?;
    if left == 0 { super::context::end(driver, primary) } else { Ok(()) }
}

pub fn cuCtxFromGreenCtx(_: Call, context: Out<CUcontext>, green: CUgreenCtx) -> Answer {
    let (_, state) = begin_free()?;
    context.put(CUcontext::from_key(state.greens.of(green)?.context))
}

pub fn cuGreenCtxGetId(_: Call, green: CUgreenCtx, id: Out<c_ulonglong>) -> Answer {
    let (_, state) = begin_free()?;
    id.put(state.greens.of(green)?.id)
}

pub fn cuGreenCtxStreamCreate(
    _: Call,
    stream: Out<CUstream>,
    green: CUgreenCtx,
    flags: c_uint,
    priority: c_int,
) -> Answer {
    let (_, mut state) = begin_free()?;
    stream.check()?;
    if flags & 1 == 0 {
        return Err(INVALID_VALUE);
    }
    let found = state.greens.of(green)?;
    let (context, device, multiprocessors) = (found.context, found.device, found.multiprocessors);
    let id = state.fresh_id();
    let mut made = Stream::created(context, device, flags, priority, id);
    made.green = green.key();
    made.multiprocessors = multiprocessors;
    let key = state.streams.insert(made);
    stream.put(CUstream::from_key(key))
}

pub fn cuStreamGetGreenCtx(call: Call, stream: CUstream, green: Out<CUgreenCtx>) -> Answer {
    let (_, state, key) = super::stream::resolved(call, stream)?;
    green.put(CUgreenCtx::from_key(state.streams.get(key)?.green))
}
