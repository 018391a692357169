//! Moving memory off the card and back: when, and in which order. What moves is [`crate::residence`]'s.
//!
//! A program's call finds its memory on the card, or waits at the door until it is. A thread of the library's own
//! ([`service`]) closes the door, lets work end, and moves all chunks ([`movement`]); it is started at the first block
//! that may leave.
//!
//! How much of the memory is to be there is the owner's to say ([`aim`]); a block that is made beyond that waits for
//! room ([`room`]).
//!
//! Promises: no bytes move while a call that could touch them is under way, or work that was submitted before, or while a
//! stream captures. What cannot be moved in time stays, and is counted. Does not decide whose memory is to go.

mod aim;
mod movement;
mod pipeline;
mod room;
mod service;

use divvy_driver_api::types::{CUdeviceptr, CUresult};
use divvy_policy::charge::whole_granules;

use self::room::Asking;
use crate::residence::chunks::Denied;
use crate::residence::{backed, state};
use crate::sys::Out;
use crate::tenant;
use crate::tenant::device::Device;

/// Makes a block of `bytes` whose memory may leave, in a tenant that oversubscribes, and writes where it lies: its
/// address. `None` where the driver is to make a plain one.
pub(crate) fn allocate(
    device: &'static Device,
    bytes: u64,
    address: Out<'_, CUdeviceptr>,
) -> Option<Result<u64, CUresult>> {
    let tenant = tenant::oversubscribed()?;
    if bytes == 0 || address.get().is_none() {
        return None;
    }
    let mut asking = Asking::new(tenant, device.ordinal, whole_granules(bytes));
    let made = loop {
        let made = {
            let _inside = state::enter();
            backed::allocate(device.ordinal, bytes, &mut asking.asked_bytes)
        };
        match made {
            Err(denied) if denied.is_shortage() && asking.wait(denied) => {}
            made => break made,
        }
    };
    drop(asking);
    match made {
        // A device or a driver without virtual memory management.
        Err(Denied::Driver(
            CUresult::CUDA_ERROR_NOT_SUPPORTED | CUresult::CUDA_ERROR_NOT_FOUND,
        )) => None,
        Err(Denied::Driver(code)) => Some(Err(code)),
        Err(Denied::Ceiling) => Some(Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)),
        Ok(made) => {
            address.set(made);
            if let Some(state) = state::get() {
                service::ensure(state);
            }
            Some(Ok(made))
        }
    }
}
