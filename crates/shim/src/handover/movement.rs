//! Moving all of a process's chunks, while the door is closed.
//!
//! Promises: a device's work has ended before its first chunk leaves; chunks are away or on the card as their place says,
//! whatever fails. Waits no longer for work than its caller says, and for room on the card for as long as it
//! takes. Does not close or open the door.

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{CUcontext, CUdevice, CUevent, CUresult, CUstream};

use crate::residence::backed;
use crate::residence::chunks::{Chunk, Place};
use crate::residence::state::State;
use crate::sys::{clock, driver, sleep_ns};
use crate::tenant::context::{ANY_GREEN, CONTEXTS, Record};
use crate::tenant::device::{self, Device};

/// Between two looks at work that is to end.
const LOOK_NS: u32 = 50_000;
/// Between two attempts to get room on the card, at first and at last.
const RETRY_NS: [u32; 2] = [1_000_000, 50_000_000];

/// Devices by the driver's number.
fn devices() -> impl Iterator<Item = CUdevice> {
    (0..MAX_DEVICES).filter_map(|device| CUdevice::try_from(device).ok())
}

/// A context of the device, of those that this process has made, views through green ones apart.
fn context_of(device: CUdevice) -> Option<CUcontext> {
    let mut found = None;
    CONTEXTS.for_each(|handle, words| {
        let record = Record::unpack(words);
        if record.ordinal == device && !record.green {
            found = Some(handle);
        }
    });
    found.map(driver::context_at)
}

fn has_chunk(state: &State, device: CUdevice, place: Place) -> bool {
    let mut has = false;
    state.chunks.for_each(|chunk| has |= chunk.device() == device && chunk.place() == place);
    has
}

/// Waits until all work of this process's contexts on `device` has ended; false if it has not by `deadline_ns`.
fn has_drained(device: CUdevice, deadline_ns: u64) -> bool {
    // A map's lock is not held while the driver is called.
    let mut handles = [0_u64; 4096];
    let mut count = 0_usize;
    CONTEXTS.for_each(|handle, words| {
        let record = Record::unpack(words);
        if record.ordinal == device && !record.green {
            if let Some(place) = handles.get_mut(count) {
                *place = handle;
            }
            count = count.saturating_add(1);
        }
    });
    let Some(handles) = handles.get(..count) else { return false };
    handles.iter().all(|handle| {
        let of = driver::context_at(*handle);
        let drained = driver::within(of, || match driver::event_create() {
            Ok(event) => {
                let is_done = is_done_by(of, event, deadline_ns);
                let _ = driver::event_destroy(event);
                // Streams of green contexts are not behind the event; the wait for the primary one waits for them too.
                match is_done {
                    Ok(true) if ANY_GREEN.load(SeqCst) => driver::ctx_wait().map(|()| true),
                    is_done => is_done,
                }
            }
            Err(code) => Err(code),
        });
        // Of a context that is broken nothing runs any more.
        drained != Ok(false)
    })
}

/// Whether all that a context has been given is done by `deadline_ns`.
fn is_done_by(of: CUcontext, event: CUevent, deadline_ns: u64) -> Result<bool, CUresult> {
    match driver::ctx_record_event(of, event) {
        // Drivers before 12.5: all there is is to wait.
        Err(CUresult::CUDA_ERROR_NOT_FOUND) => return driver::ctx_wait().map(|()| true),
        recorded => recorded?,
    }
    while !driver::event_is_done(event) {
        if clock::now_ns() >= deadline_ns {
            return Ok(false);
        }
        sleep_ns(LOOK_NS);
    }
    Ok(true)
}

/// Runs `act` with a stream of its own in a context of the device.
fn with_stream<R>(
    device: CUdevice,
    act: impl FnOnce(CUstream) -> Result<R, CUresult>,
) -> Result<R, CUresult> {
    let of = context_of(device).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    driver::within(of, || {
        let stream = driver::stream_create()?;
        let result = act(stream);
        let _ = driver::stream_destroy(stream);
        result
    })
}

