//! Captures: while a stream is captured, its allocations are nodes of a graph and take nothing.
//!
//! Some queries would invalidate a capture that is under way in the process (measured: asking a pool
//! for an attribute); [`relaxed`] lets ours through without harm. Captures are counted as far as they
//! can be seen; a count that is off costs a query more, or an allocation asked for and given back.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use divvy_driver_api::types::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphRecaptureCallback, CUresult, CUstream,
    CUstreamCaptureMode, CUstreamCigCaptureParams,
};

use super::charge::SUCCESS;
use crate::sys::{In, Opaque, Out, driver, real};

/// Captures under way in the process, as far as they can be seen.
static CAPTURES: AtomicU64 = AtomicU64::new(0);

/// Runs `act` so that no capture of this process is disturbed by the driver calls in it.
pub(crate) fn relaxed<T>(act: impl FnOnce() -> T) -> T {
    if CAPTURES.load(Relaxed) == 0 {
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

/// Captures under way in the process, as far as they can be seen.
pub(crate) fn captures() -> u64 {
    CAPTURES.load(Relaxed)
}

/// Whether the stream is being captured.
///
/// Cost: one load while the process captures nothing.
#[inline(always)]
pub(crate) fn is_capturing(stream: CUstream, per_thread: bool) -> bool {
    CAPTURES.load(Relaxed) != 0 && is_captured(stream, per_thread)
}

#[cold]
#[inline(never)]
fn is_captured(stream: CUstream, per_thread: bool) -> bool {
    driver::stream_capturing(stream, per_thread).unwrap_or(false)
}

/// Counts a capture that began.
fn begun(result: CUresult) -> CUresult {
    if result == SUCCESS {
        CAPTURES.fetch_add(1, Relaxed);
    }
    result
}

/// Counts a capture that ended; one that was invalidated ends with an error.
fn ended(result: CUresult) -> CUresult {
    let over = matches!(
        result,
        SUCCESS
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED
    );
    if over {
        let _ = CAPTURES.try_update(Relaxed, Relaxed, |count| count.checked_sub(1));
    }
    result
}

/// A capture begins.
pub(crate) fn cuStreamBeginCapture_v2(
    real: real::cuStreamBeginCapture_v2,
    stream: CUstream,
    mode: CUstreamCaptureMode,
) -> CUresult {
    begun(real.call(stream, mode))
}

/// The first form.
pub(crate) fn cuStreamBeginCapture(real: real::cuStreamBeginCapture, stream: CUstream) -> CUresult {
    begun(real.call(stream))
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
    begun(real.call(stream, graph, dependencies, edges, count, mode))
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
    begun(real.call(stream, mode, graph, callback, data))
}

/// A capture for a graphics context.
pub(crate) fn cuStreamBeginCaptureToCig(
    real: real::cuStreamBeginCaptureToCig,
    stream: CUstream,
    params: Out<'_, CUstreamCigCaptureParams>,
) -> CUresult {
    begun(real.call(stream, params))
}

/// A capture ends.
pub(crate) fn cuStreamEndCapture(
    real: real::cuStreamEndCapture,
    stream: CUstream,
    graph: Out<'_, CUgraph>,
) -> CUresult {
    ended(real.call(stream, graph))
}

/// A capture for a graphics context ends.
pub(crate) fn cuStreamEndCaptureToCig(
    real: real::cuStreamEndCaptureToCig,
    stream: CUstream,
) -> CUresult {
    ended(real.call(stream))
}
