//! Worth of the work of several streams, or of several threads at once on one: the time in which any of it is on the
//! device.
//!
//! The two events of a probe have another thread's launch between them where that comes at the same time, so threads of one
//! stream are measured as streams are, from when that was first seen. A copy or a host function that another thread puts between two
//! launches is charged although it is no work: else such a thread would hide the work of the others.
//!
//! Kernels of several streams overlap or not, begin behind one another or at once: no sum of their lengths says what
//! they take together. So the launches of a lane with several streams are measured in *windows*: each is marked behind
//! all of the context's work, which delays no kernel (bench/results/h200-2026-11-23/context-marks.jsonl). The time
//! between two marks that are linked is the device's; where it was drained, an event before the launch says when it
//! began. In a window every launch goes as it would outside of one, from the same chunk of credit: the
//! measured pattern is the real one. Streams run ahead of one another: marks that are closer than a part of what is in flight
//! would show none of what lies between them, and then all of it.
//!
//! Promises: a window shows the device time of all streams together. Does not say what a single stream is worth, and
//! sees no overlap where others share the device: there estimates stand, and parts of spans (`beside`).

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::GateLine;

use super::completed::Completed;
use super::lane::Lane;
use super::marks::Edge;
use super::shown::CONTEXT_BIAS_NS;
use super::window::{MARKS, Took};
use super::world::World;
use crate::cost::{Costs, Known, is_graph};
use crate::scaled::scaled;

/// A launch is late if it took this many times its charge, and [`LATE_NS`] longer.
const LONGER: u64 = 4;
const LATE_NS: u64 = 500_000;
/// A launch that nothing is known of and that was begun beside others shows nothing, but for one in so many: some are
/// never seen by themselves.
const HIDDEN: u64 = 8;
/// No launch takes less.
const LEAST_NS: u64 = 500;
/// In a deep queue a mark stands for this part of it.
const QUEUE_PART: u64 = 8;
/// With less in flight the device may be drained before a kernel, or a graph, reaches it.
const NEAR_NS: u64 = 50_000;
const NEAR_GRAPH_NS: u64 = 200_000;

/// No stream's word.
const NO_STREAM: u64 = 0;
/// Launches on one stream after which the others are forgotten.
const MIXED_FOR: u32 = 1_024;

