//! Stream capture: work submitted to a capturing stream becomes nodes of a graph.
//!
//! Promises: what the driver forbids during a capture is forbidden here with the same codes, and
//! invalidates the capture; a captured event joins the waiting stream; an end with work that does
//! not lead back to the first stream is refused.

use core::cell::Cell;
use core::ffi::c_uint;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::cell::RefCell;
use std::collections::HashMap;
use std::thread::ThreadId;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::graph::{Graph, NodeKind, add_node, destroy_graph};
use super::state::{State, driver};
use super::stream::resolved;
use super::task::Task;
use crate::sys::driver::{Answer, Handle, In, Out};

const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

/// A capture in progress.
pub(crate) struct Capture {
    graph: u64,
    origin: u64,
    mode: u32,
    thread: ThreadId,
    is_invalid: bool,
    owns_graph: bool,
    /// For each stream in it, the nodes its next node depends on.
    streams: HashMap<u64, Vec<u64>>,
}

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
    /// What the last question about dependencies pointed to.
    static ANSWERED: RefCell<Vec<CUgraphNode>> = const { RefCell::new(Vec::new()) };
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

fn of_stream(state: &mut State, stream: u64) -> Answer<&mut Capture> {
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
    let spot = super::graph::Spot { graph, after: &after };
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

fn begin_capture(call: Call, stream: CUstream, mode: u32, into: Option<(u64, Vec<u64>)>) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    if mode > RELAXED {
        return Err(INVALID_VALUE);
    }
    let found = state.streams.get(key)?;
    if found.capture != 0 {
        return Err(ILLEGAL_STATE);
    }
    if state.contexts.get(found.context)?.legacy == key {
        return Err(CAPTURE_UNSUPPORTED);
    }
    let id = state.fresh_id();
    let owns_graph = into.is_none();
    let (graph, after) = match into {
        Some((graph, after)) => {
            state.graphs.get(graph).map_err(|_| INVALID_VALUE)?;
            (graph, after)
        }
        None => (state.graphs.insert(Graph::default()), Vec::new()),
    };
    let thread = std::thread::current().id();
    let streams = HashMap::from([(key, after)]);
    let capture =
        Capture { graph, origin: key, mode, thread, is_invalid: false, owns_graph, streams };
    state.captures.insert(id, capture);
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    state.streams.get_mut(key)?.capture = id;
    Ok(())
}

pub fn cuStreamBeginCapture(call: Call, stream: CUstream) -> Answer {
    begin_capture(call, stream, GLOBAL, None)
}

pub fn cuStreamBeginCapture_v2(call: Call, stream: CUstream, mode: CUstreamCaptureMode) -> Answer {
    begin_capture(call, stream, mode.0, None)
}

pub fn cuStreamBeginCaptureToGraph(
    call: Call,
    stream: CUstream,
    graph: CUgraph,
    after: In<CUgraphNode>,
    _edges: In<CUgraphEdgeData>,
    count: usize,
    mode: CUstreamCaptureMode,
) -> Answer {
    let after = after.list(count)?.into_iter().map(Handle::key).collect();
    begin_capture(call, stream, mode.0, Some((graph.key(), after)))
}

/// Whether every stream's last nodes lead to the first stream's.
fn is_joined(state: &State, capture: &Capture) -> bool {
    let mut reached: Vec<u64> = capture.streams.get(&capture.origin).cloned().unwrap_or_default();
    let mut next = 0;
    while let Some(node) = reached.get(next).copied() {
        next += 1;
        if let Ok(node) = state.nodes.get(node) {
            for before in &node.after {
                if !reached.contains(before) {
                    reached.push(*before);
                }
            }
        }
    }
    capture.streams.values().flatten().all(|node| reached.contains(node))
}

