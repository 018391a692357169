//! An executable's nodes in one list, and what a launch makes of it.
//!
//! Promises: a node follows all it depends on; a child graph's nodes stand in place of its node, and those of
//! bodies behind their conditional node, which says how many are whose. Does not run anything: see
//! [`super::exec`] and [`super::worker`].

use std::sync::Arc;

use super::conditional::may_be_in_a_body;
use super::error::*;
use super::graph::in_order;
use super::objects::graph::NodeKind;
use super::objects::task::{Branches, Task};
use super::state::State;
use crate::sys::driver::Answer;

/// The nodes of a graph in order, child graphs in place of their nodes and bodies behind theirs.
pub(crate) fn flatten(state: &State, graph: u64, into: &mut Vec<(u64, NodeKind)>) -> Answer {
    for key in in_order(state, graph)? {
        match &state.nodes.get(key)?.kind {
            NodeKind::Child { graph } => flatten(state, *graph, into)?,
            NodeKind::Conditional { condition, choice, bodies } => {
                let at = into.len();
                into.push((key, NodeKind::Empty));
                let lengths = bodies.iter().map(|body| flatten_body(state, *body, into));
                let lengths = lengths.collect::<Answer<_>>()?;
                let (condition, choice) = (Arc::clone(condition), *choice);
                into[at].1 = NodeKind::Branches { condition, choice, lengths };
            }
            kind => into.push((key, kind.clone())),
        }
    }
    Ok(())
}

/// A body's nodes; how many they are. Of a kind that it may not hold, the driver says when it makes the executable.
fn flatten_body(state: &State, body: u64, into: &mut Vec<(u64, NodeKind)>) -> Answer<usize> {
    let from = into.len();
    flatten(state, body, into)?;
    let may_be = |(_, kind): &(u64, NodeKind)| may_be_in_a_body(kind);
    if into[from..].iter().all(may_be) { Ok(into.len() - from) } else { Err(INVALID_VALUE) }
}

/// Allocations that a graph's nodes leave behind.
#[derive(Default)]
pub(crate) struct Ends {
    /// Its own that it does not free: device, address and bytes.
    pub(crate) left: Vec<(i32, u64, u64)>,
    /// Others' that it frees.
    pub(crate) freed: Vec<u64>,
}

pub(crate) fn ends(nodes: &[(u64, NodeKind)]) -> Ends {
    let mut ends = Ends::default();
    for (_, kind) in nodes {
        match kind {
            NodeKind::Allocate { device, bytes, address } => {
                ends.left.push((*device, *address, *bytes));
            }
            NodeKind::Free { address } => {
                match ends.left.iter().position(|(_, left, _)| left == address) {
                    Some(index) => drop(ends.left.swap_remove(index)),
                    None => ends.freed.push(*address),
                }
            }
            _ => {}
        }
    }
    ends
}

/// Tasks of a launch.
pub(crate) fn tasks(nodes: &[(u64, NodeKind)], disabled: &[u64]) -> Vec<Task> {
    let condition = |(_, kind): &(u64, NodeKind)| match kind {
        NodeKind::Branches { condition, .. } => Some(Arc::clone(condition)),
        _ => None,
    };
    let conditions: Vec<_> = nodes.iter().filter_map(condition).collect();
    let work = work(nodes, disabled);
    if conditions.is_empty() {
        return work;
    }
    [vec![Task::Assign(Arc::new(conditions))], work].concat()
}

/// The work of nodes in order, that of bodies within their node's.
fn work(mut nodes: &[(u64, NodeKind)], disabled: &[u64]) -> Vec<Task> {
    let mut made = Vec::new();
    while let Some(((key, kind), mut rest)) = nodes.split_first() {
        match kind {
            NodeKind::Work(task) if !disabled.contains(key) => made.push(task.clone()),
            NodeKind::Branches { condition, choice, lengths } => {
                let body = |length: &usize| {
                    let (body, behind) = rest.split_at(*length);
                    rest = behind;
                    work(body, disabled)
                };
                let bodies = lengths.iter().map(body).collect();
                let (condition, choice) = (Arc::clone(condition), *choice);
                made.push(Task::Branches(Arc::new(Branches { condition, choice, bodies })));
            }
            _ => {}
        }
        nodes = rest;
    }
    made
}
