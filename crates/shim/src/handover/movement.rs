//! Moving a process's chunks, while the door is closed, to where they are to be ([`Aim`]).
//!
//! Promises: a device's work has ended before its first chunk leaves; chunks are away or on the card as their place says,
//! whatever fails; the aim is looked at again before each. Waits no longer for work than its caller says, and for nothing
//! else. Does not close or open the door.

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{CUcontext, CUdevice, CUevent, CUresult};
use divvy_policy::residence::KEPT_BEYOND_BYTES;

use super::aim::Aim;
use super::context::context_of;
use super::pipeline::{self, Step};
use crate::residence::backed;
use crate::residence::chunks::{Denied, Place};
use crate::residence::state::State;
use crate::sys::{clock, driver, log, sleep_ns};
use crate::tenant::context::{ANY_GREEN, CONTEXTS, Record};
use crate::tenant::device::{self, Device};

/// Between two looks at work that is to end.
const LOOK_NS: u32 = 50_000;
/// Attempts to learn of a context whether it is broken.
const ATTEMPTS: usize = 3;

/// Devices by the driver's number.
fn devices() -> impl Iterator<Item = CUdevice> {
    (0..MAX_DEVICES).filter_map(|device| CUdevice::try_from(device).ok())
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
        // Of a context that is broken nothing runs any more; another error says nothing of its work.
        drained.unwrap_or_else(|_| is_broken(of))
    })
}

/// Whether a context answers no call any more. One that fails for want of memory, or once, is not broken.
fn is_broken(of: CUcontext) -> bool {
    (0..ATTEMPTS).all(|_| match driver::within(of, driver::mem_info) {
        Ok(_) | Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => false,
        Err(_) => {
            sleep_ns(LOOK_NS);
            true
        }
    })
}

/// Whether all that a context has been given is done by `deadline_ns`.
fn is_done_by(of: CUcontext, event: CUevent, deadline_ns: u64) -> Result<bool, CUresult> {
    match driver::ctx_record_event(of, event) {
        // Drivers before 12.5: all there is is to wait.
        Err(CUresult::CUDA_ERROR_NOT_FOUND) => return driver::ctx_wait().map(|()| true),
        recorded => recorded?,
    }
    while !driver::event_has_ended(event)? {
        if clock::now_ns() >= deadline_ns {
            return Ok(false);
        }
        sleep_ns(LOOK_NS);
    }
    Ok(true)
}

/// Waits until no work is left that may use what is to leave; false if it has not ended by `deadline_ns`.
///
/// Of all devices: work of one may use memory of another.
pub(super) fn is_drained(deadline_ns: u64) -> bool {
    devices().all(|device| has_drained(device, deadline_ns))
}

/// How far memory has moved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// All of it is where it is to be.
    All,
    /// There is no room for the rest yet.
    Waits,
    /// The context of some is broken or gone, or the process ends: the program's own calls will tell it how.
    Lost,
}

impl Moved {
    /// The worse of two.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Lost, _) | (_, Self::Lost) => Self::Lost,
            (Self::Waits, _) | (_, Self::Waits) => Self::Waits,
            (Self::All, Self::All) => Self::All,
        }
    }

    /// The outcome of a failure. One after which the context goes on answering may pass: of room, as a rule.
    fn after(result: Result<(), CUresult>, device: CUdevice) -> Self {
        match result {
            Ok(()) => Self::All,
            Err(_) if context_of(device).is_none_or(is_broken) => Self::Lost,
            Err(_) => Self::Waits,
        }
    }
}

/// Moves what is above the aim to the host.
pub(super) fn leave(state: &State, aim: &Aim<'_>) -> Moved {
    let mut moved = Moved::All;
    for device in Aim::devices().filter(|device| aim.is_over(*device)) {
        backed::trim(device);
        let from_ns = clock::now_ns();
        let (bytes, left) = pipeline::through(
            state,
            (device, Place::Card),
            |chunk, stream| match aim.is_over(device) {
                true => state.chunks.start_leaving(chunk, stream).map(|()| Step::Begun),
                false => Ok(Step::Passed),
            },
            |chunk, copied| state.chunks.finish_leaving(chunk, copied),
        );
        if let Err(code) = left {
            log!(Info, "memory of device {device} cannot leave: error {}", code.0);
        }
        let left = Moved::after(left, device);
        if let Some(words) = device::residence(device) {
            let is_empty = left == Moved::All && state.chunks.resident_bytes(device) == 0;
            words.add_out(bytes, clock::now_ns().saturating_sub(from_ns), is_empty);
        }
        moved = moved.and(left);
    }
    moved
}

