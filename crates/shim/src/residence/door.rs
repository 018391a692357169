//! The door: while memory moves, no call of the program that could touch it is under way, and none begins.
//!
//! A call goes in by raising the count of its stripe, and looks whether the door is closed then; who closes it closes
//! first and looks at the counts then. All of it is sequentially consistent, so of two that meet one sees the other: a
//! launch behind an unmap, which would end the program's context, cannot happen. A thread that finds the door closed goes
//! back, says that it wants in, and sleeps until it is open.
//!
//! ```text
//!            close                shut
//!   OPEN ------------> CLOSING ------------> CLOSED
//!    ^ ^  open, or a     |                    |   | a call wants in
//!    | |  call, in the   |                    |   v
//!    | +--closer's stead-+          open      |  WANTED
//!    +----------------------------------------+---+
//! ```
//!
//! While it is CLOSING nothing is away yet: a call that finds the closer behind its time opens in its stead, so that
//! no call waits for a closer that the driver keeps. The closer learns of it from [`Door::shut`].
//!
//! Promises: a call costs two additions to a line that few threads share, where the process has memory that may leave
//! the card, and one load otherwise; a closer waits no longer than it says. Calls that are inside may go in
//! again only while the door is open: no call does.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicU64};

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
/// Calls are turned back, and what is under way is waited for; nothing is away.
const CLOSING: u32 = 3;
/// Calls may go in; launches are refused there.
const REFUSING: u32 = 4;
/// So much longer than its patience a closer may take until calls open the door in its stead.
const LATE_NS: u64 = 100_000_000;

/// Calls inside that threads of one stripe make.
#[derive(FromZeros)]
#[repr(align(128))]
struct Stripe(AtomicU32);

/// The door; open at first.
#[derive(FromZeros)]
pub(crate) struct Door {
    /// [`OPEN`], [`CLOSING`], [`CLOSED`], [`WANTED`] or [`REFUSING`]; threads and the service sleep on it.
    state: AtomicU32,
    /// When calls open it in the stead of who closes.
    opens_ns: AtomicU64,
    /// Until when captures do not begin.
    captures_from_ns: AtomicU64,
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
            let state = self.state.load(SeqCst);
            if matches!(state, OPEN | REFUSING) {
                return inside;
            }
            drop(inside);
            let asleep_on = match state {
                CLOSING if clock::now_ns() >= self.opens_ns.load(SeqCst) => {
                    self.turn(CLOSING, OPEN);
                    continue;
                }
                CLOSING => CLOSING,
                // Of a door that was opened meanwhile nothing is wanted.
                _ => {
                    self.turn(CLOSED, WANTED);
                    WANTED
                }
            };
            wait(&self.state, asleep_on, ASK_AGAIN_NS);
        }
    }

    /// Lets no capture begin until `ns`, in CLOCK_MONOTONIC; those that wait go on where that is 0.
    pub(crate) fn hold_captures(&self, ns: u64) {
        self.captures_from_ns.store(ns, SeqCst);
    }

    /// Waits until a capture may begin. One that the same thread has open already lasts so much longer, and no more: that is
    /// why there is a time.
    pub(super) fn await_capture(&self) {
        while clock::now_ns() < self.captures_from_ns.load(SeqCst) {
            sleep_ns(LOOK_NS);
        }
    }

    /// Changes its state, where it is `from`, and wakes those who sleep on it.
    fn turn(&self, from: u32, to: u32) -> bool {
        let is_turned = self.state.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        if is_turned {
            wake(&self.state);
        }
        is_turned
    }

    /// Begins to close it; false, and it is open again, if calls are inside after `patience_ns`.
    pub(crate) fn close(&self, patience_ns: u64) -> bool {
        let deadline_ns = clock::now_ns().saturating_add(patience_ns);
        self.opens_ns.store(deadline_ns.saturating_add(LATE_NS), SeqCst);
        self.state.store(CLOSING, SeqCst);
        while self.inside.iter().any(|Stripe(count)| count.load(SeqCst) != 0) {
            if clock::now_ns() >= deadline_ns {
                self.open();
                return false;
            }
            sleep_ns(LOOK_NS);
        }
        true
    }

    /// It is closed, work that was under way has ended; false where a call has opened it meanwhile.
    pub(crate) fn shut(&self) -> bool {
        self.turn(CLOSING, CLOSED)
    }

    /// Opens it, and wakes those who wait.
    pub(crate) fn open(&self) {
        self.state.store(OPEN, SeqCst);
        wake(&self.state);
    }

    /// Opens it; launches are refused: [`Door::refuses`].
    pub(crate) fn refuse(&self) {
        self.state.store(REFUSING, SeqCst);
        wake(&self.state);
    }

    /// Whether kernels that may use memory are not to reach the driver.
    pub(crate) fn refuses(&self) -> bool {
        self.state.load(SeqCst) == REFUSING
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