/// Runs `act` for every chunk of the device at `place`, until one fails. How many bytes it was done for, and whether for
/// all.
fn each(
    state: &State,
    device: CUdevice,
    place: Place,
    mut act: impl FnMut(&Chunk) -> Result<(), CUresult>,
) -> (u64, Result<(), CUresult>) {
    let (mut bytes, mut result) = (0_u64, Ok(()));
    state.chunks.for_each(|chunk| {
        if result.is_ok() && chunk.device() == device && chunk.place() == place {
            result = act(chunk);
            let done = if result.is_ok() { chunk.bytes() } else { 0 };
            bytes = bytes.saturating_add(done);
        }
    });
    (bytes, result)
}

/// Moves everything that may leave to the host. False if something stayed: work that did not end by `deadline_ns`, or a
/// copy for which there was no room.
pub(super) fn leave(state: &State, deadline_ns: u64) -> bool {
    // All of them first: work of one device may use memory of another.
    if !devices().all(|device| has_drained(device, deadline_ns)) {
        return false;
    }
    let mut is_all = true;
    for device in devices().filter(|device| has_chunk(state, *device, Place::Card)) {
        backed::trim(device);
        let from_ns = clock::now_ns();
        let moved = with_stream(device, |stream| {
            Ok(each(state, device, Place::Card, |chunk| state.chunks.leave(chunk, stream)))
        });
        let (bytes, left) = moved.unwrap_or((0, Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)));
        if let Some(words) = device::residence(device) {
            words.add_out(bytes, clock::now_ns().saturating_sub(from_ns), left.is_ok());
        }
        is_all &= left.is_ok();
    }
    is_all
}

/// Brings everything back; waits for room on the card, and for whatever else the driver wants. False if the context of some is
/// broken or gone: the program's own calls will tell it how.
pub(super) fn come_back(state: &State) -> bool {
    devices().filter(|device| has_chunk(state, *device, Place::Host)).fold(
        true,
        |is_all, device| {
            let from_ns = clock::now_ns();
            let [mut retry_ns, longest_ns] = RETRY_NS;
            let mut came = 0_u64;
            let result = loop {
                let moved = with_stream(device, |stream| {
                    Ok(each(state, device, Place::Host, |chunk| {
                        state.chunks.come_back(chunk, stream)
                    }))
                });
                let (bytes, result) = moved.unwrap_or_else(|code| (0, Err(code)));
                came = came.saturating_add(bytes);
                // Nothing of a context that is broken, or gone, can come back.
                if result.is_ok() || with_stream(device, driver::stream_wait).is_err() {
                    break result;
                }
                sleep_ns(retry_ns);
                retry_ns = retry_ns.saturating_mul(2).min(longest_ns);
            };
            if let Some(words) = device::residence(device) {
                words.add_in(came, clock::now_ns().saturating_sub(from_ns));
            }
            is_all & result.is_ok()
        },
    )
}

/// Gives the host's memory back of chunks that are on the card again, by a context: the driver wants one.
pub(super) fn drop_copies(state: &State) {
    let any = devices().find_map(context_of);
    let _ = any.map(|of| {
        driver::within(of, || {
            state.chunks.drop_copies();
            Ok(())
        })
    });
}

/// Says whether memory moves, and since when a call waits for it.
pub(super) fn tell(is_moving: bool, waits_from_ns: u64) {
    for words in device::all_met().filter_map(Device::residence) {
        words.set_moving(is_moving);
        words.set_waits_from(waits_from_ns);
    }
}

/// Counts for each device with chunks one time that they were to leave and stayed.
pub(super) fn tell_stayed(state: &State) {
    for device in devices().filter(|device| has_chunk(state, *device, Place::Card)) {
        if let Some(words) = device::residence(device) {
            words.add_stayed();
        }
    }
}
