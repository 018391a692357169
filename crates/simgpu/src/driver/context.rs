//! Contexts: primary and created, their stacks, limits, flags and end. One made for a graphics API is
//! like any other; nothing else of such an API is simulated.
//!
//! Promises: a context takes its measured cost from the card before it exists and gives all of it
//! back with everything made in it; a primary context keeps one handle for life; a sticky error is
//! returned by every later call in the context until it is destroyed.

use core::ffi::{c_int, c_uint};

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::machine::Purpose;
use super::objects::context::{Context, Origin};
use super::objects::stream::Stream;
use super::space::Range;
use super::state::{DriverState, State, begin, begin_free, current, with_stack};
use super::worker::drain_context;
use crate::calibration::MULTIPROCESSORS;
use crate::sys::driver::{Answer, Handle, In, Out};

/// Local memory per thread that is inside a context's own cost.
pub(crate) const FREE_LOCAL_BYTES: u64 = 1024;
/// Threads an H200 holds at once: what a byte of local memory is multiplied by.
const RESIDENT_THREADS: u64 = MULTIPROCESSORS as u64 * 2048;
/// No thread can have more local memory than this.
pub(crate) const MOST_LOCAL_BYTES: usize = 16 << 20;

/// Brings a context's resources to life: its cost and its legacy stream.
pub(crate) fn activate(driver: &DriverState, state: &mut State, key: u64) -> Answer {
    if let Some(error) = state.broken {
        return Err(error);
    }
    let context = state.contexts.get(key)?;
    let (device, origin) = (context.device, context.origin);
    let charge = match origin {
        Origin::Green => None,
        _ => Some(driver.machine.context(state.device(device)?.machine_index)?),
    };
    let legacy = state.streams.insert(Stream::legacy(key, device));
    let id = state.fresh_id();
    let context = state.contexts.get_mut(key)?;
    *context = Context { flags: context.flags, ..Context::new(device, origin) };
    context.alive = true;
    context.charge = charge;
    context.legacy = legacy;
    context.id = id;
    Ok(())
}

/// Ends a context: waits for its work, then frees everything made in it.
pub(crate) fn end(driver: &'static DriverState, key: u64) -> Answer {
    drain_context(driver, key);
    let mut state = driver.lock();
    let context = state.contexts.get_mut(key)?;
    context.alive = false;
    context.sticky = None;
    context.charge = None;
    context.local = None;
    context.green_charges.clear();
    context.per_thread.clear();
    let (origin, device) = (context.origin, context.device);
    let mut gone = forget_contents(&mut state, key);
    if origin == Origin::Primary {
        super::pool::reset_device(&mut state, device);
        super::graph_memory::reset_device(&mut state, device);
        gone.extend(forget_greens(&mut state, device));
    } else {
        state.contexts.recycle(key)?;
    }
    driver.progressed();
    drop(state);
    drop(gone);
    Ok(())
}

/// Takes out everything made in a context; its memory is the caller's to drop, without the lock.
pub(crate) fn forget_contents(state: &mut State, key: u64) -> Vec<Range> {
    let own = state.streams.iter().filter(|(_, stream)| stream.context == key);
    for stream in own.map(|(stream, _)| stream).collect::<Vec<_>>() {
        // A capture whose graph is gone is over all the same.
        let _ = super::capture::abandon(state, stream);
    }
    let streams = state.streams.extract(|_, stream| stream.context == key);
    state.ended.extend(streams.into_iter().map(|(stream, _)| stream));
    let events = state.events.extract(|_, event| event.context == key);
    state.ended.extend(events.into_iter().map(|(event, _)| event));
    state.modules.extract(|_, module| module.context == key);
    state.functions.extract(|_, function| function.context == key);
    state.arrays.extract(|_, array| array.context == key);
    state.mipmaps.extract(|_, mipmap| mipmap.context == key);
    for (_, library) in state.libraries.iter_mut() {
        library.loaded.remove(&key);
    }
    state.space.remove_where(|range| range.context == key)
}

/// Whether a device has a green context.
fn has_green(state: &State, device: i32) -> bool {
    state.greens.iter().any(|(_, green)| green.device == device)
}

