//! Executable graphs: instantiation, launch, upload, update.
//!
//! Promises: making an executable takes no device memory; the first launch (or upload) takes what
//! the allocation nodes need, in the device's graph memory; a launch whose last one left an
//! allocation unfreed is refused, unless the executable frees on launch.

use core::ffi::{c_char, c_uint, c_ulonglong};
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::capture;
use super::conditional::has_unused;
use super::error::*;
use super::flat::{ends, flatten, tasks};
use super::graph::{clone_graph, destroy_graph};
use super::graph_memory;
use super::graph_node::{host, kernel_v1, kernel_v2, memcpy, memset};
use super::objects::graph::{Exec, NodeKind};
use super::objects::task::Task;
use super::state::{DriverState, State, begin_free};
use super::stream::resolved;
use super::submit::enqueue;
use crate::sys::driver::{Answer, Handle, In, Out};

const AUTO_FREE_ON_LAUNCH: u64 = 1;
const UPLOAD: u64 = 2;

fn instantiate(out: Out<CUgraphExec>, graph: CUgraph, flags: u64) -> Answer<u64> {
    let (_, mut state) = begin_free()?;
    out.check()?;
    // Auto free, upload, device launch, use of node priorities.
    if flags & !0xf != 0 {
        return Err(INVALID_VALUE);
    }
    if has_unused(&state, graph.key()) {
        return Err(INVALID_VALUE);
    }
    let mut graph_nodes = Vec::new();
    flatten(&state, graph.key(), &mut graph_nodes)?;
    let is_single =
        |kind: &NodeKind| matches!(kind, NodeKind::Allocate { .. }) || kind.is_conditional();
    if graph_nodes.iter().any(|(_, kind)| is_single(kind))
        && state.execs.iter().any(|(_, exec)| exec.graph == graph.key())
    {
        return Err(NOT_SUPPORTED);
    }
    let graph = graph.key();
    let memory = graph_memory::mappings(&state.graphs.get(graph)?.memory);
    let key = state.execs.insert(Exec { graph, graph_nodes, memory, disabled: Vec::new(), flags });
    out.put(CUgraphExec::from_key(key))?;
    Ok(key)
}

pub fn cuGraphInstantiateWithFlags(
    _: Call,
    out: Out<CUgraphExec>,
    graph: CUgraph,
    flags: c_ulonglong,
) -> Answer {
    instantiate(out, graph, flags & !UPLOAD).map(|_| ())
}

pub fn cuGraphInstantiate(
    _: Call,
    out: Out<CUgraphExec>,
    graph: CUgraph,
    error: Out<CUgraphNode>,
    log: Out<c_char>,
    size: usize,
) -> Answer {
    error.offer(CUgraphNode::from_key(0));
    if size > 0 {
        log.offer(0);
    }
    instantiate(out, graph, 0).map(|_| ())
}
pub use cuGraphInstantiate as cuGraphInstantiate_v2;

