//! Moves the bytes behind simulated device memory.
//!
//! Promises: device memory is reached only inside mappings that the caller keeps alive. Does not
//! check the program's own host pointers: a copy from a bad host address faults, as it does with the
//! driver. All accesses but [`add`] are plain byte copies; races between streams are the
//! program's races.
#![allow(unsafe_code, reason = "copies bytes between mappings and program memory")]

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A run of bytes in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Where it starts.
    pub at: usize,
    /// How long it is.
    pub bytes: usize,
}

/// Copies as many bytes as both spans have.
pub fn copy(to: Span, from: Span) {
    let bytes = to.bytes.min(from.bytes);
    let source = core::ptr::with_exposed_provenance::<u8>(from.at);
    let target = core::ptr::with_exposed_provenance_mut::<u8>(to.at);
    // SAFETY: both spans lie in live mappings (ours, held by the caller, or the program's, by the
    // contract of the copy it asked for); `copy` allows overlap.
    unsafe { core::ptr::copy(source, target, bytes) }
}

/// Fills the span with repetitions of `pattern`, whose first byte goes to the span's start.
pub fn fill(span: Span, pattern: &[u8]) {
    if pattern.is_empty() {
        return;
    }
    let target = core::ptr::with_exposed_provenance_mut::<u8>(span.at);
    if pattern.iter().all(|byte| *byte == pattern[0]) {
        // SAFETY: as in `copy`.
        unsafe { core::ptr::write_bytes(target, pattern[0], span.bytes) }
        return;
    }
    for index in 0..span.bytes {
        let byte = pattern[index % pattern.len()];
        // SAFETY: as in `copy`; `index` is inside the span.
        unsafe { target.wrapping_add(index).write(byte) }
    }
}

/// Reads a span into a vector.
pub fn read(span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.bytes];
    copy(Span { at: bytes.as_mut_ptr().expose_provenance(), bytes: span.bytes }, span);
    bytes
}

/// Writes `bytes` to the span's start.
pub fn write(span: Span, bytes: &[u8]) {
    copy(span, Span { at: bytes.as_ptr().expose_provenance(), bytes: bytes.len() });
}

/// Adds to the number at the span's start in one step, as `red.add.u64` does; nothing where the span is
/// shorter or not aligned.
pub fn add(span: Span, more: u64) {
    let target = core::ptr::with_exposed_provenance_mut::<u64>(span.at);
    if span.bytes < 8 || !target.is_aligned() {
        return;
    }
    // SAFETY: eight aligned bytes of a live mapping, as in `copy`.
    let number = unsafe { core::sync::atomic::AtomicU64::from_ptr(target) };
    number.fetch_add(more, core::sync::atomic::Ordering::Relaxed);
}

/// A shared mapping of a memory file, or of anonymous memory when there is no file.
#[derive(Debug)]
pub struct Mapping {
    at: usize,
    bytes: usize,
}

impl Mapping {
    /// Maps all of `file`.
    pub fn of(file: BorrowedFd<'_>, bytes: usize) -> std::io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so nothing of ours is replaced.
        let at =
            unsafe { mmap(core::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?;
        Ok(Self { at: at.expose_provenance(), bytes })
    }

    /// The mapped bytes.
    pub fn span(&self) -> Span {
        Span { at: self.at, bytes: self.bytes }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let at = core::ptr::with_exposed_provenance_mut(self.at);
        // SAFETY: exactly the range mapped by `of`, and no reference into it is kept.
        let unmapped = unsafe { munmap(at, self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own range");
    }
}

/// A memory file of `bytes` zero bytes, none of them resident.
pub fn memory_file(bytes: u64) -> std::io::Result<OwnedFd> {
    let file = memfd_create("simgpu-block", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// The size and inode of a memory file.
pub fn file_identity(file: BorrowedFd<'_>) -> std::io::Result<(u64, u64)> {
    let state = fstat(file)?;
    Ok((u64::try_from(state.st_size).unwrap_or(0), state.st_ino))
}

/// Closes a descriptor number that the program handed over.
pub fn close(number: i32) {
    if number >= 0 {
        // SAFETY: the program gave it up by the call's contract, and nothing of ours owns it.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

/// Duplicates a descriptor number that the program passed.
pub fn duplicate(number: i32) -> std::io::Result<OwnedFd> {
    if number < 0 {
        return Err(std::io::Error::from_raw_os_error(9));
    }
    // SAFETY: borrowed for the duration of this call only; a number that is not open makes the
    // duplication fail with EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.as_fd().try_clone_to_owned()
}
