//! Windows in which several streams are measured: their beginning and end, and the value of their marks.
//!
//! A window has 24 marks that measure: the proportion of measured time to charges corrects all that was charged since
//! the window before. Eight more teach the lengths of kernels, and as many follow as it takes until those are settled:
//! lengths must not change between a measurement and the charges that it stands for. Launches before the latter marks
//! are charged their measured time, no more and no less.
//!
//! The pause between windows is counted in charges, spread, and so long that marks take no more than one part in 64 of
//! the device's time: kernels of more than some 200 us, and deep queues, which need few marks, are measured throughout.
//! In a deep queue a launch that the credit in hand pays for is not looked at: marks stand where chunks begin.
//!
//! Promises: a window begins by the charges and a draw, independent of the program; its correction stands for no more
//! than was charged since the last one, and for no more than 100 ms beyond the measured time. Does not record or ask
//! for events: that is `among`'s. All is changed under the lane's claim, but by [`Window::restart`]: marks that are
//! settled meanwhile may then be corrected once more or less.

use core::cmp::Ordering;
use core::sync::atomic::Ordering::Relaxed;

use super::credit::signed;
use super::marks::Edge;
use super::sample::correction_ns;
use super::tuning;
use crate::atomic::{AtomicU32, AtomicU64};
use crate::scaled::scaled;

/// Number of marks of the open window, 0 between two, with flags for a deep or a broken queue; in lines of its own,
/// since every launch looks.
#[repr(align(128))]
#[derive(Debug)]
struct Open(AtomicU32);

/// Flag of a deep queue: so much is in flight that only launches that take a chunk of credit are looked at.
const DEEP: u32 = 1 << 31;
/// Flag of a queue that never counts as deep, since waits and copies lie between its launches: one not looked at is in
/// no span.
const BROKEN: u32 = 1 << 30;

/// The windows of one lane.
#[derive(Debug)]
pub(super) struct Window {
    open: Open,
    /// Work submitted when this window began, and when the next is to begin.
    began_ns: AtomicU64,
    next_ns: AtomicU64,
    /// Marks still to come in this window.
    left: AtomicU32,
    /// Teaching marks that are not settled.
    teaching: AtomicU32,
    /// Work submitted before the last mark up to which all charges are corrected.
    last_ns: AtomicU64,
    /// Charges for the measured part of the window that is being settled, and its measured time.
    charged_ns: AtomicU64,
    took_ns: AtomicU64,
    /// Moving sums of both.
    charged_of_late_ns: AtomicU64,
    took_of_late_ns: AtomicU64,
}

/// Measurement of a mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) took_ns: u64,
    /// Charges for the measured work.
    pub(super) charged_ns: u64,
}

impl Took {
    pub(super) fn more_ns(self) -> i64 {
        signed(self.took_ns).saturating_sub(signed(self.charged_ns))
    }
}

impl Window {
    pub(super) const fn new() -> Self {
        const fn word() -> AtomicU64 {
            AtomicU64::new(0)
        }
        Self {
            open: Open(AtomicU32::new(0)),
            began_ns: word(),
            next_ns: word(),
            left: AtomicU32::new(0),
            teaching: AtomicU32::new(0),
            last_ns: word(),
            charged_ns: word(),
            took_ns: word(),
            charged_of_late_ns: word(),
            took_of_late_ns: word(),
        }
    }

    /// Takes all submitted work for corrected; the next window begins at once.
    #[inline(never)]
    pub(super) fn restart(&self, submitted_ns: u64) {
        self.open.0.store(0, Relaxed);
        self.teaching.store(0, Relaxed);
        for word in [&self.last_ns, &self.next_ns] {
            word.store(submitted_ns, Relaxed);
        }
        for word in [&self.charged_ns, &self.took_ns] {
            word.store(0, Relaxed);
        }
    }

    /// Takes all submitted work for corrected, which a wait has shown.
    pub(super) fn put_right(&self, submitted_ns: u64) {
        self.last_ns.store(submitted_ns, Relaxed);
    }

    /// Has the next window begin at once.
    pub(super) fn hurry(&self, submitted_ns: u64) {
        self.next_ns.fetch_min(submitted_ns, Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.0.load(Relaxed) != 0
    }

    /// True if each launch is to be looked at.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        (1..DEEP).contains(&self.open.0.load(Relaxed))
    }

    /// Notes that the queue of the window is deep, or is no more; once a break of spans lay between its launches it
    /// counts as deep no more.
    pub(super) fn set_deep(&self, is_deep: bool, is_broken: bool) {
        let marks = self.open.0.load(Relaxed) & !DEEP;
        if marks != 0 {
            let marks = if is_broken { marks | BROKEN } else { marks };
            let is_deep = is_deep && marks & BROKEN == 0;
            self.open.0.store(if is_deep { marks | DEEP } else { marks }, Relaxed);
        }
    }

    /// Returns how much may be charged before the next window begins.
    pub(super) fn due_in_ns(&self, submitted_ns: u64) -> u64 {
        match self.is_open() {
            true => u64::MAX,
            false => self.next_ns.load(Relaxed).saturating_sub(submitted_ns),
        }
    }

