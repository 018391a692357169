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
use crate::sys::In;
use crate::sys::image::{Bytes, Contents, Image};
use crate::sys::scratch::Scratch;

/// Bytes to charge for the image at `data`.
pub(crate) fn globals_of(data: Image<'_>) -> u64 {
    data.contents().map_or(0, |contents| sum(&contents))
}

fn sum(contents: &Contents<'_>) -> u64 {
    match contents {
        Contents::Fat(image) => fat(*image),
        Contents::Elf(image) => elf(*image),
        Contents::Text(text) => ptx::globals(|at| text.byte(at)),
    }
}

/// Sum of the writable sections that take memory.
fn elf(image: Bytes<'_>) -> u64 {
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
fn fat(image: Bytes<'_>) -> u64 {
    let Some(head) = image.number(6, 2) else { return 0 };
    let end = image.length();
    let mut at = head;
    let mut most = 0_u64;
    let mut unpacked = false;
    // An entry has a head of 64 bytes at least, which bounds the walk.
    while at.saturating_add(64) <= end {
        let entry = image.part(at, end.saturating_sub(at));
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

/// Device memory of one entry; `unpacked` is true if a packed one has been looked into already.
fn fat_entry(entry: Bytes<'_>, head: u64, body: u64, unpacked: &mut bool) -> u64 {
    const TEXT: u64 = 1;
    const LZ4: u64 = 0x2000;
    const OTHERWISE_PACKED: u64 = 0x8000;
    let kind = entry.number(0, 2).unwrap_or(0);
    let flags = entry.number(40, 8).unwrap_or(0);
    let inner = entry.part(head, body);
    match flags & (LZ4 | OTHERWISE_PACKED) {
        0 if kind == TEXT => sum(&inner.contents()),
        0 => elf(inner),
        LZ4 if kind != TEXT && !*unpacked => {
            *unpacked = true;
            let packed_bytes = entry.number(16, 4).unwrap_or(0).min(inner.length());
            unpack_elf(inner, packed_bytes, entry.number(56, 8).unwrap_or(0))
        }
        _ => 0,
    }
}

/// Longest packed entry that is unpacked: a millisecond.
const MOST_PACKED_BYTES: u64 = 256 << 10;

fn unpack_elf(image: Bytes<'_>, packed_bytes: u64, unpacked_bytes: u64) -> u64 {
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
    elf(Bytes::of(to.as_mut_slice().get(..length).unwrap_or(&[])))
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
    sum(&Bytes::of(file.as_mut_slice()).contents())
}
