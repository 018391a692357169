//! One context's launches: the submitted and the completed part of their work, and the state that measures them.
//!
//! A thread that records or settles marks holds the lane's claim ([`super::claim`]). A thread that finds the claim
//! taken goes on without a mark, and its work lies before the next mark of whichever thread. Marks and probes are
//! recorded in `measure`, and `admit` decides when a launch may go.
//!
//! Promises: each field is an atomic, or made of atomics, that any thread may read without the claim; two fields that
//! are read one after the other may not fit together, and no decision needs that they do. Does not call the driver or
//! the clock, and does not decide when a launch goes.
//!
//! The unit of most fields is a nanosecond, of three kinds. A *total* (`done_ns`, `settled_ns`, `marked_ns`, and
//! [`Lane::submitted_ns`]) is estimated device time of all launches since the lane began; a *time*, as the comments
//! say, is of the host's clock; the rest are lengths.

use core::sync::atomic::Ordering::Relaxed;

use super::ahead::Ahead;
use super::begun::Begun;
use super::credit::Credit;
use super::doubt::Doubt;
use super::lives::Claims;
use super::marks::{Probes, Ring};
use super::oldest::Oldest;
use super::sample::LaunchSample;
use super::slices::Beside;
use super::streams::Streams;
use super::window::Window;
use crate::atomic::{AtomicU32, AtomicU64};

/// Start of the generator, which is stored with these bits flipped: a new lane is all zeros, so that the static table
/// of lanes takes no room in the library's file.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// The launches of one context.
#[derive(Debug)]
pub(super) struct Lane {
    /// Credit of the context's threads, and the total of all launches that were charged, which excludes credit that is
    /// left.
    pub(super) credit: Credit,
    /// Device time charged for admitted launches whose call of the driver has not returned yet.
    pub(super) coming_ns: AtomicU64,
    /// Total submitted before the newest mark, or synchronisation, that is known to have completed.
    pub(super) done_ns: AtomicU64,
    /// Time at which the work in flight will have ended, as is estimated.
    pub(super) busy_until_ns: AtomicU64,
    /// Time at which work in flight of uneven cost will have ended. Such work is charged its measured length once it
    /// has ended, since no estimate of it is good enough to be charged before.
    pub(super) uneven_until_ns: AtomicU64,
    /// Not 0 while work in flight takes longer than expected.
    pub(super) is_overdue: AtomicU32,
    /// Cost of the longest of the recent launches.
    pub(super) long_ns: AtomicU64,
    /// Key of the last launch that took new credit, since what there was did not pay for it. Work without a key of its
    /// own is taken to be like it.
    pub(super) drawn_key: AtomicU64,
    /// Launches of unknown length in flight.
    pub(super) unknown: AtomicU32,
    /// Number of breaks so far: see [`Lane::break_span`].
    pub(super) breaks: AtomicU32,
    /// Value of `breaks` at the last mark that was recorded while an earlier mark was incomplete, linked or not. A mark
    /// on a drained device is never linked, and leaves this alone.
    pub(super) breaks_marked: AtomicU32,
    /// Value of `breaks` at the begin of the last synchronisation after which all of the context's work had ended.
    pub(super) breaks_done: AtomicU32,
    /// Held while marks are recorded or settled.
    pub(super) claims: Claims,
    /// Time at which a thread was first refused the claim since it was last granted; 0 if none was. From it follows
    /// that the lane is *blind*: the thread that has the claim does not run, so that nothing can be measured.
    pub(super) refused_ns: AtomicU64,
    /// Not 0 if the lane was blind at some time since a mark's event was last recorded.
    pub(super) was_blind: AtomicU32,
    /// Time up to which waits were judged: threads that wait at once show the same time.
    pub(super) certain_until_ns: AtomicU64,
    /// Time that neither charges nor waits account for.
    pub(super) doubt: Doubt,
    /// Marks that are recorded and not settled.
    pub(super) ring: Ring,
    /// Events for probes.
    pub(super) probes: Probes,
    /// One more than the event of the settled mark that completed last, from which the next span is timed; 0 for none.
    pub(super) anchor: AtomicU32,
    /// Time just before the anchor's recording, by the host's clock.
    pub(super) anchor_at_ns: AtomicU64,
    /// Time since which the driver says that the oldest mark's event has completed, but does not give the time at which
    /// it did; 0 otherwise.
    pub(super) untimed_ns: AtomicU64,
    /// Total submitted before the mark that was settled last.
    pub(super) settled_ns: AtomicU64,
    /// Total submitted before the mark that was recorded last.
    pub(super) marked_ns: AtomicU64,
    /// Streams and threads that launch.
    pub(super) streams: Streams,
    /// The windows in which the work of several streams is measured.
    pub(super) window: Window,
    /// The event from which the next mark measures, where several streams have work.
    pub(super) begun: Begun,
    /// The draw of short launches to be measured.
    pub(super) sample: LaunchSample,
    /// State of the generator of [`Lane::random`].
    pub(super) random: AtomicU64,
    /// Time at which the oldest unsettled work was submitted, or earlier.
    pub(super) since_ns: AtomicU64,
    /// State of spans in which slices of other contexts may lie.
    pub(super) beside: Beside,
    /// Time at which this process's turn within its tenant began.
    pub(super) turn_ns: AtomicU64,
    /// The later of `turn_ns` and the end of the last wait during that turn.
    pub(super) turn_from_ns: AtomicU64,
    /// Time at which the first launch came after a while without any.
    pub(super) back_ns: AtomicU64,
    /// Time at which a rival was last seen to use the device.
    pub(super) rivals_ns: AtomicU64,
    /// Order of threads when the cap opens: the one that has waited longest goes first.
    pub(super) oldest: Oldest,
    /// Number of the turn in which a launch was admitted last.
    pub(super) epoch: AtomicU64,
    /// Time at which a launch first saw that turn.
    pub(super) epoch_at_ns: AtomicU64,
    /// State of the tenant's other devices, as seen while the gate was closed: where they stand still, their work may
    /// wait for a launch here.
    pub(super) ahead: Ahead,
}

