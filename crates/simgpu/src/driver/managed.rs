//! Managed memory under the device's work: what comes to the card before it, and how long that takes.
//!
//! Promises: a kernel or fill has the memory it touches on its device when it computes, unless advice keeps
//! it on the host or nothing can make room for it, and stands still on the device for what had to be copied
//! or evicted; a prefetch is a copy of its stream. Bytes stay in the process, in one place: what moves is
//! the charge on the card, and time.
//!
//! A program's own touch of what is on the device is not seen, so that stays there, as if it were read over
//! the link. What stays on the host costs no time, as pinned memory does not.

use super::machine::{Load, Place};
use super::objects::advice::Location;
use super::objects::task::PrefetchShape;
use super::state::{DriverState, State};
use super::track::Track;
use crate::calibration::{EVICT_BYTES_PER_S, FAULT_BYTES_PER_S, ns_at};
use crate::sys::driver::Answer;

fn machine_index(state: &State, device: i32) -> Answer<usize> {
    state.device(device).map(|device| device.machine_index)
}

/// Brings what work touches to the device it runs on; the work stands still there for as long as that takes.
pub(crate) fn await_touched(
    driver: &DriverState,
    track: &mut Track<'_>,
    place: Place,
    touched: &[(u64, u64)],
) -> Answer {
    let (parts, device, index) = {
        let state = driver.lock();
        if !state.space.is_any_managed(touched) {
            return Ok(());
        }
        let parts = touched.iter().flat_map(|(at, bytes)| state.space.managed_parts(*at, *bytes));
        let device = state.contexts.get(place.context).map_or(0, |context| context.device);
        (parts.collect::<Vec<_>>(), device, machine_index(&state, device)?)
    };
    let mut stall_ns = 0;
    for part in parts {
        let migration = part.bring(index, &part.wanted(device))?;
        stall_ns += ns_at(migration.copied_bytes, FAULT_BYTES_PER_S)
            + ns_at(migration.evicted_bytes, EVICT_BYTES_PER_S);
    }
    if stall_ns > 0 {
        track.run(place, Load::Stall, stall_ns, &mut || {})?;
    }
    Ok(())
}

/// Runs a prefetch, beside whatever kernels run: an H200 lets neither wait for the other.
pub(super) fn run_prefetch(
    driver: &DriverState,
    track: &mut Track<'_>,
    place: Place,
    shape: &PrefetchShape,
) -> Answer {
    let (parts, index) = {
        let state = driver.lock();
        let index = match shape.to {
            Location::Device(device) => Some(machine_index(&state, device)?),
            Location::Host | Location::Node(_) => None,
        };
        (state.space.managed_parts(shape.at, shape.bytes), index)
    };
    for part in parts {
        match index {
            Some(index) => {
                let migration = part.bring(index, &[part.run()])?;
                travel(track, place, Load::Evict, migration.evicted_bytes)?;
                travel(track, place, Load::PrefetchIn, migration.copied_bytes)?;
            }
            None => {
                let went_bytes = part.leave()?;
                travel(track, place, Load::PrefetchOut, went_bytes)?;
            }
        }
    }
    Ok(())
}

fn travel(track: &mut Track<'_>, place: Place, load: Load, bytes: u64) -> Answer {
    if bytes == 0 { Ok(()) } else { track.run(place, load, bytes, &mut || {}) }
}

#[cfg(test)]
mod tests;