pub fn cuGraphInstantiateWithParams(
    call: Call,
    out: Out<CUgraphExec>,
    graph: CUgraph,
    params_out: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> Answer {
    let mut params = params_out.get()?;
    let made = instantiate(out, graph, params.flags);
    params.hErrNode_out = CUgraphNode::from_key(0);
    params.result_out = match made {
        Ok(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
        Err(_) if has_unused(&begin_free()?.1, graph.key()) => {
            CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED
        }
        Err(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
    };
    params_out.put(params)?;
    let key = made?;
    if params.flags & UPLOAD != 0 {
        return cuGraphUpload(call, CUgraphExec::from_key(key), params.hUploadStream);
    }
    Ok(())
}

pub fn cuGraphExecDestroy(_: Call, exec: CUgraphExec) -> Answer {
    let (_, mut state) = begin_free()?;
    state.execs.remove(exec.key()).map(|_| ())
}

pub fn cuGraphExecGetFlags(_: Call, exec: CUgraphExec, flags: Out<cuuint64_t>) -> Answer {
    let (_, state) = begin_free()?;
    flags.put(state.execs.of(exec)?.flags)
}

/// Local memory of the graph's kernels.
fn reserve_local(
    driver: &DriverState,
    state: &mut State,
    context: u64,
    nodes: &[(u64, NodeKind)],
) -> Answer {
    let local = |kind: &NodeKind| match kind {
        NodeKind::Work(Task::Kernel(launch)) => {
            state.functions.get(launch.function).map_or(0, |function| function.entry.local_bytes)
        }
        _ => 0,
    };
    let most = nodes.iter().map(|(_, kind)| local(kind)).max().unwrap_or(0);
    super::context::reserve_local(driver, state, context, most)
}

pub fn cuGraphLaunch(call: Call, exec: CUgraphExec, stream: CUstream) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    if exec.key() == 0 {
        return Err(INVALID_VALUE);
    }
    let found = state.execs.of(exec)?;
    let (nodes, flags, disabled) = (found.graph_nodes.clone(), found.flags, found.disabled.clone());
    let context = state.streams.get(key)?.context;
    if state.streams.get(key)?.capture != 0 {
        if nodes.iter().any(|(_, kind)| kind.is_conditional()) {
            return Err(NOT_SUPPORTED);
        }
        let tasks = tasks(&nodes, &disabled);
        return capture::record(&mut state, key, Task::Series(Arc::new(tasks))).map(|_| ());
    }
    let ends = ends(&nodes);
    for (_, address, _) in &ends.left {
        if state.space.at(*address).is_none() {
            continue;
        }
        // A free behind the last run may still be under way.
        let submitted = state.streams.get(key)?.submitted;
        state = super::worker::wait_for(driver, state, (key, submitted));
        if state.space.at(*address).is_some() {
            if flags & AUTO_FREE_ON_LAUNCH == 0 {
                return Err(INVALID_VALUE);
            }
            graph_memory::free(&mut state, *address)?;
        }
    }
    reserve_local(driver, &mut state, context, &nodes)?;
    graph_memory::attach(driver, &mut state, exec.key(), key)?;
    enqueue(driver, &mut state, key, Task::Series(Arc::new(tasks(&nodes, &disabled))))?;
    graph_memory::occupy(&mut state, exec.key(), key)?;
    for (device, address, bytes) in ends.left {
        graph_memory::hold(&mut state, exec.key(), device, address, bytes)?;
    }
    if ends.freed.is_empty() {
        return Ok(());
    }
    enqueue(driver, &mut state, key, Task::Release(Arc::new(ends.freed)))
}

pub fn cuGraphUpload(call: Call, exec: CUgraphExec, stream: CUstream) -> Answer {
    let (driver, mut state, key) = resolved(call, stream)?;
    if state.streams.get(key)?.capture != 0 {
        capture::invalidate_stream(&mut state, key);
        return Err(CAPTURE_UNSUPPORTED);
    }
    // Allocations that the last launch has left are there.
    let left = ends(&state.execs.of(exec)?.graph_nodes).left;
    if left.iter().all(|(_, address, _)| state.space.at(*address).is_none()) {
        graph_memory::attach(driver, &mut state, exec.key(), key)?;
    }
    enqueue(driver, &mut state, key, Task::Empty)?;
    graph_memory::occupy(&mut state, exec.key(), key)
}

// ---- changing an executable ----

fn replace(
    exec: CUgraphExec,
    node: CUgraphNode,
    make: impl FnOnce(&mut State) -> Answer<NodeKind>,
) -> Answer {
    let (_, mut state) = begin_free()?;
    state.execs.of(exec)?;
    let kind = make(&mut state)?;
    let nodes = &mut state.execs.of_mut(exec)?.graph_nodes;
    let slot = nodes.iter_mut().find(|(key, _)| *key == node.key()).ok_or(INVALID_VALUE)?;
    slot.1 = kind;
    Ok(())
}

pub fn cuGraphExecKernelNodeSetParams(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer {
    replace(exec, node, |state| kernel_v1(state, params))
}

pub fn cuGraphExecKernelNodeSetParams_v2(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Answer {
    replace(exec, node, |state| kernel_v2(state, params))
}

pub fn cuGraphExecMemcpyNodeSetParams(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_MEMCPY3D>,
    _: CUcontext,
) -> Answer {
    replace(exec, node, |state| memcpy(state, params))
}

pub fn cuGraphExecMemsetNodeSetParams(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
    _: CUcontext,
) -> Answer {
    replace(exec, node, |state| memset(state, &params.get()?))
}

pub fn cuGraphExecHostNodeSetParams(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> Answer {
    replace(exec, node, |_| host(params.given()?.function()))
}

pub fn cuGraphNodeSetEnabled(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: c_uint,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let disabled = &mut state.execs.of_mut(exec)?.disabled;
    disabled.retain(|key| *key != node.key());
    if enabled == 0 {
        disabled.push(node.key());
    }
    Ok(())
}

pub fn cuGraphNodeGetEnabled(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: Out<c_uint>,
) -> Answer {
    let (_, state) = begin_free()?;
    enabled.put(c_uint::from(!state.execs.of(exec)?.disabled.contains(&node.key())))
}

/// Whether two nodes are of one kind.
fn is_same_kind(old: &NodeKind, new: &NodeKind) -> bool {
    use core::mem::discriminant;
    match (old, new) {
        (NodeKind::Work(old), NodeKind::Work(new)) => discriminant(old) == discriminant(new),
        (
            NodeKind::Branches { choice: old, lengths: before, .. },
            NodeKind::Branches { choice: new, lengths: after, .. },
        ) => old == new && before == after,
        (old, new) => discriminant(old) == discriminant(new),
    }
}

/// Takes over a graph's parameters; the result the driver names, 0 for success.
fn update(exec: CUgraphExec, graph: CUgraph) -> Answer<u32> {
    let (_, mut state) = begin_free()?;
    let mut nodes = Vec::new();
    flatten(&state, graph.key(), &mut nodes)?;
    let old = &state.execs.of(exec)?.graph_nodes;
    if old.len() != nodes.len() {
        // CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED.
        return Ok(2);
    }
    if !old.iter().zip(&nodes).all(|((_, old), (_, new))| is_same_kind(old, new)) {
        // CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED.
        return Ok(3);
    }
    let has_memory = |(_, kind): &(u64, NodeKind)| {
        matches!(kind, NodeKind::Allocate { .. } | NodeKind::Free { .. })
    };
    if nodes.iter().any(has_memory) {
        // CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED.
        return Ok(6);
    }
    let exec = state.execs.of_mut(exec)?;
    for (slot, (_, kind)) in exec.graph_nodes.iter_mut().zip(nodes) {
        slot.1 = kind;
    }
    Ok(0)
}

fn updated(result: u32) -> Answer {
    if result == 0 { Ok(()) } else { Err(GRAPH_EXEC_UPDATE_FAILURE) }
}

pub fn cuGraphExecUpdate(
    _: Call,
    exec: CUgraphExec,
    graph: CUgraph,
    error: Out<CUgraphNode>,
    result_out: Out<CUgraphExecUpdateResult>,
) -> Answer {
    let result = update(exec, graph)?;
    error.offer(CUgraphNode::from_key(0));
    result_out.offer(CUgraphExecUpdateResult(result));
    updated(result)
}

pub fn cuGraphExecUpdate_v2(
    _: Call,
    exec: CUgraphExec,
    graph: CUgraph,
    out: Out<CUgraphExecUpdateResultInfo>,
) -> Answer {
    let result = update(exec, graph)?;
    out.offer(CUgraphExecUpdateResultInfo {
        result: CUgraphExecUpdateResult(result),
        errorNode: CUgraphNode::from_key(0),
        errorFromNode: CUgraphNode::from_key(0),
    });
    updated(result)
}

pub fn cuGraphExecChildGraphNodeSetParams(
    _: Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    child: CUgraph,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let NodeKind::Child { graph } = state.nodes.of(node)?.kind else { return Err(INVALID_VALUE) };
    let (mut old, mut new) = (Vec::new(), Vec::new());
    flatten(&state, graph, &mut old)?;
    let copy = clone_graph(&mut state, child.key(), true)?;
    flatten(&state, copy, &mut new)?;
    destroy_graph(&mut state, copy)?;
    if old.len() != new.len() {
        return Err(INVALID_VALUE);
    }
    let nodes = &mut state.execs.of_mut(exec)?.graph_nodes;
    for ((key, _), (_, kind)) in old.into_iter().zip(new) {
        if let Some(slot) = nodes.iter_mut().find(|(own, _)| *own == key) {
            slot.1 = kind;
        }
    }
    Ok(())
}
