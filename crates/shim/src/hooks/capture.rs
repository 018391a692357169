//! Captures begin and end; what is known of them is the gate's ([`crate::gate::capture`]).

use divvy_driver_api::types::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphRecaptureCallback, CUresult, CUstream,
    CUstreamCaptureMode, CUstreamCigCaptureParams,
};

use crate::gate::capture::{begin, end};
use crate::sys::{In, Opaque, Out, real};

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
    data: Opaque<'_>,
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
