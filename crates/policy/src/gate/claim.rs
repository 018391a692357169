//! The claim: the right to touch a lane's marks and events, of one thread at a time, within one life of its context.
//!
//! Events are the driver's. They end with their context, and a handle that is used after that ends the program (an
//! H200's driver reads freed memory). So the thread that is about to destroy a context closes its lane first, waits
//! until the claim is let go, and only then calls the driver; a lane that is closed gives no claim. When the context is
//! gone its lane begins another life: a thread that still carries a ticket of the life before is refused the claim,
//! even if another context has the lane by then.
//!
//! A thread that is stopped may hold the claim for as long as it is. The lane is blind then: the others go on by the
//! known lengths and charges, as if there were no marks, and a measurement begun meanwhile shows nothing once the
//! thread is back.
//!
//! Promises: a thread waits in here for no longer than a call of the driver's takes; a claim excludes every other; the
//! state of a life is forgotten by a thread that has the claim, any of them. Two threads that close the same lane need
//! both to open it, or one to end its life. Does not use events itself.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::driver::Driver;
use super::here::Here;
use super::lane::Lane;
use super::lives::{CLOSER, CLOSERS, ENDED, HELD, LIFE, life_of};
use super::tuning;

/// The right to change a lane's marks, and to use its events.
pub(super) struct Claim<'a>(&'a Lane);

impl Claim<'_> {
    /// True if a thread is about to destroy the context: no more of its events are to be used.
    pub(super) fn is_closing(&self) -> bool {
        self.0.is_closed()
    }
}

impl Drop for Claim<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        // A life that ended meanwhile is cleared before another thread can have the claim.
        let let_go = |word: u64| (word & ENDED == 0).then_some(word & !HELD);
        if self.0.claims.change(let_go).is_err() {
            self.0.begin_life();
        }
    }
}

impl Lane {
    /// Returns the number of the lane's life.
    pub(super) fn life(&self) -> u64 {
        life_of(self.claims.word.load(Acquire))
    }

