//! One context's launches: the submitted and the completed part of their work, and the state that measures them.
//!
//! A thread that records or settles marks holds the lane's claim ([`super::claim`]), which no thread waits for longer
//! than a call of the driver's takes: a thread that finds it taken goes on without marks, and its work is measured by
//! the next mark of another. Marks and probes are `measure`'s, the time at which a launch may go is `admit`'s.
//!
//! Promises: words that any thread reads as they are. Does not ask the world, nor decide.

use core::sync::atomic::Ordering::Relaxed;

use super::ahead::Ahead;
use super::begun::Begun;
use super::credit::Credit;
use super::lives::Claims;
use super::marks::{Probes, Ring};
use super::oldest::Oldest;
use super::sample::LaunchSample;
use super::slices::Beside;
use super::window::Window;
use crate::atomic::{AtomicU32, AtomicU64};

/// Start of the generator. A lane is zeros at first, so that a table of them takes no room in a file.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// The launches of one context.
#[derive(Debug)]
pub struct Lane {
    /// Credit in hand.
    pub(super) credit: Credit,
    /// Device time charged for admitted launches that the driver does not have yet.
    pub(super) coming_ns: AtomicU64,
    /// Work submitted before the newest point that is known to have completed.
    pub(super) done_ns: AtomicU64,
    /// Time at which the work in flight will have ended.
    pub(super) busy_until_ns: AtomicU64,
    /// End of such work in flight as is charged when it has ended.
    pub(super) uneven_until_ns: AtomicU64,
    /// Not 0 while work in flight takes longer than expected.
    pub(super) is_overdue: AtomicU32,
    /// Cost of the longest launch of late.
    pub(super) long_ns: AtomicU64,
    /// Key of the last launch that credit in hand did not pay for.
    pub(super) drawn_key: AtomicU64,
    /// Launches of unknown length in flight.
    pub(super) unknown: AtomicU32,
    /// Breaks of a span so far; breaks before the last mark that could have been linked; breaks before all work that
    /// has been waited for.
    pub(super) breaks: AtomicU32,
    pub(super) breaks_marked: AtomicU32,
    pub(super) breaks_done: AtomicU32,
    /// Held while marks are recorded or settled.
    pub(super) claims: Claims,
    /// Time at which a thread was first refused the claim since it was given last; 0 for not since then.
    pub(super) refused_ns: AtomicU64,
    /// Not 0 where a thread was away with the claim since the last mark.
    pub(super) was_blind: AtomicU32,
    /// Time at which launches last began to be measured one by one, because something behind a copy, a wait or a host
    /// function took long.
    pub(super) hunted_ns: AtomicU64,
    pub(super) ring: Ring,
    pub(super) probes: Probes,
    /// One more than the event of the settled mark that completed last; 0 for none.
    pub(super) anchor: AtomicU32,
    /// Time just before the anchor's recording, by the host's clock.
    pub(super) anchor_at_ns: AtomicU64,
    /// Time since which the oldest mark is complete without holding its time; 0 where it is not.
    pub(super) untimed_ns: AtomicU64,
    /// Work submitted before the mark that was settled last.
    pub(super) settled_ns: AtomicU64,
    /// Work submitted before the mark that was recorded last.
    pub(super) marked_ns: AtomicU64,
    /// Stream of the slow path's last launch, and number of further launches on one stream after which the lane counts
    /// as having only that one.
    pub(super) stream: AtomicU64,
    pub(super) streams_mixed: AtomicU32,
    /// A like count for launches on several streams indeed, not from several threads on one.
    pub(super) streams_apart: AtomicU32,
    /// The windows in which several streams are measured, and the event that the next mark measures from.
    pub(super) window: Window,
    pub(super) begun: Begun,
    /// The draw of short launches to be measured.
    pub(super) sample: LaunchSample,
    /// State of the generator that spreads probes.
    pub(super) random: AtomicU64,
    /// Time at which the oldest unsettled work was submitted, or earlier.
    pub(super) since_ns: AtomicU64,
    /// State of spans with others' slices in them.
    pub(super) beside: Beside,
    /// Time at which the process got its turn in its tenant; the later of that and the end of its last wait in it.
    pub(super) turn_ns: AtomicU64,
    pub(super) turn_from_ns: AtomicU64,
    /// Time at which work came that followed on none for a while, and time at which others were last seen to use the
    /// device.
    pub(super) back_ns: AtomicU64,
    pub(super) rivals_ns: AtomicU64,
    /// Order of threads when the cap opens.
    pub(super) oldest: Oldest,
    /// The turn of the launch that was admitted last, and the time at which it was first seen.
    pub(super) epoch: AtomicU64,
    pub(super) epoch_at_ns: AtomicU64,
    /// State of the tenant's other devices as seen while the gate was closed.
    pub(super) ahead: Ahead,
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

impl Lane {
    /// A lane with nothing submitted yet.
    pub const fn new() -> Self {
        Self {
            credit: Credit::new(),
            coming_ns: AtomicU64::new(0),
            done_ns: AtomicU64::new(0),
            busy_until_ns: AtomicU64::new(0),
            uneven_until_ns: AtomicU64::new(0),
            is_overdue: AtomicU32::new(0),
            long_ns: AtomicU64::new(0),
            drawn_key: AtomicU64::new(0),
            unknown: AtomicU32::new(0),
            breaks: AtomicU32::new(0),
            breaks_marked: AtomicU32::new(0),
            breaks_done: AtomicU32::new(0),
            claims: Claims::new(),
            refused_ns: AtomicU64::new(0),
            was_blind: AtomicU32::new(0),
            hunted_ns: AtomicU64::new(0),
            ring: Ring::new(),
            probes: Probes::new(),
            anchor: AtomicU32::new(0),
            anchor_at_ns: AtomicU64::new(0),
            untimed_ns: AtomicU64::new(0),
            settled_ns: AtomicU64::new(0),
            marked_ns: AtomicU64::new(0),
            stream: AtomicU64::new(0),
            streams_mixed: AtomicU32::new(0),
            streams_apart: AtomicU32::new(0),
            window: Window::new(),
            begun: Begun::new(),
            sample: LaunchSample::new(),
            random: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            beside: Beside::new(),
            turn_ns: AtomicU64::new(0),
            turn_from_ns: AtomicU64::new(0),
            back_ns: AtomicU64::new(0),
            oldest: Oldest::new(),
            rivals_ns: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            epoch_at_ns: AtomicU64::new(0),
            ahead: Ahead::new(),
        }
    }