impl Lane {
    /// Whether launches of several streams are being measured.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.window.is_watched() && !self.has_one_stream()
    }

    /// Whether launches came on several streams of late, or on one from several threads at once. A launch on this one is
    /// to come.
    #[inline(never)]
    pub(super) fn is_mixed(&self, stream: u64) -> bool {
        let before = self.stream.swap(stream, Relaxed);
        let is_apart = before != stream && before != NO_STREAM;
        let apart = self.streams_apart.load(Relaxed);
        if is_apart || apart != 0 {
            let left = if is_apart { MIXED_FOR } else { apart - 1 };
            self.streams_apart.store(left, Relaxed);
        }
        if is_apart || self.coming_ns.load(Relaxed) != 0 {
            self.mix();
            return true;
        }
        // Of two that count at once one may not count.
        let left = self.streams_mixed.load(Relaxed).saturating_sub(1);
        if self.streams_mixed.swap(left, Relaxed) == 1 {
            let submitted_ns = self.submitted_ns();
            self.window.restart(submitted_ns);
            self.sample.restart(submitted_ns);
        }
        left != 0
    }

    /// Whether marks are to stand behind all streams' work: behind that of one stream the stream's own are as good, and what
    /// they add is known better.
    pub(super) fn has_streams_apart(&self) -> bool {
        self.streams_apart.load(Relaxed) != 0
    }

    /// Launches came on several streams, or from several threads at once: another's may lie between the two events of a
    /// probe.
    pub(super) fn mix(&self) {
        if self.streams_mixed.swap(MIXED_FOR, Relaxed) == 0 {
            self.window.restart(self.submitted_ns());
        }
    }

    /// Opens a window if one is due and no other context shares the device: with the launch in whose charge the drawn point
    /// lies, so that each is the first as often as it is charged much. Earlier launches are not in it.
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
        if !is_unknown && !self.window.is_open() {
            return false;
        }
        let submitted_ns = self.submitted_ns();
        let ahead_ns = self.in_flight_ns(world.now_ns(), submitted_ns);
        let near_ns = if is_graph(key) { NEAR_GRAPH_NS } else { NEAR_NS };
        // This launch is in flight too, and one more may have ended long before it was expected to.
        let near_ns = near_ns.max(charged_ns.saturating_mul(2)).saturating_add(charged_ns);
        // The holder of the claim may not have seen this launch.
        let Some(_claim) = self.claim_within(world, charged_ns) else { return true };
        let newest = self.ring.newest_and_oldest();
        let is_drained = newest.is_none_or(|(newest, _)| world.is_done(newest));
        // A wait of a stream, or a copy, may keep the device idle: later launches are measured from behind it.
        let is_broken = self.is_broken();
        if (is_unknown || is_drained || is_broken || ahead_ns < near_ns)
            && self.begun.event().is_none()
        {
            let given_ns = self.launched_ns();
            let Some(probed) = self.begin_probe(world, self.has_streams_apart()) else {
                return true;
            };
            // Another thread's launch that was in the driver's hands meanwhile may lie before it.
            let is_unsure = self.has_streams_apart()
                && (self.coming_ns.load(Relaxed) > charged_ns || probed.since_ns != given_ns);
            self.begun.set(probed, (key, charged_ns), !is_drained, is_unsure);
        }
        let unmarked_ns = submitted_ns.saturating_sub(self.marked_ns.load(Relaxed));
        let most_ns = ahead_ns / QUEUE_PART;
        self.window.set_deep(!is_drained && most_ns >= near_ns, is_broken);
        is_unknown || is_drained || unmarked_ns >= most_ns
    }

    /// Whether what was launched last is to be measured, and no mark is behind it yet.
    #[inline(always)]
    pub(super) fn has_begun(&self) -> bool {
        self.begun.event().is_some()
    }

    /// Something that is no work of the device's is to come: what has begun ends before it, however short it is, or
    /// measures nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn end_begun<W: World>(&self, world: &W) {
        let Some(claim) = self.claim(world.life()) else { return };
        if !self.has_one_stream() {
            let line = world.line();
            self.mark(world, &claim, None, None, line.epoch, line.active);
        }
        // Another thread's launch is about to be behind it: that is measured, whatever lies between.
        if self.coming_ns.load(Relaxed) == 0 {
            self.forget_begun(world);
        }
    }

    /// Forgets the events before launches that have begun: they measure nothing. The caller holds the claim.
    pub(super) fn forget_begun<W: World>(&self, world: &W) {
        if let Some(event) = self.begun.event() {
            self.begun.forget();
            self.probes.give_back(world.life(), event);
        }
    }

    /// Correction of the charge by one completed mark of several streams, where no other context shares the device.
    #[inline(never)]
    pub(super) fn settle_among<W: World>(
        &self,
        world: &W,
        costs: &Costs,
        completed: &Completed,
        is_alone: bool,
    ) -> i64 {
        let (span_ns, mark) = (self.span_ns(completed), &completed.mark);
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        // A context's event delays no kernel, a stream's each that follows.
        let events = if self.has_streams_apart() { 0 } else { 1 + u64::from(mark.probe.is_some()) };
        let own_ns = |ns: u64| ns.saturating_sub(events * self.event_ns()).max(ns / 2);
        let linked_ns = span_ns.filter(|_| mark.linked).map(own_ns);
        let linked = linked_ns.map(|took_ns| Took { took_ns, charged_ns });
        let own = mark.probe.map(|probe| (probe.key, probe.charged_ns)).or(mark.followed);
        let known = own.map_or(Known::Firmly, |(key, _)| costs.known(key));
        let begun = || self.took_since_begun(world, known, completed, span_ns);
        let is_new = known == Known::Nothing;
        // Begun while others ran, it may have run with them: it is no shorter than by how much it ended later.
        let is_hidden = mark.probe.is_some_and(|probe| probe.is_behind && probe.gap_ns == 0);
        // Of a launch that nothing is known of, its own end shows more than by how much it is later than another's.
        let took = if is_new { begun().or(linked) } else { linked.or_else(begun) };
        let Some(took) = took else {
            return self.window.settle(mark.edge, mark.submitted_ns, None);
        };
        self.beside.forget();
        let Took { took_ns, charged_ns } = took;
        // Between windows as well, a charge that was far too small is put right as soon as that is seen. The next launch is
        // measured by itself, as it may be the first of many; this one teaches nothing, since no short one would.
        let is_late = took_ns > charged_ns.saturating_mul(LONGER).saturating_add(LATE_NS);
        let edge = match mark.edge {
            Edge::Outside if is_late => {
                self.window.follow(mark.submitted_ns);
                Edge::Teaches
            }
            edge => edge,
        };
        if let Some((key, own_ns)) = own {
            let part_ns = scaled(took_ns, own_ns.min(charged_ns), charged_ns).min(took_ns);
            let part_ns = part_ns.max(LEAST_NS);
            // The time shown of a launch that was hidden is the least that it takes.
            let teaches = match mark.edge {
                Edge::Teaches => true,
                _ if is_new => !is_hidden,
                _ => is_late && known == Known::Roughly,
            };
            if teaches {
                costs.learn(key, part_ns);
            } else if is_new && self.random().is_multiple_of(HIDDEN) {
                costs.learn_roughly(key, part_ns);
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

    /// Time that a mark shows behind the event that its burst began with, in front of a launch whose length is known so far.
    #[inline(never)]
    fn took_since_begun<W: World>(
        &self,
        world: &W,
        known: Known,
        completed: &Completed,
        span_ns: Option<u64>,
    ) -> Option<Took> {
        let probe = completed.mark.probe?;
        let between_ns = completed.since_begun_ns(world)?;
        // The device waited for some of the call or for none of it.
        let at_least_ns = between_ns.saturating_sub(probe.gap_ns);
        let roughly_ns = probe.stands_ns.max(at_least_ns).min(between_ns);
        let took_ns = match probe.gap_ns {
            // Right behind the mark before, it was late by as long as that took.
            0 if !self.has_streams_apart() => {
                between_ns.saturating_sub(self.event_ns()).max(between_ns / 2)
            }
            0 if span_ns.is_some_and(|ns| ns.abs_diff(between_ns) < CONTEXT_BIAS_NS * 3 / 2) => {
                between_ns.saturating_add(CONTEXT_BIAS_NS)
            }
            0 => between_ns,
            _ if probe.is_behind => roughly_ns,
            _ => {
                let is_known = known != Known::Nothing;
                let shown = probe.shows(between_ns, is_known, known == Known::Firmly);
                shown.map_or(roughly_ns, |shown| shown.took_ns)
            }
        };
        Some(Took { took_ns, charged_ns: probe.stands_ns })
    }
}
