//! Nodes of graphs: adding them, and their parameters.
//!
//! Promises: parameters are copied when a node is made or changed, as the driver does; the parameters
//! of a kernel node answer its shape and function, not its arguments.

use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::graph::{add_node, clone_graph};
use super::graph_memory;
use super::launch::{Shape, prepare, shape_of};
use super::objects::graph::{NodeKind, Spot};
use super::objects::launch::Launch;
use super::objects::task::{FillShape, Task};
use super::state::{State, begin_free};
use crate::sys::driver::{Answer, Handle, In, InArray, Out};
use crate::sys::driver_functions::HostFunction;
use crate::sys::driver_given::NodeParams;
use crate::sys::driver_untyped::Arguments;

type After<'a> = InArray<'a, CUgraphNode>;

fn add(
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    make: impl FnOnce(&mut State, Spot<'_>) -> Answer<NodeKind>,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    state.graphs.of(graph).map_err(|_| INVALID_VALUE)?;
    let after: Vec<u64> = after.list()?.into_iter().map(Handle::key).collect();
    let kind = make(&mut state, Spot { graph: graph.key(), after: &after })?;
    let node = add_node(&mut state, graph.key(), after, kind)?;
    out.put(CUgraphNode::from_key(node))
}

/// A kernel node's work.
fn kernel(
    state: &mut State,
    function: CUfunction,
    shape: Shape,
    arguments: Arguments,
) -> Answer<NodeKind> {
    let launch = prepare(state, function, shape, arguments)?;
    Ok(NodeKind::Work(Task::Kernel(Arc::new(launch))))
}

/// The function of a node's parameters: a function, or a kernel.
fn chosen(function: CUfunction, kernel: CUkernel) -> CUfunction {
    if function.key() != 0 { function } else { CUfunction::from_key(kernel.key()) }
}

pub(crate) fn kernel_v1(
    state: &mut State,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Answer<NodeKind> {
    let params = params.given()?;
    kernel(state, params.func, shape_of!(params), params.arguments())
}

pub(crate) fn kernel_v2(
    state: &mut State,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> Answer<NodeKind> {
    let params = params.given()?;
    let function = chosen(params.func, params.kern);
    kernel(state, function, shape_of!(params), params.arguments())
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

pub(crate) fn host(function: HostFunction) -> Answer<NodeKind> {
    if function.is_none() {
        return Err(INVALID_VALUE);
    }
    Ok(NodeKind::Work(Task::Host(function)))
}

fn event(state: &State, event: CUevent, waits: bool) -> Answer<NodeKind> {
    state.events.of(event)?;
    let key = event.key();
    Ok(NodeKind::Work(if waits { Task::AwaitEvent(key) } else { Task::MarkEvent(key) }))
}

fn allocation(state: &mut State, spot: Spot<'_>, device: i32, bytes: usize) -> Answer<NodeKind> {
    state.device(device).map_err(|_| INVALID_VALUE)?;
    let address = graph_memory::place(state, spot, device, bytes as u64)?;
    Ok(NodeKind::Allocate { device, bytes: bytes as u64, address })
}

macro_rules! add_calls {
    ($($name:ident($($argument:tt: $ty:ty),*) = $make:expr;)*) => {$(
        pub fn $name(
            _: Call,
            out: Out<CUgraphNode>,
            graph: CUgraph,
            after: After,
            _: usize,
            $($argument: $ty),*
        ) -> Answer {
            add(out, graph, after, $make)
        }
    )*};
}

add_calls! {
    cuGraphAddEmptyNode() = |_, _| Ok(NodeKind::Empty);
    cuGraphAddKernelNode(params: In<CUDA_KERNEL_NODE_PARAMS_v1>) =
        |state, _| kernel_v1(state, params);
    cuGraphAddKernelNode_v2(params: In<CUDA_KERNEL_NODE_PARAMS>) =
        |state, _| kernel_v2(state, params);
    cuGraphAddMemcpyNode(params: In<CUDA_MEMCPY3D>, _: CUcontext) =
        |state, _| memcpy(state, params);
    cuGraphAddMemsetNode(params: In<CUDA_MEMSET_NODE_PARAMS>, _: CUcontext) =
        |state, _| memset(state, &params.get()?);
    cuGraphAddHostNode(params: In<CUDA_HOST_NODE_PARAMS>) =
        |_, _| host(params.given()?.function());
    cuGraphAddChildGraphNode(child: CUgraph) = |state, _| {
        Ok(NodeKind::Child { graph: clone_graph(state, child.key(), true)? })
    };
    cuGraphAddEventRecordNode(which: CUevent) = |state, _| event(state, which, false);
    cuGraphAddEventWaitNode(which: CUevent) = |state, _| event(state, which, true);
    cuGraphAddMemAllocNode(params: Out<CUDA_MEM_ALLOC_NODE_PARAMS>) = |state, spot| {
        let asked = params.given()?;
        let mut answered = *asked;
        let kind = allocation(state, spot, asked.location_id(), asked.bytesize)?;
        if let NodeKind::Allocate { address, .. } = &kind {
            answered.dptr = *address;
        }
        params.put(answered)?;
        Ok(kind)
    };
    cuGraphAddMemFreeNode(address: CUdeviceptr) = |_, _| Ok(NodeKind::Free { address });
    cuGraphAddBatchMemOpNode(params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>) =
        |state, _| Ok(NodeKind::Work(super::event::batch(state, params.given()?.operations())?));
    cuGraphAddNode(params: Out<CUgraphNodeParams>) = |state, spot| generic(state, spot, params);
}

pub fn cuGraphAddNode_v2(
    _: Call,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    after: After,
    _edges: In<CUgraphEdgeData>,
    _: usize,
    params_out: Out<CUgraphNodeParams>,
) -> Answer {
    add(out, graph, after, |state, spot| generic(state, spot, params_out))
}

/// A node of the parameters that name their own type.
pub(crate) fn generic(
    state: &mut State,
    spot: Spot<'_>,
    params_out: Out<CUgraphNodeParams>,
) -> Answer<NodeKind> {
    let params = params_out.given()?;
    match params.node() {
        NodeParams::Kernel(p) => kernel(state, chosen(p.func, p.kern), shape_of!(p), p.arguments()),
        NodeParams::Copy(p) => Ok(NodeKind::Work(super::copy::task_3d(state, &p.copyParams)?)),
        NodeParams::Fill(p) => {
            let (dst, pitch, value) = (p.dst, p.pitch, p.value);
            let (elementSize, width, height) = (p.elementSize, p.width, p.height);
            let p = CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height };
            memset(state, &p)
        }
        NodeParams::Host(p) => host(p.function()),
        NodeParams::Child(child) => {
            Ok(NodeKind::Child { graph: clone_graph(state, child.key(), true)? })
        }
        NodeParams::Empty => Ok(NodeKind::Empty),
        NodeParams::Await(which) => event(state, which, true),
        NodeParams::Record(which) => event(state, which, false),
        NodeParams::Allocate(asked) => {
            let mut answered = *asked;
            let kind = allocation(state, spot, asked.location_id(), asked.bytesize)?;
            if let NodeKind::Allocate { address, .. } = &kind {
                answered.dptr = *address;
            }
            params_out.put(params.with_alloc(answered))?;
            Ok(kind)
        }
        NodeParams::Free(address) => Ok(NodeKind::Free { address }),
        NodeParams::Conditional(asked) => {
            let (kind, made) = super::conditional::node(state, spot, asked)?;
            params_out.put(params.with_conditional(made))?;
            Ok(kind)
        }
        NodeParams::Other => {
            crate::unsimulated::record("cuGraphAddNode of this type");
            Err(NOT_SUPPORTED)
        }
    }
}

// ---- parameters ----

fn kernel_of_node(state: &State, node: CUgraphNode) -> Answer<Arc<Launch>> {
    match &state.nodes.of(node)?.kind {
        NodeKind::Work(Task::Kernel(launch)) => Ok(Arc::clone(launch)),
        _ => Err(INVALID_VALUE),
    }
}

macro_rules! kernel_params {
    ($($name:ident: $params:ident $(, $unset:ident: $handle:ident)*;)*) => {$(
        /// Shape and function only: the arguments were copied when the node was made.
        pub fn $name(_: Call, node: CUgraphNode, out: Out<$params>) -> Answer {
            let (_, state) = begin_free()?;
            let launch = kernel_of_node(&state, node)?;
            let [gridDimX, gridDimY, gridDimZ] = launch.grid;
            let [blockDimX, blockDimY, blockDimZ] = launch.block;
            out.put($params {
                func: CUfunction::from_key(launch.function),
                gridDimX,
                gridDimY,
                gridDimZ,
                blockDimX,
                blockDimY,
                blockDimZ,
                sharedMemBytes: launch.shared_bytes,
                kernelParams: core::ptr::null_mut(),
                extra: core::ptr::null_mut(),
                $($unset: $handle::from_key(0),)*
            })
        }
    )*};
}

kernel_params! {
    cuGraphKernelNodeGetParams: CUDA_KERNEL_NODE_PARAMS_v1;
    cuGraphKernelNodeGetParams_v2: CUDA_KERNEL_NODE_PARAMS, kern: CUkernel, ctx: CUcontext;
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
    replace(node, |_| host(params.given()?.function()))
}

pub fn cuGraphHostNodeGetParams(
    _: Call,
    node: CUgraphNode,
    out: Out<CUDA_HOST_NODE_PARAMS>,
) -> Answer {
    let (_, state) = begin_free()?;
    let NodeKind::Work(Task::Host(function)) = state.nodes.of(node)?.kind else {
        return Err(INVALID_VALUE);
    };
    out.put(function.params())
}
