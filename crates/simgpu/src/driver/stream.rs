//! Streams: ordered queues, each with an engine thread, and who waits for whom.
//!
//! Promises: work of one stream runs in order; the legacy default stream waits for, and is waited
//! for by, every blocking stream of its context; a per-thread default stream is a blocking stream of
//! its own. An order is a set of (stream, sequence) pairs that must have completed first, so nothing
//! else is needed for events. A destroyed stream finishes its work.
//!
//! What the device is asked for goes to it from the thread that submits, as soon as nothing stands
//! before it ([`feed`]); the engine thread then waits for the ends, in order. So the device's queue is
//! as deep as the program's, and its times do not depend on when this host's threads run.

use core::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture;
use super::error::*;
use super::host_clock;
use super::machine::Lane;
use super::state::{Driver, State, begin, begin_free, current, is_null};
use super::task::{Place, Task};
use super::track::Track;
use crate::sys::driver::{Answer, Handle, In, Out};

const NON_BLOCKING: u32 = 1;
/// Operations of a stream that are handed to the device before they have ended.
const AHEAD: u64 = 256;
/// Ends of completed operations a stream remembers.
const ENDS: usize = 64;

/// A (stream, sequence) that must have completed.
pub(crate) type Point = (u64, u64);

struct Operation {
    sequence: u64,
    after: Vec<Point>,
    task: Task,
    /// Its place among host functions that were ready when queued.
    ticket: Option<u64>,
    /// When it was submitted, in device time.
    submitted_ns: u64,
    /// How many of its pieces the device has.
    ahead: usize,
}

/// A stream.
pub(crate) struct Stream {
    pub(crate) context: u64,
    pub(crate) device: i32,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) id: u64,
    is_legacy: bool,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    queue: VecDeque<Operation>,
    /// All up to this one have gone ahead to the device, or have completed.
    fed: u64,
    /// When the latest completed ones ended, in device time.
    ends: VecDeque<(u64, u64)>,
    has_engine: bool,
    lane: Option<Arc<dyn Lane>>,
    doomed: bool,
    /// The capture it takes part in, or 0.
    pub(crate) capture: u64,
    pub(crate) green: u64,
    pub(crate) multiprocessors: u32,
    attributes: Vec<(u32, [c_char; 64])>,
}

impl Stream {
    pub(crate) fn created(context: u64, device: i32, flags: u32, priority: i32, id: u64) -> Self {
        Self {
            context,
            device,
            flags,
            priority: priority.clamp(-5, 0),
            id,
            is_legacy: false,
            submitted: 0,
            completed: 0,
            queue: VecDeque::new(),
            fed: 0,
            ends: VecDeque::new(),
            has_engine: false,
            lane: None,
            doomed: false,
            capture: 0,
            green: 0,
            multiprocessors: super::device::MULTIPROCESSORS,
            attributes: Vec::new(),
        }
    }

    pub(crate) fn legacy(context: u64, device: i32) -> Self {
        Self { is_legacy: true, ..Self::created(context, device, 0, 0, 1) }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.completed == self.submitted
    }

    fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// When an operation ended, or the oldest behind it that is remembered; 0 if none is.
    fn ended_ns(&self, sequence: u64) -> u64 {
        let known = self.ends.iter().find(|(at, _)| *at >= sequence);
        known.or(self.ends.back()).map_or(0, |(_, ended_ns)| *ended_ns)
    }

    fn complete(&mut self, sequence: u64, ended_ns: u64) {
        self.completed = sequence;
        if self.ends.len() == ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back((sequence, ended_ns));
    }
}

fn reached(state: &State, (stream, sequence): Point) -> bool {
    state.streams.get(stream).map_or(true, |stream| stream.completed >= sequence)
}

/// What work submitted now to `key` must wait for besides the stream itself.
fn implicit_order(state: &State, key: u64) -> Answer<Vec<Point>> {
    let stream = state.streams.get(key)?;
    if stream.is_legacy {
        let others = state.streams.iter().filter(|(other, s)| {
            *other != key && s.context == stream.context && s.is_blocking() && !s.is_idle()
        });
        return Ok(others.map(|(other, s)| (other, s.submitted)).collect());
    }
    if !stream.is_blocking() {
        return Ok(Vec::new());
    }
    let Ok(context) = state.contexts.get(stream.context) else { return Ok(Vec::new()) };
    let legacy = state.streams.get(context.legacy);
    Ok(legacy
        .ok()
        .filter(|s| !s.is_idle())
        .map(|s| (context.legacy, s.submitted))
        .into_iter()
        .collect())
}

