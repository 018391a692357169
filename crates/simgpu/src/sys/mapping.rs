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

impl Mapping {
    /// Copies `bytes` to `offset`; an error if they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        let target = self.range(offset, bytes.len())?;
        // SAFETY: `range` found the target inside the mapping, and the source is a slice of this
        // process that cannot overlap it, since no slice of a mapping is ever made.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        Ok(())
    }

    /// Copies from `offset` to `bytes`; an error if there are not as many.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Errno> {
        let source = self.range(offset, bytes.len())?;
        // SAFETY: as for `write`, the other way round.
        unsafe { std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn range(&self, offset: usize, length: usize) -> Result<*mut u8, Errno> {
        let end = offset.checked_add(length).ok_or(Errno::FAULT)?;
        if end > self.bytes {
            return Err(Errno::FAULT);
        }
        Ok(self.as_ptr().wrapping_add(offset))
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
