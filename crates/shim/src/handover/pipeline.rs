//! Chunks on their way, several at a time: while one is copied, memory for the next is taken, or that of the one before
//! given back.
//!
//! Memory that another process has just released comes some 8 ms late, however much it is (an H200): so that the link does
//! not wait, what is taken runs ahead of what is copied by [`DEPTH`] chunks, a gigabyte of the largest.
//!
//! Promises: whatever begins ends before the answer, in the order in which it began; after a failure nothing more
//! begins. Does not choose chunks.

use divvy_driver_api::types::{CUdevice, CUevent, CUresult, CUstream};

use super::context::{Failure, with_stream};
use crate::residence::chunks::{Chunk, Place};
use crate::residence::state::State;
use crate::sys::driver::{self, again};
use crate::sys::sleep_ns;

/// Chunks that are on their way at a time.
const DEPTH: usize = 4;

/// Between two attempts to begin, while what has begun is copied.
const LOOK_NS: u32 = 50_000;

/// Outcome of a begin for one chunk.
pub(super) enum Step {
    /// Its bytes are copied on the stream.
    Begun,
    Passed,
    /// There is no room for it yet: it is tried again while others are on their way, so that the link does not stand still
    /// for each piece of room that comes.
    Full,
}

/// A chunk on its way, and the event behind its copy; without one it is waited for with all that is behind it.
struct OnItsWay<'a> {
    chunk: &'a Chunk,
    event: Option<CUevent>,
}

/// Chunks on their way, of which the next one takes the place of the oldest.
struct Ring<'a> {
    places: [Option<OnItsWay<'a>>; DEPTH],
    next: usize,
}

impl<'a> Ring<'a> {
    /// Adds one where the oldest was.
    fn push(&mut self, one: OnItsWay<'a>) {
        if let Some(place) = self.places.get_mut(self.next % DEPTH) {
            *place = Some(one);
        }
        self.next = self.next.wrapping_add(1);
    }

    fn oldest(&mut self) -> Option<&mut Option<OnItsWay<'a>>> {
        let next = self.next;
        let mut order = (0..DEPTH).map(|ahead| next.wrapping_add(ahead) % DEPTH);
        let at = order.find(|at| self.places.get(*at).is_some_and(Option::is_some))?;
        self.places.get_mut(at)
    }

    fn is_full(&self) -> bool {
        self.places.iter().all(Option::is_some)
    }

    /// Whether any is on its way, and that the oldest's end need not be waited for.
    fn is_oldest_copied(&mut self) -> Option<bool> {
        let event = self.oldest()?.as_ref()?.event;
        Some(event.is_none_or(|event| driver::event_has_ended(event) != Ok(false)))
    }
}

/// Runs `begin` for every chunk of the device at `place`, until something fails, and `end` with the outcome of its copy for
/// each that has begun. Bytes of those that have ended well, and whether nothing failed.
pub(super) fn through(
    state: &'static State,
    (device, place): (CUdevice, Place),
    mut begin: impl FnMut(&'static Chunk, CUstream) -> Result<Step, CUresult>,
    mut end: impl FnMut(&Chunk, Result<(), CUresult>) -> Result<(), CUresult>,
) -> (u64, Result<(), Failure>) {
    let mut bytes = 0_u64;
    // Memory that is away must come back, whatever context has gone.
    let result = with_stream(state, (device, place == Place::Host), |stream| {
        let mut ring = Ring { places: [const { None::<OnItsWay<'static>> }; DEPTH], next: 0 };
        let mut finish_oldest = |ring: &mut Ring<'static>| -> Result<(), CUresult> {
            let oldest = ring.oldest().and_then(Option::take);
            let Some(OnItsWay { chunk, event }) = oldest else { return Ok(()) };
            let ended = end(chunk, end_of_copy(event, stream));
            if ended.is_ok() {
                bytes = bytes.saturating_add(chunk.bytes());
            }
            ended
        };
        let mut one = |ring: &mut Ring<'static>, chunk: &'static Chunk| -> Result<(), CUresult> {
            if ring.is_full() {
                finish_oldest(ring)?;
            }
            loop {
                match begin(chunk, stream)? {
                    Step::Begun => {
                        ring.push(OnItsWay { chunk, event: event_behind(stream) });
                        return Ok(());
                    }
                    Step::Passed => return Ok(()),
                    Step::Full => match ring.is_oldest_copied() {
                        None => return Ok(()),
                        Some(true) => finish_oldest(ring)?,
                        Some(false) => sleep_ns(LOOK_NS),
                    },
                }
            }
        };
        let mut result = Ok(());
        state.chunks.for_each(|chunk| {
            if result.is_ok() && chunk.device() == device && chunk.place() == place {
                result = one(&mut ring, chunk);
            }
        });
        while ring.oldest().is_some() {
            result = result.and(finish_oldest(&mut ring));
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
