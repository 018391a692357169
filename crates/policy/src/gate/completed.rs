//! Marks that have completed, and the device time that their events show.
//!
//! An event behind all of a context is complete, by a query, up to half a millisecond before its time can be read where
//! other threads sleep in an H100's driver. Until then it holds the time of its last recording, or none, and the driver
//! answers with that all the same: the apparent time between two events is of any length, or decades
//! (bench/results/h100-2026-11-26/context-events-before-their-time.txt). Events of one stream hold their times at once.
//!
//! Promises: measured time lies within bounds that the host's clock allows; a mark whose time does not come measures
//! nothing, and no other mark waits for it any longer.

use core::sync::atomic::Ordering::Relaxed;

use super::credit::signed;
use super::driver::Driver;
use super::here::Here;
use super::lane::Lane;
use super::marks::Mark;
use super::tuning;

/// A mark that has completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    pub(super) event: u32,
    pub(super) mark: Mark,
    /// Device time since the mark that completed last before it, where that can be told; and the time at which that one
    /// was recorded.
    pub(super) since_ns: Option<i64>,
    before_at_ns: u64,
}

impl Lane {
    /// Returns the oldest mark, which has completed; `None` where its time cannot be read yet. The caller holds the
    /// claim.
    ///
    /// Cost: an elapsed time.
    #[inline(never)]
    pub(super) fn complete<D: Driver>(
        &self,
        here: &Here<'_, D>,
        event: u32,
        mark: Mark,
    ) -> Option<Completed> {
        let since_ns = self.anchor().and_then(|anchor| here.elapsed_ns(anchor, event));
        let before_at_ns = self.anchor_at_ns.load(Relaxed);
        let completed = Completed { event, mark, since_ns, before_at_ns };
        let Some(ns) = since_ns.filter(|_| mark.is_whole) else { return Some(completed) };
        let now_ns = here.now_ns();
        if is_between(ns, wall_ns(before_at_ns, now_ns)) {
            return Some(completed);
        }
        match self.untimed_ns.load(Relaxed) {
            0 => self.untimed_ns.store(now_ns, Relaxed),
            ns if now_ns.saturating_sub(ns) >= tuning::GIVEN_UP_NS => {
                return Some(Completed { since_ns: None, ..completed });
            }
            _ => {}
        }
        None
    }

    /// Returns device time since the mark before this one, and makes this one the anchor of the next.
    pub(super) fn span_ns(&self, completed: &Completed) -> Option<u64> {
        let Completed { event, mark, since_ns, .. } = completed;
        // A mark that ended before another adds no time of its own and does not move the anchor.
        if since_ns.is_none_or(|ns| ns > 0) {
            self.anchor.store(event.saturating_add(1), Relaxed);
            self.anchor_at_ns.store(mark.at_ns, Relaxed);
        }
        since_ns.map(|ns| u64::try_from(ns).unwrap_or(0))
    }
}

impl Completed {
    /// Returns device time since the first event of its probe, where that can be told.
    ///
    /// Cost: an elapsed time.
    pub(super) fn since_begun_ns<D: Driver>(&self, here: &Here<'_, D>) -> Option<u64> {
        let probe = self.mark.probe?;
        let ns = here.elapsed_ns(probe.event, self.event)?;
        let begun_ns = probe.at_ns.saturating_sub(tuning::USUAL_GAP_NS);
        // An event recorded behind the mark before has no earlier time than that mark.
        let most_ns = match self.since_ns {
            Some(since_ns) if self.before_at_ns < begun_ns => since_ns,
            _ => wall_ns(begun_ns, here.now_ns()),
        };
        let is_timed = !self.mark.is_whole || is_between(ns, most_ns);
        u64::try_from(ns).ok().filter(|_| is_timed)
    }
}

/// Returns the most device time that can lie behind an event recorded at `recorded_ns`.
fn wall_ns(recorded_ns: u64, now_ns: u64) -> i64 {
    let wall_ns = signed(now_ns.saturating_sub(recorded_ns));
    wall_ns.saturating_add(wall_ns / tuning::CLOCKS_PART)
}

/// True if `ns` may lie between two events, of which the second was recorded behind the first.
fn is_between(ns: i64, most_ns: i64) -> bool {
    (-tuning::TIE_NS..=most_ns.saturating_add(tuning::TIE_NS)).contains(&ns)
}
