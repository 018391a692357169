//! Access of a context to the memory of another device. What the driver would let contexts reach of each other's blocks by
//! `cuCtxEnablePeerAccess` is mapped memory here, of which that call says nothing.
//!
//! Promises: whatever a program was let reach it reaches, memory that comes back or is made later as well. Access is a
//! device's, not a context's, and stays when the program gives it up: a program that goes on without it sees no difference.

use core::sync::atomic::Ordering::SeqCst;

use divvy_driver_api::types::{CUcontext, CUdevice, CUresult};

use super::chunks::Place;
use super::state;
use crate::sys::driver::{self, SUCCESS};
use crate::sys::log;
use crate::tenant;

/// Enables access from the current context to the memory of `to`'s device by `call`, and to what is mapped of it.
pub(crate) fn enable(to: CUcontext, call: impl FnOnce() -> CUresult) -> CUresult {
    let result = call();
    let is_enabled = matches!(result, SUCCESS | CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    if !is_enabled || tenant::oversubscribed().is_none() {
        return result;
    }
    let reached = driver::ctx_device()
        .and_then(|peer| driver::within(to, driver::ctx_device).map(|device| (peer, device)))
        .and_then(|(peer, device)| let_reach(peer, device));
    match reached {
        Ok(()) => result,
        Err(code) => {
            log!(Error, "peer access to memory that may leave the card: error {}", code.0);
            code
        }
    }
}

/// Lets `peer` reach all memory of `device` from now on, as the program has asked for contexts of theirs.
///
/// # Errors
/// The driver's; memory that is made later is not reached then.
fn let_reach(peer: CUdevice, device: CUdevice) -> Result<(), CUresult> {
    let Some(state) = state::make() else { return Ok(()) };
    // None of it is away meanwhile.
    let _inside = state::enter();
    let (Some(bits), Ok(at)) = (state.chunks.peers.of(device), u32::try_from(peer)) else {
        return Ok(());
    };
    let bit = 1_u32.checked_shl(at).unwrap_or(0);
    // Said before the look: a chunk that is made meanwhile is seen here, or sees it.
    if peer == device || bits.fetch_or(bit, SeqCst) & bit != 0 {
        return Ok(());
    }
    let mut result = Ok(());
    state.chunks.for_each(|chunk| {
        // The driver's own memory it reaches as it is.
        if result.is_ok() && chunk.device() == device && !chunk.is_managed() {
            let allowed = driver::mem_allow(chunk.address(), chunk.bytes(), peer);
            // One that has ended meanwhile is nobody's.
            result = allowed.or_else(|code| match chunk.place() {
                Place::Nowhere | Place::Spare => Ok(()),
                _ => Err(code),
            });
        }
    });
    if result.is_err() {
        bits.fetch_and(!bit, SeqCst);
    }
    result
}
