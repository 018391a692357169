//! Moving a process's chunks, while the door is closed, to where they are to be ([`Aim`]).
//!
//! Promises: a device's work has ended before its first chunk leaves; chunks are away or on the card as their place says,
//! whatever fails; the aim is looked at again before each. Waits no longer for work than its caller says, and for nothing
//! else. Does not close or open the door.

use divvy_abi::MAX_DEVICES;
use divvy_abi::usage::Stays;
use divvy_driver_api::types::{CUcontext, CUdevice, CUevent, CUresult};
use divvy_policy::residence::KEPT_BEYOND_BYTES;

use super::aim::Aim;
use super::context::{self, Failure, is_broken};
use super::pipeline::{self, Step};
use crate::gate::GATES;
use crate::residence::chunks::{Denied, Place};
use crate::residence::state::State;
use crate::residence::{backed, work};
use crate::sys::{clock, driver, log, sleep_ns};
use crate::tenant::context::Handles;
use crate::tenant::device::{self, Device};
use crate::tenant::reason::Size;

/// Between two looks at work that is to end.
const LOOK_NS: u32 = 50_000;

/// Devices by the driver's number.
fn devices() -> impl Iterator<Item = CUdevice> {
    (0..MAX_DEVICES).filter_map(|device| CUdevice::try_from(device).ok())
}

/// Waits until all work of this process's contexts on `device` has ended; false if it has not by `deadline_ns`.
fn has_drained(state: &'static State, device: CUdevice, deadline_ns: u64) -> bool {
    let Some(handles) = Handles::contexts(device) else { return false };
    handles.iter().all(|handle| {
        let Some(_at) = state.come_to(handle) else { return false };
        let of = driver::context_at(handle);
        // Of a context that is broken nothing runs any more; another error says nothing of its work.
        driver::within(of, || has_ended(of, deadline_ns)).unwrap_or_else(|_| is_broken(of))
    })
}

/// Whether all that a context has been given has ended by `deadline_ns`.
fn has_ended(of: CUcontext, deadline_ns: u64) -> Result<bool, CUresult> {
    let recorded = {
        // Past the deadline calls may have opened the door, and begun a capture.
        let held = GATES.undisturbed();
        if held.is_none() || clock::now_ns() >= deadline_ns {
            return Ok(false);
        }
        work::event_behind(of)
    };
    match recorded {
        // All there is is to wait. Calls open the door if it takes too long.
        Err(CUresult::CUDA_ERROR_NOT_FOUND) => driver::ctx_wait().map(|()| true),
        Err(code) => Err(code),
        Ok(event) => {
            let is_done = is_done_by(event, deadline_ns);
            let _ = driver::event_destroy(event);
            is_done
        }
    }
}

/// Whether an event has completed by `deadline_ns`.
fn is_done_by(event: CUevent, deadline_ns: u64) -> Result<bool, CUresult> {
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
pub(super) fn is_drained(state: &'static State, deadline_ns: u64) -> bool {
    devices().all(|device| has_drained(state, device, deadline_ns))
}

/// How far memory has moved, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moved {
    /// All of it is where it is to be.
    All,
    /// But some of devices whose contexts are broken: there the driver itself refuses the program's calls.
    Dead,
    /// There is no room for the rest yet.
    Waits,
    /// The driver refuses it for another reason.
    Refused,
}