pub fn cuStreamEndCapture(call: Call, stream: CUstream, graph: Out<CUgraph>) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    let id = state.streams.get(key)?.capture;
    let Some(capture) = state.captures.get(&id) else { return Err(ILLEGAL_STATE) };
    graph.check()?;
    if capture.origin != key {
        invalidate(&mut state, id);
        return Err(CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
        return Err(CAPTURE_WRONG_THREAD);
    }
    let joined = is_joined(&state, capture);
    let Some(capture) = take_out(&mut state, id) else { return Err(ILLEGAL_STATE) };
    if capture.is_invalid || !joined {
        if capture.owns_graph {
            destroy_graph(&mut state, capture.graph)?;
        }
        graph.put(CUgraph::from_key(0))?;
        return Err(if capture.is_invalid { CAPTURE_INVALIDATED } else { CAPTURE_UNJOINED });
    }
    graph.put(CUgraph::from_key(capture.graph))
}

/// Takes a capture out of the streams and events that are in it.
fn take_out(state: &mut State, id: u64) -> Option<Capture> {
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

fn status(state: &State, stream: u64) -> Answer<(u32, u64)> {
    let id = state.streams.get(stream)?.capture;
    Ok(match state.captures.get(&id) {
        None => (0, 0),
        Some(capture) if capture.is_invalid => (2, id),
        Some(_) => (1, id),
    })
}

pub fn cuStreamIsCapturing(
    call: Call,
    stream: CUstream,
    out: Out<CUstreamCaptureStatus>,
) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    refuse_implicit(&mut state, key)?;
    out.put(CUstreamCaptureStatus(status(&state, key)?.0))
}

pub fn cuStreamGetCaptureInfo(
    call: Call,
    stream: CUstream,
    out: Out<CUstreamCaptureStatus>,
    id: Out<cuuint64_t>,
) -> Answer {
    cuStreamGetCaptureInfo_v2(call, stream, out, id, Out::null(), Out::null(), Out::null())
}

pub fn cuStreamGetCaptureInfo_v2(
    call: Call,
    stream: CUstream,
    out: Out<CUstreamCaptureStatus>,
    id: Out<cuuint64_t>,
    graph: Out<CUgraph>,
    after: Out<*const CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    refuse_implicit(&mut state, key)?;
    let (status, capture) = status(&state, key)?;
    out.put(CUstreamCaptureStatus(status))?;
    if status != 1 {
        return Ok(());
    }
    id.offer(capture);
    let nodes = dependencies(&mut state, key)?;
    graph.offer(CUgraph::from_key(of_stream(&mut state, key)?.graph));
    count.offer(nodes.len());
    ANSWERED.with(|kept| {
        let mut kept = kept.borrow_mut();
        *kept = nodes.into_iter().map(CUgraphNode::from_key).collect();
        after.offer(kept.as_ptr());
    });
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the driver's signature")]
pub fn cuStreamGetCaptureInfo_v3(
    call: Call,
    stream: CUstream,
    out: Out<CUstreamCaptureStatus>,
    id: Out<cuuint64_t>,
    graph: Out<CUgraph>,
    after: Out<*const CUgraphNode>,
    edges: Out<*const CUgraphEdgeData>,
    count: Out<usize>,
) -> Answer {
    edges.offer(core::ptr::null());
    cuStreamGetCaptureInfo_v2(call, stream, out, id, graph, after, count)
}

pub fn cuStreamUpdateCaptureDependencies(
    call: Call,
    stream: CUstream,
    nodes: In<CUgraphNode>,
    count: usize,
    flags: c_uint,
) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    let nodes: Vec<u64> = nodes.list(count)?.into_iter().map(Handle::key).collect();
    let known = of_stream(&mut state, key)?.streams.entry(key).or_default();
    match flags {
        0 => known.extend(nodes),
        1 => *known = nodes,
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

pub fn cuStreamUpdateCaptureDependencies_v2(
    call: Call,
    stream: CUstream,
    nodes: In<CUgraphNode>,
    _edges: In<CUgraphEdgeData>,
    count: usize,
    flags: c_uint,
) -> Answer {
    cuStreamUpdateCaptureDependencies(call, stream, nodes, count, flags)
}

pub fn cuThreadExchangeStreamCaptureMode(_: Call, mode: Out<CUstreamCaptureMode>) -> Answer {
    driver()?;
    let wanted = mode.get()?;
    if wanted.0 > RELAXED {
        return Err(INVALID_VALUE);
    }
    let before = MODE.with(|own| own.replace(wanted.0));
    mode.put(CUstreamCaptureMode(before))
}
