//! Events: marks in streams, with the time they were reached.
//!
//! Promises: an event never recorded is complete; recording again replaces the mark; waiting on an
//! event waits for the mark it had at the call. An event recorded in a capture belongs to it and
//! cannot be queried. An event that is used after its context has ended, which a driver answers by
//! chance or by a crash, is recorded as not simulated. Does not simulate interprocess events.

use core::ffi::c_uint;
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture;
use super::error::*;
use super::objects::stream::{Event, Point, Stream};
use super::objects::task::{MemoryValue, Stamp, Task};
use super::state::{DriverState, State, begin, begin_free};
use super::stream::resolved;
use super::submit::{enqueue, enqueue_after};
use super::worker::wait_for;
use crate::clock::now_ns;
use crate::sys::driver::{Address, Answer, Handle, InArray, Out};
use crate::sys::driver_functions::{HostFunction, StreamFunction};

const DISABLE_TIMING: u32 = 2;
/// Of streams.
const NON_BLOCKING: u32 = 1;
/// Of contexts.
const BLOCKING_SYNC: u32 = 4;
/// Where so many threads sleep in the driver, an event behind all of their context is complete for so long before its time
/// can be read; until then it holds that of its last recording, or none
/// (bench/results/h100-2026-11-26/context-events-before-their-time.txt).
const SLEEPERS: u32 = 2;
const UNREAD_NS: u64 = 500_000;

pub fn cuEventCreate(_: Call, event: Out<CUevent>, flags: c_uint) -> Answer {
    let (_, mut state, context) = begin()?;
    event.check()?;
    // Interprocess events must not be timed.
    if flags & !7 != 0 || (flags & 4 != 0 && flags & DISABLE_TIMING == 0) {
        return Err(INVALID_VALUE);
    }
    let key =
        state.events.insert(Event { context, flags, mark: None, before_ns: None, captured: None });
    event.put(CUevent::from_key(key))
}

/// An event, which must be of a context that lives.
fn known(state: &State, event: CUevent) -> Answer<&Event> {
    state.events.of(event).inspect_err(|_| {
        if state.ended.contains(&event.key()) {
            crate::unsimulated::record("an event of a context that has ended");
        }
    })
}

pub fn cuEventDestroy(_: Call, event: CUevent) -> Answer {
    let (_, mut state) = begin_free()?;
    state.events.remove(event.key()).map(|_| ())
}
pub use cuEventDestroy as cuEventDestroy_v2;

pub fn cuEventRecord(call: Call, event: CUevent, stream: CUstream) -> Answer {
    cuEventRecordWithFlags(call, event, stream, 0)
}

pub fn cuEventRecordWithFlags(
    call: Call,
    event: CUevent,
    stream: CUstream,
    flags: c_uint,
) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    let context = known(&state, event)?.context;
    let (own, capture) = state.streams.get(key).map(|s| (s.context, s.capture))?;
    if context != own && state.contexts.get(context)?.device != state.contexts.get(own)?.device {
        return Err(INVALID_HANDLE);
    }
    // CU_EVENT_RECORD_EXTERNAL: a node of its own in a capture.
    if capture != 0 && flags & 1 == 0 {
        let nodes = capture::dependencies(&mut state, key)?;
        state.events.of_mut(event)?.captured = Some((capture, nodes));
        return Ok(());
    }
    let stamp = Arc::new(Stamp::default());
    enqueue(driver, &mut state, key, Task::Mark(Arc::clone(&stamp)))?;
    let point = (key, state.streams.get(key)?.submitted);
    let event = state.events.of_mut(event)?;
    event.captured = None;
    (event.mark, event.before_ns) = (Some((point, stamp)), None);
    Ok(())
}

fn uncaptured(state: &mut State, event: CUevent) -> Answer {
    let captured = known(state, event)?.captured.as_ref().map(|(capture, _)| *capture);
    match captured.filter(|capture| state.captures.contains_key(capture)) {
        Some(capture) => {
            capture::invalidate(state, capture);
            Err(CAPTURED_EVENT)
        }
        None => Ok(()),
    }
}

pub fn cuEventQuery(_: Call, event: CUevent) -> Answer {
    let (_, mut state) = begin_free()?;
    uncaptured(&mut state, event)?;
    capture::refuse_unsafe(&mut state)?;
    let event = state.events.of(event)?;
    state.context(event.context)?;
    let Some((_, stamp)) = &event.mark else { return Ok(()) };
    if stamp.at().is_some() { Ok(()) } else { Err(NOT_READY) }
}

