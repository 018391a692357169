//! Graphs: nodes, their order, and what is known of them.
//!
//! Promises: a graph is data, run only through an executable made of it (see [`super::exec`]);
//! an allocation node's address is fixed when the node is made and its memory is taken at launch.
//! Conditional, semaphore and batch nodes are not simulated.

use core::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::kernels::Launch;
use super::launch::{Shape, prepare};
use super::space::{GRANULE_BYTES, round_up};
use super::state::{State, begin_free};
use super::task::{FillShape, Task};
use crate::sys::driver::{Address, Answer, Handle, In, Out, call_host};
use crate::sys::driver_unions as unions;

/// What a node does.
#[derive(Clone)]
pub(crate) enum NodeKind {
    Empty,
    Work(Task),
    Allocate { device: i32, bytes: u64, address: u64 },
    Free { address: u64 },
    Child { graph: u64 },
}

/// A node.
pub(crate) struct Node {
    pub(crate) graph: u64,
    pub(crate) kind: NodeKind,
    pub(crate) after: Vec<u64>,
    /// The node this one is a copy of.
    pub(crate) original: u64,
}

/// A graph.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<u64>,
    /// Child graphs belong to their nodes.
    is_child: bool,
    user_objects: Vec<(u64, u32)>,
}

/// An executable graph; see [`super::exec`].
pub(crate) struct Exec {
    pub(crate) graph: u64,
    pub(crate) graph_nodes: Vec<(u64, NodeKind)>,
    pub(crate) disabled: Vec<u64>,
    pub(crate) flags: u64,
}

/// A program's object that graphs keep alive.
pub(crate) struct UserObject {
    data: Address,
    destroy: CUhostFn,
    references: u64,
}

/// Adds a node behind `after`.
pub(crate) fn add_node(
    state: &mut State,
    graph: u64,
    after: Vec<u64>,
    kind: NodeKind,
) -> Answer<u64> {
    state.graphs.get(graph)?;
    for node in &after {
        if state.nodes.get(*node).map_err(|_| INVALID_VALUE)?.graph != graph {
            return Err(INVALID_VALUE);
        }
    }
    let node = state.nodes.insert(Node { graph, kind, after, original: 0 });
    state.graphs.get_mut(graph)?.nodes.push(node);
    Ok(node)
}

/// Addresses for an allocation node.
pub(crate) fn reserve_allocation(state: &mut State, bytes: u64) -> Answer<u64> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let reserved = round_up(bytes, GRANULE_BYTES)?;
    let address = state.space.reserve(reserved, 0, 0)?;
    state.graph_memory.insert(address, bytes);
    Ok(address)
}

/// A graph's nodes, each after those it depends on.
pub(crate) fn in_order(state: &State, graph: u64) -> Answer<Vec<u64>> {
    let nodes = &state.graphs.get(graph)?.nodes;
    let mut order: Vec<u64> = Vec::with_capacity(nodes.len());
    while order.len() < nodes.len() {
        let ready = |node: &&u64| {
            !order.contains(node)
                && state.nodes.get(**node).is_ok_and(|n| n.after.iter().all(|b| order.contains(b)))
        };
        let next: Vec<u64> = nodes.iter().filter(ready).copied().collect();
        if next.is_empty() {
            return Err(INVALID_VALUE);
        }
        order.extend(next);
    }
    Ok(order)
}

/// Copies a graph, child graphs included.
pub(crate) fn clone_graph(state: &mut State, graph: u64, is_child: bool) -> Answer<u64> {
    let order = in_order(state, graph)?;
    let copy = state.graphs.insert(Graph { is_child, ..Graph::default() });
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    for node in order {
        let original = state.nodes.get(node)?;
        let moved = |before: &u64| pairs.iter().find(|(old, _)| old == before).map(|(_, new)| *new);
        let after = original.after.iter().filter_map(moved).collect();
        let kind = match original.kind.clone() {
            NodeKind::Child { graph } => {
                NodeKind::Child { graph: clone_graph(state, graph, true)? }
            }
            // Memory nodes have one address and one owner.
            NodeKind::Allocate { .. } | NodeKind::Free { .. } => return Err(NOT_SUPPORTED),
            other => other,
        };
        let made = add_node(state, copy, after, kind)?;
        state.nodes.get_mut(made)?.original = node;
        pairs.push((node, made));
    }
    Ok(copy)
}