/// Whether no stream of the process has work.
pub(crate) fn is_all_idle(state: &State) -> bool {
    state.streams.iter().all(|(_, stream)| stream.is_idle())
}

/// Adds work to a stream, or to the graph the stream is capturing.
pub(crate) fn enqueue(driver: &'static Driver, state: &mut State, key: u64, task: Task) -> Answer {
    enqueue_after(driver, state, key, task, Vec::new())
}

/// As [`enqueue`], after further points.
pub(crate) fn enqueue_after(
    driver: &'static Driver,
    state: &mut State,
    key: u64,
    task: Task,
    mut after: Vec<Point>,
) -> Answer {
    let stream = state.streams.get(key)?;
    state.context(stream.context)?;
    if stream.capture != 0 {
        return capture::record(state, key, task).map(|_| ());
    }
    capture::refuse_implicit(state, key)?;
    after.extend(implicit_order(state, key)?);
    after.retain(|point| !reached(state, *point));
    let is_ready = after.is_empty() && state.streams.get(key)?.is_idle();
    let ticket = (is_ready && task.is_host_function()).then(|| state.fresh_id());
    let stream = state.streams.get_mut(key)?;
    stream.submitted += 1;
    let sequence = stream.submitted;
    if is_null() && is_ready && task.is_instant() {
        stream.completed = sequence;
        task.finish_instantly(state);
        return Ok(());
    }
    let submitted_ns = host_clock::submission_ns();
    if let (true, Task::Mark(stamp)) = (is_ready, &task) {
        // Nothing stands before it: it is reached now.
        let at_ns = submitted_ns.max(stream.ended_ns(sequence));
        stamp.mark_at(at_ns);
        stream.complete(sequence, at_ns);
        return Ok(());
    }
    stream.queue.push_back(Operation { sequence, after, task, ticket, submitted_ns, ahead: 0 });
    state.host_tickets.extend(ticket);
    let stream = state.streams.get_mut(key)?;
    if !stream.has_engine {
        stream.has_engine = true;
        let lane = driver.machine.lane();
        stream.lane = Some(Arc::clone(&lane));
        let name = "simgpu-stream".to_owned();
        let engine = std::thread::Builder::new().name(name).stack_size(256 << 10);
        if engine.spawn(move || run_engine(driver, key, &*lane)).is_err() {
            let stream = state.streams.get_mut(key)?;
            stream.has_engine = false;
            stream.submitted -= 1;
            stream.queue.pop_back();
            return Err(OUT_OF_MEMORY);
        }
    }
    feed(state, key);
    driver.progressed();
    Ok(())
}

/// When an operation can begin as far as submission and other streams go, in device time.
fn ready_ns(state: &State, operation: &Operation) -> u64 {
    let ends = operation.after.iter().map(|point| ended_ns(state, *point));
    ends.fold(operation.submitted_ns, u64::max)
}

fn ended_ns(state: &State, (stream, sequence): Point) -> u64 {
    state.streams.get(stream).map_or(0, |stream| stream.ended_ns(sequence))
}

/// Where a stream's work runs, if its context is well.
fn place(state: &State, stream: &Stream) -> Option<Place> {
    let context = state.contexts.get(stream.context).ok()?;
    (context.alive && context.sticky.is_none()).then(|| Place {
        context: stream.context,
        machine_context: machine_context(state, stream.context, stream.device),
        width: stream.multiprocessors,
    })
}

