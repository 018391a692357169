//! What several streams' work is worth: the time in which any of it is on the device.
//!
//! Kernels of several streams overlap or not, begin behind one another or at once: no sum of their lengths says what
//! they take together. So the launches of a lane with several streams are measured in *windows*: each is marked behind
//! all of the context's work, which delays no kernel (bench/results/h200-2026-11-23/context-marks.jsonl). The time
//! between two marks that are linked is the device's; where it was drained, an event before the launch says when it
//! began. In a window every launch goes as it would outside of one, from the same chunk of credit: what is
//! measured is what is done.
//!
//! A window has 24 marks that measure: by what the device took for what was charged, all is put right that was charged
//! since the window before. Eight more teach what kernels are worth, and as many as it takes until those are settled
//! follow: what is known must not change between what is measured and what that stands for. What the latter
//! cover is charged what it took, no more and no less.
//!
//! The pause between windows is in what is charged, spread, and so long that marks take no more than one part in 64 of
//! the device's time: kernels of more than some 200 us, and deep queues, which need few marks, are measured
//! throughout.
//!
//! Promises: a window begins by what was charged and a draw, whatever the program does; what it shows stands for no
//! more than was charged since the last one, and for no more than 20 ms beyond what it took. Does not say what a stream is
//! worth by itself, and sees no overlap where others share the device: there estimates stand, and parts of spans (`beside`).

use core::cmp::Ordering;
use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{GateLine, gate};

use super::World;
use super::credit::{Paid, signed};
use super::lane::{Lane, Ticket};
use super::marks::{Edge, Mark, Probe};
use super::measure::Probed;
use super::sample::correction_ns;
use crate::atomic::{AtomicU32, AtomicU64};
use crate::cost::{Costs, is_graph};
use crate::scaled::scaled;

/// Marks of a window, and those of them that teach.
const MARKS: u32 = 32;
const TEACHING: u32 = 8;
/// What must be charged for each mark: 64 times what a mark takes.
const MARKED_NS: u64 = 64 * 3_000;
/// For so long what was charged may turn out wrong: what a cap has saved since then is kept.
pub(super) const KEPT_NS: u64 = 50_000_000;
/// What took so many times as long as was charged, and so much longer, is late.
const LONGER: u64 = 4;
const LATE_NS: u64 = 500_000;
/// What takes less in sum with others' does not say what it takes.
const LEAST_NS: u64 = 500;
/// Most that is charged from one window to the next.
const MOST_APART_NS: u64 = 20_000_000;
/// In a deep queue a mark stands for this part of it.
const QUEUE_PART: u64 = 8;
/// With less in flight the device may be drained before a kernel, or a graph, reaches it.
const NEAR_NS: u64 = 50_000;
const NEAR_GRAPH_NS: u64 = 200_000;
/// A mark counts for this part of what marks have shown of late.
const LATE_PART: u64 = 16;

/// No stream's word.
const NO_STREAM: u64 = 0;
/// Launches on one stream after which the others are forgotten.
const MIXED_FOR: u32 = 1_024;

/// Whether launches are marked, in lines of their own: every launch looks.
#[repr(align(128))]
#[derive(Debug)]
struct Open(AtomicU32);

/// The windows of one lane.
#[derive(Debug)]
pub(super) struct Window {
    open: Open,
    /// What had been submitted when this one began, and what will have been when the next does.
    began_ns: AtomicU64,
    next_ns: AtomicU64,
    /// Marks of this one, and those that are still to come.
    marks: AtomicU32,
    left: AtomicU32,
    /// Marks that teach and are not settled.
    teaching: AtomicU32,
    /// What had been submitted before the last mark that all before it was put right by.
    last_ns: AtomicU64,
    /// What was charged for what has been measured of the one that is being settled, and what it took.
    charged_ns: AtomicU64,
    took_ns: AtomicU64,
    /// The same of late.
    charged_of_late_ns: AtomicU64,
    took_of_late_ns: AtomicU64,
}

/// What a mark shows.
#[derive(Clone, Copy, Debug)]
struct Took {
    took_ns: u64,
    /// What was charged for it.
    charged_ns: u64,
}

