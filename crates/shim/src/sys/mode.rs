//! Whether this process is limited at all.
//!
//! Decided once, from the environment and from what is mounted, when the program first asks for a
//! function we hook: a program keeps the addresses it is given. A process without a limit and without a
//! tenant is passive: it is given the driver's own addresses, and exports that it links to directly
//! forward. Two threads that decide at once decide the same.
//!
//! A container's tenant is mounted at one place ([`MOUNTED_TENANT`]), which no program can unset: `sudo`,
//! `ssh` and `cron` clear variables.
//!
//! By the file name of nvshare's library, libnvshare.so, every process has a tenant.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use divvy_page::kernel;
use divvy_policy::variables::{COMPUTE, MEMORY, PEER_COMPUTE, PEER_MEMORY, PEER_TENANT, TENANT};

use super::{elf, env, resolve};

const UNDECIDED: u8 = 0;
const PASSIVE: u8 = 1;
const ACTIVE: u8 = 2;

/// Where a container has its tenant. On a host it is root's place, in which nothing of this name is.
pub(crate) const MOUNTED_TENANT: &CStr = c"/run/divvy/tenant";

static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// Whether hooks run in this process.
#[inline(always)]
pub(crate) fn is_active() -> bool {
    let mode = MODE.load(Relaxed);
    mode == ACTIVE || (mode != PASSIVE && decide())
}

#[cold]
#[inline(never)]
fn decide() -> bool {
    if !env::is_ready() {
        // Too early to know; nothing has been given away by assuming the worse.
        return true;
    }
    let active = env::any(is_ours) || is_nvshare() || has_mounted_tenant();
    let active = active && !resolve::is_second_copy();
    let mode = if active { ACTIVE } else { PASSIVE };
    let _ = MODE.compare_exchange(UNDECIDED, mode, Relaxed, Relaxed);
    MODE.load(Relaxed) == ACTIVE
}

/// Whether the process's container has a tenant.
///
/// Cost: a system call.
#[inline(never)]
pub(crate) fn has_mounted_tenant() -> bool {
    kernel::stat(MOUNTED_TENANT).is_ok()
}

/// Whether this library was loaded by the file name of nvshare's, a link's included.
///
/// Cost: a walk over the objects before it.
pub(crate) fn is_nvshare() -> bool {
    resolve::own_path().is_some_and(|path| elf::last_part(path.to_bytes()) == b"libnvshare.so")
}

/// Whether this variable gives the process a tenant or a limit. A tenant's that is empty is not set.
fn is_ours(name: &[u8], value: &[u8]) -> bool {
    let families = [MEMORY, PEER_MEMORY, COMPUTE, PEER_COMPUTE];
    (!value.is_empty() && [TENANT, PEER_TENANT].into_iter().any(|word| name == word.as_bytes()))
        || families.into_iter().any(|base| env::is_of(name, base))
}
