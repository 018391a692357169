//! Time a call waits for what it evicts: an allocation that finds the card full of managed memory.
//!
//! Promises: who allocates waits for it at the end of its call, when the driver's lock is free for the
//! process's other threads; a process that never evicted pays one load a call. Does not evict: the machine
//! does, and says how much.

use core::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether any thread of this process owes time.
static OWED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static OWN_NS: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread will wait so long at the end of its call.
pub(super) fn owe(ns: u64) {
    let more = |owed: &Cell<u64>| owed.set(owed.get().saturating_add(ns));
    if OWN_NS.try_with(more).is_ok() {
        OWED.store(true, Ordering::Relaxed);
    }
}

/// Waits for what the calling thread owes; the end of every call.
#[inline]
pub fn settle() {
    if OWED.load(Ordering::Relaxed) {
        wait();
    }
}

#[cold]
fn wait() {
    let owed_ns = OWN_NS.try_with(Cell::take).unwrap_or(0);
    if owed_ns > 0 {
        std::thread::sleep(Duration::from_nanos(owed_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_is_owed_is_waited_for_once_and_by_who_owes_it() {
        owe(3_000_000);
        owe(2_000_000);
        std::thread::spawn(settle).join().expect("it owes nothing");
        let before = Instant::now();
        settle();
        assert!(before.elapsed() >= Duration::from_millis(5));
        assert_eq!(OWN_NS.with(Cell::get), 0);
    }
}
