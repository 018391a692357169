//! Managed memory that is away and was fetched by the driver, since calls of a process larger than the card used it.
//!
//! Promises: once calls are held back such memory goes to the host in bulk, once; what is there already is not copied. Does
//! not count: it was away all the time, by what the process says.

use divvy_driver_api::types::CUresult;

use super::aim::Aim;
use super::context::with_stream;
use crate::residence::chunks::Place;
use crate::residence::state::State;
use crate::sys::log;

/// Has it go. The door is closed, and work has ended.
pub(super) fn send_home(state: &'static State) {
    if !state.chunks.take_strays() {
        return;
    }
    for device in Aim::devices().filter(|device| state.chunks.managed_bytes(*device) > 0) {
        let sent = with_stream(state, (device, false), |stream| {
            let mut result: Result<(), CUresult> = Ok(());
            state.chunks.for_each(|chunk| {
                let is_away = chunk.device() == device && chunk.place() == Place::Host;
                if is_away && chunk.is_managed() && result.is_ok() {
                    result = chunk.prefetch(None, stream);
                }
            });
            result
        });
        if let Err(failure) = sent {
            // It stays where it is, and makes room where the driver needs some.
            log!(Info, "managed memory of device {device} stays there: error {}", failure.number());
        }
    }
}
