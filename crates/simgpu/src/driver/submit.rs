//! Submitting work to a stream, or to the graph the stream is capturing.
//!
//! Promises: what the device is asked for goes to it from the thread that submits, as soon as nothing
//! stands before it, so the device's queue is as deep as the program's and its times do not depend on
//! when this host's threads run. What then runs it is in [`super::worker`].

use std::sync::{Arc, MutexGuard};

use super::capture;
use super::error::*;
use super::host_clock;
use super::objects::stream::{Operation, Point};
use super::objects::task::Task;
use super::queue::{feed, implicit_order, reached};
use super::state::{DriverState, State, is_null};
use super::worker::{self, wait_for};
use crate::sys::driver::Answer;

/// Adds work to a stream, or to the graph the stream is capturing.
pub(crate) fn enqueue(
    driver: &'static DriverState,
    state: &mut State,
    key: u64,
    task: Task,
) -> Answer {
    enqueue_after(driver, state, key, task, Vec::new())
}

/// As [`enqueue`], after further points.
pub(crate) fn enqueue_after(
    driver: &'static DriverState,
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

/// Submits `task` and waits until it ran.
pub(crate) fn run_now(
    driver: &'static DriverState,
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
