//! Running of a stream's operations and waiting for their ends: by its engine thread, or a thread that waits for it.
//!
//! Promises: one thread at a time runs a stream's operations; the lock is not held while one runs. A
//! thread of the program runs only what the device does, never another function of the program's, and
//! is back at its point with no further thread to wake for it. How bytes move is in
//! [`super::transfer`], what kernels compute in [`super::kernels`].

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard};

use divvy_driver_api::types::*;

use super::call::in_host_function;
use super::conditional;
use super::host_clock;
use super::machine::{Lane, Load, Place};
use super::managed;
use super::objects::condition::Choice;
use super::objects::context::Green;
use super::objects::stream::Point;
use super::objects::task::{Branches, Stamp, Task};
use super::queue::{ended_ns, feed, place, reached, ready_ns};
use super::state::{DriverState, State, is_null};
use super::track::Track;
use super::transfer;
use crate::calibration::QUEUED_LAUNCHES;
use crate::clock::now_ns;
use crate::sys::driver::{Answer, Handle};

/// Host functions of all streams run one at a time; those that were ready when they were queued run
/// in that order.
fn is_next_host_function(state: &State, ticket: Option<u64>) -> bool {
    let first = state.host_tickets.first().copied();
    !state.host_function_runs && ticket.is_none_or(|own| first.is_none_or(|first| own <= first))
}

/// The engine thread of one stream.
pub(super) fn run(driver: &'static DriverState, key: u64, lane: &dyn Lane) {
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
    driver: &'static DriverState,
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
fn helpable(state: &State, (key, sequence): Point) -> Option<Arc<dyn Lane>> {
    let stream = state.streams.get(key).ok()?;
    let next = stream.queue.front().filter(|next| next.sequence <= sequence)?;
    let lane = stream.lane.clone().filter(|lane| lane.is_timed())?;
    let is_managed = |touched: &[(u64, u64)]| state.space.is_any_managed(touched);
    (next.task.can_go_ahead(&is_managed) && is_next_ready(state, key)).then_some(lane)
}

/// Waits until `point` is reached.
pub(crate) fn wait_for<'a>(
    driver: &'static DriverState,
    mut state: MutexGuard<'a, State>,
    point: Point,
) -> MutexGuard<'a, State> {
    if reached(&state, point) {
        return state;
    }
    let called_ns = host_clock::submission_ns();
    let context = state.streams.get(point.0).map_or(0, |stream| stream.context);
    let falls_asleep = |state: &mut State, by: i32| {
        if let Ok(context) = state.contexts.get_mut(context) {
            context.asleep = context.asleep.saturating_add_signed(by);
        }
    };
    falls_asleep(&mut state, 1);
    while !reached(&state, point) {
        feed(&mut state, point.0);
        state = match helpable(&state, point) {
            Some(lane) => step(driver, state, point.0, &*lane),
            None => driver.wait(state),
        };
    }
    falls_asleep(&mut state, -1);
    // Of a stream that is gone nobody knows when it ended.
    if let Some(ended_ns) = Some(ended_ns(&state, point)).filter(|ended_ns| *ended_ns > 0) {
        host_clock::returned(called_ns, ended_ns, driver.machine.time_scale());
    }
    state
}

