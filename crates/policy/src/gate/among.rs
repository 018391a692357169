//! Measurement of several streams, or of several threads at once on one: the time in which any of their work is on the
//! device.
//!
//! A probe's two events have another thread's launch between them where that comes at the same time, so threads of one
//! stream are measured as streams are, from when that was first seen. Another thread's copy or host function between
//! two launches is charged, though no work of the device's: else such a thread would hide the others' work.
//!
//! Kernels of several streams overlap or not, begin behind one another or at once: no sum of their lengths says how
//! long they take together. So the launches of a lane with several streams are measured in *windows*: each is marked
//! behind all of the context's work, which delays no kernel (bench/results/h200-2026-11-23/context-marks.jsonl). The
//! time between two marks that are linked is the device's; where it was drained, an event before the launch tells the
//! beginning. In a window every launch goes as it would outside of one, from the same chunk of credit: the order that
//! is measured is the usual one. Streams run ahead of one another: marks that are closer than a part of the work in
//! flight would show none of the work between them, and then all of it.
//!
//! Promises: a window shows the work as it was done, on any streams. Does not measure a stream by itself, and sees no
//! overlap where others share the device: there estimates stand, and parts of spans (`beside`).

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::GateLine;

use super::completed::Completed;
use super::driver::{Driver, Words};
use super::here::Here;
use super::lane::Lane;
use super::marks::Edge;
use super::streams::{STREAMS, THREADS};
use super::tuning;
use super::window::Took;
use crate::cost::{Costs, Known, is_graph};
use crate::scaled::scaled;

