//! Devices that may reach another's memory. What the driver would let contexts reach of each other's blocks by
//! `cuCtxEnablePeerAccess` is mapped memory here, of which a device reaches what its access was set for.
//!
//! Promises: whatever a program was let reach it reaches, memory that comes back or is made later as well. Access is a
//! device's, not a context's, and stays when the program gives it up: a program that goes on without it sees no difference.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{CUcontext, CUdevice, CUresult};
use zerocopy::FromZeros;

use super::chunks::Place;
use super::state;
use crate::sys::driver::{self, SUCCESS};
use crate::sys::log;
use crate::tenant;

/// A bit for each device that reaches a device's memory, for each device.
#[derive(FromZeros)]
pub(crate) struct Peers([AtomicU32; MAX_DEVICES]);

/// Every device has a bit.
const _: () = assert!(MAX_DEVICES <= u32::BITS as usize);

impl Peers {
    fn of(&self, device: CUdevice) -> Option<&AtomicU32> {
        usize::try_from(device).ok().and_then(|row| self.0.get(row))
    }

    /// Devices beside itself that reach the memory of `device`.
    fn reaching(&self, device: CUdevice) -> impl Iterator<Item = CUdevice> {
        let bits = self.of(device).map_or(0, |bits| bits.load(SeqCst));
        (0..MAX_DEVICES as CUdevice).filter(move |peer| bits >> peer & 1 != 0)
    }

    /// Lets the device, and all that reach its memory, reach what is mapped at these addresses.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn allow(&self, device: CUdevice, at: u64, bytes: u64) -> Result<(), CUresult> {
        driver::mem_allow(at, bytes, device)?;
        self.reaching(device).try_for_each(|peer| driver::mem_allow(at, bytes, peer))
    }
}

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
                Place::Nowhere => Ok(()),
                _ => Err(code),
            });
        }
    });
    if result.is_err() {
        bits.fetch_and(!bit, SeqCst);
    }
    result
}