/// Ends a graph and the graphs inside it.
pub(crate) fn destroy_graph(state: &mut State, graph: u64) -> Answer {
    let gone = state.graphs.remove(graph)?;
    for node in gone.nodes {
        if let Ok(Node { kind: NodeKind::Child { graph }, .. }) = state.nodes.remove(node) {
            destroy_graph(state, graph)?;
        }
    }
    for (object, count) in gone.user_objects {
        release_object(state, object, count)?;
    }
    Ok(())
}

pub fn cuGraphCreate(_: Call, out: Out<CUgraph>, flags: c_uint) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let key = state.graphs.insert(Graph::default());
    out.put(CUgraph::from_key(key))
}

pub fn cuGraphDestroy(_: Call, graph: CUgraph) -> Answer {
    let (_, mut state) = begin_free()?;
    if state.graphs.of(graph)?.is_child {
        return Err(INVALID_VALUE);
    }
    destroy_graph(&mut state, graph.key())
}

pub fn cuGraphClone(_: Call, out: Out<CUgraph>, graph: CUgraph) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    let copy = clone_graph(&mut state, graph.key(), false)?;
    out.put(CUgraph::from_key(copy))
}

pub fn cuGraphNodeFindInClone(
    _: Call,
    out: Out<CUgraphNode>,
    node: CUgraphNode,
    copy: CUgraph,
) -> Answer {
    let (_, state) = begin_free()?;
    let nodes = &state.graphs.of(copy)?.nodes;
    let same = |key: &&u64| state.nodes.get(**key).is_ok_and(|n| n.original == node.key());
    out.put(CUgraphNode::from_key(*nodes.iter().find(same).ok_or(INVALID_VALUE)?))
}

// ---- adding nodes ----

type After = In<CUgraphNode>;

fn add(
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    make: impl FnOnce(&mut State) -> Answer<NodeKind>,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    state.graphs.of(graph).map_err(|_| INVALID_VALUE)?;
    let after = after.list(count)?.into_iter().map(Handle::key).collect();
    let kind = make(&mut state)?;
    let node = add_node(&mut state, graph.key(), after, kind)?;
    out.put(CUgraphNode::from_key(node))
}

