//! How much device memory the global variables of a module's image take.
//!
//! Reads PTX text (its `.global` declarations), cubin (the writable sections of the ELF file) and
//! the fat binaries around them, of which the entry with the most counts, since the driver loads one.
//! Entries differ in their architecture, not in their variables, so one packed entry stands for all;
//! it is unpacked if it is LZ4 (the compilers before 13.0) and not long, since programs load
//! thousands of them. What is packed otherwise shows its variables when the program asks for their
//! addresses ([`super::global`]). Promises: nothing is read beyond what the image says of its own
//! length; whatever the bytes are, there is an answer.
//!
//! Does not load anything.

use core::ffi::c_char;

use super::{lz4, ptx};
use crate::sys::scratch::Scratch;
use crate::sys::{In, Opaque};

const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
const FAT: u32 = 0xba55_ed50;
const WRAPPER: u32 = 0x4662_43b1;

/// Largest image looked into; what is beyond counts nothing.
const MOST_BYTES: u64 = 4 << 30;

/// Bytes that can be read by offset.
trait Source {
    /// Fills `into` from `offset`; false beyond the end, where that is known.
    fn read(&self, offset: u64, into: &mut [u8]) -> bool;

    /// The number of so many bytes at `offset`, at most eight.
    // Not inlined: it has a dozen callers, none of which is in a hurry.
    #[inline(never)]
    fn number(&self, offset: u64, length: usize) -> Option<u64> {
        let mut bytes = [0_u8; 8];
        let is_read = self.read(offset, bytes.get_mut(..length)?);
        is_read.then_some(u64::from_le_bytes(bytes))
    }
}

/// The program's image: as long as it says itself, or `most` bytes of it.
#[derive(Clone, Copy)]
struct InPlace {
    image: Opaque,
    at: u64,
    most: u64,
}

impl Source for InPlace {
    fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let end = offset.saturating_add(into.len() as u64);
        let from = usize::try_from(self.at.saturating_add(offset));
        end <= self.most && from.is_ok_and(|from| self.image.read_bytes(from, into))
    }
}

/// An image of ours.
struct Unpacked<'a>(&'a [u8]);

impl Source for Unpacked<'_> {
    fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(there) = self.0.get(from..from.saturating_add(into.len())) else { return false };
        for (to, from) in into.iter_mut().zip(there) {
            *to = *from;
        }
        true
    }
}

/// Bytes to charge for the image at `data`.
pub(crate) fn globals_of(data: Opaque) -> u64 {
    if data.is_null() {
        return 0;
    }
    sum(InPlace { image: data, at: 0, most: MOST_BYTES })
}

fn sum(image: InPlace) -> u64 {
    // The shortest image is a text of its NUL; a word further is read only if the first is not it.
    match first_word(&image) {
        // A wrapper in memory points to its fat binary; one in a file points nowhere.
        Some(WRAPPER) if image.most == MOST_BYTES => {
            let inner = InPlace { image: image.image.follow(8), at: 0, most: MOST_BYTES };
            if first_word(&inner) == Some(FAT) { fat(inner) } else { 0 }
        }
        Some(FAT) => fat(image),
        Some(ELF) => elf(&image),
        _ => ptx::globals(|offset| {
            let mut byte = [0_u8];
            image.read(offset, &mut byte).then_some(byte[0]).filter(|byte| *byte != 0)
        }),
    }
}

fn first_word(image: &impl Source) -> Option<u32> {
    let mut word = 0_u32;
    for index in 0..4_u32 {
        let byte = image.number(u64::from(index), 1)?;
        if byte == 0 {
            return None;
        }
        word |= u32::try_from(byte).unwrap_or(0) << index.saturating_mul(8);
    }
    Some(word)
}

