//! Captures: while a stream is captured, its allocations are nodes of a graph and take nothing.
//!
//! Some queries would invalidate a capture that is under way in the process (measured: asking a pool
//! for an attribute); [`relaxed`] lets ours through without harm. An event behind a whole context
//! invalidates any, in whatever mode, so it is recorded only while captures are kept out
//! ([`keep_out`]): one that begins is counted before the driver begins it, and waits for those that
//! have not seen it. Captures are known by their streams; one that ends unseen (with a stream of a
//! context that is gone, say) costs a query more, or marks of single streams.

use divvy_policy::gate::{Captures, Undisturbed};

use divvy_driver_api::types::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphRecaptureCallback, CUresult, CUstream,
    CUstreamCaptureMode, CUstreamCigCaptureParams,
};

use super::charge::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{In, Opaque, Out, clock, driver, real};
use crate::tenant::share::stream_word;

/// Captures under way in the process.
static CAPTURES: Captures = Captures::new();

/// The streams that capture; the context that was current when each began.
static STREAMS: Map = Map::new(30);

/// Longest wait of a capture for calls of ours that it must not meet: they take microseconds.
const PATIENCE_NS: u64 = 100_000_000;
const LOOK_NS: u64 = 5_000;

/// Keeps captures from beginning while the answer lives; none where one is under way.
pub(crate) fn keep_out() -> Option<Undisturbed<'static>> {
    CAPTURES.keep_out()
}

/// Runs `act` so that no capture of this process is disturbed by the driver calls in it.
pub(crate) fn relaxed<T>(act: impl FnOnce() -> T) -> T {
    if let Some(_undisturbed) = keep_out() {
        return act();
    }
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let before = driver::exchange_capture_mode(mode);
    let result = act();
    if let Ok(before) = before {
        let _ = driver::exchange_capture_mode(before);
    }
    result
}

/// Whether the stream is being captured.
///
/// Cost: one load while the process captures nothing.
#[inline(always)]
pub(crate) fn is_capturing(stream: CUstream, per_thread: bool) -> bool {
    CAPTURES.any() && is_captured(stream, per_thread)
}

#[cold]
#[inline(never)]
fn is_captured(stream: CUstream, per_thread: bool) -> bool {
    driver::stream_capturing(stream, per_thread).unwrap_or(false)
}

/// A capture of the stream begins by `call`.
#[inline(always)]
fn begin(stream: CUstream, per_thread: bool, call: impl FnOnce() -> CUresult) -> CUresult {
    announce();
    let result = call();
    begun(stream, per_thread, result);
    result
}

/// Counts a capture that is about to begin, and waits for calls of ours that it must not meet.
#[inline(never)]
fn announce() {
    CAPTURES.begin();
    let give_up_ns = clock::now_ns().saturating_add(PATIENCE_NS);
    while !CAPTURES.quiet() && clock::now_ns() < give_up_ns {
        clock::sleep_until(clock::now_ns().saturating_add(LOOK_NS));
    }
}

/// It has begun, or the driver has refused.
#[inline(never)]
fn begun(stream: CUstream, per_thread: bool, result: CUresult) {
    let context = driver::ctx_current().map_or(0, |context| context.0.addr() as u64);
    // Of a stream that was known to capture the end was not seen. Without room for one more it stays
    // counted.
    let is_known = || {
        STREAMS.insert(stream_word(stream, per_thread), [context, 0]).is_ok_and(|old| old.is_some())
    };
    if result != SUCCESS || is_known() {
        CAPTURES.end(1);
    }
}

/// A capture of the stream ends; one that was invalidated ends with an error.
#[inline(never)]
fn end(stream: CUstream, per_thread: bool, result: CUresult) -> CUresult {
    let over = matches!(
        result,
        SUCCESS
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED
    );
    if over {
        forget_stream(stream, per_thread);
    }
    result
}

/// The stream captures no more: its capture has ended, or it was destroyed.
#[inline(never)]
pub(super) fn forget_stream(stream: CUstream, per_thread: bool) {
    if CAPTURES.any() && STREAMS.take(stream_word(stream, per_thread)).is_some() {
        CAPTURES.end(1);
    }
}

/// A context is gone, and with it its streams.
pub(super) fn forget_context(context: u64) {
    if CAPTURES.any() {
        let mut ended = 0_u32;
        STREAMS.take_if(|_, [of, _]| {
            ended = ended.saturating_add(u32::from(of == context));
            of == context
        });
        CAPTURES.end(ended);
    }
}

/// A capture begins.
pub(crate) fn cuStreamBeginCapture_v2(
    real: real::cuStreamBeginCapture_v2,
    stream: CUstream,
    mode: CUstreamCaptureMode,
) -> CUresult {
    begin(stream, real.per_thread(), || real.call(stream, mode))
}

/// The first form.
pub(crate) fn cuStreamBeginCapture(real: real::cuStreamBeginCapture, stream: CUstream) -> CUresult {
    begin(stream, real.per_thread(), || real.call(stream))
}

/// A capture into a graph that exists.
pub(crate) fn cuStreamBeginCaptureToGraph(
    real: real::cuStreamBeginCaptureToGraph,
    stream: CUstream,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    edges: In<'_, CUgraphEdgeData>,
    count: usize,
    mode: CUstreamCaptureMode,
) -> CUresult {
    begin(stream, real.per_thread(), || real.call(stream, graph, dependencies, edges, count, mode))
}

/// A capture that updates a graph.
pub(crate) fn cuStreamBeginRecaptureToGraph(
    real: real::cuStreamBeginRecaptureToGraph,
    stream: CUstream,
    mode: CUstreamCaptureMode,
    graph: CUgraph,
    callback: CUgraphRecaptureCallback,
    data: Opaque,
) -> CUresult {
    begin(stream, real.per_thread(), || real.call(stream, mode, graph, callback, data))
}

/// A capture for a graphics context.
pub(crate) fn cuStreamBeginCaptureToCig(
    real: real::cuStreamBeginCaptureToCig,
    stream: CUstream,
    params: Out<'_, CUstreamCigCaptureParams>,
) -> CUresult {
    begin(stream, real.per_thread(), || real.call(stream, params))
}

/// A capture ends.
pub(crate) fn cuStreamEndCapture(
    real: real::cuStreamEndCapture,
    stream: CUstream,
    graph: Out<'_, CUgraph>,
) -> CUresult {
    end(stream, real.per_thread(), real.call(stream, graph))
}

/// A capture for a graphics context ends.
pub(crate) fn cuStreamEndCaptureToCig(
    real: real::cuStreamEndCaptureToCig,
    stream: CUstream,
) -> CUresult {
    end(stream, real.per_thread(), real.call(stream))
}
