//! The lock on a byte of the usage file by which a slot's process is known to live.
//!
//! Promises: a process counts as alive where the kernel does not say.
//!
//! Does not claim or clear a slot: that is [`crate::slot`].

use divvy_abi::usage::{self, state};

use crate::sys::{self, Errno, Fd, Lock};
use crate::usage::Usage;

/// Whether the slot's lock is held by a living process.
pub(crate) fn is_alive(fd: &Fd, slot: usize) -> bool {
    sys::is_locked(fd, slot_lock_at(slot)).unwrap_or(true)
}

/// Takes or drops a slot's liveness lock on `fd`'s description.
pub(crate) fn lock_slot(fd: &Fd, slot: usize, lock: Lock) -> Result<bool, Errno> {
    sys::set_lock(fd, slot_lock_at(slot), lock)
}

fn slot_lock_at(slot: usize) -> u64 {
    usage::SLOT_LOCKS_AT + slot as u64
}

/// Whether any process of the tenant but `me` has finished attaching and lives.
pub(crate) fn others_live(fd: &Fd, usage: &Usage, me: usize) -> bool {
    (1..usage.slots_high())
        .filter(|slot| *slot != me && usage.slot_state(*slot) == state::LIVE)
        .any(|slot| is_alive(fd, slot))
}