pub fn cuEventSynchronize(_: Call, event: CUevent) -> Answer {
    let (driver, mut state) = begin_free()?;
    uncaptured(&mut state, event).map_err(|error| match error {
        CAPTURED_EVENT => INVALID_VALUE,
        other => other,
    })?;
    capture::refuse_unsafe(&mut state)?;
    let found = state.events.of(event)?;
    let context = found.context;
    if let Some((point, _)) = found.mark {
        state = wait_for(driver, state, point);
    }
    super::pool::release_unused(&mut state);
    state.context(context).map(|_| ())
}

/// Time that is read of an event, which must have been reached.
fn time(event: &Event) -> Answer<u64> {
    let (_, stamp) = event.mark.as_ref().ok_or(INVALID_HANDLE)?;
    let at_ns = stamp.at().ok_or(NOT_READY)?;
    let is_unread = |_: &u64| now_ns() < at_ns.saturating_add(UNREAD_NS);
    Ok(event.before_ns.filter(is_unread).unwrap_or(at_ns))
}

pub fn cuEventElapsedTime(_: Call, milliseconds: Out<f32>, start: CUevent, end: CUevent) -> Answer {
    let (_, mut state) = begin_free()?;
    milliseconds.check()?;
    uncaptured(&mut state, start)?;
    uncaptured(&mut state, end)?;
    let (start, end) = (state.events.of(start)?, state.events.of(end)?);
    if (start.flags | end.flags) & DISABLE_TIMING != 0 {
        return Err(INVALID_HANDLE);
    }
    let (first, last) = (time(start)?, time(end)?);
    milliseconds.put((last as f64 - first as f64) as f32 / 1e6)
}
pub use cuEventElapsedTime as cuEventElapsedTime_v2;

pub fn cuStreamWaitEvent(call: Call, stream: CUstream, event: CUevent, flags: c_uint) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    let found = state.events.of(event)?;
    if let Some((capture, nodes)) = found.captured.clone()
        && state.captures.contains_key(&capture)
        && flags & 1 == 0
    {
        return capture::join(&mut state, key, capture, nodes);
    }
    let Some((point, _)) = found.mark.clone() else { return Ok(()) };
    if state.streams.get(key)?.capture != 0 && flags & 1 == 0 {
        // Work outside a capture cannot order work inside it.
        capture::invalidate_stream(&mut state, key);
        return Err(CAPTURE_ISOLATION);
    }
    enqueue_after(driver, &mut state, key, Task::Empty, vec![point])
}

fn context_points(state: &State, context: u64) -> Vec<Point> {
    let own =
        state.streams.iter().filter(|(_, stream)| stream.context == context && !stream.is_idle());
    own.map(|(key, stream)| (key, stream.submitted)).collect()
}

pub fn cuCtxRecordEvent(_: Call, context: CUcontext, event: CUevent) -> Answer {
    let (driver, mut state) = begin_free()?;
    let own = state.context(context.key())?;
    let is_late = own.flags & BLOCKING_SYNC != 0 && own.asleep >= SLEEPERS;
    known(&state, event)?;
    record_behind(driver, &mut state, context.key(), event, is_late)
}

/// Records an event behind all work of a context. By the driver's documentation work that comes later is not behind it: in
/// the legacy stream a mark would hold back the program's copies.
fn record_behind(
    driver: &'static DriverState,
    state: &mut State,
    context: u64,
    event: CUevent,
    is_late: bool,
) -> Answer {
    capture::refuse_beside(state, context)?;
    let points = context_points(state, context);
    let own = state.context(context)?;
    let marks = match own.marks {
        0 => {
            let made = Stream::created(context, own.device, NON_BLOCKING, 0, 0);
            let marks = state.streams.insert(made);
            state.context_mut(context)?.marks = marks;
            marks
        }
        marks => marks,
    };
    let stamp = Arc::new(Stamp::default());
    enqueue_after(driver, state, marks, Task::Mark(Arc::clone(&stamp)), points)?;
    let point = (marks, state.streams.get(marks)?.submitted);
    let event = state.events.of_mut(event)?;
    let before_ns = event.mark.take().and_then(|(_, stamp)| stamp.at()).unwrap_or(0);
    (event.mark, event.before_ns) = (Some((point, stamp)), is_late.then_some(before_ns));
    Ok(())
}

/// The event must be of the primary context that the green one is of, or of that itself.
pub fn cuGreenCtxRecordEvent(_: Call, green: CUgreenCtx, event: CUevent) -> Answer {
    let (driver, mut state) = begin_free()?;
    let green = state.greens.of(green)?;
    let (context, primary) = (green.context, state.device(green.device)?.primary);
    if ![context, primary].contains(&known(&state, event)?.context) {
        return Err(INVALID_HANDLE);
    }
    record_behind(driver, &mut state, context, event, false)
}

