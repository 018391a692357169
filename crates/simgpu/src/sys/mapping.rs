//! Shared mappings of the machine's memory file.
//!
//! A mapping is a range of addresses other processes may write at any time, so it is only ever
//! handed out as a pointer and a length, never as a slice.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ptr::{NonNull, null_mut};

/// A range of the memory file in this process.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory without thread affinity; it is only reached by raw pointer.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method hands out a reference into the mapping.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of `file` from `offset` on, readable and writable, shared.
    pub fn new(file: impl AsFd, offset: u64, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks an unused range, so no
        // memory of the program changes.
        let address = unsafe {
            mmap(
                null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                offset,
            )
        }?;
        let address = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { address, bytes })
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// How many bytes are mapped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, is unmapped nowhere else, and no reference into it
        // exists.
        let outcome = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
        debug_assert!(outcome.is_ok(), "munmap of a range of our own: {outcome:?}");
    }
}