/// Sum of the writable sections that take memory.
fn elf(image: &impl Source) -> u64 {
    const ALLOCATED_AND_WRITABLE: u64 = 3;
    let header = || {
        let table = image.number(0x28, 8)?;
        let entry_bytes = image.number(0x3a, 2)?;
        Some((table, entry_bytes, image.number(0x3c, 2)?))
    };
    let Some((table, entry_bytes, count)) = header() else { return 0 };
    let mut sum = 0_u64;
    for index in 0..count {
        let at = table.saturating_add(index.saturating_mul(entry_bytes));
        let flags = image.number(at.saturating_add(8), 8).unwrap_or(0);
        if flags & ALLOCATED_AND_WRITABLE == ALLOCATED_AND_WRITABLE {
            sum = sum.saturating_add(image.number(at.saturating_add(0x20), 8).unwrap_or(0));
        }
    }
    sum
}

/// The most that one entry of a fat binary takes.
fn fat(image: InPlace) -> u64 {
    let (Some(head), Some(length)) = (image.number(6, 2), image.number(8, 8)) else { return 0 };
    let end = head.saturating_add(length).min(image.most);
    let mut at = head;
    let mut most = 0_u64;
    let mut unpacked = false;
    // An entry has a head of 64 bytes at least, which bounds the walk.
    while at.saturating_add(64) <= end {
        let entry =
            InPlace { at: image.at.saturating_add(at), most: end.saturating_sub(at), ..image };
        let (Some(entry_head), Some(body)) = (entry.number(4, 4), entry.number(8, 8)) else {
            break;
        };
        if entry_head < 64 {
            break;
        }
        most = most.max(fat_entry(entry, entry_head, body, &mut unpacked));
        at = at.saturating_add(entry_head).saturating_add(body);
    }
    most
}

/// What one entry takes; `unpacked` says that a packed one has been looked into already.
fn fat_entry(entry: InPlace, head: u64, body: u64, unpacked: &mut bool) -> u64 {
    const TEXT: u64 = 1;
    const LZ4: u64 = 0x2000;
    const OTHERWISE_PACKED: u64 = 0x8000;
    let kind = entry.number(0, 2).unwrap_or(0);
    let flags = entry.number(40, 8).unwrap_or(0);
    let inner = InPlace {
        at: entry.at.saturating_add(head),
        most: body.min(entry.most.saturating_sub(head)),
        ..entry
    };
    match flags & (LZ4 | OTHERWISE_PACKED) {
        0 if kind == TEXT => sum(inner),
        0 => elf(&inner),
        LZ4 if kind != TEXT && !*unpacked => {
            *unpacked = true;
            let packed_bytes = entry.number(16, 4).unwrap_or(0).min(inner.most);
            unpack_elf(inner, packed_bytes, entry.number(56, 8).unwrap_or(0))
        }
        _ => 0,
    }
}

/// Longest packed entry that is unpacked: a millisecond.
const MOST_PACKED_BYTES: u64 = 256 << 10;

fn unpack_elf(image: InPlace, packed_bytes: u64, unpacked_bytes: u64) -> u64 {
    if packed_bytes > MOST_PACKED_BYTES || unpacked_bytes > MOST_PACKED_BYTES << 8 {
        return 0;
    }
    let room = |bytes: u64| usize::try_from(bytes).ok().and_then(Scratch::new);
    let (Some(mut from), Some(mut to)) = (room(packed_bytes), room(unpacked_bytes)) else {
        return 0;
    };
    let from = from.as_mut_slice();
    if !image.read(0, from) {
        return 0;
    }
    let length = lz4::unpack(from, to.as_mut_slice());
    elf(&Unpacked(to.as_mut_slice().get(..length).unwrap_or(&[])))
}

/// Bytes to charge for the image in a file; the driver reads the file again itself.
pub(crate) fn globals_of_file(path: In<'_, c_char>) -> u64 {
    let mut text = [0_u8; 4096];
    // A path that fills the buffer was cut.
    let length = match path.copy_text(&mut text).len() {
        4096 => return 0,
        length => length,
    };
    let path = text.get(..length.saturating_add(1)).unwrap_or(&[]);
    let Some(mut file) = Scratch::of_file(path) else { return 0 };
    let image = InPlace { image: file.as_opaque(), at: 0, most: file.as_mut_slice().len() as u64 };
    sum(image)
}
