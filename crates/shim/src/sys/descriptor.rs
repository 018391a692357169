//! Descriptors of the program's, looked at and left alone but for a mark.
//!
//! The driver tells nobody how large the memory behind a descriptor is. So one that is exported here
//! gets a mark that whoever imports it can read: a lock on its open file description (`F_OFD_SETLK`,
//! Linux 3.15), whose first byte says which memory and whose length says how much. A mark goes with the
//! description through `dup`, `fork`, `execve` and sockets, and ends with its last copy. It lies beyond
//! any data, at a place drawn at random, so it meets no other lock; the driver has no use for locks.

use core::ffi::CStr;

use super::kernel;

/// Marks begin here or later; nobody else locks bytes so far out.
const FIRST: u64 = 1 << 61;
/// Most granules that a mark is believed: 2 TiB.
const MOST_GRANULES: u64 = 1 << 20;

/// What a mark says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// Which memory, below 2^61.
    pub(crate) key: u64,
    /// Its size in granules of 2 MiB.
    pub(crate) granules: u64,
}

/// A number for the file behind a descriptor, alike for one file; none for a closed one.
pub(crate) fn file_of(descriptor: i32) -> Option<u64> {
    let (device, inode) = kernel::identity(descriptor)?;
    Some(device.rotate_left(32) ^ inode)
}

/// A key that no other process has drawn.
pub(crate) fn draw_key() -> Option<u64> {
    Some(kernel::random()? % FIRST)
}

/// Marks a descriptor's description; false where the kernel has no such locks.
pub(crate) fn mark(descriptor: i32, mark: Mark) -> bool {
    let start = FIRST.saturating_add(mark.key % FIRST);
    mark.granules != 0
        && mark.granules <= MOST_GRANULES
        && kernel::lock_range(descriptor, start, mark.granules)
}

/// The mark of a descriptor's description.
///
/// Cost: three system calls.
pub(crate) fn mark_of(descriptor: i32) -> Option<Mark> {
    let mut path = *b"/proc/self/fdinfo/\0\0\0\0\0\0\0\0\0\0\0";
    write_number(path.get_mut(18..28)?, u32::try_from(descriptor).ok()?);
    let mut bytes = [0_u8; 1024];
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let length = kernel::File::open(path)?.read_start(&mut bytes);
    mark_in(bytes.get(..length)?)
}

/// Looks for a line such as `lock:  1: OFDLCK ADVISORY  WRITE -1 00:06:12 4096 8191`: the only ones
/// that end with two numbers, of which a mark's are larger than any other.
fn mark_in(text: &[u8]) -> Option<Mark> {
    let (mut start, mut end) = (0_u64, 0_u64);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            end = end.wrapping_mul(10).wrapping_add(u64::from(digit));
            continue;
        }
        let key = start.wrapping_sub(FIRST);
        let granules = end.wrapping_sub(start).wrapping_add(1);
        if *byte == b'\n' && key < FIRST && (1..=MOST_GRANULES).contains(&granules) {
            return Some(Mark { key, granules });
        }
        (start, end) = (end, 0);
    }
    None
}

/// Writes a number in decimal; ten digits hold any.
fn write_number(to: &mut [u8], number: u32) {
    let digits = number.checked_ilog10().map_or(1, |log| log.saturating_add(1));
    let mut rest = number;
    for place in to.iter_mut().take(digits as usize).rev() {
        *place = b'0'.wrapping_add((rest % 10) as u8);
        rest /= 10;
    }
}
