//! Who runs a stream's operations and waits for their ends: its engine thread, or whoever waits for it.
//!
//! Promises: one thread at a time runs a stream's operations; the lock is not held while one runs. A
//! thread of the program runs only what the device does, never another function of the program's, and
//! is back at its point with no further thread to wake for it.

use std::sync::MutexGuard;

use super::capture;
use super::error::*;
use super::host_clock;
use super::machine::Lane;
use super::queue::{Point, ended_ns, enqueue, feed, place, reached, ready_ns};
use super::state::{Driver, State};
use super::task::{Place, Task};
use super::track::Track;
use crate::calibration::QUEUED_LAUNCHES;
use crate::sys::driver::Answer;

/// Host functions of all streams run one at a time; those that were ready when they were queued run
/// in that order.
fn is_next_host_function(state: &State, ticket: Option<u64>) -> bool {
    let first = state.host_tickets.first().copied();
    !state.host_function_runs && ticket.is_none_or(|own| first.is_none_or(|first| own <= first))
}

/// The engine thread of one stream.
pub(super) fn run(driver: &'static Driver, key: u64, lane: &dyn Lane) {
    let mut state = driver.lock();
    loop {
        feed(&mut state, key);
        let Ok(stream) = state.streams.get(key) else { return };
        if stream.doomed && stream.queue.is_empty() && !stream.is_running {
            let _ = state.streams.remove(key);
            driver.progressed();
            return;
        }
        state = if is_next_ready(&state, key) {
            step(driver, state, key, lane)
        } else {
            driver.wait_for_work(state)
        };
    }
}

/// Whether a stream's next operation can run now, and no thread runs one.
fn is_next_ready(state: &State, key: u64) -> bool {
    let Ok(stream) = state.streams.get(key) else { return false };
    stream.queue.front().is_some_and(|next| {
        !stream.is_running
            && next.sequence == stream.completed + 1
            && (!next.task.is_host_function() || is_next_host_function(state, next.ticket))
            && next.after.iter().all(|point| reached(state, *point))
    })
}

/// Runs a stream's next operation, which must be ready.
fn step<'a>(
    driver: &'static Driver,
    mut state: MutexGuard<'a, State>,
    key: u64,
    lane: &dyn Lane,
) -> MutexGuard<'a, State> {
    let Ok(stream) = state.streams.get(key) else { return state };
    let context = stream.context;
    let healthy = place(&state, stream);
    let place =
        healthy.unwrap_or(Place { context, machine_context: 0, width: stream.multiprocessors });
    let behind_ns = stream.ended_ns(u64::MAX);
    let Ok(stream) = state.streams.get_mut(key) else { return state };
    let Some(next) = stream.queue.pop_front() else { return state };
    stream.is_running = true;
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
    let mut state = driver.lock();
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
        stream.is_running = false;
        stream.complete(next.sequence, track.position_ns());
    }
    driver.completed(&state);
    state
}

/// The lane of a stream whose next operation the calling thread can run in its engine thread's place.
fn helpable(state: &State, (key, sequence): Point) -> Option<std::sync::Arc<dyn Lane>> {
    let stream = state.streams.get(key).ok()?;
    let next = stream.queue.front().filter(|next| next.sequence <= sequence)?;
    let lane = stream.lane.clone().filter(|lane| lane.is_timed())?;
    (next.task.can_go_ahead() && is_next_ready(state, key)).then_some(lane)
}

/// Waits until `point` is reached.
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
        feed(&mut state, point.0);
        state = match helpable(&state, point) {
            Some(lane) => step(driver, state, point.0, &*lane),
            None => driver.wait(state),
        };
    }
    // Of a stream that is gone nobody knows when it ended.
    if let Some(ended_ns) = Some(ended_ns(&state, point)).filter(|ended_ns| *ended_ns > 0) {
        host_clock::returned(called_ns, ended_ns, driver.machine.time_scale());
    }
    state
}

/// Waits until a stream's queue has room for another launch, as the driver's does.
pub(crate) fn wait_for_room<'a>(
    driver: &'static Driver,
    state: MutexGuard<'a, State>,
    key: u64,
) -> MutexGuard<'a, State> {
    let submitted = state.streams.get(key).map_or(0, |stream| stream.submitted);
    match (submitted + 1).checked_sub(QUEUED_LAUNCHES) {
        Some(first) if first > 0 => wait_for(driver, state, (key, first)),
        _ => state,
    }
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
