//! Descriptors of the program's, looked at and left alone.

use super::kernel;

/// A number for the file behind a descriptor, alike for one file; none for a closed one.
pub(crate) fn file_of(descriptor: i32) -> Option<u64> {
    let (device, inode) = kernel::identity(descriptor)?;
    Some(device.rotate_left(32) ^ inode)
}