impl Moved {
    fn after(result: Result<(), Failure>) -> Self {
        match result {
            Ok(()) => Self::All,
            Err(Failure::Broken) => Self::Dead,
            Err(Failure::Driver(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Self::Waits,
            Err(_) => Self::Refused,
        }
    }

    /// Reason why memory that was to leave has stayed.
    pub(super) fn stays(self) -> Stays {
        match self {
            Self::All => Stays::Not,
            Self::Dead => Stays::Context,
            Self::Waits => Stays::Host,
            Self::Refused => Stays::Driver,
        }
    }
}

/// Moves what is above the aim to the host.
pub(super) fn leave(state: &'static State, aim: &Aim<'_>) -> Moved {
    let mut moved = Moved::All;
    for device in Aim::devices().filter(|device| aim.is_over(*device)) {
        backed::trim(device);
        let from_ns = clock::now_ns();
        // Without a context there are empty slabs at most.
        let (bytes, left) = match aim.is_over(device) {
            false => (0, Ok(())),
            true => pipeline::through(
                state,
                (device, Place::Card),
                |chunk, stream| match aim.is_over(device) {
                    true => state.chunks.start_leaving(chunk, stream).map(|()| Step::Begun),
                    false => Ok(Step::Passed),
                },
                |chunk, copied| state.chunks.finish_leaving(chunk, copied),
            ),
        };
        if let Err(failure) = left {
            log!(Info, "memory of device {device} cannot leave: error {}", failure.number());
        }
        let left = Moved::after(left);
        if let Some(words) = device::residence(device) {
            let is_empty = left == Moved::All && state.chunks.resident_bytes(device) == 0;
            words.add_out(bytes, clock::now_ns().saturating_sub(from_ns), is_empty);
        }
        moved = moved.max(left);
    }
    moved
}

/// Brings back what the aim has room for.
pub(super) fn come_back(state: &'static State, aim: &Aim<'_>) -> Moved {
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
        if bytes > 0
            && let Some(words) = device::residence(device)
        {
            words.add_in(bytes, clock::now_ns().saturating_sub(from_ns));
        }
        moved = moved.max(match Moved::after(came) {
            Moved::All if aim.is_in_need(device) => Moved::Waits,
            came => came,
        });
    }
    moved
}

/// Makes a copy on the host ahead for one chunk that has none, where the aim has room for copies; false if there is
/// nothing to do.
pub(super) fn prepare(state: &'static State, aim: &Aim<'_>) -> bool {
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
        if let Some(chunk) = next.filter(|chunk| fits(chunk.bytes())) {
            return context::within(state, device, || state.chunks.prepare(chunk)).is_ok();
        }
    }
    false
}

/// Bytes of copies on the host that chunks of the device keep.
fn kept_bytes(aim: &Aim<'_>, device: CUdevice) -> u64 {
    match aim.of(device).keep_bytes {
        0 => 0,
        // To give copies back delays the program's calls, and so does making others: not for little.
        bytes => bytes.saturating_add(KEPT_BEYOND_BYTES),
    }
}

/// Whether copies on the host that chunks do not need are more than the aim has them keep.
pub(super) fn has_surplus(state: &'static State, aim: &Aim<'_>) -> bool {
    Aim::devices().any(|device| state.chunks.has_surplus(device, kept_bytes(aim, device)))
}

/// Gives surplus copies back, by a context: the driver wants one. No work of the program's is under way; what there is no time
/// for by `deadline_ns` stays.
pub(super) fn drop_copies(state: &'static State, aim: &Aim<'_>, deadline_ns: u64) {
    for device in Aim::devices() {
        let keep_bytes = kept_bytes(aim, device);
        if state.chunks.copies_bytes(device) > keep_bytes {
            let _ = context::within(state, device, || {
                let is_over = || clock::now_ns() >= deadline_ns;
                state.chunks.drop_copies(device, keep_bytes, is_over);
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
pub(super) fn tell_free(state: &'static State) {
    for device in Aim::devices() {
        let free = context::within(state, device, driver::mem_info);
        if let (Ok((free_bytes, _)), Some(words)) = (free, device::residence(device)) {
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

/// Says why memory that was to leave has stayed.
pub(super) fn tell_stays(stays: Stays) {
    device::all_met().filter_map(Device::residence).for_each(|words| words.set_stays(stays));
}

/// Says which memory cannot come back, and why.
pub(super) fn tell_lost(state: &State, why: &str) {
    // Of a process that ends nothing is lost.
    if driver::mem_info() == Err(CUresult::CUDA_ERROR_DEINITIALIZED) {
        return;
    }
    state.chunks.for_each(|chunk| {
        if chunk.place() == Place::Host && !chunk.is_managed() {
            let (device, at) = (chunk.device(), chunk.address());
            let size = Size(chunk.bytes());
            log!(Error, "device {device}: {size} at {at:#x} cannot come back to the card: {why}");
        }
    });
}