    /// Opens a window of so many marks, behind `submitted_ns`.
    #[inline(never)]
    pub(super) fn open(&self, submitted_ns: u64, marks: u32) {
        self.began_ns.store(submitted_ns, Relaxed);
        for word in [&self.left, &self.open.0] {
            word.store(marks, Relaxed);
        }
    }

    /// Opens, between two windows, one that only teaches: the launches behind `submitted_ns` are each measured by
    /// themselves until it ends. Charges since the last window stay for the next.
    #[inline(never)]
    pub(super) fn follow(&self, submitted_ns: u64) {
        if !self.is_open() {
            self.open(submitted_ns, tuning::TEACHING_MARKS);
        }
    }

    /// Places a mark that is recorded behind `submitted_ns`; `random` spreads the next window.
    pub(super) fn mark(&self, submitted_ns: u64, random: u64) -> Edge {
        if !self.is_open() {
            return Edge::Outside;
        }
        if let Some(left) = self.left.load(Relaxed).checked_sub(1) {
            self.left.store(left, Relaxed);
            return match left.cmp(&tuning::TEACHING_MARKS) {
                Ordering::Greater => Edge::Within,
                Ordering::Equal => Edge::Last,
                Ordering::Less => {
                    self.teaching.fetch_add(1, Relaxed);
                    Edge::Teaches
                }
            };
        }
        if self.teaching.load(Relaxed) == 0 {
            self.close(submitted_ns, random);
        }
        Edge::After
    }

    fn close(&self, submitted_ns: u64, random: u64) {
        // The pause is in charges; the device takes longer or shorter for them.
        let [charged_ns, took_ns] =
            [&self.charged_of_late_ns, &self.took_of_late_ns].map(|word| word.load(Relaxed));
        let marked_ns = u64::from(self.open.0.load(Relaxed) & !(DEEP | BROKEN)) * tuning::MARKED_NS;
        let apart_ns = scaled(marked_ns, charged_ns, took_ns).min(tuning::WINDOWS_APART_NS);
        let within_ns = submitted_ns.saturating_sub(self.began_ns.load(Relaxed));
        let pause_ns = apart_ns.saturating_sub(within_ns);
        match random.checked_rem(pause_ns) {
            // Without a pause all launches are measured, so none is left to stand for: all marks that follow teach.
            None => self.open(submitted_ns, tuning::TEACHING_MARKS),
            Some(spread_ns) => {
                let next_ns = submitted_ns.saturating_add(pause_ns / 2).saturating_add(spread_ns);
                self.next_ns.store(next_ns, Relaxed);
                self.open.0.store(0, Relaxed);
            }
        }
    }

    /// Settles a mark behind `submitted_ns`; returns the correction of the charges for its own work, and for the work
    /// that it stands for.
    pub(super) fn settle(&self, edge: Edge, submitted_ns: u64, took: Option<Took>) -> i64 {
        let shown_ns = took.map_or(0, Took::more_ns);
        if let (Edge::Within | Edge::Last, Some(took)) = (edge, took) {
            self.charged_ns.fetch_add(took.charged_ns, Relaxed);
            self.took_ns.fetch_add(took.took_ns, Relaxed);
        }
        match edge {
            Edge::Outside => 0,
            Edge::Within => shown_ns,
            Edge::Last => shown_ns.saturating_add(self.end(submitted_ns)),
            Edge::Teaches | Edge::After => {
                if let Some(took) = took {
                    self.note(took);
                    // Charges that the mark does not cover stay for the next window.
                    self.last_ns.fetch_add(took.charged_ns, Relaxed);
                }
                shown_ns
            }
        }
    }

    /// Counts a mark as settled, with or without a measurement.
    pub(super) fn settled(&self, edge: Edge) {
        if edge == Edge::Teaches {
            let _ = self.teaching.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        }
    }

    fn note(&self, took: Took) {
        let both =
            [(&self.charged_of_late_ns, took.charged_ns), (&self.took_of_late_ns, took.took_ns)];
        for (word, ns) in both {
            let before_ns = word.load(Relaxed);
            word.store(
                before_ns.saturating_sub(before_ns / tuning::WINDOW_LATE_PART).saturating_add(ns),
                Relaxed,
            );
        }
    }

