//! Memory of the host that device memory is copied to while it is away.
//!
//! Promises: a piece is this process's own, private and zeroed, and ends with its value; its pages are there from the
//! start, since the driver holds back other calls while it makes any. Where the machine would be left with less than a
//! [`RESERVE_PART`]th of its memory there is none to be had: whoever promised it may have been wrong, and the kernel ends
//! processes that are right. Does not register it with the driver.

use zerocopy::FromZeros;

use super::kernel::{self, File};

/// Part of the machine's memory that is left to others.
const RESERVE_PART: u64 = 32;

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
        let left_bytes = left_bytes();
        if left_bytes.is_some_and(|left_bytes| left_bytes < bytes) {
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

/// Bytes that the machine has left beyond the reserve; none where it does not say.
fn left_bytes() -> Option<u64> {
    // Three lines, whose order is the kernel's since 3.14.
    let mut text = [0_u8; 96];
    if !File::open(c"/proc/meminfo")?.read(&mut text) {
        return None;
    }
    left_of(&text)
}

fn left_of(text: &[u8]) -> Option<u64> {
    let (mut line, mut is_known, mut numbers) = (0_usize, false, [0_u64; 3]);
    for byte in text {
        match (byte, numbers.get_mut(line)) {
            (b'\n', _) => line = line.wrapping_add(1),
            (b'0'..=b'9', Some(number)) => {
                let digit = u64::from(byte.wrapping_sub(b'0'));
                *number = number.wrapping_mul(10).wrapping_add(digit);
            }
            // Of MemAvailable; older kernels have Buffers there.
            (b'A', _) => is_known |= line == 2,
            _ => {}
        }
    }
    let [total, _, available] = numbers;
    is_known.then(|| available.saturating_sub(total / RESERVE_PART) << 10)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_left() {
        let text = b"MemTotal:       131072000 kB\nMemFree:          100 kB\nMemAvailable:    5096000 kB\nBuf";
        assert_eq!(left_of(text), Some(1_000_000 << 10));
        let text =
            b"MemTotal:       1000 kB\nMemFree:          100 kB\nMemAvailable:    30 kB\nBuffers";
        assert_eq!(left_of(text), Some(0));
        let old = b"MemTotal:       1000 kB\nMemFree:          100 kB\nBuffers:    30 kB\nCached: ";
        assert_eq!(left_of(old), None);
        assert!(left_bytes().is_some_and(|bytes| bytes > 1 << 20), "this machine has some");
    }
}
