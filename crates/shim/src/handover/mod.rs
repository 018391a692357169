//! Moving memory off the card and back: when, and in which order. What moves is [`crate::residence`]'s.
//!
//! A program's call finds its memory on the card, or waits at the door until it is. A thread of the library's own
//! ([`service`]) closes the door, lets work end, and moves all chunks ([`movement`]); it is started at the first block
//! that may leave.
//!
//! How much of the memory is to be there is the owner's to say ([`aim`]); a block that is made beyond that waits for
//! room ([`room`]). What other processes of the tenant may open another thread hands out ([`server`]).
//!
//! Promises: no bytes move while a call that could touch them is under way, or work that was submitted before, or while a
//! stream captures. What cannot be moved in time stays, and is counted. Does not decide whose memory is to go.

mod aim;
mod context;
mod managed;
mod movement;
mod pipeline;
mod room;
pub(crate) mod server;
mod service;
mod strays;

use divvy_driver_api::types::{CUdeviceptr, CUresult};
use divvy_policy::charge::whole_granules;

use self::managed::Reserving;
use self::room::Asking;
use crate::gate::beside_captures;
use crate::residence::addresses::{Backing, NewBlock};
use crate::residence::chunks::Denied;
use crate::residence::{backed, backing, state};
use crate::sys::Out;
use crate::tenant;
use crate::tenant::device::Device;

/// Makes a block of `bytes` for a context whose memory may leave, in a tenant that oversubscribes, and writes where it lies: its
/// address. `None` where the driver is to make a plain one.
pub(crate) fn allocate(
    device: &'static Device,
    context: u64,
    bytes: u64,
    address: Out<'_, CUdeviceptr>,
) -> Option<Result<u64, CUresult>> {
    let tenant = tenant::oversubscribed()?;
    if bytes == 0 || address.get().is_none() {
        return None;
    }
    let backing = backing::of(tenant, device, context)?;
    let mut new = NewBlock { device: device.ordinal, bytes, backing, most_slab_bytes: u64::MAX };
    let mut asking = Asking::new(tenant, device.ordinal, whole_granules(bytes));
    let mut reserving = Reserving::new(tenant, device);
    let made = loop {
        let made = {
            let _inside = state::enter();
            match new.backing {
                Backing::Handles => backed::allocate(new, &mut asking.asked_bytes),
                // Streams are made and waited for.
                Backing::Managed(_) => beside_captures(|| backed::allocate(new, &mut 0)),
            }
        };
        match made {
            Err(Denied::Managed(missing_bytes)) if reserving.wait(missing_bytes, &mut new) => {}
            Err(Denied::Managed(_)) => break made,
            // A device or a driver without virtual memory management.
            Err(Denied::Driver(
                CUresult::CUDA_ERROR_NOT_SUPPORTED | CUresult::CUDA_ERROR_NOT_FOUND,
            )) if new.backing == Backing::Handles => {
                new.backing = backing::without_handles(tenant, device, context)?;
            }
            Err(denied) if denied.is_shortage() && asking.wait(denied) => {}
            made => break made,
        }
    };
    let host = asking.host;
    drop((asking, reserving));
    match made {
        Err(Denied::Driver(code)) => Some(Err(code)),
        Err(Denied::Ceiling) => {
            if let Some(host) = host {
                device.tell_host(bytes, host);
            }
            Some(Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY))
        }
        Err(Denied::Managed(_)) => Some(Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)),
        Ok(made) => {
            address.set(made);
            if let Some(state) = state::get() {
                service::ensure(state);
            }
            Some(Ok(made))
        }
    }
}