    /// Returns the correction for work that was not measured since the window before.
    fn end(&self, submitted_ns: u64) -> i64 {
        let stands_ns = submitted_ns.saturating_sub(self.last_ns.swap(submitted_ns, Relaxed));
        let [charged_ns, took_ns] =
            [&self.charged_ns, &self.took_ns].map(|word| word.swap(0, Relaxed));
        if charged_ns == 0 {
            return 0;
        }
        // The longest time of late fades: a pause whose launches take as long must not be longer.
        let before_ns = self.charged_of_late_ns.swap(charged_ns, Relaxed).max(1);
        let late_ns = scaled(self.took_of_late_ns.load(Relaxed), charged_ns, before_ns);
        self.took_of_late_ns.store(took_ns.max(late_ns / 8 * 7), Relaxed);
        let own = Took { took_ns, charged_ns };
        correction_ns(charged_ns, took_ns, stands_ns).saturating_sub(own.more_ns())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const US: u64 = 1_000;

    /// Returns the sum of charges for launches on a device that is always busy, each marked in windows, and the time
    /// that they took; marks are settled `behind` marks later. The known length of a launch is one moving mean.
    fn charged(launches: u64, behind: usize, of: impl Fn(u64) -> u64) -> (u64, u64) {
        let window = Window::new();
        let (mut known_ns, mut submitted_ns, mut all_ns, mut truth_ns) = (50 * US, 0, 0_i64, 0);
        let (mut pending, mut random) = (Vec::new(), 0x2545_f491_4f6c_dd1d_u64);
        for nth in 0..launches {
            let took_ns = of(nth);
            truth_ns += took_ns;
            if window.due_in_ns(submitted_ns) < known_ns {
                window.open(submitted_ns, tuning::WINDOW_MARKS);
            }
            submitted_ns += known_ns;
            all_ns += signed(known_ns);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match window.mark(submitted_ns, random) {
                Edge::Outside => {}
                edge => pending.push((edge, submitted_ns, Took { took_ns, charged_ns: known_ns })),
            }
            while pending.len() > behind {
                let (edge, submitted_ns, took) = pending.remove(0);
                if edge == Edge::Teaches {
                    known_ns = (known_ns * 7 + took.took_ns) / 8;
                }
                all_ns += window.settle(edge, submitted_ns, Some(took));
                window.settled(edge);
            }
        }
        (u64::try_from(all_ns).unwrap(), truth_ns)
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn whatever_pattern_lengths_have_the_sum_is_right() {
        let alternately = |n: u64| if n.is_multiple_of(2) { 50 * US } else { 150 * US };
        let rarely = |n: u64| if n.wrapping_mul(0x9e37_79b9) % 100 < 5 { 95 * US } else { 5 * US };
        let runs = |n: u64| if n % 340 < 40 { 5_600 } else { 28_400 };
        let growing = |n: u64| 20 * US + n / 4;
        let overlapping = |n: u64| if n.is_multiple_of(16) { 200 * US } else { US };
        let patterns: [&dyn Fn(u64) -> u64; 5] =
            [&alternately, &rarely, &runs, &growing, &overlapping];
        for (at, of) in patterns.into_iter().enumerate() {
            for behind in [0, 5, 20] {
                let (charged_ns, truth_ns) = charged(400_000, behind, of);
                let off = charged_ns as f64 / truth_ns as f64 - 1.0;
                // Runs that are some times as long as a window come out the least exact.
                let most = if at == 2 { 0.08 } else { 0.03 };
                assert!(off.abs() < most, "pattern {at}, {behind} behind: {off:+.4}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn marks_are_few_of_short_launches_and_all_of_long_ones() {
        let marked = |took_ns: u64| {
            let window = Window::new();
            let (mut submitted_ns, mut marks) = (0, 0);
            for _ in 0..20_000 {
                if window.due_in_ns(submitted_ns) == 0 {
                    window.open(submitted_ns, tuning::WINDOW_MARKS);
                }
                submitted_ns += took_ns;
                let edge = window.mark(submitted_ns, submitted_ns);
                marks += u64::from(edge != Edge::Outside);
                let took = Took { took_ns, charged_ns: took_ns };
                window.settle(edge, submitted_ns, Some(took));
                window.settled(edge);
            }
            100 * marks / 20_000
        };
        assert!((2..5).contains(&marked(5 * US)), "{}", marked(5 * US));
        assert!((40..60).contains(&marked(100 * US)), "{}", marked(100 * US));
        assert_eq!(marked(250 * US), 100);
    }

    proptest! {
        /// A window charges nothing for marks that another window, or none, is to correct.
        #[test]
        fn what_a_window_stands_for_is_bounded(
            marks in prop::collection::vec((1_u64..1 << 32, 1_u64..1 << 32, any::<u64>()), 1..200),
        ) {
            let window = Window::new();
            let mut submitted_ns = 0;
            for (charged_ns, took_ns, random) in marks {
                if window.due_in_ns(submitted_ns) == 0 {
                    window.open(submitted_ns, tuning::WINDOW_MARKS);
                }
                let last_ns = window.last_ns.load(Relaxed);
                submitted_ns += charged_ns;
                let edge = window.mark(submitted_ns, random);
                let took = Took { took_ns, charged_ns };
                let more_ns = window.settle(edge, submitted_ns, Some(took));
                window.settled(edge);
                // Bounds: no less than nothing, no more than the measured time and 20 ms.
                prop_assert!(more_ns >= -signed(submitted_ns - last_ns), "{more_ns}");
                prop_assert!(more_ns <= signed(32 << 32) + 20_000_000, "{more_ns}");
            }
        }
    }
}