/// A kernel node's work.
pub(crate) fn kernel(
    state: &mut State,
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer<NodeKind> {
    let shape = Shape { grid, block, shared_bytes };
    let launch = prepare(state, function, shape, Out::of(params), Out::of(extra))?;
    Ok(NodeKind::Work(Task::Kernel(Arc::new(launch))))
}

macro_rules! kernel_of {
    ($state:expr, $p:expr, $function:expr) => {
        kernel(
            $state,
            $function,
            [$p.gridDimX, $p.gridDimY, $p.gridDimZ],
            [$p.blockDimX, $p.blockDimY, $p.blockDimZ],
            $p.sharedMemBytes,
            $p.kernelParams,
            $p.extra,
        )
    };
}

/// The function of a node's parameters: a function, or a kernel.
fn chosen(function: CUfunction, kernel: CUkernel) -> CUfunction {
    if function.key() != 0 { function } else { CUfunction::from_key(kernel.key()) }
}

pub(crate) fn kernel_v1(
    state: &mut State,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer<NodeKind> {
    let params = params.get()?;
    kernel_of!(state, params, params.func)
}

pub(crate) fn kernel_v2(
    state: &mut State,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Answer<NodeKind> {
    let params = params.get()?;
    kernel_of!(state, params, chosen(params.func, params.kern))
}

pub(crate) fn memcpy(state: &State, params: In<CUDA_MEMCPY3D>) -> Answer<NodeKind> {
    Ok(NodeKind::Work(super::copy::task_3d(state, &params.get()?)?))
}

pub(crate) fn memset(state: &State, p: &CUDA_MEMSET_NODE_PARAMS) -> Answer<NodeKind> {
    if !matches!(p.elementSize, 1 | 2 | 4) {
        return Err(INVALID_VALUE);
    }
    let shape = FillShape {
        at: p.dst,
        pitch: p.pitch as u64,
        value: p.value,
        element_bytes: p.elementSize,
        width: p.width as u64,
        height: p.height as u64,
    };
    // Memory of an allocation node exists only while the graph runs.
    if state.space.find(p.dst).is_some() {
        super::memset::check(state, &shape)?;
    }
    Ok(NodeKind::Work(Task::Fill(shape)))
}

pub(crate) fn host(function: CUhostFn, data: *mut c_void) -> Answer<NodeKind> {
    if function.is_none() {
        return Err(INVALID_VALUE);
    }
    Ok(NodeKind::Work(Task::Host(function, Address(data.addr()))))
}

fn event(state: &State, event: CUevent, waits: bool) -> Answer<NodeKind> {
    state.events.of(event)?;
    let key = event.key();
    Ok(NodeKind::Work(if waits { Task::AwaitEvent(key) } else { Task::MarkEvent(key) }))
}

fn allocation(state: &mut State, properties: &CUmemPoolProps, bytes: usize) -> Answer<NodeKind> {
    let device = unions::location_id(&properties.location);
    state.device(device).map_err(|_| INVALID_VALUE)?;
    let address = reserve_allocation(state, bytes as u64)?;
    Ok(NodeKind::Allocate { device, bytes: bytes as u64, address })
}

pub fn cuGraphAddEmptyNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
) -> Answer {
    add(out, graph, after, count, |_| Ok(NodeKind::Empty))
}

pub fn cuGraphAddKernelNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer {
    add(out, graph, after, count, |state| kernel_v1(state, params))
}

pub fn cuGraphAddKernelNode_v2(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Answer {
    add(out, graph, after, count, |state| kernel_v2(state, params))
}

pub fn cuGraphAddMemcpyNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params: In<CUDA_MEMCPY3D>,
    _: CUcontext,
) -> Answer {
    add(out, graph, after, count, |state| memcpy(state, params))
}

pub fn cuGraphAddMemsetNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
    _: CUcontext,
) -> Answer {
    add(out, graph, after, count, |state| memset(state, &params.get()?))
}

pub fn cuGraphAddHostNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> Answer {
    add(out, graph, after, count, |_| {
        let params = params.get()?;
        host(params.fn_, params.userData)
    })
}

pub fn cuGraphAddChildGraphNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    child: CUgraph,
) -> Answer {
    add(out, graph, after, count, |state| {
        Ok(NodeKind::Child { graph: clone_graph(state, child.key(), true)? })
    })
}

pub fn cuGraphAddEventRecordNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    which: CUevent,
) -> Answer {
    add(out, graph, after, count, |state| event(state, which, false))
}

pub fn cuGraphAddEventWaitNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    which: CUevent,
) -> Answer {
    add(out, graph, after, count, |state| event(state, which, true))
}

pub fn cuGraphAddMemAllocNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params_out: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Answer {
    add(out, graph, after, count, |state| {
        let mut params = params_out.get()?;
        let kind = allocation(state, &params.poolProps, params.bytesize)?;
        if let NodeKind::Allocate { address, .. } = &kind {
            params.dptr = *address;
        }
        params_out.put(params)?;
        Ok(kind)
    })
}

pub fn cuGraphAddMemFreeNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    address: CUdeviceptr,
) -> Answer {
    add(out, graph, after, count, |_| Ok(NodeKind::Free { address }))
}

pub fn cuGraphAddBatchMemOpNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Answer {
    add(out, graph, after, count, |state| {
        let params = params.get()?;
        let list = In::of(params.paramArray);
        Ok(NodeKind::Work(super::event::batch(state, list, params.count)?))
    })
}

