//! Shared mappings of memory files, and the bytes behind simulated device memory.
//!
//! Promises: a [`Span`] of a mapping keeps it mapped and ends inside it. A mapping is a range of addresses
//! other processes may write at any time, so no slice of it is ever made. All accesses but [`Span::add`]
//! are plain byte copies; races between streams are the program's races.
//! Does not check the program's own host pointers: a copy from a bad host address faults, as it does with
//! the driver. Nor does it know which addresses a program named: where there is a [`Program`], any
//! address is taken for one of its own.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Pages that the system is asked about at once: 16 MiB of the usual ones.
const PAGES_AT_ONCE: usize = 4096;

/// A range of a memory file in this process.
#[derive(Debug)]
pub struct Mapping(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory without thread affinity; it is only reached by raw pointer.
unsafe impl Send for Mapped {}
// SAFETY: as above; no method hands out a reference into the mapping.
unsafe impl Sync for Mapped {}

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
        Ok(Self(Arc::new(Mapped { address, bytes })))
    }

    /// The mapped bytes.
    pub fn span(&self) -> Span {
        let at = self.0.address.as_ptr().expose_provenance();
        Span { at, bytes: self.0.bytes, mapped: Some(Arc::clone(&self.0)) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `Mapping::new`, is unmapped nowhere else, and no reference into
        // it exists.
        let outcome = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
        debug_assert!(outcome.is_ok(), "munmap of a range of our own: {outcome:?}");
    }
}

/// A program that keeps the driver's contract for the memory it names.
#[derive(Clone, Copy, Debug)]
pub struct Program(());

impl Program {
    /// The program that this library is loaded in.
    ///
    /// # Safety
    /// 1. An address that the program has a call read or write is one of memory that it may have read or
    ///    written, for as many bytes as the call's documentation says.
    /// 2. It stays so until the work that the call submitted has ended.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// A run of bytes in this process.
#[derive(Clone, Debug)]
pub struct Span {
    at: usize,
    bytes: usize,
    /// Holds the mapping; none where the bytes are the program's.
    mapped: Option<Arc<Mapped>>,
}

impl Span {
    /// Memory of the program's.
    pub fn of_program(_: Program, at: usize, bytes: usize) -> Self {
        Self { at, bytes, mapped: None }
    }

    /// Its first byte's address.
    pub fn address(&self) -> usize {
        self.at
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes of it, behind those that are skipped; none if it has not as many.
    pub fn part(&self, skipped: usize, bytes: usize) -> Option<Self> {
        let end = skipped.checked_add(bytes)?;
        let at = self.at.checked_add(skipped).filter(|_| end <= self.bytes)?;
        Some(Self { at, bytes, mapped: self.mapped.clone() })
    }

    /// How many bytes lie in pages that have content in memory, written or read by whomever; none of the
    /// program's own memory is counted, nor a page that the system has swapped out.
    pub fn populated_bytes(&self) -> usize {
        let page_bytes = rustix::param::page_size();
        let Some(mapped) = &self.mapped else { return 0 };
        let start = mapped.address.as_ptr().expose_provenance();
        let from = self.at - (self.at - start) % page_bytes;
        let to = (self.at + self.bytes).min(start + mapped.bytes);
        let mut pages = [0_u8; PAGES_AT_ONCE];
        let mut populated = 0;
        for at in (from..to).step_by(PAGES_AT_ONCE * page_bytes) {
            let bytes = (to - at).min(PAGES_AT_ONCE * page_bytes);
            let known = std::ptr::with_exposed_provenance_mut(at);
            // SAFETY: `at` begins a page of a mapping that this span holds, which has `bytes` from there on;
            // a byte is written for each of their pages, of which there are no more than `pages` has.
            let outcome = unsafe { libc::mincore(known, bytes, pages.as_mut_ptr()) };
            if outcome == 0 {
                let asked = pages.iter().take(bytes.div_ceil(page_bytes));
                populated += asked.filter(|page| **page & 1 == 1).count();
            }
        }
        (populated * page_bytes).min(self.bytes)
    }

    fn source(&self) -> *const u8 {
        std::ptr::with_exposed_provenance(self.at)
    }

    fn target(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.at)
    }

    /// Copies as many bytes as both spans have.
    pub fn copy_from(&self, from: &Self) {
        let bytes = self.bytes.min(from.bytes);
        // SAFETY: both spans lie in mappings that they hold, or in memory of the program's (`Program`);
        // `copy` allows overlap.
        unsafe { std::ptr::copy(from.source(), self.target(), bytes) }
    }

    /// Fills it with repetitions of `pattern`, whose first byte goes to its start.
    pub fn fill(&self, pattern: &[u8]) {
        let Some(first) = pattern.first() else { return };
        if pattern.iter().all(|byte| byte == first) {
            // SAFETY: as in `copy_from`.
            unsafe { std::ptr::write_bytes(self.target(), *first, self.bytes) }
            return;
        }
        for (index, byte) in (0..self.bytes).zip(pattern.iter().cycle()) {
            // SAFETY: as in `copy_from`; `index` is inside the span.
            unsafe { self.target().wrapping_add(index).write(*byte) }
        }
    }

    /// Its bytes, copied.
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: as in `copy_from`; the vector is as long and of this function alone.
        unsafe { std::ptr::copy(self.source(), bytes.as_mut_ptr(), self.bytes) }
        bytes
    }

    /// Writes as many of the bytes to its start as it has room for.
    pub fn write(&self, bytes: &[u8]) {
        // SAFETY: as in `copy_from`, from a slice of this process.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.target(), self.bytes.min(bytes.len())) }
    }

    /// Adds to the number at its start in one step, as `red.add.u64` does; nothing where it is shorter or
    /// not aligned.
    pub fn add(&self, more: u64) {
        let target = self.target().cast::<u64>();
        if self.bytes < 8 || !target.is_aligned() {
            return;
        }
        // SAFETY: eight aligned bytes, as in `copy_from`.
        let number = unsafe { std::sync::atomic::AtomicU64::from_ptr(target) };
        number.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
    }
}
