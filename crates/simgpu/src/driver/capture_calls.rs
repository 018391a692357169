//! The calls that begin and end captures of streams, and ask about them.
//!
//! Promises: an end with work that does not lead back to the first stream is refused. What a capture
//! forbids and records is in [`super::capture`].

use std::cell::RefCell;
use std::collections::HashMap;

use core::ffi::c_uint;
use divvy_driver_api::types::*;

use super::call::Call;
use super::capture::{
    GLOBAL, RELAXED, dependencies, exchange_mode, invalidate, of_stream, refuse_implicit, start,
    take_out,
};
use super::error::*;
use super::graph::destroy_graph;
use super::objects::graph::Graph;
use super::objects::stream::Capture;
use super::state::{State, driver};
use super::stream::resolved;
use crate::sys::driver::{Answer, Handle, In, InArray, Out};

thread_local! {
    /// Array that the last answer about dependencies points to.
    static ANSWERED: RefCell<Vec<CUgraphNode>> = const { RefCell::new(Vec::new()) };
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
    start(&mut state, id, capture)
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
    after: InArray<CUgraphNode>,
    _edges: In<CUgraphEdgeData>,
    _: usize,
    mode: CUstreamCaptureMode,
) -> Answer {
    let after = after.list()?.into_iter().map(Handle::key).collect();
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
    nodes: InArray<CUgraphNode>,
    _: usize,
    flags: c_uint,
) -> Answer {
    let (_, mut state, key) = resolved(call, stream)?;
    let nodes: Vec<u64> = nodes.list()?.into_iter().map(Handle::key).collect();
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
    nodes: InArray<CUgraphNode>,
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
    let before = exchange_mode(wanted.0);
    mode.put(CUstreamCaptureMode(before))
}
