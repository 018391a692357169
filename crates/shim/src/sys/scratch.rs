//! Memory for the length of one call, straight from the kernel: lists whose length is the program's.

use super::kernel;

/// A private mapping, zeroed at first and taken down when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    base: *mut u8,
    bytes: usize,
}

impl Scratch {
    /// `bytes` of memory, at least one; `None` where the kernel has none.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1);
        Some(Self { base: kernel::map(bytes)?, bytes })
    }

    /// Where it lies, for a driver call that writes no more than its length.
    pub(super) fn address(&self) -> *mut u8 {
        self.base
    }

    /// Element `index` of an array of pointers or numbers.
    pub(super) fn read<T: Copy>(&self, index: usize) -> Option<T> {
        let end = index.checked_add(1)?.checked_mul(size_of::<T>())?;
        if end > self.bytes {
            return None;
        }
        // SAFETY: inside the mapping, which is at least page-aligned; callers name types for which
        // every bit pattern is a value.
        Some(unsafe { self.base.cast::<T>().wrapping_add(index).read() })
    }

    /// All of it.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `bytes` bytes, initialised by the kernel, and is borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.bytes) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { kernel::unmap(self.base, self.bytes) };
    }
}