pub fn cuGraphAddNode(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    count: usize,
    params_out: Out<CUgraphNodeParams>,
) -> Answer {
    add(out, graph, after, count, |state| generic(state, params_out))
}

pub fn cuGraphAddNode_v2(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    _edges: In<CUgraphEdgeData>,
    count: usize,
    params_out: Out<CUgraphNodeParams>,
) -> Answer {
    add(out, graph, after, count, |state| generic(state, params_out))
}

/// A node of the parameters that name their own type.
pub(crate) fn generic(state: &mut State, params_out: Out<CUgraphNodeParams>) -> Answer<NodeKind> {
    let mut params = params_out.get()?;
    match params.type_.0 as u32 {
        0 => {
            let p = unions::node_kernel(&params);
            kernel_of!(state, p, chosen(p.func, p.kern))
        }
        1 => {
            let copy = unions::node_memcpy(&params).copyParams;
            Ok(NodeKind::Work(super::copy::task_3d(state, &copy)?))
        }
        2 => {
            let p = unions::node_memset(&params);
            let (dst, pitch, value) = (p.dst, p.pitch, p.value);
            let (elementSize, width, height) = (p.elementSize, p.width, p.height);
            memset(
                state,
                &CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height },
            )
        }
        3 => {
            let p = unions::node_host(&params);
            host(p.fn_, p.userData)
        }
        4 => {
            let child = unions::node_graph(&params).key();
            Ok(NodeKind::Child { graph: clone_graph(state, child, true)? })
        }
        5 => Ok(NodeKind::Empty),
        6 => event(state, unions::node_event(&params), true),
        7 => event(state, unions::node_event(&params), false),
        10 => {
            let mut p = unions::node_alloc(&params);
            let kind = allocation(state, &p.poolProps, p.bytesize)?;
            if let NodeKind::Allocate { address, .. } = &kind {
                p.dptr = *address;
            }
            unions::set_node_alloc(&mut params, p);
            params_out.put(params)?;
            Ok(kind)
        }
        11 => Ok(NodeKind::Free { address: unions::node_free(&params) }),
        _ => {
            crate::unsimulated::record("cuGraphAddNode of this type");
            Err(NOT_SUPPORTED)
        }
    }
}

// ---- questions ----

/// Answers a list the way the driver does: its length, or as much as fits with nulls after it.
fn put_list(list: &[u64], out: Out<CUgraphNode>, count: Out<usize>) -> Answer {
    count.check()?;
    if out.is_null() {
        return count.put(list.len());
    }
    let capacity = count.get()?;
    for index in 0..capacity {
        out.put_at(index, CUgraphNode::from_key(list.get(index).copied().unwrap_or(0)));
    }
    count.put(list.len().min(capacity))
}

pub fn cuGraphGetNodes(
    _: Call,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let (_, state) = begin_free()?;
    put_list(&state.graphs.of(graph)?.nodes, nodes, count)
}

pub fn cuGraphGetRootNodes(
    _: Call,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let (_, state) = begin_free()?;
    let all = &state.graphs.of(graph)?.nodes;
    let is_root = |node: &&u64| state.nodes.get(**node).is_ok_and(|node| node.after.is_empty());
    let roots: Vec<u64> = all.iter().filter(is_root).copied().collect();
    put_list(&roots, nodes, count)
}

pub fn cuGraphGetEdges(
    _: Call,
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let (_, state) = begin_free()?;
    let mut edges: (Vec<u64>, Vec<u64>) = Default::default();
    for node in &state.graphs.of(graph)?.nodes {
        for before in &state.nodes.get(*node)?.after {
            edges.0.push(*before);
            edges.1.push(*node);
        }
    }
    let capacity = count.get()?;
    put_list(&edges.0, from, count)?;
    if !to.is_null() {
        count.put(capacity)?;
        put_list(&edges.1, to, count)?;
    }
    Ok(())
}