impl Lane {
    /// A lane with nothing submitted yet.
    pub(super) const fn new() -> Self {
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
            certain_until_ns: AtomicU64::new(0),
            doubt: Doubt::new(),
            ring: Ring::new(),
            probes: Probes::new(),
            anchor: AtomicU32::new(0),
            anchor_at_ns: AtomicU64::new(0),
            untimed_ns: AtomicU64::new(0),
            settled_ns: AtomicU64::new(0),
            marked_ns: AtomicU64::new(0),
            streams: Streams::new(),
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

    /// Returns the total that was charged since the lane began, in nanoseconds, with admitted launches that the driver
    /// does not have yet.
    pub(super) fn submitted_ns(&self) -> u64 {
        self.credit.submitted_ns()
    }

    /// Returns [`Lane::submitted_ns`] without admitted launches that the driver does not have yet; those paid from
    /// credit in hand count at once.
    #[inline(never)]
    pub(super) fn launched_ns(&self) -> u64 {
        // A launch that is admitted, or whose call returns, between the two reads may count on either side: the figure
        // is off by some launches, which is less than marks tell apart.
        let coming_ns = self.coming_ns.load(Relaxed);
        self.submitted_ns().saturating_sub(coming_ns)
    }

    /// Returns the time since which there is work whose charge may still be corrected, where the total is
    /// `submitted_ns`; `u64::MAX` if there is none, and while the lane is blind.
    pub(super) fn unsettled_since_ns(&self, submitted_ns: u64, now_ns: u64) -> u64 {
        let is_settled = self.done_ns.load(Relaxed) >= submitted_ns && self.ring.pending() == 0;
        // While work is unsettled a cap saves up, so as to be able to go on once a correction in its favour comes. The
        // thread with the claim may be stopped for seconds, and what would be saved up until it runs again is more than
        // any correction.
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
            // The oldest mark is not settled, so that what was submitted after it counts as in flight.
            Some((_, mark)) if !self.is_blind(now_ns) => {
                submitted_ns.saturating_sub(mark.submitted_ns)
            }
            _ => 0,
        };
        model_ns.min(upper_ns).max(lower_ns.min(upper_ns))
    }

    /// Returns the next pseudo-random number, by which draws and windows do not fall into step with a program's own
    /// pattern. Two threads may get the same one, which does no harm.
    #[inline(never)]
    pub(super) fn random(&self) -> u64 {
        let mut x = self.random.load(Relaxed) ^ SEED;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x ^ SEED, Relaxed);
        x
    }

    /// Forgets all marks, since their events are gone with the context, and takes what was submitted for done. The
    /// caller has the claim.
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

    /// Breaks the span between two marks: something whose device time is not charged, such as a copy, a wait for an
    /// event or a host function, lies between the launches.
    pub(super) fn break_span(&self) {
        self.breaks.fetch_add(1, Relaxed);
    }

    /// True if a break came after the last mark that was linked, or would have been but for a break.
    #[inline(always)]
    pub(super) fn is_broken(&self) -> bool {
        self.breaks_marked.load(Relaxed) != self.breaks.load(Relaxed)
    }
}