/// Waits until a stream's queue has room for another launch, as the driver's does.
pub(crate) fn wait_for_room<'a>(
    driver: &'static DriverState,
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
pub(crate) fn drain_context(driver: &'static DriverState, key: u64) {
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

/// Waits for everything submitted to a context, and with the primary one to the green ones of its device.
pub(crate) fn drain_with_greens(
    driver: &'static DriverState,
    state: MutexGuard<'static, State>,
    key: u64,
) {
    with_greens(state, key).into_iter().for_each(|key| drain_context(driver, key));
}

/// The same for a call that lets memory go: no other thread's copy gets past it meanwhile (measured on an H200 with 580, beside a
/// stream that waits for a host function: `cuMemFree`, `cuMemFreeHost` and `cuMemHostUnregister`).
pub(crate) fn drain_to_let_go(
    driver: &'static DriverState,
    state: MutexGuard<'static, State>,
    key: u64,
) {
    let all = with_greens(state, key);
    let _alone = driver.let_go();
    all.into_iter().for_each(|key| drain_context(driver, key));
}

/// A context, and with the primary one the green ones of its device.
fn with_greens(state: MutexGuard<'static, State>, key: u64) -> Vec<u64> {
    let is_primary = state.devices.iter().position(|device| device.primary == key);
    let of_device = |green: &&Green| usize::try_from(green.device).ok() == is_primary;
    let greens = state.greens.iter().map(|(_, green)| green).filter(of_device);
    greens.map(|green| green.context).chain([key]).collect()
}

/// Waits for a context's work and returns its sticky error; unused pool memory goes back. With the primary context the green
/// ones of its device are waited for.
pub(crate) fn synchronize_context(
    driver: &'static DriverState,
    state: MutexGuard<'static, State>,
    key: u64,
) -> Answer {
    drain_with_greens(driver, state, key);
    let mut state = driver.lock();
    super::pool::release_unused(&mut state);
    state.context(key).map(|_| ())
}

// ---- what a task does ----

impl Task {
    /// Finishes a task that the null machine completed.
    pub(crate) fn finish_instantly(&self, state: &mut State) {
        match self {
            Self::Mark(stamp) => stamp.mark_at(now_ns()),
            Self::MarkEvent(event) => mark_event(state, *event, now_ns()),
            Self::Release(addresses) => release(state, addresses),
            Self::Series(tasks) => tasks.iter().for_each(|task| task.finish_instantly(state)),
            _ => {}
        }
    }

    /// Does the work.
    fn run(&self, driver: &'static DriverState, track: &mut Track<'_>, place: Place) -> Answer {
        match self {
            Self::Empty => Ok(()),
            Self::Copy(shape) => transfer::run_copy(driver, track, place, shape),
            Self::Fill(shape) => transfer::run_fill(driver, track, place, shape),
            Self::Prefetch(shape) => managed::run_prefetch(driver, track, place, shape),
            Self::Kernel(launch) => launch.run(driver, track, place),
            Self::Host(function) => {
                in_host_function(|| function.call());
                track.catch_up();
                Ok(())
            }
            Self::Callback(function, stream) => {
                let sticky = driver.lock().contexts.get(place.context).ok().and_then(|c| c.sticky);
                let status = sticky.unwrap_or(CUresult::CUDA_SUCCESS);
                let stream = CUstream::from_key(*stream);
                in_host_function(|| function.call(stream, status));
                track.catch_up();
                Ok(())
            }
            Self::Mark(stamp) => {
                stamp.mark_at(track.position_ns());
                Ok(())
            }
            Self::LoneMark(stamp) => {
                track.run(place, Load::Touch, 0, &mut || {})?;
                stamp.mark_at(track.position_ns());
                Ok(())
            }
            Self::WaitValue(value) => {
                transfer::wait_value(driver, place, value)?;
                track.catch_up();
                Ok(())
            }
            Self::WriteValue(value) => transfer::write_value(driver, value),
            Self::MarkEvent(event) => {
                mark_event(&mut driver.lock(), *event, track.position_ns());
                Ok(())
            }
            Self::AwaitEvent(event) => {
                let state = driver.lock();
                let mark = state.events.get(*event).ok().and_then(|event| event.mark.clone());
                if let Some((point, _)) = mark {
                    drop(wait_for(driver, state, point));
                    track.catch_up();
                }
                Ok(())
            }
            Self::Release(addresses) => {
                release(&mut driver.lock(), addresses);
                Ok(())
            }
            Self::Hold(_) => Ok(()),
            Self::Series(tasks) => run_series(driver, track, place, tasks),
            Self::Assign(conditions) => {
                conditional::assign(conditions);
                Ok(())
            }
            Self::Branches(branches) => branches.run(driver, track, place),
        }
    }
}

impl Branches {
    /// Runs what the value chooses.
    fn run(&self, driver: &'static DriverState, track: &mut Track<'_>, place: Place) -> Answer {
        while !is_null() {
            let chosen = self.choice.body(self.condition.value.load(SeqCst));
            let Some(body) = chosen.and_then(|index| self.bodies.get(index)) else { break };
            run_series(driver, track, place, body)?;
            // Only the end of its context ends a loop whose value nobody changes.
            let is_there = || driver.lock().contexts.get(place.context).is_ok_and(|c| c.alive);
            if self.choice != Choice::While || !is_there() {
                break;
            }
        }
        Ok(())
    }
}

/// Runs tasks in order, handing in each stretch of what can go ahead at once.
fn run_series(
    driver: &'static DriverState,
    track: &mut Track<'_>,
    place: Place,
    tasks: &[Task],
) -> Answer {
    let mut rest = tasks;
    while !rest.is_empty() {
        let length = {
            let state = driver.lock();
            let is_managed = |touched: &[(u64, u64)]| state.space.is_any_managed(touched);
            rest.iter().take_while(|task| task.can_go_ahead(&is_managed)).count()
        };
        if length > 0 && track.lane().is_timed() && !track.has_ahead() {
            let stretch = rest.iter().take(length);
            let ready_ns = track.position_ns();
            let pieces = stretch.map(|task| task.go_ahead(track.lane(), place, ready_ns)).sum();
            track.expect(pieces);
        }
        let (now, later) = rest.split_at(length.max(1).min(rest.len()));
        now.iter().try_for_each(|task| task.run(driver, track, place))?;
        rest = later;
    }
    Ok(())
}

fn mark_event(state: &mut State, event: u64, at_ns: u64) {
    let stamp = Arc::new(Stamp::default());
    stamp.mark_at(at_ns);
    if let Ok(event) = state.events.get_mut(event) {
        event.mark = Some(((0, 0), stamp));
    }
}

fn release(state: &mut State, addresses: &[u64]) {
    for address in addresses {
        // Freed by the program meanwhile, or by the end of its context.
        let _ = super::graph_memory::free(state, *address);
    }
}
