//! Conditions: values that conditional nodes look at, and what a node does with one.

use std::collections::HashMap;
use std::sync::Weak;
use std::sync::atomic::AtomicU32;

use divvy_driver_api::types::*;

use crate::driver::error::INVALID_VALUE;
use crate::sys::driver::Answer;

/// A value that conditional nodes look at.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) context: u64,
    /// Its value at the beginning of each launch, if one was asked for.
    pub(crate) default: Option<u32>,
    pub(crate) value: AtomicU32,
}

/// The conditions that graphs and executables keep, by handle.
pub(crate) type Conditions = HashMap<CUgraphConditionalHandle, Weak<Condition>>;

/// Use of a value by a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// The first body if it is not zero, else the second.
    If,
    /// The body as long as it is not zero.
    While,
    /// The body of that number.
    Switch,
}

impl Choice {
    /// A node's choice by the type and the number of bodies that its parameters name.
    pub(crate) fn of(kind: CUgraphConditionalNodeType, bodies: u32) -> Answer<Self> {
        match (kind, bodies) {
            (CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF, 1 | 2) => Ok(Self::If),
            (CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE, 1) => Ok(Self::While),
            (CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH, 1..) => Ok(Self::Switch),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Which body a value asks for.
    pub(crate) fn body(self, value: u32) -> Option<usize> {
        match (self, value) {
            (Self::If, 0) => Some(1),
            (Self::While, 0) => None,
            (Self::If | Self::While, _) => Some(0),
            (Self::Switch, value) => usize::try_from(value).ok(),
        }
    }
}
