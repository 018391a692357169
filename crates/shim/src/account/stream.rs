//! Streams: each context keeps memory for as many as were alive at once.
//!
//! Measured on an H200: the n-th live stream of a context brings the sum to
//! 2 MiB x ((n + 2) / 4 + (n + 7) / 43), whatever its priority; destroying gives nothing back, but the
//! next stream finds it. So a context is charged by its high-water mark, until it ends.

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUresult, CUstream};
use divvy_policy::charge::GRANULE_BYTES;

use super::charge::ask;
use super::place::{CallPlace, Next};
use crate::gate::capture;
use crate::sys::Out;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::tenant::device::Device;

/// Streams of a context: alive, and the most that were.
static COUNTS: Map = Map::new(25);

/// The context of each stream.
static OWNERS: Map = Map::new(26);

/// Memory that a context keeps for `count` streams.
const fn bytes_for(count: u64) -> u64 {
    let pieces = count.saturating_add(2) / 4;
    let further = count.saturating_add(7) / 43;
    if count == 0 { 0 } else { pieces.saturating_add(further).saturating_mul(GRANULE_BYTES) }
}

/// Counts one more stream; the context's high-water mark before and after.
fn count_one(context: u64) -> (u64, u64) {
    let (mut before, mut after) = (0, 0);
    let _ = COUNTS.update(context, |old| {
        let [alive, most] = old.unwrap_or([0, 0]);
        let alive = alive.saturating_add(1);
        before = most;
        after = most.max(alive);
        Some([alive, after])
    });
    (before, after)
}

fn uncount_one(context: u64) {
    let _ = COUNTS.update(context, |old| old.map(|[alive, most]| [alive.saturating_sub(1), most]));
}

/// Makes a stream in the context of `place`.
pub(crate) fn create(
    place: Next<CallPlace>,
    out: Out<'_, CUstream>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match announce(place) {
        Next::Count(context) => created(context, out, call()),
        Next::Forward => call(),
        Next::Refuse(code) => code,
    }
}

/// Counts a stream that is about to be made; the context that is charged for it.
#[inline(never)]
fn announce(place: Next<CallPlace>) -> Next<u64> {
    let CallPlace { device, context } = match place {
        Next::Count(place) => place,
        Next::Forward => return Next::Forward,
        Next::Refuse(code) => return Next::Refuse(code),
    };
    let (before, after) = count_one(context);
    let grown = bytes_for(after).saturating_sub(bytes_for(before));
    if grown != 0 {
        match ask(device, grown, MemoryKind::Context) {
            Ok(held) => {
                // The mark stays even if the call fails: the next stream uses what it stands for.
                held.keep();
            }
            Err(code) => {
                // The mark goes back to what is charged.
                let _ = COUNTS
                    .update(context, |old| old.map(|[alive, _]| [alive.saturating_sub(1), before]));
                return Next::Refuse(code);
            }
        }
    }
    Next::Count(context)
}

#[inline(never)]
fn created(context: u64, out: Out<'_, CUstream>, result: CUresult) -> CUresult {
    let made = out.get().filter(|_| result == SUCCESS);
    if made.is_none_or(|stream| OWNERS.insert(stream.0.addr() as u64, [context, 0]).is_err()) {
        uncount_one(context);
    }
    result
}

/// Destroys a stream: `call` asks the driver.
pub(crate) fn destroy(stream: CUstream, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = stream.0.addr() as u64;
    let taken = OWNERS.take(handle);
    let result = call();
    if result == SUCCESS {
        capture::forget_stream(stream, false);
    }
    if let Some([context, rest]) = taken {
        if result == SUCCESS {
            uncount_one(context);
        } else {
            let _ = OWNERS.insert(handle, [context, rest]);
        }
    }
    result
}

/// A context is gone, and with it its streams.
pub(super) fn forget_context(context: u64, device: &'static Device) {
    OWNERS.take_if(|_, [owner, _]| owner == context);
    if let Some([_, most]) = COUNTS.take(context) {
        device.give_back(bytes_for(most), MemoryKind::Context);
    }
}
