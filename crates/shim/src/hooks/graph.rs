//! Graphs: made executable, uploaded, launched and destroyed, and given memory nodes. What their memory
//! takes is [`crate::account::graph`]'s.

use core::ffi::{c_char, c_ulonglong};

use divvy_driver_api::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUdevice, CUgraph, CUgraphEdgeData,
    CUgraphExec, CUgraphNode, CUgraphNodeParams, CUresult, CUstream,
};

use crate::account::graph::{destroy, end, instantiated, run, upload};
use crate::account::nodes::expect_nodes;
use crate::account::place::{Next, at};
use crate::account::unused::{age, trimmed};
use crate::gate::submit;
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Out, layout, real};

/// Instantiation that uploads as well.
const UPLOAD: c_ulonglong = 2;

/// Launches a graph.
pub(crate) fn cuGraphLaunch(
    real: real::cuGraphLaunch,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    let launch = || submit::graph(exec, stream, real.per_thread(), || real.call(exec, stream));
    run(exec, stream, real.per_thread(), launch)
}

/// Takes a graph's memory without running it.
pub(crate) fn cuGraphUpload(
    real: real::cuGraphUpload,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    upload(exec, stream, real.per_thread())
}

/// Makes a graph executable.
pub(crate) fn cuGraphInstantiate(
    real: real::cuGraphInstantiate,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    error_node: Out<'_, CUgraphNode>,
    log: Out<'_, c_char>,
    log_bytes: usize,
) -> CUresult {
    let result = real.call(exec, graph, error_node, log, log_bytes);
    instantiated(result, exec, graph)
}

/// The form of CUDA 11.
pub(crate) fn cuGraphInstantiate_v2(
    real: real::cuGraphInstantiate_v2,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    error_node: Out<'_, CUgraphNode>,
    log: Out<'_, c_char>,
    log_bytes: usize,
) -> CUresult {
    let result = real.call(exec, graph, error_node, log, log_bytes);
    instantiated(result, exec, graph)
}

/// With flags; none of them takes memory.
pub(crate) fn cuGraphInstantiateWithFlags(
    real: real::cuGraphInstantiateWithFlags,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    flags: c_ulonglong,
) -> CUresult {
    let result = real.call(exec, graph, flags);
    instantiated(result, exec, graph)
}

/// With parameters, which may ask for an upload.
pub(crate) fn cuGraphInstantiateWithParams(
    real: real::cuGraphInstantiateWithParams,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    params: Out<'_, CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> CUresult {
    let asked = params.get().filter(|params| params.flags & UPLOAD != 0);
    if let Some(asked) = asked {
        // Uploaded when it is known what that takes.
        params.set(CUDA_GRAPH_INSTANTIATE_PARAMS { flags: asked.flags & !UPLOAD, ..asked });
    }
    let result = real.call(exec, graph, params);
    let mut result = instantiated(result, exec, graph);
    if let (Some(asked), Some(answered)) = (asked, params.get()) {
        params.set(CUDA_GRAPH_INSTANTIATE_PARAMS { flags: asked.flags, ..answered });
        if result == SUCCESS
            && let Some(made) = exec.get()
        {
            result = upload(made, asked.hUploadStream, real.per_thread());
            if result != SUCCESS {
                destroy(made);
            }
        }
    }
    result
}

/// Destroys an executable graph; its memory stays until it is trimmed, or longer if that is in use.
pub(crate) fn cuGraphExecDestroy(real: real::cuGraphExecDestroy, exec: CUgraphExec) -> CUresult {
    end(exec, || real.call(exec))
}

/// Hands unused graph memory back.
pub(crate) fn cuDeviceGraphMemTrim(real: real::cuDeviceGraphMemTrim, dev: CUdevice) -> CUresult {
    let Next::Count(device) = at(dev) else { return real.call(dev) };
    let aged = age(device);
    let result = real.call(dev);
    trimmed(device, aged);
    result
}

/// A memory node is added.
pub(crate) fn cuGraphAddMemAllocNode(
    real: real::cuGraphAddMemAllocNode,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    count: usize,
    params: Out<'_, CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> CUresult {
    expect_nodes();
    real.call(node, graph, dependencies, count, params)
}

fn note_node(params: Out<'_, CUgraphNodeParams>) {
    if params.get().is_some_and(|params| layout::allocation_of(&params).is_some()) {
        expect_nodes();
    }
}

/// A node of any kind is added.
pub(crate) fn cuGraphAddNode(
    real: real::cuGraphAddNode,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    count: usize,
    params: Out<'_, CUgraphNodeParams>,
) -> CUresult {
    note_node(params);
    real.call(node, graph, dependencies, count, params)
}

/// With edge data.
pub(crate) fn cuGraphAddNode_v2(
    real: real::cuGraphAddNode_v2,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    edges: In<'_, CUgraphEdgeData>,
    count: usize,
    params: Out<'_, CUgraphNodeParams>,
) -> CUresult {
    note_node(params);
    real.call(node, graph, dependencies, edges, count, params)
}

/// The form of CUDA 13.
pub(crate) fn cuGraphAddNode_v3(
    real: real::cuGraphAddNode_v3,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    edges: In<'_, CUgraphEdgeData>,
    count: usize,
    params: Out<'_, CUgraphNodeParams>,
) -> CUresult {
    note_node(params);
    real.call(node, graph, dependencies, edges, count, params)
}