pub fn cuGraphGetEdges_v2(
    call: Call,
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    _edges: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> Answer {
    cuGraphGetEdges(call, graph, from, to, count)
}

pub fn cuGraphNodeGetDependencies(
    _: Call,
    node: CUgraphNode,
    out: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let (_, state) = begin_free()?;
    put_list(&state.nodes.of(node)?.after, out, count)
}

pub fn cuGraphNodeGetDependencies_v2(
    call: Call,
    node: CUgraphNode,
    out: Out<CUgraphNode>,
    _edges: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> Answer {
    cuGraphNodeGetDependencies(call, node, out, count)
}

pub fn cuGraphNodeGetDependentNodes(
    _: Call,
    node: CUgraphNode,
    out: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let (_, state) = begin_free()?;
    let graph = state.nodes.of(node)?.graph;
    let all = &state.graphs.get(graph)?.nodes;
    let follows =
        |other: &&u64| state.nodes.get(**other).is_ok_and(|n| n.after.contains(&node.key()));
    let list: Vec<u64> = all.iter().filter(follows).copied().collect();
    put_list(&list, out, count)
}

pub fn cuGraphNodeGetDependentNodes_v2(
    call: Call,
    node: CUgraphNode,
    out: Out<CUgraphNode>,
    _edges: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> Answer {
    cuGraphNodeGetDependentNodes(call, node, out, count)
}

pub fn cuGraphNodeGetType(_: Call, node: CUgraphNode, out: Out<CUgraphNodeType>) -> Answer {
    let (_, state) = begin_free()?;
    out.put(CUgraphNodeType(match &state.nodes.of(node)?.kind {
        NodeKind::Work(Task::Kernel(_)) => 0,
        NodeKind::Work(Task::Copy(_)) => 1,
        NodeKind::Work(Task::Fill(_)) => 2,
        NodeKind::Work(Task::Host(..)) => 3,
        NodeKind::Child { .. } => 4,
        NodeKind::Work(Task::AwaitEvent(_)) => 6,
        NodeKind::Work(Task::MarkEvent(_) | Task::Mark(_)) => 7,
        NodeKind::Allocate { .. } => 10,
        NodeKind::Free { .. } => 11,
        NodeKind::Work(Task::Series(_) | Task::WaitValue(_) | Task::WriteValue(_)) => 12,
        NodeKind::Empty | NodeKind::Work(_) => 5,
    }))
}

pub fn cuGraphMemAllocNodeGetParams(
    _: Call,
    node: CUgraphNode,
    out: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Answer {
    let (_, state) = begin_free()?;
    let NodeKind::Allocate { device, bytes, address } = state.nodes.of(node)?.kind else {
        return Err(INVALID_VALUE);
    };
    let place = unions::location(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, device);
    out.put(CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType(0),
            location: place,
            win32SecurityAttributes: core::ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            gpuDirectRDMACapable: 0,
            reserved: [0; 53],
        },
        accessDescs: core::ptr::null(),
        accessDescCount: 0,
        bytesize: bytes as usize,
        dptr: address,
    })
}

pub fn cuGraphMemFreeNodeGetParams(_: Call, node: CUgraphNode, out: Out<CUdeviceptr>) -> Answer {
    let (_, state) = begin_free()?;
    match state.nodes.of(node)?.kind {
        NodeKind::Free { address } => out.put(address),
        _ => Err(INVALID_VALUE),
    }
}

fn kernel_of_node(state: &State, node: CUgraphNode) -> Answer<Arc<Launch>> {
    match &state.nodes.of(node)?.kind {
        NodeKind::Work(Task::Kernel(launch)) => Ok(Arc::clone(launch)),
        _ => Err(INVALID_VALUE),
    }
}

/// Shape and function only: the arguments were copied when the node was made.
pub fn cuGraphKernelNodeGetParams_v2(
    _: Call,
    node: CUgraphNode,
    out: Out<CUDA_KERNEL_NODE_PARAMS>,
) -> Answer {
    let (_, state) = begin_free()?;
    let launch = kernel_of_node(&state, node)?;
    out.put(CUDA_KERNEL_NODE_PARAMS {
        func: CUfunction::from_key(launch.function),
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.shared_bytes,
        kernelParams: core::ptr::null_mut(),
        extra: core::ptr::null_mut(),
        kern: CUkernel::from_key(0),
        ctx: CUcontext::from_key(0),
    })
}

fn replace(node: CUgraphNode, make: impl FnOnce(&mut State) -> Answer<NodeKind>) -> Answer {
    let (_, mut state) = begin_free()?;
    state.nodes.of(node)?;
    let kind = make(&mut state)?;
    state.nodes.of_mut(node)?.kind = kind;
    Ok(())
}

pub fn cuGraphKernelNodeSetParams(
    _: Call,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer {
    replace(node, |state| kernel_v1(state, params))
}

pub fn cuGraphKernelNodeSetParams_v2(
    _: Call,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Answer {
    replace(node, |state| kernel_v2(state, params))
}

pub fn cuGraphMemcpyNodeSetParams(_: Call, node: CUgraphNode, params: In<CUDA_MEMCPY3D>) -> Answer {
    replace(node, |state| memcpy(state, params))
}

pub fn cuGraphMemsetNodeSetParams(
    _: Call,
    node: CUgraphNode,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
) -> Answer {
    replace(node, |state| memset(state, &params.get()?))
}

pub fn cuGraphMemsetNodeGetParams(
    _: Call,
    node: CUgraphNode,
    out: Out<CUDA_MEMSET_NODE_PARAMS>,
) -> Answer {
    let (_, state) = begin_free()?;
    let NodeKind::Work(Task::Fill(shape)) = &state.nodes.of(node)?.kind else {
        return Err(INVALID_VALUE);
    };
    out.put(CUDA_MEMSET_NODE_PARAMS {
        dst: shape.at,
        pitch: shape.pitch as usize,
        value: shape.value,
        elementSize: shape.element_bytes,
        width: shape.width as usize,
        height: shape.height as usize,
    })
}

pub fn cuGraphHostNodeSetParams(
    _: Call,
    node: CUgraphNode,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> Answer {
    replace(node, |_| {
        let params = params.get()?;
        host(params.fn_, params.userData)
    })
}

pub fn cuGraphHostNodeGetParams(
    _: Call,
    node: CUgraphNode,
    out: Out<CUDA_HOST_NODE_PARAMS>,
) -> Answer {
    let (_, state) = begin_free()?;
    let NodeKind::Work(Task::Host(fn_, data)) = state.nodes.of(node)?.kind else {
        return Err(INVALID_VALUE);
    };
    out.put(CUDA_HOST_NODE_PARAMS { fn_, userData: data.pointer() })
}

pub fn cuGraphChildGraphNodeGetGraph(_: Call, node: CUgraphNode, out: Out<CUgraph>) -> Answer {
    let (_, state) = begin_free()?;
    match state.nodes.of(node)?.kind {
        NodeKind::Child { graph } => out.put(CUgraph::from_key(graph)),
        _ => Err(INVALID_VALUE),
    }
}

pub fn cuGraphDestroyNode(_: Call, node: CUgraphNode) -> Answer {
    let (_, mut state) = begin_free()?;
    let gone = state.nodes.remove(node.key())?;
    let key = node.key();
    state.graphs.get_mut(gone.graph)?.nodes.retain(|other| *other != key);
    for (_, other) in state.nodes.iter_mut() {
        other.after.retain(|before| *before != key);
    }
    Ok(())
}

fn edges(from: In<CUgraphNode>, to: In<CUgraphNode>, count: usize, add: bool) -> Answer {
    let (_, mut state) = begin_free()?;
    for (before, node) in from.list(count)?.into_iter().zip(to.list(count)?) {
        state.nodes.of(before)?;
        let after = &mut state.nodes.of_mut(node)?.after;
        match (add, after.contains(&before.key())) {
            (true, false) => after.push(before.key()),
            (false, true) => after.retain(|key| *key != before.key()),
            _ => return Err(INVALID_VALUE),
        }
    }
    Ok(())
}

pub fn cuGraphAddDependencies(_: Call, _: CUgraph, from: After, to: After, count: usize) -> Answer {
    edges(from, to, count, true)
}

pub fn cuGraphAddDependencies_v2(
    _: Call,
    _: CUgraph,
    from: After,
    to: After,
    _edges: In<CUgraphEdgeData>,
    count: usize,
) -> Answer {
    edges(from, to, count, true)
}

pub fn cuGraphRemoveDependencies(
    _: Call,
    _: CUgraph,
    from: After,
    to: After,
    count: usize,
) -> Answer {
    edges(from, to, count, false)
}

pub fn cuGraphRemoveDependencies_v2(
    _: Call,
    _: CUgraph,
    from: After,
    to: After,
    _edges: In<CUgraphEdgeData>,
    count: usize,
) -> Answer {
    edges(from, to, count, false)
}

pub fn cuGraphDebugDotPrint(_: Call, graph: CUgraph, path: In<c_char>, _flags: c_uint) -> Answer {
    let (_, state) = begin_free()?;
    let mut text = String::from("digraph {\n");
    for node in &state.graphs.of(graph)?.nodes {
        for before in &state.nodes.get(*node)?.after {
            text.push_str(&format!("  n{before:x} -> n{node:x};\n"));
        }
    }
    text.push_str("}\n");
    let path = Address(path.address()).text()?;
    std::fs::write(path, text).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)
}

// ---- user objects ----

pub fn cuUserObjectCreate(
    _: Call,
    out: Out<CUuserObject>,
    data: Address,
    destroy: CUhostFn,
    references: c_uint,
    flags: c_uint,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    if destroy.is_none() || references == 0 || flags != 1 {
        return Err(INVALID_VALUE);
    }
    let object = UserObject { data, destroy, references: u64::from(references) };
    let key = state.user_objects.insert(object);
    out.put(CUuserObject::from_key(key))
}

fn release_object(state: &mut State, object: u64, count: u32) -> Answer {
    let found = state.user_objects.get_mut(object)?;
    found.references = found.references.checked_sub(u64::from(count)).ok_or(INVALID_VALUE)?;
    if found.references == 0 {
        let gone = state.user_objects.remove(object)?;
        // The program's destructor runs in a thread of its own: it may not be called under the lock.
        let thread = std::thread::Builder::new().name("simgpu-destroy".to_owned());
        let run = move || super::call::in_host_function(|| call_host(gone.destroy, gone.data));
        thread.spawn(run).map_err(|_| OUT_OF_MEMORY)?;
    }
    Ok(())
}

pub fn cuUserObjectRetain(_: Call, object: CUuserObject, count: c_uint) -> Answer {
    let (_, mut state) = begin_free()?;
    state.user_objects.of_mut(object)?.references += u64::from(count);
    Ok(())
}

pub fn cuUserObjectRelease(_: Call, object: CUuserObject, count: c_uint) -> Answer {
    let (_, mut state) = begin_free()?;
    release_object(&mut state, object.key(), count)
}

pub fn cuGraphRetainUserObject(
    _: Call,
    graph: CUgraph,
    object: CUuserObject,
    count: c_uint,
    flags: c_uint,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let found = state.user_objects.of_mut(object)?;
    if flags & 1 == 0 {
        found.references += u64::from(count);
    }
    state.graphs.of_mut(graph)?.user_objects.push((object.key(), count));
    Ok(())
}

pub fn cuGraphReleaseUserObject(
    _: Call,
    graph: CUgraph,
    object: CUuserObject,
    count: c_uint,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let held = &mut state.graphs.of_mut(graph)?.user_objects;
    let at = held
        .iter()
        .position(|(key, n)| *key == object.key() && *n >= count)
        .ok_or(INVALID_VALUE)?;
    held[at].1 -= count;
    if held[at].1 == 0 {
        held.remove(at);
    }
    release_object(&mut state, object.key(), count)
}
