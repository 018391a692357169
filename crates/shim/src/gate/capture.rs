//! Captures: while a stream is captured, its allocations are nodes of a graph and take nothing.
//!
//! Some queries would invalidate a capture that is under way in the process (measured: asking a pool
//! for an attribute); [`super::relaxed`] lets ours through without harm. An event behind a whole context
//! invalidates any, in whatever mode, so it is recorded only while captures are kept out: one that begins is counted before the driver begins it, and waits for those that
//! have not seen it. Captures are known by their streams; one that ends unseen (with a stream of a
//! context that is gone, say) costs a query more, or marks of single streams.
//!
//! The gates count the captures that are kept here, so both change together.

use divvy_driver_api::types::{CUresult, CUstream};

use super::host::{GATES, stream as named};
use crate::residence::state;
use crate::sys::driver::{self, SUCCESS};
use crate::sys::map::Map;

/// The streams that capture; the context that was current when each began.
static STREAMS: Map = Map::new(30);

/// A capture of the stream begins by `call`.
#[inline(always)]
pub(crate) fn begin(
    stream: CUstream,
    per_thread: bool,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    // Nothing moves while a capture is under way, so it waits for what moves.
    let _inside = state::enter_to_capture();
    GATES.capture_begins();
    let result = call();
    begun(stream, per_thread, result);
    result
}

/// It has begun, or the driver has refused.
#[inline(never)]
fn begun(stream: CUstream, per_thread: bool, result: CUresult) {
    let context = driver::ctx_current().map_or(0, |context| context.0.addr() as u64);
    // Of a stream that was known to capture the end was not seen. Without room for one more it stays
    // counted.
    let is_known = || {
        STREAMS
            .insert(GATES.stream_word(named(stream, per_thread)), [context, 0])
            .is_ok_and(|old| old.is_some())
    };
    GATES.capture_begun(result == SUCCESS && !is_known());
}

/// A capture of the stream ends; one that was invalidated ends with an error.
#[inline(never)]
pub(crate) fn end(stream: CUstream, per_thread: bool, result: CUresult) -> CUresult {
    let over = matches!(
        result,
        SUCCESS
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED
    );
    if over {
        forget_stream(stream, per_thread);
    }
    result
}

/// The stream captures no more: its capture has ended, or it was destroyed.
#[inline(never)]
pub(crate) fn forget_stream(stream: CUstream, per_thread: bool) {
    if GATES.captures() && STREAMS.take(GATES.stream_word(named(stream, per_thread))).is_some() {
        GATES.captures_ended(1);
    }
}

/// A context is gone, and with it its streams.
pub(crate) fn forget_context(context: u64) {
    if GATES.captures() {
        let mut ended = 0_u32;
        STREAMS.take_if(|_, [of, _]| {
            ended = ended.saturating_add(u32::from(of == context));
            of == context
        });
        GATES.captures_ended(ended);
    }
}
