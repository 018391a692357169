//! Stream capture: work submitted to a capturing stream becomes nodes of a graph.
//!
//! Promises: what the driver forbids during a capture is forbidden here with the same codes, and
//! invalidates the capture; a captured event joins the waiting stream. The calls are in
//! [`super::capture_calls`].

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::error::*;
use super::graph::{add_node, destroy_graph};
use super::objects::graph::{NodeKind, Spot};
use super::objects::stream::Capture;
use super::objects::task::Task;
use super::state::State;
use crate::sys::driver::Answer;

/// The mode that concerns every thread.
pub(super) const GLOBAL: u32 = 0;
/// The mode that forbids nothing.
pub(super) const RELAXED: u32 = 2;

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// How many captures are under way; lets the null machine's launches skip the lock.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Whether any stream captures.
#[inline]
pub(crate) fn is_under_way() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) != 0
}

/// Refuses a call that may synchronise or allocate behind a capture's back.
pub(crate) fn refuse_unsafe(state: &mut State) -> Answer {
    if state.captures.is_empty() || MODE.with(Cell::get) == RELAXED {
        return Ok(());
    }
    let thread = std::thread::current().id();
    let is_mine = MODE.with(Cell::get) != GLOBAL;
    let mut refused = false;
    for capture in state.captures.values_mut() {
        let concerns = match capture.mode {
            RELAXED => false,
            GLOBAL => !is_mine || capture.thread == thread,
            _ => capture.thread == thread,
        };
        if concerns {
            capture.is_invalid = true;
            refused = true;
        }
    }
    if refused { Err(CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

pub(crate) fn invalidate(state: &mut State, capture: u64) {
    if let Some(capture) = state.captures.get_mut(&capture) {
        capture.is_invalid = true;
    }
}

/// Invalidates the capture a stream takes part in, if any.
pub(crate) fn invalidate_stream(state: &mut State, stream: u64) {
    if let Ok(capture) = state.streams.get(stream).map(|stream| stream.capture) {
        invalidate(state, capture);
    }
}

/// Refuses to wait for a context in which a stream captures, in whatever mode.
pub(crate) fn refuse_in_context(state: &mut State, context: u64) -> Answer {
    if state.captures.is_empty() {
        return Ok(());
    }
    refuse_beside(state, context)?;
    refuse_unsafe(state)
}

/// Refuses to join all work of a context in which a stream captures, in whatever mode that does and
/// the thread is.
pub(crate) fn refuse_beside(state: &mut State, context: u64) -> Answer {
    let own = state.streams.iter().filter(|(_, stream)| stream.context == context);
    let captures: Vec<u64> = own.map(|(_, s)| s.capture).filter(|id| *id != 0).collect();
    for capture in &captures {
        invalidate(state, *capture);
    }
    if captures.is_empty() { Ok(()) } else { Err(CAPTURE_UNSUPPORTED) }
}

/// Refuses questions about, and waits for, a stream that captures.
pub(crate) fn refuse_on_capturing(state: &mut State, stream: u64) -> Answer {
    if state.captures.is_empty() {
        return Ok(());
    }
    if state.streams.get(stream)?.capture != 0 {
        invalidate_stream(state, stream);
        return Err(CAPTURE_UNSUPPORTED);
    }
    refuse_implicit(state, stream)
}

/// Refuses work in the legacy stream that would wait for a capturing stream.
pub(crate) fn refuse_implicit(state: &mut State, stream: u64) -> Answer {
    if state.captures.is_empty() {
        return Ok(());
    }
    let context = state.streams.get(stream)?.context;
    if state.contexts.get(context)?.legacy != stream {
        return Ok(());
    }
    let waiting = state.streams.iter().filter(|(_, s)| s.context == context && s.flags & 1 == 0);
    let captures: Vec<u64> = waiting.map(|(_, s)| s.capture).filter(|id| *id != 0).collect();
    if captures.is_empty() {
        return Ok(());
    }
    for capture in captures {
        invalidate(state, capture);
    }
    Err(CAPTURE_IMPLICIT)
}

/// The valid capture a stream takes part in.
pub(super) fn of_stream(state: &mut State, stream: u64) -> Answer<&mut Capture> {
    let id = state.streams.get(stream)?.capture;
    let capture = state.captures.get_mut(&id).ok_or(ILLEGAL_STATE)?;
    if capture.is_invalid { Err(CAPTURE_INVALIDATED) } else { Ok(capture) }
}

/// The nodes the stream's next node depends on.
pub(crate) fn dependencies(state: &mut State, stream: u64) -> Answer<Vec<u64>> {
    Ok(of_stream(state, stream)?.streams.get(&stream).cloned().unwrap_or_default())
}

fn append(state: &mut State, stream: u64, kind: NodeKind) -> Answer<u64> {
    let after = dependencies(state, stream)?;
    let graph = of_stream(state, stream)?.graph;
    let node = add_node(state, graph, after, kind)?;
    of_stream(state, stream)?.streams.insert(stream, vec![node]);
    Ok(node)
}

/// Makes a node of work submitted to a capturing stream.
pub(crate) fn record(state: &mut State, stream: u64, task: Task) -> Answer<u64> {
    append(state, stream, NodeKind::Work(task))
}

/// As [`record`], for a stream-ordered allocation.
pub(crate) fn record_allocation(
    state: &mut State,
    stream: u64,
    device: i32,
    bytes: u64,
) -> Answer<u64> {
    let (graph, after) = (of_stream(state, stream)?.graph, dependencies(state, stream)?);
    let spot = Spot { graph, after: &after };
    let address = super::graph_memory::place(state, spot, device, bytes)?;
    append(state, stream, NodeKind::Allocate { device, bytes, address })?;
    Ok(address)
}

/// As [`record`], for a free.
pub(crate) fn record_free(state: &mut State, stream: u64, address: u64) -> Answer {
    append(state, stream, NodeKind::Free { address }).map(|_| ())
}

/// A stream that waits for a captured event takes part in the capture.
pub(crate) fn join(state: &mut State, stream: u64, capture: u64, nodes: Vec<u64>) -> Answer {
    let own = state.streams.get(stream)?.capture;
    if own != 0 && own != capture {
        invalidate(state, own);
        invalidate(state, capture);
        return Err(CAPTURE_MERGE);
    }
    let found = state.captures.get_mut(&capture).ok_or(ILLEGAL_STATE)?;
    if found.is_invalid {
        return Err(CAPTURE_INVALIDATED);
    }
    let known = found.streams.entry(stream).or_default();
    for node in nodes {
        if !known.contains(&node) {
            known.push(node);
        }
    }
    state.streams.get_mut(stream)?.capture = capture;
    Ok(())
}

/// A capture begins on its first stream.
pub(super) fn start(state: &mut State, id: u64, capture: Capture) -> Answer {
    let origin = capture.origin;
    state.captures.insert(id, capture);
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    state.streams.get_mut(origin)?.capture = id;
    Ok(())
}

/// Sets the calling thread's mode; answers the one before.
pub(super) fn exchange_mode(mode: u32) -> u32 {
    MODE.with(|own| own.replace(mode))
}

/// Takes a capture out of the streams and events that are in it.
pub(super) fn take_out(state: &mut State, id: u64) -> Option<Capture> {
    let capture = state.captures.remove(&id)?;
    UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    for (_, stream) in state.streams.iter_mut() {
        if stream.capture == id {
            stream.capture = 0;
        }
    }
    for (_, event) in state.events.iter_mut() {
        if event.captured.as_ref().is_some_and(|(capture, _)| *capture == id) {
            event.captured = None;
        }
    }
    Some(capture)
}

/// A stream is gone: a capture that began on it is over, one that it joined is invalid.
pub(crate) fn abandon(state: &mut State, stream: u64) -> Answer {
    let Ok(id) = state.streams.get(stream).map(|stream| stream.capture) else { return Ok(()) };
    if state.captures.get(&id).is_none_or(|capture| capture.origin != stream) {
        invalidate(state, id);
        return Ok(());
    }
    match take_out(state, id) {
        Some(capture) if capture.owns_graph => destroy_graph(state, capture.graph),
        _ => Ok(()),
    }
}