    /// Returns the estimate of all work that was submitted, in nanoseconds, since the lane began.
    pub fn submitted_ns(&self) -> u64 {
        self.credit.submitted_ns()
    }

    /// Returns [`Lane::submitted_ns`] without admitted launches that the driver does not have yet; those paid from
    /// credit in hand count at once.
    #[inline(never)]
    pub(super) fn launched_ns(&self) -> u64 {
        // The coming charges are read first: one that is added meanwhile counts as launched.
        let coming_ns = self.coming_ns.load(Relaxed);
        self.submitted_ns().saturating_sub(coming_ns)
    }

    /// Takes the count of launches paid from a stripe's credit since the last call or [`Lane::admit`], without a
    /// [`Paid::First`](super::Paid::First).
    pub fn take_launches(&self, stripe: usize) -> u64 {
        self.credit.take_launches(stripe)
    }

    /// Returns the time since which there is work whose charge may be wrong, with so much submitted; `u64::MAX` for
    /// none.
    pub(super) fn unsettled_since_ns(&self, submitted_ns: u64, now_ns: u64) -> u64 {
        let is_settled = self.done_ns.load(Relaxed) >= submitted_ns && self.ring.pending() == 0;
        // A correction due once the thread is back is worth less than the cap would save up until then.
        match is_settled || self.is_blind(now_ns) {
            true => u64::MAX,
            false => self.since_ns.load(Relaxed),
        }
    }

    /// Returns the work in flight: the model's figure, bounded by what marks have shown.
    pub(super) fn in_flight_ns(&self, now_ns: u64, submitted_ns: u64) -> u64 {
        let upper_ns = submitted_ns.saturating_sub(self.done_ns.load(Relaxed));
        let model_ns = self.busy_until_ns.load(Relaxed).saturating_sub(now_ns);
        let lower_ns = match self.ring.oldest() {
            // The oldest mark has not completed, so work that came after it is in flight at least.
            Some((_, mark)) if !self.is_blind(now_ns) => {
                submitted_ns.saturating_sub(mark.submitted_ns)
            }
            _ => 0,
        };
        model_ns.min(upper_ns).max(lower_ns.min(upper_ns))
    }

    /// Draws the number that spreads draws, probes and windows.
    #[inline(never)]
    pub(super) fn random(&self) -> u64 {
        let mut x = self.random.load(Relaxed) ^ SEED;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x ^ SEED, Relaxed);
        x
    }

    /// Forgets all marks: their events are gone with the context. The caller has the claim.
    pub(super) fn forget_marks(&self) {
        let submitted_ns = self.submitted_ns();
        self.ring.clear();
        self.anchor.store(0, Relaxed);
        self.begun.forget();
        self.window.restart(submitted_ns);
        for word in [&self.settled_ns, &self.marked_ns, &self.done_ns] {
            word.store(submitted_ns, Relaxed);
        }
        self.unknown.store(0, Relaxed);
        self.busy_until_ns.store(0, Relaxed);
    }

    /// Returns the time at which the work in flight will have ended, as far as this lane can tell.
    pub fn busy_until_ns(&self) -> u64 {
        self.busy_until_ns.load(Relaxed)
    }

    /// True if launches came on one stream alone of late, so that its end is the end of all.
    pub fn has_one_stream(&self) -> bool {
        self.streams_mixed.load(Relaxed) == 0
    }

    /// Ends the span: something that is no work of the device's lies between the launches.
    pub fn break_span(&self) {
        self.breaks.fetch_add(1, Relaxed);
    }

    /// True if a break came after the last mark that could have been linked.
    #[inline(always)]
    pub(super) fn is_broken(&self) -> bool {
        self.breaks_marked.load(Relaxed) != self.breaks.load(Relaxed)
    }
}