impl Took {
    fn more_ns(self) -> i64 {
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
            marks: AtomicU32::new(0),
            left: AtomicU32::new(0),
            teaching: AtomicU32::new(0),
            last_ns: word(),
            charged_ns: word(),
            took_ns: word(),
            charged_of_late_ns: word(),
            took_of_late_ns: word(),
        }
    }

    /// Nothing of what was submitted is to be put right, and the next begins at once.
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

    pub(super) fn is_open(&self) -> bool {
        self.open.0.load(Relaxed) != 0
    }

    /// How much may be charged before the next begins.
    pub(super) fn due_in_ns(&self, submitted_ns: u64) -> u64 {
        match self.is_open() {
            true => u64::MAX,
            false => self.next_ns.load(Relaxed).saturating_sub(submitted_ns),
        }
    }

    fn open(&self, submitted_ns: u64, marks: u32) {
        self.began_ns.store(submitted_ns, Relaxed);
        for word in [&self.marks, &self.left, &self.open.0] {
            word.store(marks, Relaxed);
        }
    }

    /// A mark is recorded behind what was submitted; `random` spreads what follows.
    pub(super) fn mark(&self, submitted_ns: u64, random: u64) -> Edge {
        if !self.is_open() {
            return Edge::Outside;
        }
        if let Some(left) = self.left.load(Relaxed).checked_sub(1) {
            self.left.store(left, Relaxed);
            return match left.cmp(&TEACHING) {
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
        // In what is charged, for which the device takes longer or shorter.
        let [charged_ns, took_ns] =
            [&self.charged_of_late_ns, &self.took_of_late_ns].map(|word| word.load(Relaxed));
        let marked_ns = u64::from(self.marks.load(Relaxed)) * MARKED_NS;
        let apart_ns = scaled(marked_ns, charged_ns, took_ns).min(MOST_APART_NS);
        let within_ns = submitted_ns.saturating_sub(self.began_ns.load(Relaxed));
        let pause_ns = apart_ns.saturating_sub(within_ns);
        match random.checked_rem(pause_ns) {
            // Without a pause nothing is to be put right but by what shows it: all that follows teaches.
            None => self.open(submitted_ns, TEACHING),
            Some(spread_ns) => {
                let next_ns = submitted_ns.saturating_add(pause_ns / 2).saturating_add(spread_ns);
                self.next_ns.store(next_ns, Relaxed);
                self.open.0.store(0, Relaxed);
            }
        }
    }

    /// A mark behind `submitted_ns` is settled; what is to be added to what was charged for what it shows, and for
    /// what that stands for.
    fn settle(&self, edge: Edge, submitted_ns: u64, took: Option<Took>) -> i64 {
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
                }
                self.last_ns.store(submitted_ns, Relaxed);
                shown_ns
            }
        }
    }

    /// A mark is settled, whatever it showed.
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
            word.store(before_ns.saturating_sub(before_ns / LATE_PART).saturating_add(ns), Relaxed);
        }
    }

    /// What is to be added for what was not measured since the window before.
    fn end(&self, submitted_ns: u64) -> i64 {
        let stands_ns = submitted_ns.saturating_sub(self.last_ns.swap(submitted_ns, Relaxed));
        let [charged_ns, took_ns] =
            [&self.charged_ns, &self.took_ns].map(|word| word.swap(0, Relaxed));
        if charged_ns == 0 {
            return 0;
        }
        self.charged_of_late_ns.store(charged_ns, Relaxed);
        self.took_of_late_ns.store(took_ns, Relaxed);
        let own = Took { took_ns, charged_ns };
        correction_ns(charged_ns, took_ns, stands_ns).saturating_sub(own.more_ns())
    }
}

/// The event before a launch that may find the device drained, until a mark behind it is recorded.
#[derive(Debug)]
pub(super) struct Begun {
    /// One more than the event; 0 for none.
    event: AtomicU32,
    at_ns: AtomicU64,
    key: AtomicU64,
    charged_ns: AtomicU64,
    /// What had been submitted.
    since_ns: AtomicU64,
    is_behind: AtomicU32,
}

impl Begun {
    pub(super) const fn new() -> Self {
        const fn word() -> AtomicU64 {
            AtomicU64::new(0)
        }
        let event = AtomicU32::new(0);
        let is_behind = AtomicU32::new(0);
        Self { event, at_ns: word(), key: word(), charged_ns: word(), since_ns: word(), is_behind }
    }

    fn is_there(&self) -> bool {
        self.event.load(Relaxed) != 0
    }

    /// An event was recorded before a launch of `key`; so much had been submitted, some of which may be in flight.
    fn set(
        &self,
        probed: Probed,
        (key, charged_ns): (u64, u64),
        submitted_ns: u64,
        is_behind: bool,
    ) {
        let words = [
            (&self.at_ns, probed.at_ns),
            (&self.key, key),
            (&self.charged_ns, charged_ns),
            (&self.since_ns, submitted_ns),
        ];
        for (word, value) in words {
            word.store(value, Relaxed);
        }
        self.is_behind.store(is_behind.into(), Relaxed);
        self.event.store(probed.event.saturating_add(1), Relaxed);
    }

    pub(super) fn forget(&self) {
        self.event.store(0, Relaxed);
    }

