//! The file where tenants of a user meet on a device: `.meet/` beside their directories, see
//! `divvy_abi::meet`.
//!
//! Promises: opened for one use and closed again, so that a program which closes every descriptor loses
//! nothing; never mapped; what it holds is believed by nobody but `divvy_policy`'s gate. The directory
//! is its operator's, or `divvy run`'s, to make: without it there is no board.

use divvy_abi::Uuid;
use divvy_abi::meet::{Board as Places, BoardPlace};
use divvy_policy::gate::Board;
use zerocopy::IntoBytes;

use crate::at;
use crate::sys::{self, Fd};
use crate::tenant::Tenant;

/// A device's board, open.
#[derive(Debug)]
pub struct MeetFile {
    fd: Fd,
    tenant: u64,
}

/// From the tenant's directory: a name of 16 characters, `@` to `O`, that stand for digits.
const NAME: [u8; 26] = *b"/../.meet/@@@@@@@@@@@@@@@@";

/// The file's name: the two halves of the UUID folded.
fn name(uuid: &Uuid) -> [u8; NAME.len()] {
    let uuid = u128::from_be_bytes(*uuid);
    let mut folded = (uuid >> 64) as u64 ^ uuid as u64;
    let mut name = NAME;
    for to in name.iter_mut().rev().take(16) {
        *to |= (folded & 15) as u8;
        folded >>= 4;
    }
    name
}

/// A number that a tenant's processes have alike, in whatever directory its files are mounted, and two tenants of a
/// file system never: of its usage file's device and inode.
pub(crate) fn identity((device, inode): (u64, u64)) -> u64 {
    inode ^ device.rotate_left(32)
}

impl Tenant {
    /// The board of a device; none where nobody made the directory.
    ///
    /// Cost: a system call, and one when it is dropped.
    pub fn meet_file(&self, uuid: &Uuid) -> Option<MeetFile> {
        let path = self.usage_path().with_end::<{ b"/usage".len() }>(&name(uuid));
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_NONBLOCK;
        let fd = at::open(None, path.as_c_str(), flags, 0o600).ok()?;
        Some(MeetFile { fd, tenant: identity(self.file) })
    }
}

impl Board for MeetFile {
    fn process(&self) -> u32 {
        sys::pid()
    }
    fn tenant(&self) -> u64 {
        self.tenant
    }
    fn read(&self, into: &mut Places) -> bool {
        sys::read_at(&self.fd, into.as_mut_bytes(), 0).is_ok()
    }
    fn write(&self, at: usize, place: &BoardPlace) -> bool {
        let at = at.saturating_mul(size_of::<BoardPlace>()) as u64;
        sys::write_at(&self.fd, place.as_bytes(), at).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_that_were_made_one_after_the_other_are_two() {
        for inode in 12_000..12_100 {
            assert_ne!(identity((27, inode)), identity((27, inode + 1)));
            assert_ne!(identity((27, inode)), 0, "that is nobody's");
        }
        assert_ne!(identity((27, 12_000)), identity((28, 12_000)));
    }

    #[test]
    fn devices_have_files_of_their_own() {
        let one = [7; 16];
        let mut other = one;
        other[3] = 0xf2;
        assert_eq!(name(&one), NAME);
        assert_eq!(&name(&other), b"/../.meet/@@@@@@OE@@@@@@@@");
    }
}
