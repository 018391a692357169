//! Graphs: nodes, their order, and what is known of them.
//!
//! Promises: a graph is data, run only through an executable made of it (see [`super::exec`]);
//! an allocation node's address is fixed when the node is made and its memory is taken at launch.
//! Semaphore and batch nodes are not simulated.

use core::ffi::c_uint;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::graph_memory;
use super::objects::graph::{Graph, Node, NodeKind, UserObject};
use super::state::{State, begin_free};
use crate::sys::driver::{Address, Answer, Handle, Out};
use crate::sys::driver_functions::HostFunction;

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
    let freed = match kind {
        NodeKind::Free { address } => Some(address),
        _ => None,
    };
    let node = state.nodes.insert(Node { graph, kind, after, original: 0 });
    if let Some(address) = freed {
        graph_memory::freed(state, graph, address, node);
    }
    state.graphs.get_mut(graph)?.nodes.push(node);
    Ok(node)
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
            // Memory nodes have one address and one owner, and conditions one node.
            NodeKind::Allocate { .. } | NodeKind::Free { .. } => return Err(NOT_SUPPORTED),
            kind if kind.is_conditional() => return Err(NOT_SUPPORTED),
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
        if let Ok(node) = state.nodes.remove(node) {
            destroy_inner(state, &node.kind)?;
        }
    }
    for (object, count) in gone.user_objects {
        release_object(state, object, count)?;
    }
    Ok(())
}

/// Ends the graphs that belong to a node.
pub(crate) fn destroy_inner(state: &mut State, kind: &NodeKind) -> Answer {
    match kind {
        NodeKind::Child { graph } => destroy_graph(state, *graph),
        NodeKind::Conditional { bodies, .. } => {
            bodies.iter().try_for_each(|body| destroy_graph(state, *body))
        }
        _ => Ok(()),
    }
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

// ---- user objects ----

pub fn cuUserObjectCreate(
    _: Call,
    out: Out<CUuserObject>,
    _: Address,
    destroy: HostFunction,
    references: c_uint,
    flags: c_uint,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    if destroy.is_none() || references == 0 || flags != 1 {
        return Err(INVALID_VALUE);
    }
    let object = UserObject { destroy, references: u64::from(references) };
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
        let run = move || super::call::in_host_function(|| gone.destroy.call());
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
