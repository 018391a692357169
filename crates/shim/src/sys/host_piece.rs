//! Memory of the host that device memory is copied to while it is away.
//!
//! Promises: a piece is this process's own, private and zeroed, and ends with its value; its pages are there from the
//! start, since the driver holds back other calls while it makes any. Where the machine, or the container, would be left with
//! less than a thirty-second of its memory there is none to be had: whoever promised it may have been wrong, and the kernel
//! ends processes that are right. Does not register it with the driver.

use zerocopy::FromZeros;

use super::host_room;
use super::kernel;

/// A mapping, or none.
#[derive(Debug, FromZeros)]
pub(crate) struct HostPiece {
    /// Exposed; 0 for none.
    address: usize,
    bytes: usize,
}

impl HostPiece {
    /// None.
    pub(crate) const NONE: Self = Self { address: 0, bytes: 0 };

    /// Maps `bytes`, in huge pages where the kernel has them; `None` without memory for it.
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        if host_room::left_bytes() < bytes {
            return None;
        }
        let bytes = usize::try_from(bytes).ok()?;
        let mapped = kernel::map_private(bytes).ok()?;
        kernel::prefer_huge(mapped, bytes);
        // SAFETY: 1. mapped a moment ago, whole. 2. A child has nothing that refers to it: what does is wiped there.
        let _ = unsafe { kernel::advise(mapped, bytes, kernel::InChild::Nothing) };
        let piece = Self { address: mapped.expose_provenance(), bytes };
        kernel::populate(mapped, bytes).then_some(piece)
    }

    /// Where it lies; 0 for none.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HostPiece {
    fn drop(&mut self) {
        if self.address != 0 {
            let start = core::ptr::with_exposed_provenance_mut(self.address);
            // SAFETY: 1. mapped by `new`, whole. 2. Only the driver was given its address, and it has copied.
            unsafe { kernel::unmap(start, self.bytes) };
        }
    }
}