    /// What lies behind it, for a mark that is recorded behind what was submitted, if that is anything.
    pub(super) fn take(&self, now_ns: impl Fn() -> u64, submitted_ns: u64) -> Option<Probe> {
        let event = self.event.load(Relaxed).checked_sub(1)?;
        let [at_ns, key, charged_ns, since_ns] =
            [&self.at_ns, &self.key, &self.charged_ns, &self.since_ns]
                .map(|word| word.load(Relaxed));
        let stands_ns = submitted_ns.saturating_sub(since_ns);
        if stands_ns == 0 {
            return None;
        }
        self.forget();
        Some(Probe {
            key,
            charged_ns,
            stands_ns,
            at_ns,
            event,
            gap_ns: now_ns().saturating_sub(at_ns),
            is_behind: self.is_behind.load(Relaxed) != 0,
        })
    }
}

impl Lane {
    /// Whether launches of several streams are being measured.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.window.is_open() && !self.has_one_stream()
    }

    /// Whether launches came on several streams of late. A launch on this one is to come.
    pub(super) fn is_mixed(&self, stream: u64, submitted_ns: u64) -> bool {
        let before = self.stream.swap(stream, Relaxed);
        if before != stream && before != NO_STREAM {
            if self.streams_mixed.swap(MIXED_FOR, Relaxed) == 0 {
                self.window.restart(submitted_ns);
            }
            return true;
        }
        // Of two that count at once one may not count.
        let left = self.streams_mixed.load(Relaxed).saturating_sub(1);
        if self.streams_mixed.swap(left, Relaxed) == 1 {
            self.window.restart(submitted_ns);
            self.sample.restart(submitted_ns);
        }
        left != 0
    }

    /// In a window, what the credit in hand pays for goes as it would go otherwise, and is measured.
    pub(super) fn take_watched<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        key: u64,
    ) -> Option<Ticket> {
        let charged_ns = costs.firm(key).filter(|_| self.is_watched())?;
        let line = world.line();
        if line.gate == gate::CLOSED || world.terms().paused {
            return None;
        }
        match self.credit.spend(world.stripe(), signed(charged_ns)) {
            Paid::Not => return None,
            Paid::First => world.count_launches(1),
            Paid::Next => {}
        }
        self.settle(world, costs, &line);
        self.is_mixed(world.stream(), self.submitted_ns());
        self.coming_ns.fetch_add(charged_ns, Relaxed);
        Some(Ticket {
            key,
            charged_ns,
            is_unknown: false,
            is_marked: self.begin_among(world, (key, charged_ns), false),
            probed: None,
            epoch: line.epoch,
            sharers: line.active,
        })
    }

    /// Opens a window where one is due and nobody shares the device: with the launch in whose charge that lies, so that
    /// each is as likely to be the first as it is charged. What was submitted before is not in it.
    pub(super) fn open_window<W: World>(&self, world: &W, line: &GateLine, charged_ns: u64) {
        let submitted_ns = self.launched_ns();
        let is_due = self.window.due_in_ns(submitted_ns) < charged_ns;
        if !is_due || line.active > 1 || line.strangers != 0 {
            return;
        }
        let Some(claim) = self.claim(world.life()) else { return };
        let is_marked = submitted_ns <= self.marked_ns.load(Relaxed);
        if is_marked || self.mark(world, &claim, None, None, line.epoch, line.active) {
            self.window.open(submitted_ns, MARKS);
        }
    }

    /// Begins to measure a launch of several streams' that is watched, or of which nothing is known; whether a mark is
    /// to stand behind it.
    pub(super) fn begin_among<W: World>(
        &self,
        world: &W,
        (key, charged_ns): (u64, u64),
        is_unknown: bool,
    ) -> bool {
        if !is_unknown && !self.is_watched() {
            return false;
        }
        let submitted_ns = self.submitted_ns();
        let ahead_ns = self.in_flight_ns(world.now_ns(), submitted_ns);
        let near_ns = if is_graph(key) { NEAR_GRAPH_NS } else { NEAR_NS };
        // Who holds it may not have seen this launch.
        let Some(_claim) = self.claim(world.life()) else { return true };
        let newest = self.ring.newest_and_oldest();
        let is_drained = newest.is_none_or(|(newest, _)| world.is_done(newest));
        if (is_unknown || is_drained || ahead_ns < charged_ns.saturating_add(near_ns))
            && !self.begun.is_there()
            && let Some(probed) = self.begin_probe(world, true)
        {
            self.begun.set(probed, (key, charged_ns), self.launched_ns(), !is_drained);
        }
        let unmarked_ns = submitted_ns.saturating_sub(self.marked_ns.load(Relaxed));
        is_unknown || is_drained || unmarked_ns >= ahead_ns / QUEUE_PART
    }

    /// What one completed mark of several streams' adds to what was charged, where nobody shares the device.
    #[inline(never)]
    pub(super) fn settle_among<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        event: u32,
        mark: &Mark,
        is_alone: bool,
    ) -> i64 {
        let span_ns = self.span_ns(world, event).filter(|_| mark.linked);
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        let linked = span_ns.map(|took_ns| Took { took_ns, charged_ns });
        let begun = || self.took_since_begun(world, costs, event, mark);
        let own = mark.probe.map(|probe| (probe.key, probe.charged_ns)).or(mark.followed);
        let is_new = own.is_some_and(|(key, _)| costs.get(key).is_none());
        // Of a launch that nothing is known of, its own end shows more than by how much it is later than another's.
        let took = if is_new { begun().or(linked) } else { linked.or_else(begun) };
        let Some(took) = took else {
            return self.window.settle(mark.edge, mark.submitted_ns, None);
        };
        self.beside.forget();
        let Took { took_ns, charged_ns } = took;
        // Between windows as well, what was charged far too little is charged as soon as it is seen.
        let most_ns = charged_ns.saturating_mul(LONGER).saturating_add(LATE_NS);
        let edge = match mark.edge {
            Edge::Outside if took_ns > most_ns => Edge::Teaches,
            edge => edge,
        };
        if let Some((key, own_ns)) = own {
            let part_ns = scaled(took_ns, own_ns.min(charged_ns), charged_ns).min(took_ns);
            if if is_new { part_ns >= LEAST_NS } else { edge == Edge::Teaches } {
                costs.learn(key, part_ns);
            }
            world.note_length(part_ns);
            if own_ns == charged_ns && is_alone {
                costs.seen_alone(key, took_ns, world.now_ns());
            }
        }
        match edge {
            Edge::Outside if is_new => took.more_ns(),
            edge => self.window.settle(edge, mark.submitted_ns, Some(took)),
        }
    }

    /// What a mark shows of what lies behind the event that its burst began with.
    fn took_since_begun<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        event: u32,
        mark: &Mark,
    ) -> Option<Took> {
        let probe = mark.probe?;
        let between_ns = u64::try_from(world.elapsed_ns(probe.event, event)?).ok()?;
        let is_known = costs.get(probe.key).is_some();
        let took_ns = match probe.gap_ns {
            0 => between_ns,
            // The device waited for some of the call or for none of it.
            gap_ns if probe.is_behind => {
                probe.stands_ns.max(between_ns.saturating_sub(gap_ns)).min(between_ns)
            }
            _ => probe.shows(between_ns, is_known, costs.firm(probe.key).is_some())?.took_ns,
        };
        Some(Took { took_ns, charged_ns: probe.stands_ns })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const US: u64 = 1_000;

    /// What is charged in all for launches on a device that is always busy, each marked in windows, and what they took;
    /// marks are settled `behind` marks later. What is known of the launches is one moving mean.
    fn charged(launches: u64, behind: usize, of: impl Fn(u64) -> u64) -> (u64, u64) {
        let window = Window::new();
        let (mut known_ns, mut submitted_ns, mut all_ns, mut truth_ns) = (50 * US, 0, 0_i64, 0);
        let (mut pending, mut random) = (Vec::new(), 0x2545_f491_4f6c_dd1d_u64);
        for nth in 0..launches {
            let took_ns = of(nth);
            truth_ns += took_ns;
            if window.due_in_ns(submitted_ns) < known_ns {
                window.open(submitted_ns, MARKS);
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
    fn marks_are_few_of_short_launches_and_all_of_long_ones() {
        let marked = |took_ns: u64| {
            let window = Window::new();
            let (mut submitted_ns, mut marks) = (0, 0);
            for _ in 0..20_000 {
                if window.due_in_ns(submitted_ns) == 0 {
                    window.open(submitted_ns, MARKS);
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
        /// Nothing is charged for marks that another window, or none, is to put right.
        #[test]
        fn what_a_window_stands_for_is_bounded(
            marks in prop::collection::vec((1_u64..1 << 32, 1_u64..1 << 32, any::<u64>()), 1..200),
        ) {
            let window = Window::new();
            let mut submitted_ns = 0;
            for (charged_ns, took_ns, random) in marks {
                if window.due_in_ns(submitted_ns) == 0 {
                    window.open(submitted_ns, MARKS);
                }
                let last_ns = window.last_ns.load(Relaxed);
                submitted_ns += charged_ns;
                let edge = window.mark(submitted_ns, random);
                let took = Took { took_ns, charged_ns };
                let more_ns = window.settle(edge, submitted_ns, Some(took));
                window.settled(edge);
                // No less than nothing, no more than what was measured and 20 ms.
                prop_assert!(more_ns >= -signed(submitted_ns - last_ns), "{more_ns}");
                prop_assert!(more_ns <= signed(32 << 32) + 20_000_000, "{more_ns}");
            }
        }
    }
}