/// Brings back what the aim has room for.
pub(super) fn come_back(state: &State, aim: &Aim<'_>) -> Moved {
    let mut moved = Moved::All;
    for device in Aim::devices().filter(|device| state.chunks.away_bytes(*device) > 0) {
        let from_ns = clock::now_ns();
        let (bytes, came) = pipeline::through(
            state,
            (device, Place::Host),
            |chunk, stream| {
                let bytes = state.chunks.resident_bytes(device).saturating_add(chunk.bytes());
                if bytes > aim.of(device).ceiling_bytes {
                    return Ok(Step::Full);
                }
                match state.chunks.start_coming(chunk, stream) {
                    Ok(()) => Ok(Step::Begun),
                    Err(Denied::Driver(code)) => Err(code),
                    Err(Denied::Ceiling | Denied::Managed(_)) => Ok(Step::Full),
                }
            },
            |chunk, copied| state.chunks.finish_coming(chunk, copied),
        );
        let came = Moved::after(came, device);
        if bytes > 0
            && let Some(words) = device::residence(device)
        {
            words.add_in(bytes, clock::now_ns().saturating_sub(from_ns));
        }
        let is_whole = !aim.is_in_need(device);
        moved = moved.and(came).and(if is_whole { Moved::All } else { Moved::Waits });
    }
    moved
}

/// Makes a copy on the host ahead for one chunk that has none, where the aim has room for copies; false if there is
/// nothing to do.
pub(super) fn prepare(state: &State, aim: &Aim<'_>) -> bool {
    for device in Aim::devices() {
        let keep_bytes = aim.of(device).keep_bytes;
        let mut next = None;
        state.chunks.for_each(|chunk| {
            let is_bare = chunk.place() == Place::Card && !chunk.has_copy();
            if next.is_none() && chunk.device() == device && is_bare {
                next = Some(chunk);
            }
        });
        let fits =
            |bytes: u64| state.chunks.copies_bytes(device).saturating_add(bytes) <= keep_bytes;
        if let Some(chunk) = next.filter(|chunk| fits(chunk.bytes()))
            && let Some(of) = context_of(device)
        {
            return driver::within(of, || state.chunks.prepare(chunk)).is_ok();
        }
    }
    false
}

/// Gives the host's memory back of chunks that are on the card again, but what the aim has them keep, by a context: the
/// driver wants one.
pub(super) fn drop_copies(state: &State, aim: &Aim<'_>) {
    for device in Aim::devices() {
        let keep_bytes = match aim.of(device).keep_bytes {
            0 => 0,
            // Both to give them back and to make them anew delays the program's calls: not for little.
            bytes => bytes.saturating_add(KEPT_BEYOND_BYTES),
        };
        if state.chunks.copies_bytes(device) > keep_bytes
            && let Some(of) = context_of(device)
        {
            let _ = driver::within(of, || {
                state.chunks.drop_copies(device, keep_bytes);
                Ok(())
            });
        }
    }
}

/// Says whether memory moves, and since when a call waits for it.
pub(super) fn tell(is_moving: bool, waits_from_ns: u64) {
    for words in device::all_met().filter_map(Device::residence) {
        words.set_moving(is_moving);
        words.set_waits_from(waits_from_ns);
    }
}

/// Says how much of each device with memory that may leave is free.
pub(super) fn tell_free() {
    for device in Aim::devices() {
        let free = context_of(device).map(|of| driver::within(of, driver::mem_info));
        if let (Some(Ok((free_bytes, _))), Some(words)) = (free, device::residence(device)) {
            words.set_free(free_bytes, clock::now_ns());
        }
    }
}

/// Counts for each device with memory on the card one time that some was to leave and found no room on the host. Work that does
/// not end in time is no such: the process is held back until it has ended.
pub(super) fn tell_stayed(state: &State) {
    for device in Aim::devices().filter(|device| state.chunks.resident_bytes(*device) > 0) {
        if let Some(words) = device::residence(device) {
            words.add_stayed();
        }
    }
}
