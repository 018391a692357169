//! The door: while memory moves, no call of the program that could touch it is under way, and none begins.
//!
//! A call goes in by raising the count of its stripe, and looks whether the door is closed then; who closes it closes
//! first and looks at the counts then. All of it is sequentially consistent, so of two that meet one sees the other: a
//! launch behind an unmap, which would end the program's context, cannot happen. A thread that finds the door closed goes
//! back, says that it wants in, and sleeps until it is open.
//!
//! Promises: a call costs two additions to a line that few threads share, where the process has memory that may leave
//! the card, and one load otherwise; a closer waits no longer than it says. Calls that are inside may go in
//! again only while nobody closes: no call does.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use zerocopy::FromZeros;

use crate::sys::{clock, sleep_ns, thread_pointer, wait, wake};

/// Counts of calls, by thread.
const STRIPES: usize = 64;

/// How long a thread sleeps before it says again that it wants in.
const ASK_AGAIN_NS: u64 = 100_000_000;
/// Between two looks of a closer at the calls that are inside.
const LOOK_NS: u32 = 20_000;

const OPEN: u32 = 0;
const CLOSED: u32 = 1;
/// It is closed, and a thread has been turned back since.
const WANTED: u32 = 2;

/// Calls inside that threads of one stripe make.
#[derive(FromZeros)]
#[repr(align(128))]
struct Stripe(AtomicU32);

/// The door; open at first.
#[derive(FromZeros)]
pub(crate) struct Door {
    /// [`OPEN`], [`CLOSED`] or [`WANTED`]; threads and the service sleep on it.
    state: AtomicU32,
    inside: [Stripe; STRIPES],
}

/// A call that is inside, until dropped.
#[must_use = "the door may close when this is dropped"]
pub(crate) struct Inside(Option<&'static AtomicU32>);

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(stripe) = self.0 {
            stripe.fetch_sub(1, SeqCst);
        }
    }
}

impl Inside {
    /// Of a call for which there is no door.
    pub(super) const OUTSIDE: Self = Self(None);
}

impl Door {
    #[inline(never)]
    /// Goes in; waits while it is closed.
    pub(super) fn pass(&'static self) -> Inside {
        let own = (thread_pointer() >> 12).wrapping_mul(0x9e37_79b1) >> 8;
        let Some(Stripe(stripe)) = self.inside.get(own % STRIPES) else { return Inside::OUTSIDE };
        loop {
            stripe.fetch_add(1, SeqCst);
            let inside = Inside(Some(stripe));
            if self.state.load(SeqCst) == OPEN {
                return inside;
            }
            drop(inside);
            // Of a door that was opened meanwhile nothing is wanted.
            if self.state.compare_exchange(CLOSED, WANTED, SeqCst, SeqCst).is_ok() {
                wake(&self.state);
            }
            wait(&self.state, WANTED, ASK_AGAIN_NS);
        }
    }

    /// Closes it; false, and it is open again, if calls are inside after `patience_ns`.
    pub(crate) fn close(&self, patience_ns: u64) -> bool {
        let deadline_ns = clock::now_ns().saturating_add(patience_ns);
        self.state.store(CLOSED, SeqCst);
        while self.inside.iter().any(|Stripe(count)| count.load(SeqCst) != 0) {
            if clock::now_ns() >= deadline_ns {
                self.open();
                return false;
            }
            sleep_ns(LOOK_NS);
        }
        true
    }

    /// Opens it, and wakes those who wait.
    pub(crate) fn open(&self) {
        self.state.store(OPEN, SeqCst);
        wake(&self.state);
    }

    /// Whether a thread has been turned back since it was closed.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.load(SeqCst) == WANTED
    }

    /// Sleeps until a thread is turned back, for `ns` at most.
    pub(crate) fn await_wanted(&self, ns: u64) {
        wait(&self.state, CLOSED, ns);
    }
}
