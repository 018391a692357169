//! Contents of a graph: its nodes, their types and their order, and changes of the order.

use core::ffi::c_uint;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::graph::destroy_inner;
use super::objects::graph::{Node, NodeKind};
use super::objects::task::Task;
use super::state::{State, begin_free};
use crate::sys::driver::{Answer, Handle, In, InArray, Out, OutArray, Text};
use crate::sys::driver_given::location;

type Nodes<'a> = InArray<'a, CUgraphNode>;
type OutNodes<'a> = OutArray<'a, CUgraphNode>;

/// Answers a list the way the driver does: its length, or as much as fits with nulls after it.
fn put_list(list: &[u64], out: OutNodes, count: Out<usize>) -> Answer {
    count.check()?;
    if out.is_null() {
        return count.put(list.len());
    }
    let capacity = out.length();
    for index in 0..capacity {
        out.put(index, CUgraphNode::from_key(list.get(index).copied().unwrap_or(0)))?;
    }
    count.put(list.len().min(capacity))
}

macro_rules! list_calls {
    ($($name:ident($handle:ident: $ty:ty) = $list:expr;)*) => {$(
        pub fn $name(_: Call, $handle: $ty, out: OutNodes, count: Out<usize>) -> Answer {
            let list: fn(&State, $ty) -> Answer<Vec<u64>> = $list;
            let (_, state) = begin_free()?;
            put_list(&list(&state, $handle)?, out, count)
        }
    )*};
}

list_calls! {
    cuGraphGetNodes(graph: CUgraph) = |state, graph| Ok(state.graphs.of(graph)?.nodes.clone());
    cuGraphGetRootNodes(graph: CUgraph) =
        |state, graph| nodes_that(state, graph.key(), |node| node.after.is_empty());
    cuGraphNodeGetDependencies(node: CUgraphNode) =
        |state, node| Ok(state.nodes.of(node)?.after.clone());
    cuGraphNodeGetDependentNodes(node: CUgraphNode) = |state, node| {
        let graph = state.nodes.of(node)?.graph;
        nodes_that(state, graph, |other| other.after.contains(&node.key()))
    };
}

/// The nodes of a graph for which `is` holds.
fn nodes_that(state: &State, graph: u64, is: impl Fn(&Node) -> bool) -> Answer<Vec<u64>> {
    let all = state.graphs.get(graph)?.nodes.iter().copied();
    Ok(all.filter(|key| state.nodes.get(*key).is_ok_and(&is)).collect())
}

pub fn cuGraphGetEdges(
    _: Call,
    graph: CUgraph,
    from: OutNodes,
    to: OutNodes,
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
    put_list(&edges.0, from, count)?;
    if !to.is_null() {
        put_list(&edges.1, to, count)?;
    }
    Ok(())
}

/// Calls that answer data of edges as well, of which there is none.
macro_rules! with_edge_data {
    ($($name:ident = $base:ident($($argument:ident: $ty:ty),*);)*) => {$(
        pub fn $name(
            call: Call,
            $($argument: $ty,)*
            _: Out<CUgraphEdgeData>,
            count: Out<usize>,
        ) -> Answer {
            $base(call, $($argument,)* count)
        }
    )*};
}

with_edge_data! {
    cuGraphGetEdges_v2 = cuGraphGetEdges(graph: CUgraph, from: OutNodes, to: OutNodes);
    cuGraphNodeGetDependencies_v2 = cuGraphNodeGetDependencies(node: CUgraphNode, out: OutNodes);
    cuGraphNodeGetDependentNodes_v2 =
        cuGraphNodeGetDependentNodes(node: CUgraphNode, out: OutNodes);
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
        NodeKind::Conditional { .. } | NodeKind::Branches { .. } => 13,
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
    let place = location(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, device);
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

/// Nodes and edges of a graph with memory nodes are there to stay.
fn refuse_kept(state: &State, node: CUgraphNode) -> Answer {
    let graph = state.graphs.get(state.nodes.of(node)?.graph)?;
    if graph.memory.is_empty() { Ok(()) } else { Err(NOT_SUPPORTED) }
}

pub fn cuGraphDestroyNode(_: Call, node: CUgraphNode) -> Answer {
    let (_, mut state) = begin_free()?;
    refuse_kept(&state, node)?;
    let gone = state.nodes.remove(node.key())?;
    destroy_inner(&mut state, &gone.kind)?;
    let key = node.key();
    state.graphs.get_mut(gone.graph)?.nodes.retain(|other| *other != key);
    for (_, other) in state.nodes.iter_mut() {
        other.after.retain(|before| *before != key);
    }
    Ok(())
}

fn edges(from: Nodes, to: Nodes, add: bool) -> Answer {
    let (_, mut state) = begin_free()?;
    for (before, node) in from.list()?.into_iter().zip(to.list()?) {
        state.nodes.of(before)?;
        if !add {
            refuse_kept(&state, node)?;
        }
        let after = &mut state.nodes.of_mut(node)?.after;
        match (add, after.contains(&before.key())) {
            (true, false) => after.push(before.key()),
            (false, true) => after.retain(|key| *key != before.key()),
            _ => return Err(INVALID_VALUE),
        }
    }
    Ok(())
}

macro_rules! edge_calls {
    ($($name:ident$(($data:ty))?: $add:literal;)*) => {$(
        pub fn $name(_: Call, _: CUgraph, from: Nodes, to: Nodes, $(_: $data,)? _: usize) -> Answer {
            edges(from, to, $add)
        }
    )*};
}

edge_calls! {
    cuGraphAddDependencies: true;
    cuGraphAddDependencies_v2(In<CUgraphEdgeData>): true;
    cuGraphRemoveDependencies: false;
    cuGraphRemoveDependencies_v2(In<CUgraphEdgeData>): false;
}

pub fn cuGraphDebugDotPrint(_: Call, graph: CUgraph, path: Text, _flags: c_uint) -> Answer {
    let (_, state) = begin_free()?;
    let mut text = String::from("digraph {\n");
    for node in &state.graphs.of(graph)?.nodes {
        for before in &state.nodes.get(*node)?.after {
            text.push_str(&format!("  n{before:x} -> n{node:x};\n"));
        }
    }
    text.push_str("}\n");
    let path = path.read()?;
    std::fs::write(path, text).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)
}

pub fn cuGraphChildGraphNodeGetGraph(_: Call, node: CUgraphNode, out: Out<CUgraph>) -> Answer {
    let (_, state) = begin_free()?;
    match state.nodes.of(node)?.kind {
        NodeKind::Child { graph } => out.put(CUgraph::from_key(graph)),
        _ => Err(INVALID_VALUE),
    }
}
