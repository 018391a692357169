//! Devices that may reach another's memory, which is mapped: a device reaches of it what its access was set for.
//!
//! Promises: memory that is made or comes back is reached by all devices that are noted here. Does not note any: that is
//! [`super::peer_access`]'s.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{CUdevice, CUresult};
use zerocopy::FromZeros;

use crate::sys::driver;

/// A bit for each device that reaches a device's memory, for each device.
#[derive(FromZeros)]
pub(crate) struct Peers([AtomicU32; MAX_DEVICES]);

/// Every device has a bit.
const _: () = assert!(MAX_DEVICES <= u32::BITS as usize);

impl Peers {
    /// The bits of the devices that reach the memory of `device`.
    pub(super) fn of(&self, device: CUdevice) -> Option<&AtomicU32> {
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
