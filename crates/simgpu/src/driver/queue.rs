//! A stream's queue: the operations, the points they wait for, and the part the device has already.
//!
//! Promises: work of one stream runs in order; an order is a set of (stream, sequence) pairs that must
//! have completed first, so nothing else is needed for events. What can go ahead is handed to the
//! device ([`feed`]). Does not take work in ([`super::submit`] does) nor run it ([`super::worker`]).

use super::machine::Place;
use super::objects::stream::{Operation, Point, Stream};
use super::state::State;
use crate::sys::driver::Answer;

/// Operations of a stream that are handed to the device before they have ended.
const AHEAD: u64 = 256;

pub(super) fn reached(state: &State, (stream, sequence): Point) -> bool {
    state.streams.get(stream).map_or(true, |stream| stream.completed >= sequence)
}

/// Points that work submitted now to `key` must wait for besides the stream itself.
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
        if !is_free || !operation.task.can_go_ahead(&|touched| state.space.is_any_managed(touched))
        {
            return;
        }
        // Host functions, and what other streams are waited for, end when the lane does not know.
        let from_ns = ready_ns(state, operation).max(stream.ended_ns(u64::MAX)).max(stream.from_ns);
        let ahead = operation.task.go_ahead(&*lane, place, from_ns);
        let Ok(stream) = state.streams.get_mut(key) else { return };
        stream.fed = next;
        stream.from_ns = from_ns;
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
