//! Conditional nodes: values that kernels set, and bodies that run as those values say.
//!
//! Promises: a value is looked at when the work before it has ended, for a loop each time its body has; a default is
//! assigned when a launch of the graph begins to run. A body is a graph of the driver's, there as long as its node,
//! and holds kernels, copies, fills, child graphs and further conditional nodes, as documented. The machine without
//! time computes nothing, so it runs no body.
//!
//! Does not check in whose context a value is set.

use core::ffi::c_uint;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::objects::condition::{Choice, Condition};
use super::objects::graph::{Graph, NodeKind, Spot};
use super::objects::task::Task;
use super::state::{State, begin_free, current};
use crate::sys::driver::{Answer, Handle, Out};

const ASSIGN_DEFAULT: c_uint = 1;

/// Highest bits of a handle: no address is taken for one.
const MARK: u64 = 0xc0d1 << 48;

/// Has the values that a launch begins with.
pub(crate) fn assign(conditions: &[Arc<Condition>]) {
    for condition in conditions {
        if let Some(value) = condition.default {
            condition.value.store(value, SeqCst);
        }
    }
}

/// A kernel sets a value.
pub(crate) fn set(state: &State, handle: CUgraphConditionalHandle, value: u32) -> Answer {
    let condition = state.conditions.get(&handle).and_then(Weak::upgrade);
    condition.ok_or(ILLEGAL_ADDRESS)?.value.store(value, SeqCst);
    Ok(())
}

pub fn cuGraphConditionalHandleCreate(
    _: Call,
    out: Out<CUgraphConditionalHandle>,
    graph: CUgraph,
    context: CUcontext,
    value: c_uint,
    flags: c_uint,
) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    if flags & !ASSIGN_DEFAULT != 0 {
        return Err(INVALID_VALUE);
    }
    state.graphs.of(graph).map_err(|_| INVALID_VALUE)?;
    let context = of_context(&state, context)?;
    let handle = MARK | state.fresh_id();
    let default = (flags & ASSIGN_DEFAULT != 0).then_some(value);
    let condition = Arc::new(Condition { context, default, value: AtomicU32::new(0) });
    state.conditions.retain(|_, known| known.strong_count() > 0);
    state.conditions.insert(handle, Arc::downgrade(&condition));
    state.graphs.of_mut(graph)?.conditions.push(condition);
    out.put(handle)
}

/// The key of a context that is named, or of the current one.
fn of_context(state: &State, context: CUcontext) -> Answer<u64> {
    let key = match context.key() {
        0 => current().map_err(|_| INVALID_VALUE)?,
        key => key,
    };
    state.context(key).map_err(|_| INVALID_VALUE)?;
    Ok(key)
}

/// A conditional node, whose bodies are made with it, and the parameters that name them.
pub(crate) fn node(
    state: &mut State,
    spot: Spot<'_>,
    mut asked: CUDA_CONDITIONAL_NODE_PARAMS,
) -> Answer<(NodeKind, CUDA_CONDITIONAL_NODE_PARAMS)> {
    let choice = Choice::of(asked.type_, asked.size)?;
    let condition = state.conditions.get(&asked.handle).and_then(Weak::upgrade);
    let condition = condition.ok_or(INVALID_VALUE)?;
    let is_own = is_of(state, &condition, spot.graph);
    if !is_own || is_taken(state, &condition) || condition.context != of_context(state, asked.ctx)?
    {
        return Err(INVALID_VALUE);
    }
    let body = |_| state.graphs.insert(Graph::body_in(spot.graph));
    let bodies: Arc<[u64]> = (0..asked.size).map(body).collect();
    // Theirs is an array of handles, which are what keys are to a program.
    asked.phGraph_out = bodies.as_ptr().cast_mut().cast();
    Ok((NodeKind::Conditional { condition, choice, bodies }, asked))
}

/// Whether a condition was made for the graph, or for one that it is a body in.
fn is_of(state: &State, condition: &Arc<Condition>, mut graph: u64) -> bool {
    while let Ok(found) = state.graphs.get(graph) {
        if found.conditions.iter().any(|own| Arc::ptr_eq(own, condition)) {
            return true;
        }
        graph = found.body_in;
    }
    false
}

/// Whether a node looks at it already.
fn is_taken(state: &State, wanted: &Arc<Condition>) -> bool {
    state.nodes.iter().any(|(_, node)| {
        matches!(&node.kind, NodeKind::Conditional { condition, .. } if Arc::ptr_eq(condition, wanted))
    })
}

/// Whether a condition was made for the graph and no node looks at it.
pub(crate) fn has_unused(state: &State, graph: u64) -> bool {
    let made = state.graphs.get(graph).map_or(&[][..], |graph| &graph.conditions);
    made.iter().any(|condition| !is_taken(state, condition))
}

/// Whether a body may hold the node.
pub(crate) fn may_be_in_a_body(kind: &NodeKind) -> bool {
    match kind {
        NodeKind::Empty
        | NodeKind::Child { .. }
        | NodeKind::Conditional { .. }
        | NodeKind::Branches { .. } => true,
        NodeKind::Work(task) => {
            matches!(task, Task::Kernel(_) | Task::Copy(_) | Task::Fill(_) | Task::Empty)
        }
        NodeKind::Allocate { .. } | NodeKind::Free { .. } => false,
    }
}
