//! Whether this process is a client of an MPS daemon, as the driver decides when it starts: by the daemon's pipe.
//!
//! Clients share one context on the device, so kernels of several of them run at once and a turn of one's would keep
//! the others out of what they have together: processes of a tenant that are clients take no turns between them.
//!
//! Promises: a pipe of another user's is not believed, so that nobody takes others' turns away. Does not find a daemon that
//! has ended and left its pipe: the driver would wait for that one too.

use core::ffi::CStr;

use divvy_policy::variables::MPS_PIPE;

use crate::sys::{env, owner};

const DEFAULT: &[u8] = b"/tmp/nvidia-mps";
const PIPE: &[u8] = b"/control\0";

/// Whether it is one.
///
/// Cost: a look at the environment, and two system calls.
pub(super) fn is_client() -> bool {
    let mut directory = [0_u8; 256];
    let directory = env::copy(MPS_PIPE.as_bytes(), &mut directory).unwrap_or(DEFAULT);
    let mut path = [0_u8; 256 + PIPE.len()];
    let places = path.iter_mut();
    places.zip(directory.iter().chain(PIPE)).for_each(|(place, byte)| *place = *byte);
    CStr::from_bytes_until_nul(&path).is_ok_and(owner::is_own_or_roots)
}
