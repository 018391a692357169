//! A stream's queue: what was submitted, what it waits for, and what the device has of it already.
//!
//! Promises: work of one stream runs in order; an order is a set of (stream, sequence) pairs that must
//! have completed first, so nothing else is needed for events. What the device is asked for goes to it
//! from the thread that submits, as soon as nothing stands before it ([`feed`]), so the device's queue
//! is as deep as the program's and its times do not depend on when this host's threads run. Does not
//! run anything: [`super::worker`] does.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::Arc;

use super::capture;
use super::error::*;
use super::host_clock;
use super::machine::Lane;
use super::state::{Driver, State, is_null};
use super::task::{Place, Task};
use super::worker;
use crate::sys::driver::Answer;

const NON_BLOCKING: u32 = 1;
/// Operations of a stream that are handed to the device before they have ended.
const AHEAD: u64 = 256;
/// Ends of completed operations a stream remembers.
const ENDS: usize = 64;

/// A (stream, sequence) that must have completed.
pub(crate) type Point = (u64, u64);

pub(super) struct Operation {
    pub(super) sequence: u64,
    pub(super) after: Vec<Point>,
    pub(super) task: Task,
    /// Its place among host functions that were ready when queued.
    pub(super) ticket: Option<u64>,
    /// When it was submitted, in device time.
    submitted_ns: u64,
    /// How many of its pieces the device has.
    pub(super) ahead: usize,
}

/// A stream.
pub(crate) struct Stream {
    pub(crate) context: u64,
    pub(crate) device: i32,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) id: u64,
    pub(super) is_legacy: bool,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(super) queue: VecDeque<Operation>,
    /// Whether a thread runs its next operation.
    pub(super) is_running: bool,
    /// All up to this one have gone ahead to the device, or have completed.
    fed: u64,
    /// When the latest completed ones ended, in device time.
    ends: VecDeque<(u64, u64)>,
    pub(super) has_engine: bool,
    pub(super) lane: Option<Arc<dyn Lane>>,
    pub(super) doomed: bool,
    /// The capture it takes part in, or 0.
    pub(crate) capture: u64,
    pub(crate) green: u64,
    pub(crate) multiprocessors: u32,
    pub(super) attributes: Vec<(u32, [c_char; 64])>,
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
            is_running: false,
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

    /// Whether its engine thread has anything to look at.
    pub(super) fn is_waited_for(&self) -> bool {
        self.doomed || !self.queue.is_empty()
    }

    /// When an operation ended, or the oldest behind it that is remembered; 0 if none is.
    pub(super) fn ended_ns(&self, sequence: u64) -> u64 {
        let known = self.ends.iter().find(|(at, _)| *at >= sequence);
        known.or(self.ends.back()).map_or(0, |(_, ended_ns)| *ended_ns)
    }

    pub(super) fn complete(&mut self, sequence: u64, ended_ns: u64) {
        self.completed = sequence;
        if self.ends.len() == ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back((sequence, ended_ns));
    }
}

pub(super) fn reached(state: &State, (stream, sequence): Point) -> bool {
    state.streams.get(stream).map_or(true, |stream| stream.completed >= sequence)
}

/// What work submitted now to `key` must wait for besides the stream itself.
pub(super) fn implicit_order(state: &State, key: u64) -> Answer<Vec<Point>> {
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
    let task = match task {
        Task::Mark(stamp) if is_ready => {
            let lane = stream.lane.get_or_insert_with(|| driver.machine.lane());
            if !lane.is_timed() {
                // Nothing stands before it: it is reached now.
                stamp.mark_at(submitted_ns);
                stream.complete(sequence, submitted_ns);
                return Ok(());
            }
            Task::LoneMark(stamp)
        }
        task => task,
    };
    stream.queue.push_back(Operation { sequence, after, task, ticket, submitted_ns, ahead: 0 });
    state.host_tickets.extend(ticket);
    let stream = state.streams.get_mut(key)?;
    if !stream.has_engine {
        stream.has_engine = true;
        let lane = Arc::clone(stream.lane.get_or_insert_with(|| driver.machine.lane()));
        let name = "simgpu-stream".to_owned();
        let engine = std::thread::Builder::new().name(name).stack_size(256 << 10);
        if engine.spawn(move || worker::run(driver, key, &*lane)).is_err() {
            let stream = state.streams.get_mut(key)?;
            stream.has_engine = false;
            stream.submitted -= 1;
            stream.queue.pop_back();
            return Err(OUT_OF_MEMORY);
        }
    }
    feed(state, key);
    driver.submitted();
    Ok(())
}

/// When an operation can begin as far as submission and other streams go, in device time.
pub(super) fn ready_ns(state: &State, operation: &Operation) -> u64 {
    let ends = operation.after.iter().map(|point| ended_ns(state, *point));
    ends.fold(operation.submitted_ns, u64::max)
}

pub(super) fn ended_ns(state: &State, (stream, sequence): Point) -> u64 {
    state.streams.get(stream).map_or(0, |stream| stream.ended_ns(sequence))
}

/// Where a stream's work runs, if its context is well.
pub(super) fn place(state: &State, stream: &Stream) -> Option<Place> {
    let context = state.contexts.get(stream.context).ok()?;
    (context.alive && context.sticky.is_none()).then(|| Place {
        context: stream.context,
        machine_context: machine_context(state, stream.context, stream.device),
        width: stream.multiprocessors,
    })
}

/// Hands to the device what of a stream's queue can go ahead.
pub(super) fn feed(state: &mut State, key: u64) {
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

/// The machine's context a context computes in: its own, or the primary one for green contexts.
fn machine_context(state: &State, context: u64, device: i32) -> u64 {
    let id = |key: u64| Some(state.contexts.get(key).ok()?.charge.as_ref()?.context_id());
    let primary = || id(state.device(device).ok()?.primary);
    id(context).or_else(primary).unwrap_or(0)
}