impl Lane {
    /// True while launches of several streams are being measured.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.window.is_watched() && !self.has_one_stream()
    }

    /// Notes that a launch on `stream`, which its lane does not know, is to come.
    #[cold]
    #[inline(never)]
    pub(super) fn note_stream(&self, stream: u64) {
        if self.streams.note(stream) {
            self.measure_as(STREAMS);
        }
    }

    /// True if launches are measured as several streams' or threads'. Notes that one on `stream` is to come.
    #[inline(never)]
    pub(super) fn is_mixed(&self, stream: u64, now_ns: u64) -> bool {
        if !self.streams.knows(stream) {
            self.note_stream(stream);
        }
        if self.coming_ns.load(Relaxed) != 0 {
            self.note_threads(now_ns);
        } else if self.streams.are_threads_past(now_ns) {
            self.measure_no_more_as(THREADS);
        }
        !self.has_one_stream()
    }

    /// Notes that several threads launch at once: another's launch may lie between the two events of a probe.
    pub(super) fn note_threads(&self, now_ns: u64) {
        self.streams.note_threads(now_ns);
        self.measure_as(THREADS);
    }

    /// Notes that all work has ended: what comes is the first of its stretch.
    #[inline(never)]
    pub(super) fn forget_streams(&self) {
        if self.streams.forget() {
            self.measure_no_more_as(STREAMS);
        }
    }

    #[inline(never)]
    fn measure_as(&self, what: u32) {
        if self.streams.measure_as(what) {
            self.window.restart(self.submitted_ns());
        }
    }

    #[inline(never)]
    fn measure_no_more_as(&self, what: u32) {
        if self.streams.measure_no_more_as(what) {
            let submitted_ns = self.submitted_ns();
            self.window.restart(submitted_ns);
            self.sample.restart(submitted_ns);
        }
    }

    /// True if launches are measured as one stream's: the end of one is the end of all before it, and no other thread's
    /// lies between the events around it.
    pub(super) fn has_one_stream(&self) -> bool {
        !self.streams.is_measured_as(STREAMS | THREADS)
    }

    /// True if several threads were seen to launch at once of late.
    pub(super) fn has_threads(&self) -> bool {
        self.streams.is_measured_as(THREADS)
    }

    /// True if marks are to stand behind all streams' work: behind that of one stream the stream's own are as good, and
    /// the time that they add is known better.
    pub(super) fn has_streams_apart(&self) -> bool {
        self.streams.is_measured_as(STREAMS)
    }

    /// Opens a window where one is due and no one else shares the device: with the launch in whose charge that lies, so
    /// that each is as likely to be the first as it is charged. Work submitted before is not in it.
    pub(super) fn open_window<D: Driver>(
        &self,
        here: &Here<'_, D>,
        line: &GateLine,
        charged_ns: u64,
    ) {
        let submitted_ns = self.launched_ns();
        let is_due = self.window.due_in_ns(submitted_ns) < charged_ns;
        if !is_due || line.active > 1 || line.strangers != 0 {
            return;
        }
        let Some(claim) = self.claim(here.life()) else { return };
        let is_marked = submitted_ns <= self.marked_ns.load(Relaxed);
        if is_marked || self.mark(here, &claim, None, None, line.epoch, line.active) {
            self.window.open(submitted_ns, tuning::WINDOW_MARKS);
        }
    }

    /// Begins to measure a launch of several streams' that is watched, or is of unknown length; true if a mark is to
    /// stand behind it.
    pub(super) fn begin_among<D: Driver>(
        &self,
        here: &Here<'_, D>,
        (key, charged_ns): (u64, u64),
        is_unknown: bool,
    ) -> bool {
        if !is_unknown && !self.window.is_open() {
            return false;
        }
        let submitted_ns = self.submitted_ns();
        let ahead_ns = self.in_flight_ns(here.now_ns(), submitted_ns);
        let near_ns = if is_graph(key) { tuning::NEAR_GRAPH_NS } else { tuning::NEAR_NS };
        // The launch itself counts as in flight, and one more may have ended long before its expected end.
        let near_ns = near_ns.max(charged_ns.saturating_mul(2)).saturating_add(charged_ns);
        // The claim's holder may not have seen this launch.
        let Some(_claim) = self.claim_within(here, charged_ns) else { return true };
        let newest = self.ring.newest_and_oldest();
        let is_drained = newest.is_none_or(|(newest, _)| here.is_done(newest));
        // A stream's wait, or a copy, may keep the device idle: the work that follows is measured from behind that.
        let is_broken = self.is_broken();
        if (is_unknown || is_drained || is_broken || ahead_ns < near_ns)
            && self.begun.event().is_none()
        {
            let given_ns = self.launched_ns();
            let Some(probed) = self.begin_probe(here, self.has_streams_apart()) else {
                return true;
            };
            // Another thread's launch that was in the driver's hands meanwhile may lie before the event.
            let is_unsure = self.has_streams_apart()
                && (self.coming_ns.load(Relaxed) > charged_ns || probed.since_ns != given_ns);
            self.begun.set(probed, (key, charged_ns), !is_drained, is_unsure);
        }
        let unmarked_ns = submitted_ns.saturating_sub(self.marked_ns.load(Relaxed));
        let most_ns = ahead_ns / tuning::QUEUE_PART;
        self.window.set_deep(!is_drained && most_ns >= near_ns, is_broken);
        is_unknown || is_drained || unmarked_ns >= most_ns
    }

    /// Ends a begun measurement, however short, or forgets it, as something that is no work of the device's is to come.
    #[cold]
    #[inline(never)]
    pub(super) fn end_begun<D: Driver>(&self, here: &Here<'_, D>) {
        let Some(claim) = self.claim(here.life()) else { return };
        if !self.has_one_stream() {
            let line = here.line();
            self.mark(here, &claim, None, None, line.epoch, line.active);
        }
        // Another thread's launch is about to be behind the event: that is measured, with anything between.
        if self.coming_ns.load(Relaxed) == 0 {
            self.forget_begun(here);
        }
    }

    /// Forgets a begun measurement. The caller holds the claim.
    pub(super) fn forget_begun<D: Driver>(&self, here: &Here<'_, D>) {
        if let Some(event) = self.begun.event() {
            self.begun.forget();
            self.probes.give_back(here.life(), event);
        }
    }

    /// Returns the correction that one completed mark of several streams' makes, where no one else shares the device.
    #[inline(never)]
    pub(super) fn settle_among<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        completed: &Completed,
        is_alone: bool,
    ) -> i64 {
        let (span_ns, mark) = (self.span_ns(completed), &completed.mark);
        let charged_ns = mark.submitted_ns.saturating_sub(self.settled_ns.load(Relaxed));
        // A context's event delays no kernel; a stream's delays each that follows.
        let events = if self.has_streams_apart() { 0 } else { 1 + u64::from(mark.probe.is_some()) };
        let own_ns = |ns: u64| ns.saturating_sub(events * self.event_ns()).max(ns / 2);
        let linked_ns = span_ns.filter(|_| mark.linked).map(own_ns);
        let linked = linked_ns.map(|took_ns| Took { took_ns, charged_ns });
        let own = mark.probe.map(|probe| (probe.key, probe.charged_ns)).or(mark.followed);
        let known = own.map_or(Known::Firmly, |(key, _)| costs.known(key));
        let begun = || self.took_since_begun(here, known, completed, span_ns);
        let is_new = known == Known::Nothing;
        // A launch begun while others ran may have run with them: it is no shorter than the delay of its end.
        let is_hidden = mark.probe.is_some_and(|probe| probe.is_behind && probe.gap_ns == 0);
        // The own end of a launch of unknown length shows more than its delay behind another's.
        let took = if is_new { begun().or(linked) } else { linked.or_else(begun) };
        let Some(took) = took else {
            return self.window.settle(mark.edge, mark.submitted_ns, None);
        };
        self.beside.forget();
        let Took { took_ns, charged_ns } = took;
        // Work that was charged far too little is charged as soon as it is seen, between windows as well. The launches
        // that follow are measured by themselves, as this may be the first of many; this one teaches nothing, since no
        // short one would.
        let is_late = took_ns
            > charged_ns.saturating_mul(tuning::LONGER).saturating_add(tuning::WORK_LATE_NS);
        let edge = match mark.edge {
            Edge::Outside if is_late => {
                self.window.follow(mark.submitted_ns);
                Edge::Teaches
            }
            edge => edge,
        };
        if let Some((key, own_ns)) = own {
            let part_ns = scaled(took_ns, own_ns.min(charged_ns), charged_ns).min(took_ns);
            let part_ns = part_ns.max(tuning::LEAST_LAUNCH_NS);
            // The known length of a hidden launch is a lower bound.
            let teaches = match mark.edge {
                Edge::Teaches => true,
                _ if is_new => !is_hidden,
                _ => is_late && known == Known::Roughly,
            };
            if teaches {
                costs.learn(key, part_ns);
            } else if is_new && self.random().is_multiple_of(tuning::HIDDEN) {
                costs.learn_roughly(key, part_ns);
            }
            here.words.note_length(part_ns);
            if own_ns == charged_ns && is_alone {
                costs.seen_alone(key, took_ns, here.now_ns());
            }
        }
        match edge {
            Edge::Outside if is_new => took.more_ns(),
            edge => self.window.settle(edge, mark.submitted_ns, Some(took)),
        }
    }

    /// Returns the measurement from the event that its burst began with to a mark, before a launch of which so much is
    /// known.
    #[inline(never)]
    fn took_since_begun<D: Driver>(
        &self,
        here: &Here<'_, D>,
        known: Known,
        completed: &Completed,
        span_ns: Option<u64>,
    ) -> Option<Took> {
        let probe = completed.mark.probe?;
        let between_ns = completed.since_begun_ns(here)?;
        // The device waited for some of the call or for none of it.
        let at_least_ns = between_ns.saturating_sub(probe.gap_ns);
        let roughly_ns = probe.stands_ns.max(at_least_ns).min(between_ns);
        let took_ns = match probe.gap_ns {
            // The event came right behind the mark before, and was late by that one's device time.
            0 if !self.has_streams_apart() => {
                between_ns.saturating_sub(self.event_ns()).max(between_ns / 2)
            }
            0 if span_ns
                .is_some_and(|ns| ns.abs_diff(between_ns) < tuning::CONTEXT_BIAS_NS * 3 / 2) =>
            {
                between_ns.saturating_add(tuning::CONTEXT_BIAS_NS)
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