    /// Takes the claim if it is free, the lane is open, and this is its `life`.
    #[inline(never)]
    pub(super) fn claim(&self, life: u64) -> Option<Claim<'_>> {
        let free = life.checked_mul(LIFE)?;
        let taken = self.claims.word.compare_exchange(free, free | HELD, Acquire, Relaxed);
        if taken.is_ok() && self.refused_ns.load(Relaxed) != 0 {
            self.refused_ns.store(0, Relaxed);
        }
        // The value exists only where the claim was taken: dropping it lets the claim go.
        taken.is_ok().then(|| Claim(self))
    }

    /// Takes the claim as [`Lane::claim`] does, for a thread that would measure nothing without it, waiting while
    /// another has it: that one is in the driver for a moment. The wait is no longer than a quarter of the worth of the
    /// launch that is to be measured, nor than [`tuning::CLAIM_SOON_NS`].
    #[inline(never)]
    pub(super) fn claim_within<D: Driver>(
        &self,
        here: &Here<'_, D>,
        worth_ns: u64,
    ) -> Option<Claim<'_>> {
        let life = here.life();
        let mut until_ns = 0;
        loop {
            if let Some(claim) = self.claim(life) {
                return Some(claim);
            }
            let now_ns = here.now_ns();
            if until_ns == 0 {
                until_ns = now_ns.saturating_add((worth_ns / 4).min(tuning::CLAIM_SOON_NS));
            }
            if now_ns >= until_ns || self.is_closed() || self.is_blind(now_ns) {
                return None;
            }
            here.gates.driver.spin();
        }
    }

    /// Notes that another thread has the claim.
    #[cold]
    #[inline(never)]
    pub(super) fn note_refused(&self, now_ns: u64) {
        if self.is_claimed() {
            let _ = self.refused_ns.compare_exchange(0, now_ns, Relaxed, Relaxed);
            if self.is_blind(now_ns) {
                self.was_blind.store(1, Relaxed);
            }
        }
    }

    /// True if one thread has had the claim for so long that it is away: no mark is recorded or settled until it is
    /// back.
    #[inline(never)]
    pub(super) fn is_blind(&self, now_ns: u64) -> bool {
        let refused_ns = self.refused_ns.load(Relaxed);
        refused_ns != 0 && now_ns.saturating_sub(refused_ns) >= tuning::STOPPED_NS
    }

    /// Counts the marks that have not been settled, and may be.
    #[inline(never)]
    pub(super) fn pending(&self, now_ns: u64) -> u32 {
        if self.is_blind(now_ns) { 0 } else { self.ring.pending() }
    }

    /// Keeps threads from the claim until [`Lane::reopen`] or [`Lane::end_life`]. Refused threads charge by estimate.
    pub(super) fn close(&self) -> u64 {
        // Closers are no more than the process's threads: the count has room for sixteen thousand.
        life_of(self.claims.word.fetch_add(CLOSER, AcqRel))
    }

    /// True if a thread has the claim.
    pub(super) fn is_claimed(&self) -> bool {
        self.claims.word.load(Acquire) & HELD != 0
    }

    /// True if a thread keeps the lane closed, or its life is about to end.
    pub(super) fn is_closed(&self) -> bool {
        self.claims.word.load(Acquire) & (CLOSERS | ENDED) != 0
    }

    /// Takes one [`Lane::close`] back, if that was in this life: the context lives on.
    pub(super) fn reopen(&self, life: u64) {
        let one_less =
            |word: u64| (life_of(word) == life && word & CLOSERS != 0).then(|| word - CLOSER);
        let _ = self.claims.change(one_less);
    }

    /// Ends the life of a context that is gone, whose lane the caller has closed: its marks are forgotten, at once or
    /// by the thread that has the claim. True if the lane has begun another life.
    pub(super) fn end_life(&self, life: u64) -> bool {
        let end =
            |word: u64| (life_of(word) == life && word & ENDED == 0).then_some(word | ENDED | HELD);
        match self.claims.change(end) {
            Ok(before) if before & HELD != 0 => false,
            Ok(_) => {
                self.begin_life();
                true
            }
            Err(now) => life_of(now) != life,
        }
    }

    /// Clears the state of the life that has ended, and begins the next. The caller has the claim.
    #[inline(never)]
    fn begin_life(&self) {
        self.forget_marks();
        let next = |word: u64| Some((word | (LIFE - 1)).wrapping_add(1));
        let _ = self.claims.change(next);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::lives::NO_LIFE;
    use super::*;

    #[test]
    fn a_claim_that_fails_frees_nobodys() {
        let lane = Lane::new();
        let held = lane.claim(0).expect("free");
        assert!(lane.claim(0).is_none() && lane.is_claimed());
        assert!(lane.claim(0).is_none(), "the failed one has not let go");
        drop(held);
        assert!(lane.claim(0).is_some());
    }

    #[test]
    fn a_closed_lane_gives_no_claim_until_all_have_reopened() {
        let lane = Lane::new();
        let (first, second) = (lane.close(), lane.close());
        assert!(lane.claim(0).is_none());
        lane.reopen(first);
        assert!(lane.claim(0).is_none());
        lane.reopen(second);
        assert!(lane.claim(0).is_some());
    }

    #[test]
    fn a_life_ends_at_once_or_with_its_last_claim() {
        let lane = Lane::new();
        let life = lane.close();
        assert!(lane.end_life(life));
        assert_eq!(lane.life(), life + 1);
        assert!(lane.claim(life).is_none() && lane.claim(life + 1).is_some());
        // The second closer finds another life, and leaves it alone.
        lane.reopen(life);

        let held = lane.claim(life + 1).expect("free");
        let life = lane.close();
        assert!(held.is_closing() && !lane.end_life(life) && lane.life() == life);
        drop(held);
        assert_eq!(lane.life(), life + 1);
        assert!(lane.end_life(life), "it has ended");
        assert!(lane.claim(life + 1).is_some());
        assert!(lane.claim(NO_LIFE).is_none());
    }
}