pub fn cuCtxWaitEvent(_: Call, context: CUcontext, event: CUevent) -> Answer {
    let (driver, mut state) = begin_free()?;
    state.context(context.key())?;
    let Some((point, _)) = state.events.of(event)?.mark.clone() else { return Ok(()) };
    let own = state.streams.iter().filter(|(_, stream)| stream.context == context.key());
    let keys: Vec<u64> = own.map(|(key, _)| key).collect();
    keys.into_iter()
        .try_for_each(|key| enqueue_after(driver, &mut state, key, Task::Empty, vec![point]))
}

/// Submits tasks that come from one call as one unit.
pub(crate) fn submit(call: Call, stream: CUstream, task: Task) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    enqueue(driver, &mut state, key, task)
}

pub fn cuLaunchHostFunc(
    call: Call,
    stream: CUstream,
    function: HostFunction,
    _: Address,
) -> Answer {
    if function.is_none() {
        return Err(INVALID_VALUE);
    }
    submit(call, stream, Task::Host(function))
}

pub fn cuStreamAddCallback(
    call: Call,
    stream: CUstream,
    callback: StreamFunction,
    _: Address,
    flags: c_uint,
) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    if callback.is_none() || flags != 0 {
        return Err(INVALID_VALUE);
    }
    if state.streams.get(key)?.capture != 0 {
        capture::invalidate_stream(&mut state, key);
        return Err(CAPTURE_UNSUPPORTED);
    }
    enqueue(driver, &mut state, key, Task::Callback(callback, stream.key()))
}

// ---- values in memory ----

fn value(at: u64, value: u64, bytes: u64, flags: u32) -> Answer<MemoryValue> {
    if at == 0 || !at.is_multiple_of(bytes) {
        return Err(INVALID_VALUE);
    }
    Ok(MemoryValue { at, value, bytes, comparison: flags & 3 })
}

fn is_memory(state: &State, at: u64) -> Answer {
    state.space.find(at).map(|_| ()).ok_or(INVALID_VALUE)
}

fn submit_value(call: Call, stream: CUstream, value: MemoryValue, waits: bool) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    is_memory(&state, value.at)?;
    let task = if waits { Task::WaitValue(value) } else { Task::WriteValue(value) };
    enqueue(driver, &mut state, key, task)
}

macro_rules! value_calls {
    ($($name:ident: $ty:ty, $bytes:literal, $waits:literal;)*) => {$(
        pub fn $name(call: Call, stream: CUstream, at: CUdeviceptr, wanted: $ty, flags: c_uint) -> Answer {
            submit_value(call, stream, value(at, u64::from(wanted), $bytes, flags)?, $waits)
        }
    )*};
}

value_calls! {
    cuStreamWaitValue32: cuuint32_t, 4, true;
    cuStreamWaitValue64: cuuint64_t, 8, true;
    cuStreamWriteValue32: cuuint32_t, 4, false;
    cuStreamWriteValue64: cuuint64_t, 8, false;
}
pub use {
    cuStreamWaitValue32 as cuStreamWaitValue32_v2, cuStreamWaitValue64 as cuStreamWaitValue64_v2,
    cuStreamWriteValue32 as cuStreamWriteValue32_v2,
    cuStreamWriteValue64 as cuStreamWriteValue64_v2,
};

/// The tasks of a batch of memory operations.
pub(crate) fn batch(state: &State, list: InArray<CUstreamBatchMemOpParams>) -> Answer<Task> {
    let mut tasks = Vec::new();
    for params in list.given()? {
        let (kind, at, wanted, flags) = params.operation();
        let bytes = if matches!(kind, 4 | 5) { 8 } else { 4 };
        tasks.push(match kind {
            1 | 4 => Task::WaitValue(value(at, wanted, bytes, flags)?),
            2 | 5 => Task::WriteValue(value(at, wanted, bytes, 0)?),
            // Barriers and flushes order nothing that is not ordered here already.
            3 | 6 => Task::Empty,
            _ => return Err(INVALID_VALUE),
        });
        if kind != 3 && kind != 6 {
            is_memory(state, at)?;
        }
    }
    Ok(Task::Series(Arc::new(tasks)))
}

pub fn cuStreamBatchMemOp(
    call: Call,
    stream: CUstream,
    _: c_uint,
    list: InArray<CUstreamBatchMemOpParams>,
    flags: c_uint,
) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    if flags != 0 || list.length() > 256 {
        return Err(INVALID_VALUE);
    }
    let task = batch(&state, list)?;
    enqueue(driver, &mut state, key, task)
}
pub use cuStreamBatchMemOp as cuStreamBatchMemOp_v2;
