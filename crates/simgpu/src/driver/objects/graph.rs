//! Parts of graphs: nodes and their order, executables, and objects that graphs keep alive.

use std::sync::Arc;

use super::arena::{Arena, Mapping};
use super::condition::{Choice, Condition};
use super::task::Task;
use crate::sys::driver_functions::HostFunction;

/// Kind of a node.
#[derive(Clone)]
pub(crate) enum NodeKind {
    Empty,
    Work(Task),
    Allocate {
        device: i32,
        bytes: u64,
        address: u64,
    },
    Free {
        address: u64,
    },
    Child {
        graph: u64,
    },
    Conditional {
        condition: Arc<Condition>,
        choice: Choice,
        bodies: Arc<[u64]>,
    },
    /// A conditional node of an executable: in front of its bodies' nodes, of which so many are in each.
    Branches {
        condition: Arc<Condition>,
        choice: Choice,
        lengths: Vec<usize>,
    },
}

impl NodeKind {
    /// Whether graphs with such a node are neither copied nor had twice.
    pub(crate) fn is_conditional(&self) -> bool {
        matches!(self, Self::Conditional { .. } | Self::Branches { .. })
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) graph: u64,
    pub(crate) kind: NodeKind,
    pub(crate) after: Vec<u64>,
    /// The node this one is a copy of.
    pub(crate) original: u64,
}

/// Where in which graph a node is to be.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) graph: u64,
    pub(crate) after: &'a [u64],
}

/// A graph.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<u64>,
    /// Addresses of its allocation nodes.
    pub(crate) memory: Vec<Arena>,
    /// Child graphs and bodies belong to their nodes.
    pub(crate) is_child: bool,
    /// The graph that the node is in whose body it is, or 0.
    pub(crate) body_in: u64,
    pub(crate) conditions: Vec<Arc<Condition>>,
    pub(crate) user_objects: Vec<(u64, u32)>,
}

impl Graph {
    /// The body of a node in `graph`.
    pub(crate) fn body_in(graph: u64) -> Self {
        Self { is_child: true, body_in: graph, ..Self::default() }
    }
}

/// An executable graph; see [`crate::driver::exec`].
pub(crate) struct Exec {
    pub(crate) graph: u64,
    pub(crate) graph_nodes: Vec<(u64, NodeKind)>,
    pub(crate) memory: Vec<Mapping>,
    pub(crate) disabled: Vec<u64>,
    pub(crate) flags: u64,
}

/// A program's object that graphs keep alive.
pub(crate) struct UserObject {
    pub(crate) destroy: HostFunction,
    pub(crate) references: u64,
}
