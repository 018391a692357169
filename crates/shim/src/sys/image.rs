//! The images of modules, readable as far as they say themselves: a program's where they lie, and ours.
//!
//! Promises: nothing is read beyond what an image says of its own length, or beyond its text's NUL, in whatever order
//! it is asked for; whatever the bytes are, there is an answer.
//!
//! Does not know what the parts of an image mean.

use core::cell::Cell;
use core::ffi::c_void;
use core::marker::PhantomData;

const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
const FAT: u32 = 0xba55_ed50;
const WRAPPER: u32 = 0x4662_43b1;

/// Largest image looked into; what is beyond counts nothing.
const MOST_BYTES: u64 = 4 << 30;
/// Head of an ELF file.
const ELF_HEAD_BYTES: u64 = 64;

/// Bytes that can be read by offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    /// Valid for reads of `length` bytes during the lifetime; others may write there meanwhile, so it is no slice.
    base: *const u8,
    length: u64,
    lifetime: PhantomData<&'a u8>,
}

impl<'a> Bytes<'a> {
    /// Memory of ours.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { base: bytes.as_ptr(), length: bytes.len() as u64, lifetime: PhantomData }
    }

    /// How many there are.
    pub(crate) fn length(self) -> u64 {
        self.length
    }

    /// Those from `at` on, `most` at most.
    pub(crate) fn part(self, at: u64, most: u64) -> Self {
        let at = at.min(self.length);
        let base = self.base.wrapping_add(usize::try_from(at).unwrap_or(usize::MAX));
        Self { base, length: most.min(self.length.saturating_sub(at)), ..self }
    }

    /// Fills `into` from `offset`; false beyond the end.
    pub(crate) fn read(self, offset: u64, into: &mut [u8]) -> bool {
        if offset.saturating_add(into.len() as u64) > self.length {
            return false;
        }
        let from = self.base.wrapping_add(usize::try_from(offset).unwrap_or(usize::MAX));
        // SAFETY: within the bytes that `base` is valid for; `into` is borrowed alone, so it overlaps none of them.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// The number of so many bytes at `offset`, at most eight.
    // Not inlined: it has a dozen callers, none of which is in a hurry.
    #[inline(never)]
    pub(crate) fn number(self, offset: u64, length: usize) -> Option<u64> {
        let mut bytes = [0_u8; 8];
        let is_read = self.read(offset, bytes.get_mut(..length)?);
        is_read.then_some(u64::from_le_bytes(bytes))
    }

    /// The first word, none behind a NUL in it: the shortest image is a text of its NUL.
    fn first_word(self) -> Option<u32> {
        let mut word = 0_u32;
        for index in 0..4_u32 {
            let byte = self.number(u64::from(index), 1)?;
            if byte == 0 {
                return None;
            }
            word |= u32::try_from(byte).unwrap_or(0) << index.saturating_mul(8);
        }
        Some(word)
    }

    /// The image that lies here, within these bytes and as long as its header says.
    // Not inlined, and so one for the program's images and ours.
    #[inline(never)]
    pub(crate) fn contents(self) -> Contents<'a> {
        let number = |at, length| self.number(at, length).unwrap_or(0);
        match self.first_word() {
            Some(FAT) => {
                let end = number(6, 2).saturating_add(number(8, 8));
                Contents::Fat(self.part(0, end))
            }
            Some(ELF) => {
                let table_bytes = number(0x3a, 2).saturating_mul(number(0x3c, 2));
                let end = number(0x28, 8).saturating_add(table_bytes);
                Contents::Elf(self.part(0, end.max(ELF_HEAD_BYTES)))
            }
            _ => Contents::Text(Text::new(self)),
        }
    }
}

/// Kind of an image, by its first word.
#[derive(Debug)]
pub(crate) enum Contents<'a> {
    /// Entries, one of which the driver loads.
    Fat(Bytes<'a>),
    /// A cubin.
    Elf(Bytes<'a>),
    /// PTX, or nothing that is known.
    Text(Text<'a>),
}

/// A text up to its NUL, or to the end of the bytes it lies in.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    /// To be read up to the first NUL only.
    bytes: Bytes<'a>,
    /// So many bytes at the beginning are no NUL.
    known: Cell<u64>,
}

impl<'a> Text<'a> {
    const fn new(bytes: Bytes<'a>) -> Self {
        Self { bytes, known: Cell::new(0) }
    }

    /// The byte at `at`; none from the end on.
    // Not inlined: a nanosecond a byte of a text that the driver takes a thousand times as long to compile.
    #[inline(never)]
    pub(crate) fn byte(&self, at: u64) -> Option<u8> {
        // Where there may be a NUL before it, all before it are looked at first.
        let mut next = at.min(self.known.get());
        loop {
            let mut byte = [0_u8];
            if !self.bytes.read(next, &mut byte) || byte[0] == 0 {
                return None;
            }
            self.known.set(self.known.get().max(next.saturating_add(1)));
            if next == at {
                return Some(byte[0]);
            }
            next = next.saturating_add(1);
        }
    }
}

/// The image that a program passes to the driver, possibly null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a> {
    pointer: *const c_void,
    call: PhantomData<&'a u8>,
}

impl<'a> Image<'a> {
    /// # Safety
    /// `pointer` is null, or leads to one of these, valid for reads during `'a`:
    /// 1. a text, that a NUL ends;
    /// 2. an ELF file: 64 bytes of head, and all up to the end of the table of sections that it names;
    /// 3. a fat binary: 16 bytes of head, and as many as that says;
    /// 4. a wrapper: 16 bytes, the last eight of which are null or lead to a text, an ELF file or a fat binary.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(pointer: *const c_void) -> Self {
        Self { pointer, call: PhantomData }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *const c_void {
        self.pointer
    }

    /// Contents; none if the program passed null, or a wrapper of something else than a fat binary.
    pub(crate) fn contents(self) -> Option<Contents<'a>> {
        // SAFETY: 1. as `from_raw` was promised. 2. The next three steps.
        let here = unsafe { begin(self.pointer.cast()) }?;
        if here.first_word() != Some(WRAPPER) {
            return Some(here.contents());
        }
        let inner = usize::try_from(here.number(8, 8)?).ok()?;
        // SAFETY: 1. as a wrapper was promised to have it. 2. The next step.
        let inner = unsafe { begin(core::ptr::with_exposed_provenance(inner)) }?.contents();
        matches!(inner, Contents::Fat(_)).then_some(inner)
    }
}

/// An image whose length is not known yet, of which nothing but its head may be read before it is; none at null.
///
/// # Safety
/// 1. `base` is null, or leads to what [`Image::from_raw`] names, during `'a`.
/// 2. The answer is asked for its first word and, where that is a wrapper's, for what a wrapper holds; for anything
///    else through [`Bytes::contents`], which finds where it ends.
unsafe fn begin<'a>(base: *const u8) -> Option<Bytes<'a>> {
    (!base.is_null()).then_some(Bytes { base, length: MOST_BYTES, lifetime: PhantomData })
}
