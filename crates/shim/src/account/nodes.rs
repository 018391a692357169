//! Whether any graph of the process may have memory nodes: until one may, graphs are not looked into.
//!
//! Does not know graphs ([`super::graph`]) nor what is captured.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use divvy_driver_api::types::{CUgraphNodeParams, CUgraphNodeType, CUresult};

use crate::residence::state;
use crate::sys::Out;

/// Whether any graph of the process may have memory nodes.
static NODES: AtomicBool = AtomicBool::new(false);

/// A capture or a call has made, or may make, a memory node.
pub(crate) fn expect_nodes() {
    if !NODES.load(Relaxed) {
        NODES.store(true, Relaxed);
    }
}

/// Adds an allocation node: `call` asks the driver.
pub(crate) fn add_allocation(call: impl FnOnce() -> CUresult) -> CUresult {
    expect_nodes();
    call()
}

/// Adds a node of any kind: `call` asks the driver.
pub(crate) fn add(params: Out<'_, CUgraphNodeParams>, call: impl FnOnce() -> CUresult) -> CUresult {
    let allocates = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    if params.get().is_some_and(|params| params.type_ == allocates) {
        expect_nodes();
    }
    // A copy's node is made only of addresses that have memory behind them.
    let _inside = state::enter();
    call()
}

/// Whether any graph may have memory nodes.
#[inline]
pub(super) fn are_expected() -> bool {
    NODES.load(Relaxed)
}
