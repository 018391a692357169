//! A process's slot: claimed once, alive as long as the process, free the moment it dies.
//!
//! Liveness is an OFD write lock on a byte of the slot's own, on a description opened anew for it.
//! One page mapped from that description keeps it open after its descriptor is closed, so the lock
//! survives a program that closes every descriptor; MADV_DONTFORK keeps the page, and with it the
//! lock, out of forked children. The slot's number lies in a page that the kernel wipes in a child,
//! so a child, however it was made, finds none and claims its own.

use core::ffi::CStr;
use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::MAX_SLOTS;
use divvy_abi::usage::{self, SHARED_SLOT, slot, state};
use divvy_policy::ledger::{Slots as _, held_bytes};

use crate::error::{AttachError, TenantFile};
use crate::fork_page::{ForkPage, PAGE_BYTES};
use crate::process::ProcessIdentity;
use crate::sys::{self, Errno, Fd, InChild, Lock};
use crate::usage::Usage;
use crate::{file, liveness, shared_table};

/// Slots that a process which joins tries to free.
const REAPED_BY_A_CLAIM: usize = 8;

/// Claims a slot for this process, unless another thread just did. `settle` runs with the slot
/// still STARTING: it reads or writes the config. `identity` is the file's device and inode.
pub(crate) fn claim(
    fork: &ForkPage,
    usage: &Usage,
    path: &CStr,
    identity: (u64, u64),
    settle: impl FnOnce(&Fd, usize) -> Result<(), AttachError>,
) -> Result<usize, AttachError> {
    fork.alone(|| {
        if fork.slot() != 0 {
            return Ok(fork.slot());
        }
        let fd = file::reopen_usage(path, identity.0, identity.1)?;
        let index = take_any(&fd, usage)?;
        if sys::stat(&fd).is_ok_and(|stat| stat.links == 0) {
            // A tenant without processes was removed a moment ago: nothing of this file is the tenant's any more.
            return Err(AttachError::Open(TenantFile::Usage, Errno(libc::ENOENT)));
        }
        usage.clear_slot(index);
        shared_table::forget_user(usage, index);
        describe(usage, index);
        usage.set_slot_state(index, state::STARTING);
        usage.raise_slots_high(index);
        let page = anchor(&fd)?;
        reap_some(&fd, usage, index);
        if let Err(error) = settle(&fd, index) {
            usage.set_slot_state(index, state::FREE);
            // SAFETY: 1. the page was mapped a moment ago, whole. 2. Nothing ever refers to it.
            unsafe { sys::unmap(page, PAGE_BYTES) };
            return Err(error);
        }
        usage.set_slot_state(index, state::LIVE);
        fork.set_slot(index);
        shared_table::begin(&fd, usage, index, path, identity);
        Ok(index)
    })
}

/// Maps one page of `fd`'s description, so that its locks outlive the descriptor.
fn anchor(fd: &Fd) -> Result<*mut u8, AttachError> {
    let page = sys::map_shared(fd, PAGE_BYTES, libc::PROT_NONE).map_err(AttachError::System)?;
    // SAFETY: 1. the page was mapped a moment ago, whole. 2. Nothing refers to it, in a child neither: it is there for
    // its description's locks.
    unsafe { sys::advise(page, PAGE_BYTES, InChild::Nothing) }.map_err(AttachError::System)?;
    Ok(page)
}

/// Locks a free slot: the lowest of those marked free, else the lowest of a dead process.
fn take_any(fd: &Fd, usage: &Usage) -> Result<usize, AttachError> {
    for marked_free in [true, false] {
        for index in 1..MAX_SLOTS {
            let candidate = !marked_free || usage.slot_state(index) == state::FREE;
            if candidate
                && liveness::lock_slot(fd, index, Lock::Write).map_err(AttachError::System)?
            {
                return Ok(index);
            }
        }
    }
    Err(AttachError::NoSlot)
}

fn describe(usage: &Usage, index: usize) {
    let identity = ProcessIdentity::of_self();
    let at = usage::slot_at(index);
    usage.u32_at(at + slot::PID).store(identity.pid, SeqCst);
    usage.u64_at(at + slot::START_TICKS).store(identity.start_ticks, SeqCst);
    usage.u64_at(at + slot::PID_NAMESPACE).store(identity.pid_namespace, SeqCst);
    let (low, high) = identity.comm.split_at(8);
    let word = |half: &[u8]| u64::from_ne_bytes(half.first_chunk().copied().unwrap_or_default());
    usage.write_words(at + slot::COMM, &[word(low), word(high)]);
    usage.u32_at(at + slot::REASON).store(0, SeqCst);
}

/// Frees the slots of the dead that hold something of the device in `row`, or share its memory.
///
/// The slot's lock is all this needs: two who reap at once, or reap and claim, exclude each other by
/// it. Costs one system call for each process that holds something there.
pub(crate) fn reap(fd: &Fd, usage: &Usage, me: usize, row: usize) {
    let line = usage.line(row);
    let holds = |slot| line.asking(slot) != 0 || held_bytes(line.held_word(slot)) != 0;
    let shares = holds(SHARED_SLOT);
    for index in (1..usage.slots_high()).filter(|index| *index != me) {
        if holds(index) || (shares && usage.slot_state(index) != state::FREE) {
            reap_one(fd, usage, index);
        }
    }
}

/// Frees the slots of a few dead processes, wherever it begins to look: each that joins does, so the
/// dead stay fewer than the living and scans stay short, and no start pays for all.
fn reap_some(fd: &Fd, usage: &Usage, me: usize) {
    let high = usage.slots_high();
    let start = (sys::now_ns() as usize).checked_rem(high).unwrap_or(0);
    (start..high)
        .chain(0..start)
        .filter(|slot| ![SHARED_SLOT, me].contains(slot))
        .filter(|slot| usage.slot_state(*slot) != state::FREE)
        .take(REAPED_BY_A_CLAIM)
        .for_each(|slot| reap_one(fd, usage, slot));
}

/// Takes the slot's lock, clears the slot, drops the lock; nothing where its process lives.
fn reap_one(fd: &Fd, usage: &Usage, index: usize) {
    if let Ok(true) = liveness::lock_slot(fd, index, Lock::Write) {
        usage.clear_slot(index);
        shared_table::forget_user(usage, index);
        usage.set_slot_state(index, state::FREE);
        let _ = liveness::lock_slot(fd, index, Lock::None);
    }
}
