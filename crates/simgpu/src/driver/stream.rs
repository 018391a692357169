//! Streams: ordered queues, each with an engine thread, and who waits for whom.
//!
//! Promises: work of one stream runs in order; the legacy default stream waits for, and is waited
//! for by, every blocking stream of its context; a per-thread default stream is a blocking stream of
//! its own. An order is a set of (stream, sequence) pairs that must have completed first, so nothing
//! else is needed for events. A destroyed stream finishes its work. A stream that is used after its
//! context has ended, which an H200's driver answers by a crash, is recorded as not simulated.
//!
//! Queues are in [`super::queue`] and [`super::submit`]; what runs them is in [`super::worker`].

use core::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::MutexGuard;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture;
use super::error::*;
use super::objects::stream::Stream;
use super::objects::task::Task;
use super::queue::implicit_order;
use super::state::{DriverState, State, begin, begin_free, current};
use super::submit::enqueue;
use super::worker::wait_for;
use crate::sys::driver::{Answer, Handle, In, Out};

const NON_BLOCKING: u32 = 1;

/// The stream a handle means to this call and thread.
pub(crate) fn resolve(call: Call, state: &mut State, handle: CUstream) -> Answer<u64> {
    let own = match handle.key() {
        0 => call.per_thread,
        1 => false,
        2 => true,
        key => {
            let stream = state.streams.get(key).map_err(|error| {
                if !state.ended.contains(&key) {
                    return error;
                }
                crate::unsimulated::record("a stream of a context that has ended");
                CONTEXT_IS_DESTROYED
            })?;
            if stream.doomed {
                return Err(INVALID_HANDLE);
            }
            state.context(stream.context)?;
            return Ok(key);
        }
    };
    let context_key = current()?;
    let context = state.current_context(context_key)?;
    if !own {
        return Ok(context.legacy);
    }
    let thread = std::thread::current().id();
    if let Some(key) = context.per_thread.get(&thread) {
        return Ok(*key);
    }
    let device = context.device;
    let key = state.streams.insert(Stream::created(context_key, device, 0, 0, 2));
    state.context_mut(context_key)?.per_thread.insert(thread, key);
    Ok(key)
}

/// The driver, its state and the stream a handle means.
pub(crate) fn resolved(
    call: Call,
    handle: CUstream,
) -> Answer<(&'static DriverState, MutexGuard<'static, State>, u64)> {
    let (driver, mut state) = begin_free()?;
    let key = resolve(call, &mut state, handle)?;
    Ok((driver, state, key))
}

pub fn cuStreamCreate(call: Call, stream: Out<CUstream>, flags: c_uint) -> Answer {
    cuStreamCreateWithPriority(call, stream, flags, 0)
}

pub fn cuStreamCreateWithPriority(
    _: Call,
    stream: Out<CUstream>,
    flags: c_uint,
    priority: c_int,
) -> Answer {
    let (_, mut state, context) = begin()?;
    stream.check()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let device = state.context(context)?.device;
    let id = state.fresh_id() + 2;
    let key = state.streams.insert(Stream::created(context, device, flags, priority, id));
    stream.put(CUstream::from_key(key))
}

pub fn cuStreamDestroy(_: Call, stream: CUstream) -> Answer {
    let (driver, mut state) = begin_free()?;
    if stream.key() <= 2 {
        return Err(INVALID_HANDLE);
    }
    let key = stream.key();
    if state.streams.get(key)?.doomed {
        return Err(INVALID_HANDLE);
    }
    capture::abandon(&mut state, key)?;
    let stream = state.streams.get_mut(key)?;
    stream.doomed = true;
    if !stream.has_engine {
        state.streams.remove(key)?;
    }
    driver.progressed();
    Ok(())
}
pub use cuStreamDestroy as cuStreamDestroy_v2;

pub fn cuStreamQuery(call: Call, stream: CUstream) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    capture::refuse_on_capturing(&mut state, key)?;
    capture::refuse_unsafe(&mut state)?;
    let others = implicit_order(&state, key)?;
    let own = state.streams.get(key)?;
    let legacy_waits = own.is_legacy && !others.is_empty();
    let is_ready = own.is_idle() && !legacy_waits;
    if is_ready { Ok(()) } else { Err(NOT_READY) }
}

pub fn cuStreamSynchronize(call: Call, stream: CUstream) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    capture::refuse_on_capturing(&mut state, key)?;
    capture::refuse_unsafe(&mut state)?;
    let mut points = vec![(key, state.streams.get(key)?.submitted)];
    if state.streams.get(key)?.is_legacy {
        points.extend(implicit_order(&state, key)?);
    }
    let context = state.streams.get(key)?.context;
    for point in points {
        state = wait_for(driver, state, point);
    }
    super::pool::release_unused(&mut state);
    state.context(context).map(|_| ())
}

/// Calls that answer one fact of a stream.
macro_rules! facts {
    ($($name:ident: $ty:ty = $fact:expr;)*) => {$(
        pub fn $name(call: Call, stream: CUstream, out: Out<$ty>) -> Answer {
            let fact: fn(&Stream) -> $ty = $fact;
            let (_, state, key) = resolved(call, stream)?;
            out.put(fact(state.streams.get(key)?))
        }
    )*};
}

facts! {
    cuStreamGetPriority: c_int = |stream| stream.priority;
    cuStreamGetFlags: c_uint = |stream| stream.flags;
    cuStreamGetId: c_ulonglong = |stream| stream.id;
    cuStreamGetDevice: CUdevice = |stream| stream.device;
    cuStreamGetCtx: CUcontext = |stream| CUcontext::from_key(stream.context);
}

pub fn cuStreamGetCtx_v2(
    call: Call,
    stream: CUstream,
    context: Out<CUcontext>,
    green: Out<CUgreenCtx>,
) -> Answer {
    let (_, state, key) = resolved(call, stream)?;
    let stream = state.streams.get(key)?;
    context.put(CUcontext::from_key(stream.context))?;
    green.offer(CUgreenCtx::from_key(stream.green));
    Ok(())
}

pub fn cuStreamGetAttribute(
    call: Call,
    stream: CUstream,
    which: CUstreamAttrID,
    value: Out<CUstreamAttrValue>,
) -> Answer {
    let (_, state, key) = resolved(call, stream)?;
    let known = &state.streams.get(key)?.attributes;
    let found = known.iter().find(|(id, _)| *id == which.0).map(|(_, value)| *value);
    value.put(CUstreamAttrValue { pad: found.unwrap_or([0; 64]) })
}

pub fn cuStreamSetAttribute(
    call: Call,
    stream: CUstream,
    which: CUstreamAttrID,
    value: In<CUstreamAttrValue>,
) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    let value = value.given()?.bytes();
    let known = &mut state.streams.get_mut(key)?.attributes;
    known.retain(|(id, _)| *id != which.0);
    known.push((which.0, value));
    Ok(())
}

pub fn cuStreamCopyAttributes(call: Call, to: CUstream, from: CUstream) -> Answer {
    let (_, mut state, source) = resolved(call, from)?;
    let target = resolve(call, &mut state, to)?;
    let copied = state.streams.get(source)?.attributes.clone();
    state.streams.get_mut(target)?.attributes = copied;
    Ok(())
}

pub fn cuStreamAttachMemAsync(
    call: Call,
    stream: CUstream,
    at: CUdeviceptr,
    _length: usize,
    _flags: c_uint,
) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    state.space.find(at).ok_or(INVALID_VALUE)?;
    enqueue(driver, &mut state, key, Task::Empty)
}
