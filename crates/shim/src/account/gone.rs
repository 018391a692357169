//! The end of a context: everything charged to it goes back.
//!
//! Does not know how a context ends ([`super::own`], [`super::primary`]).

use divvy_abi::usage::MemoryKind;

use super::place::{Next, at};
use super::{block, heap, holdings, ipc, module, stream};
use crate::gate::capture;
use crate::tenant::context::Record;

/// Everything charged to a context that is gone goes back.
pub(super) fn forget(context: u64, record: Record) {
    if record.green {
        return;
    }
    if let Next::Count(device) = at(record.ordinal) {
        block::forget_context(context, device);
        holdings::forget_context(context, device);
        module::forget_context(context);
        heap::forget_context(context, device);
        ipc::forget_context(context);
        stream::forget_context(context, device);
        capture::forget_context(context);
        device.give_back(record.bytes, MemoryKind::Context);
    }
}