/// Forgets the green contexts of a device whose primary context ended, and what was made in them.
fn forget_greens(state: &mut State, device: i32) -> Vec<Range> {
    let mut gone = Vec::new();
    for (_, green) in state.greens.extract(|_, green| green.device == device) {
        gone.extend(forget_contents(state, green.context));
        let _ = state.contexts.remove(green.context);
    }
    gone
}

/// Makes sure that every resident thread has `bytes_per_thread` of local memory.
pub(crate) fn reserve_local(
    driver: &DriverState,
    state: &mut State,
    key: u64,
    bytes_per_thread: u64,
) -> Answer {
    let context = state.context(key)?;
    if bytes_per_thread <= context.limits[0] as u64 {
        return Ok(());
    }
    set_local(driver, state, key, bytes_per_thread)
}

pub(crate) fn set_local(
    driver: &DriverState,
    state: &mut State,
    key: u64,
    bytes_per_thread: u64,
) -> Answer {
    let device = state.context(key)?.device;
    let wanted = bytes_per_thread.saturating_sub(FREE_LOCAL_BYTES).checked_mul(RESIDENT_THREADS);
    let wanted = wanted.ok_or(OUT_OF_MEMORY)?;
    // The old memory goes first, as growing replaces it.
    let old = state.contexts.get_mut(key)?.local.take();
    let old_bytes = old.as_ref().map_or(0, |block| block.bytes());
    drop(old);
    let take = |bytes| match bytes {
        0 => Ok(None),
        bytes => driver.allocate(state, device, bytes, Purpose::Overhead).map(Some),
    };
    let (result, local) = match take(wanted) {
        Ok(local) => (Ok(()), local),
        Err(error) => (Err(error), take(old_bytes).unwrap_or(None)),
    };
    let context = state.contexts.get_mut(key)?;
    context.local = local;
    if result.is_ok() {
        context.limits[0] = bytes_per_thread as usize;
    }
    result
}

// ---- primary ----

pub fn cuDevicePrimaryCtxRetain(_: Call, context: Out<CUcontext>, device: CUdevice) -> Answer {
    let (driver, mut state) = begin_free()?;
    context.check()?;
    let key = retain_primary(driver, &mut state, device)?;
    context.put(CUcontext::from_key(key))
}

/// Counts one more holder of a device's primary context, bringing it to life for the first.
pub(crate) fn retain_primary(
    driver: &DriverState,
    state: &mut State,
    device: CUdevice,
) -> Answer<u64> {
    let record = state.device(device)?;
    let (key, flags) = (record.primary, record.primary_flags);
    if !state.contexts.get(key)?.alive {
        activate(driver, state, key)?;
        state.contexts.get_mut(key)?.flags = flags;
    }
    state.device_mut(device)?.retained += 1;
    Ok(key)
}

pub fn cuDevicePrimaryCtxRelease(_: Call, device: CUdevice) -> Answer {
    let (driver, mut state) = begin_free()?;
    let record = state.device_mut(device)?;
    if record.retained == 0 {
        return Err(INVALID_CONTEXT);
    }
    record.retained -= 1;
    let (left, key) = (record.retained, record.primary);
    drop(state);
    if left == 0 { end(driver, key) } else { Ok(()) }
}
pub use cuDevicePrimaryCtxRelease as cuDevicePrimaryCtxRelease_v2;

pub fn cuDevicePrimaryCtxReset(_: Call, device: CUdevice) -> Answer {
    let (driver, state) = begin_free()?;
    let key = state.device(device)?.primary;
    let alive = state.contexts.get(key)?.alive;
    if has_green(&state, device) {
        return Err(NOT_PERMITTED);
    }
    drop(state);
    // Holders keep their count; the next retain brings it to life again.
    if alive { end(driver, key) } else { Ok(()) }
}
pub use cuDevicePrimaryCtxReset as cuDevicePrimaryCtxReset_v2;

pub fn cuDevicePrimaryCtxGetState(
    _: Call,
    device: CUdevice,
    flags: Out<c_uint>,
    active: Out<c_int>,
) -> Answer {
    let (_, state) = begin_free()?;
    let record = state.device(device)?;
    let alive = state.contexts.get(record.primary)?.alive;
    flags.put(record.primary_flags)?;
    active.put(c_int::from(alive))
}

