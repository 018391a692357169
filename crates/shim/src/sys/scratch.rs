//! Memory for the length of one call, straight from the kernel: a file, or what is unpacked.

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
        Some(Self { base: kernel::map_private(bytes).ok()?, bytes })
    }

    /// The content of a file whose path ends in a NUL; `None` where it cannot be read, or is of 4 GiB
    /// or more.
    pub(crate) fn of_file(path: &[u8]) -> Option<Self> {
        let path = core::ffi::CStr::from_bytes_until_nul(path).ok()?;
        let file = kernel::File::open(path)?;
        let bytes = file.length()?;
        let mut content = Self::new(bytes.saturating_add(1))?;
        // One zero stays behind it: the end of a text.
        let target = content.as_mut_slice().get_mut(..bytes)?;
        file.read(target).then_some(content)
    }

    /// All of it.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `bytes` bytes, initialised by the kernel, and is borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.bytes) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: 1. mapped by `new`, whole. 2. What refers to it borrows from this value, which ends here.
        unsafe { kernel::unmap(self.base, self.bytes) };
    }
}