/// Hands to the device what of a stream's queue can go ahead.
fn feed(state: &mut State, key: u64) {
    let Ok(stream) = state.streams.get(key) else { return };
    let Some(lane) = stream.lane.clone().filter(|lane| lane.is_timed()) else { return };
    let Some(place) = place(state, stream) else { return };
    loop {
        let Ok(stream) = state.streams.get(key) else { return };
        let next = stream.fed.max(stream.completed) + 1;
        if next > stream.completed + AHEAD {
            return;
        }
        // One that runs without having gone ahead is no longer queued, and holds the rest back.
        let first = stream.queue.front().map(|operation| operation.sequence);
        let Some(index) = first.and_then(|first| next.checked_sub(first)) else { return };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(operation) = stream.queue.get(index) else { return };
        let is_free = operation.after.iter().all(|point| reached(state, *point));
        if !is_free || !operation.task.can_go_ahead() {
            return;
        }
        let ahead = operation.task.go_ahead(&*lane, place, ready_ns(state, operation));
        let Ok(stream) = state.streams.get_mut(key) else { return };
        stream.fed = next;
        if let Some(operation) = stream.queue.get_mut(index) {
            operation.ahead = ahead;
        }
    }
}

/// Host functions of all streams run one at a time; those that were ready when they were queued run
/// in that order.
fn is_next_host_function(state: &State, ticket: Option<u64>) -> bool {
    let first = state.host_tickets.first().copied();
    !state.host_function_runs && ticket.is_none_or(|own| first.is_none_or(|first| own <= first))
}

/// The machine's context a context computes in: its own, or the primary one for green contexts.
fn machine_context(state: &State, context: u64, device: i32) -> u64 {
    let id = |key: u64| Some(state.contexts.get(key).ok()?.charge.as_ref()?.context_id());
    let primary = || id(state.device(device).ok()?.primary);
    id(context).or_else(primary).unwrap_or(0)
}

/// The engine thread of one stream.
fn run_engine(driver: &'static Driver, key: u64, lane: &dyn Lane) {
    let mut state = driver.lock();
    loop {
        feed(&mut state, key);
        let Ok(stream) = state.streams.get(key) else { return };
        let ready = match stream.queue.front() {
            None if stream.doomed => {
                let _ = state.streams.remove(key);
                driver.progressed();
                return;
            }
            None => false,
            Some(next) => {
                next.sequence == stream.completed + 1
                    && (!next.task.is_host_function() || is_next_host_function(&state, next.ticket))
                    && next.after.iter().all(|point| reached(&state, *point))
            }
        };
        if !ready {
            state = driver.wait(state);
            continue;
        }
        let context = stream.context;
        let healthy = place(&state, stream);
        let place =
            healthy.unwrap_or(Place { context, machine_context: 0, width: stream.multiprocessors });
        let behind_ns = stream.ended_ns(u64::MAX);
        let Some(next) = state.streams.get_mut(key).ok().and_then(|s| s.queue.pop_front()) else {
            continue;
        };
        if next.task.is_host_function() {
            state.host_function_runs = true;
        }
        let from_ns = ready_ns(&state, &next).max(behind_ns);
        drop(state);
        let mut track = Track::new(lane, from_ns, next.ahead);
        let result = if healthy.is_some() || next.task.runs_in_a_broken_context() {
            next.task.run(driver, &mut track, place)
        } else {
            Ok(())
        };
        next.task.finish();
        let result = result.and(track.settle());
        state = driver.lock();
        if next.task.is_host_function() {
            state.host_function_runs = false;
        }
        if let Some(ticket) = next.ticket {
            state.host_tickets.remove(&ticket);
        }
        if let (Err(error), Ok(context)) = (result, state.contexts.get_mut(context)) {
            context.sticky.get_or_insert(error);
            state.broken.get_or_insert(error);
        }
        if let Ok(stream) = state.streams.get_mut(key) {
            stream.complete(next.sequence, track.position_ns());
        }
        driver.progressed();
    }
}

/// Waits until `point` is reached; then the context's sticky error, if any.
pub(crate) fn wait_for<'a>(
    driver: &'static Driver,
    mut state: MutexGuard<'a, State>,
    point: Point,
) -> MutexGuard<'a, State> {
    if reached(&state, point) {
        return state;
    }
    let called_ns = host_clock::submission_ns();
    while !reached(&state, point) {
        state = driver.wait(state);
    }
    host_clock::returned(called_ns, ended_ns(&state, point), driver.machine.time_scale());
    state
}

/// Waits for everything submitted to a context.
pub(crate) fn drain_context(driver: &'static Driver, key: u64) {
    let mut state = driver.lock();
    let points: Vec<Point> = state
        .streams
        .iter()
        .filter(|(_, stream)| stream.context == key)
        .map(|(stream, s)| (stream, s.submitted))
        .collect();
    for point in points {
        state = wait_for(driver, state, point);
    }
}

