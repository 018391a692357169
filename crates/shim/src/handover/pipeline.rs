//! Chunks on their way, several at a time: while one is copied, memory for the next is taken, or that of the one before
//! given back.
//!
//! Memory that another process has just released comes some 8 ms late, however much it is (an H200): so that the link does
//! not wait, what is taken runs ahead of what is copied by [`DEPTH`] chunks, a gigabyte of the largest.
//!
//! Promises: whatever begins ends before the answer, in the order in which it began; after a failure nothing more
//! begins. Does not choose chunks.

use divvy_driver_api::types::{CUdevice, CUevent, CUresult, CUstream};

use super::context::with_stream;
use crate::residence::chunks::{Chunk, Place};
use crate::residence::state::State;
use crate::sys::driver::{self, again};

/// Chunks that are on their way at a time.
const DEPTH: usize = 4;

/// Outcome of a begin for one chunk.
pub(super) enum Step {
    /// Its bytes are copied on the stream.
    Begun,
    Passed,
}

/// A chunk on its way, and the event behind its copy; without one it is waited for with all that is behind it.
struct OnItsWay<'a> {
    chunk: &'a Chunk,
    event: Option<CUevent>,
}

/// Runs `begin` for every chunk of the device at `place`, until something fails, and `end` with the outcome of its copy for
/// each that has begun. Bytes of those that have ended well, and whether nothing failed.
pub(super) fn through<'s>(
    state: &'s State,
    (device, place): (CUdevice, Place),
    mut begin: impl FnMut(&'s Chunk, CUstream) -> Result<Step, CUresult>,
    mut end: impl FnMut(&Chunk, Result<(), CUresult>) -> Result<(), CUresult>,
) -> (u64, Result<(), CUresult>) {
    let mut bytes = 0_u64;
    let result = with_stream(device, |stream| {
        let (mut slots, mut at) = ([const { None::<OnItsWay<'s>> }; DEPTH], 0_usize);
        let mut result = Ok(());
        let mut finish = |slot: &mut Option<OnItsWay<'s>>| -> Result<(), CUresult> {
            let Some(OnItsWay { chunk, event }) = slot.take() else { return Ok(()) };
            let ended = end(chunk, end_of_copy(event, stream));
            if ended.is_ok() {
                bytes = bytes.saturating_add(chunk.bytes());
            }
            ended
        };
        state.chunks.for_each(|chunk| {
            if result.is_err() || chunk.device() != device || chunk.place() != place {
                return;
            }
            let Some(slot) = slots.get_mut(at % DEPTH) else { return };
            result = finish(slot).and_then(|()| begin(chunk, stream)).map(|step| {
                if let Step::Begun = step {
                    *slot = Some(OnItsWay { chunk, event: event_behind(stream) });
                    at = at.wrapping_add(1);
                }
            });
        });
        // The oldest is where the next would have been.
        for ahead in 0..DEPTH {
            if let Some(slot) = slots.get_mut(at.wrapping_add(ahead) % DEPTH) {
                result = result.and(finish(slot));
            }
        }
        result
    });
    (bytes, result)
}

/// An event behind what the stream has been given so far.
fn event_behind(stream: CUstream) -> Option<CUevent> {
    let event = driver::event_create_for_waits().ok()?;
    match driver::event_record(event, stream, false) {
        Ok(()) => Some(event),
        Err(_) => {
            let _ = driver::event_destroy(event);
            None
        }
    }
}

/// Waits for a copy: neither end of it may go before. An error that is told again and again is its context's, in which
/// nothing runs.
fn end_of_copy(event: Option<CUevent>, stream: CUstream) -> Result<(), CUresult> {
    let all = || again(|| driver::stream_wait(stream));
    let Some(event) = event else { return all() };
    let ended = again(|| driver::event_wait(event)).or_else(|_| all());
    let _ = driver::event_destroy(event);
    ended
}
