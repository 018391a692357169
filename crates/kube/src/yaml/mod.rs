//! YAML in which every scalar stays as it was written: the tree, and its reader and writer.
//!
//! Promises: what is written is read as the same tree.

mod json;
mod read;
mod tree;
mod write;

pub(crate) use json::json;
pub(crate) use read::{Document, MOST_BYTES, read};
pub(crate) use tree::{MapEntry, Node, Style, Value};
pub(crate) use write::write;