/// Waits for a context's work and returns its sticky error; unused pool memory goes back.
pub(crate) fn synchronize_context(
    driver: &'static Driver,
    state: MutexGuard<'static, State>,
    key: u64,
) -> Answer {
    drop(state);
    drain_context(driver, key);
    let mut state = driver.lock();
    super::pool::release_unused(&mut state);
    state.context(key).map(|_| ())
}

/// Submits `task` and waits until it ran.
pub(crate) fn run_now(
    driver: &'static Driver,
    mut state: MutexGuard<'static, State>,
    key: u64,
    task: Task,
) -> Answer {
    if state.streams.get(key)?.capture != 0 {
        // The driver refuses synchronous work on a capturing stream.
        capture::invalidate_stream(&mut state, key);
        return Err(CAPTURE_UNSUPPORTED);
    }
    enqueue(driver, &mut state, key, task)?;
    let stream = state.streams.get(key)?;
    let (point, context) = ((key, stream.submitted), stream.context);
    let state = wait_for(driver, state, point);
    state.context(context).map(|_| ())
}

/// The stream a handle means to this call and thread.
pub(crate) fn resolve(call: Call, state: &mut State, handle: CUstream) -> Answer<u64> {
    let own = match handle.key() {
        0 => call.per_thread,
        1 => false,
        2 => true,
        key => {
            let stream = state.streams.get(key)?;
            if stream.doomed {
                return Err(INVALID_HANDLE);
            }
            state.context(stream.context)?;
            return Ok(key);
        }
    };
    let context_key = current()?;
    let context = state.context(context_key)?;
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
) -> Answer<(&'static Driver, MutexGuard<'static, State>, u64)> {
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

fn destroy(handle: CUstream) -> Answer {
    let (driver, mut state) = begin_free()?;
    if handle.key() <= 2 {
        return Err(INVALID_HANDLE);
    }
    let key = handle.key();
    if state.streams.get(key)?.doomed {
        return Err(INVALID_HANDLE);
    }
    capture::invalidate_stream(&mut state, key);
    let stream = state.streams.get_mut(key)?;
    stream.doomed = true;
    if !stream.has_engine {
        state.streams.remove(key)?;
    }
    driver.progressed();
    Ok(())
}

pub fn cuStreamDestroy(_: Call, stream: CUstream) -> Answer {
    destroy(stream)
}

pub fn cuStreamDestroy_v2(_: Call, stream: CUstream) -> Answer {
    destroy(stream)
}

pub fn cuStreamQuery(call: Call, stream: CUstream) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    capture::refuse_on_capturing(&mut state, key)?;
    let others = implicit_order(&state, key)?;
    let own = state.streams.get(key)?;
    let legacy_waits = own.is_legacy && !others.is_empty();
    if own.is_idle() && !legacy_waits { Ok(()) } else { Err(NOT_READY) }
}

pub fn cuStreamSynchronize(call: Call, stream: CUstream) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    capture::refuse_on_capturing(&mut state, key)?;
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

pub fn cuStreamGetPriority(call: Call, stream: CUstream, priority: Out<c_int>) -> Answer {
    let (_, state, key) = resolved(call, stream)?;
    priority.put(state.streams.get(key)?.priority)
}

pub fn cuStreamGetFlags(call: Call, stream: CUstream, flags: Out<c_uint>) -> Answer {
    let (_, state, key) = resolved(call, stream)?;
    flags.put(state.streams.get(key)?.flags)
}

pub fn cuStreamGetId(call: Call, stream: CUstream, id: Out<c_ulonglong>) -> Answer {
    let (_, state, key) = resolved(call, stream)?;
    id.put(state.streams.get(key)?.id)
}

pub fn cuStreamGetDevice(call: Call, stream: CUstream, device: Out<CUdevice>) -> Answer {
    let (_, state, key) = resolved(call, stream)?;
    device.put(state.streams.get(key)?.device)
}

pub fn cuStreamGetCtx(call: Call, stream: CUstream, context: Out<CUcontext>) -> Answer {
    let (_, state, key) = resolved(call, stream)?;
    context.put(CUcontext::from_key(state.streams.get(key)?.context))
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
    let value = crate::sys::driver_unions::attribute_bytes(&value.get()?);
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