pub fn cuDevicePrimaryCtxSetFlags(_: Call, device: CUdevice, flags: c_uint) -> Answer {
    let (_, mut state) = begin_free()?;
    if flags & !0xff != 0 {
        return Err(INVALID_VALUE);
    }
    let record = state.device_mut(device)?;
    record.primary_flags = flags;
    let key = record.primary;
    state.contexts.get_mut(key)?.flags = flags;
    Ok(())
}
pub use cuDevicePrimaryCtxSetFlags as cuDevicePrimaryCtxSetFlags_v2;

// ---- created ----

fn create(context: Out<CUcontext>, flags: c_uint, device: CUdevice, version: u32) -> Answer {
    let (driver, mut state) = begin_free()?;
    context.check()?;
    state.device(device)?;
    if flags & !0xff != 0 {
        return Err(INVALID_VALUE);
    }
    let key = state.contexts.insert(Context::new(device, Origin::Created));
    if let Err(error) = activate(driver, &mut state, key) {
        state.contexts.remove(key)?;
        return Err(error);
    }
    let made = state.contexts.get_mut(key)?;
    (made.flags, made.version, made.attached) = (flags, version, 1);
    drop(state);
    with_stack(|stack| stack.push(key))?;
    context.put(CUcontext::from_key(key))
}

macro_rules! create_calls {
    ($($name:ident($($unused:ty),*) = $version:literal;)*) => {$(
        pub fn $name(
            _: Call,
            context: Out<CUcontext>,
            flags: c_uint,
            device: CUdevice
            $(, _: $unused)*
        ) -> Answer {
            create(context, flags, device, $version)
        }
    )*};
}

create_calls! {
    cuCtxCreate() = 3010;
    cuCtxCreate_v2() = 3020;
    cuVDPAUCtxCreate(VdpDevice, VdpGetProcAddress) = 3010;
    cuVDPAUCtxCreate_v2(VdpDevice, VdpGetProcAddress) = 3020;
}
pub use {cuCtxCreate as cuGLCtxCreate, cuCtxCreate_v2 as cuGLCtxCreate_v2};

pub fn cuCtxCreate_v3(
    _: Call,
    context: Out<CUcontext>,
    _affinity: Out<CUexecAffinityParam>,
    affinities: c_int,
    flags: c_uint,
    device: CUdevice,
) -> Answer {
    if affinities != 0 {
        return Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    }
    create(context, flags, device, 3020)
}

pub fn cuCtxCreate_v4(
    _: Call,
    context: Out<CUcontext>,
    params: In<CUctxCreateParams>,
    flags: c_uint,
    device: CUdevice,
) -> Answer {
    if !params.is_null() {
        let params = params.get()?;
        if params.numExecAffinityParams != 0 {
            return Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        }
        if !params.cigParams.is_null() {
            return Err(NOT_SUPPORTED);
        }
    }
    create(context, flags, device, 3020)
}

fn destroy(context: CUcontext) -> Answer {
    let (driver, state) = begin_free()?;
    let key = context.key();
    if key == 0 {
        return Err(INVALID_VALUE);
    }
    let found = state.contexts.get(key).map_err(|_| INVALID_CONTEXT)?;
    if found.origin != Origin::Created {
        return Err(INVALID_CONTEXT);
    }
    drop(state);
    // Popped when it is current to this thread; elsewhere it stays current and answers errors.
    with_stack(|stack| {
        if stack.last() == Some(&key) {
            stack.pop();
        }
    })?;
    end(driver, key)
}

pub fn cuCtxDestroy(_: Call, context: CUcontext) -> Answer {
    destroy(context)
}
pub use cuCtxDestroy as cuCtxDestroy_v2;

pub fn cuCtxAttach(_: Call, context: Out<CUcontext>, flags: c_uint) -> Answer {
    let (_, mut state, key) = begin()?;
    context.check()?;
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    state.context_mut(key)?.attached += 1;
    context.put(CUcontext::from_key(key))
}

pub fn cuCtxDetach(_: Call, context: CUcontext) -> Answer {
    let (_, mut state) = begin_free()?;
    if current()? != context.key() {
        return Err(INVALID_CONTEXT);
    }
    let found = state.context_mut(context.key())?;
    found.attached = found.attached.saturating_sub(1);
    let (left, origin) = (found.attached, found.origin);
    drop(state);
    if left == 0 && origin == Origin::Created { destroy(context) } else { Ok(()) }
}
