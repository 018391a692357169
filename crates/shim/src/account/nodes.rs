//! Whether any graph of the process may have memory nodes: until one may, graphs are not looked into.
//!
//! Does not know graphs ([`super::graph`]) nor what is captured.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether any graph of the process may have memory nodes.
static NODES: AtomicBool = AtomicBool::new(false);

/// A capture or a call has made, or may make, a memory node.
pub(crate) fn expect_nodes() {
    if !NODES.load(Relaxed) {
        NODES.store(true, Relaxed);
    }
}

/// Whether any graph may have memory nodes.
#[inline]
pub(super) fn are_expected() -> bool {
    NODES.load(Relaxed)
}
