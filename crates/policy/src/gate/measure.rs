//! Measurement of a lane's launches: probes and marks, recorded around them, and the driver's answer to a launch.
//!
//! Promises: only a thread that holds the lane's claim records ([`super::claim`]); a launch whose mark cannot be
//! recorded is measured together with later ones, by the next mark. Does not turn marks into device time: that is done
//! in `settle`.

use core::sync::atomic::Ordering::Relaxed;

use super::claim::Claim;
use super::driver::Driver;
use super::here::{Behind, Here};
use super::lane::Lane;
use super::marks::{Edge, Mark, Probe, Probed};
use super::ticket::Ticket;
use super::tuning;

impl Lane {
    /// Begins to measure one launch by itself, where that is due: each launch whose length is not known, a long one
    /// only where marks would not measure it as well, and of the short ones those that are drawn. `all_marked` says
    /// that nothing was submitted since the last mark.
    pub(super) fn probe<D: Driver>(
        &self,
        here: &Here<'_, D>,
        submitted_ns: u64,
        (known_ns, long_ns): (Option<u64>, u64),
        all_marked: bool,
    ) -> Option<Probed> {
        let is_long = known_ns.is_some_and(|ns| ns >= long_ns);
        let Some(known_ns) = known_ns.filter(|_| !is_long) else {
            // In a queue that never drains marks measure a long launch better than a probe, in which an unknown part is
            // gap. After a break the next mark is not linked, so that the launch needs a probe there.
            return self.begin_where(here, is_long && !self.is_broken(), all_marked);
        };
        if !self.sample.is_due(submitted_ns, known_ns) && !self.doubt.is_high() {
            return None;
        }
        let probed = self.begin_where(here, false, all_marked);
        let stands_ns = self.sample.draw(submitted_ns, self.random());
        Some(Probed { stands_ns, ..probed? })
    }

    /// Begins a probe. With `only_drained` it does so only if the next mark will perhaps not be linked: if the newest
    /// mark is complete and, unless `all_marked`, no mark is left to be settled.
    fn begin_where<D: Driver>(
        &self,
        here: &Here<'_, D>,
        only_drained: bool,
        all_marked: bool,
    ) -> Option<Probed> {
        if only_drained && !all_marked && self.ring.pending() != 0 {
            return None;
        }
        let _claim = self.claim(here.life())?;
        let newest = self.ring.newest_and_oldest();
        if only_drained && newest.is_some_and(|(newest, _)| !here.is_done(newest)) {
            return None;
        }
        self.begin_probe(here, false)
    }

    /// Records the first event of a probe: behind all of the context's work if `whole` is true, else behind the calling
    /// thread's stream. `None` if the ring is full, no event is left, the driver refused, or the thread was stopped.
    /// The caller holds the claim.
    pub(super) fn begin_probe<D: Driver>(&self, here: &Here<'_, D>, whole: bool) -> Option<Probed> {
        if !self.ring.has_room() {
            return None;
        }
        let before_ns = here.now_ns();
        let event = self.probes.take(here.life())?;
        if here.record(event, whole).is_none() {
            self.probes.give_back(here.life(), event);
            return None;
        }
        let now_ns = here.now_ns();
        if now_ns.saturating_sub(before_ns) >= tuning::STOPPED_NS {
            // The thread was stopped, and other threads' launches may have come after the event. They would be in the
            // total below, which `mark_launch` takes for what was submitted before the event.
            self.probes.give_back(here.life(), event);
            return None;
        }
        // A call that was held up may have queued the event as early as at its start.
        let held_up = now_ns.saturating_sub(before_ns) > tuning::USUAL_GAP_NS;
        let at_ns = if held_up { before_ns } else { now_ns };
        Some(Probed { event, at_ns, since_ns: self.launched_ns(), stands_ns: 0 })
    }

    pub(super) fn anchor(&self) -> Option<u32> {
        self.anchor.load(Relaxed).checked_sub(1)
    }

    /// Takes the driver's answer to the launch: records a mark if it needs one, or, where `submitted` is false since
    /// the driver refused, gives its charge back.
    pub(super) fn launched<D: Driver>(&self, here: &Here<'_, D>, ticket: Ticket, submitted: bool) {
        self.coming_ns.fetch_sub(ticket.charged_ns, Relaxed);
        if submitted {
            self.went(here, ticket.begun);
        }
        let after_ns =
            ticket.probed.map(|probed| here.now_ns().saturating_sub(probed.at_ns).max(1));
        let is_measured = submitted && self.mark_launch(here, &ticket, after_ns);
        if let Some(probed) = ticket.probed
            && !is_measured
        {
            self.probes.give_back(here.life(), probed.event);
        }
        if !submitted {
            if ticket.is_unknown {
                let _ = self.unknown.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
            }
            // The charge becomes credit again, of this thread's stripe: its next launch spends it.
            self.credit.give_back(here.gates.driver.stripe(), ticket.charged_ns);
        }
    }

    /// Notes that the driver has a launch; `behind` is the event that several streams' work is being measured from.
    fn went<D: Driver>(&self, here: &Here<'_, D>, behind: Option<u32>) {
        let Some(event) = behind else { return };
        if !self.begun.went(event, here.now_ns()) {
            return;
        }
        // An event that is incomplete although the launch was submitted waits for earlier work. The device goes from
        // that to the launch at once: there is no gap to be taken off what is measured.
        let Some(claim) = self.claim(here.life()) else { return };
        if self.begun.event() == Some(event) && !claim.is_closing() && !here.is_done(event) {
            self.begun.follow();
        }
    }

    /// Records a mark behind a launch that needs one; true if it was recorded.
    fn mark_launch<D: Driver>(
        &self,
        here: &Here<'_, D>,
        ticket: &Ticket,
        after_ns: Option<u64>,
    ) -> bool {
        if !ticket.is_marked && ticket.probed.is_none() {
            return false;
        }
        let probe = ticket.probed.zip(after_ns).map(|(probed, gap_ns)| Probe {
            stands_ns: probed.stands_ns.max(ticket.charged_ns),
            at_ns: probed.at_ns,
            key: ticket.key,
            charged_ns: ticket.charged_ns,
            event: probed.event,
            gap_ns,
            is_behind: false,
        });
        let given_ns = |probed: Probed| self.launched_ns().saturating_sub(probed.since_ns);
        if ticket.probed.is_some_and(|probed| given_ns(probed) > ticket.charged_ns) {
            // More was submitted since the probe's first event than this launch: another thread's lies between.
            self.note_threads(here.now_ns());
            return false;
        }
        let Some(claim) = self.claim(here.life()) else { return false };
        let launch = probe.is_none().then_some((ticket.key, ticket.charged_ns));
        self.mark(here, &claim, probe, launch, ticket.epoch, ticket.sharers)
    }

    /// Records a mark behind the calling thread's last submission, or behind all streams' where there are several.
    /// False if it cannot be recorded, or if its span might hold idleness. A mark of one launch comes with that
    /// launch's probe, or with its key and charge in `followed`, and leaves some places of the ring for marks behind
    /// all launches.
    #[inline(never)]
    pub(super) fn mark<D: Driver>(
        &self,
        here: &Here<'_, D>,
        claim: &Claim<'_>,
        probe: Option<Probe>,
        followed: Option<(u64, u64)>,
        epoch: u64,
        sharers: u32,
    ) -> bool {
        let is_one_launch = probe.is_some() || followed.is_some();
        let has_place = if is_one_launch { self.ring.has_room() } else { self.ring.has_place() };
        if !has_place || claim.is_closing() {
            return false;
        }
        let event = self.ring.next_event();
        if self.anchor() == Some(event) {
            self.anchor.store(0, Relaxed);
        }
        let now_ns = here.now_ns();
        // Whether this thread was stopped is judged from here on, or, with a probe, from the return of the launch's
        // call: up to that the probe's gap accounts for idleness.
        let asked_ns = probe.map_or(now_ns, |probe| probe.at_ns.wrapping_add(probe.gap_ns));
        let busy = self
            .ring
            .newest_and_oldest()
            .is_some_and(|(newest, oldest)| !here.is_done(newest) || !here.is_done(oldest));
        let (whole, among) = (self.has_streams_apart(), !self.has_one_stream());
        if claim.is_closing() {
            return false;
        }
        let Some(behind) = here.record(event, whole) else { return false };
        // In two cases the time between two events would hold idleness of the device. This thread was stopped, so that
        // the device may have drained before the event just recorded; or the lane was blind, so that it may have
        // drained after an event before it.
        let was_blind = self.was_blind.swap(0, Relaxed) != 0;
        if was_blind || here.now_ns().saturating_sub(asked_ns) >= tuning::STOPPED_NS {
            self.forget_begun(here);
            return false;
        }
        // The total is read after the record: a launch of another thread that returned from the driver before is in it,
        // and lies before the event. One whose call is under way may be on the wrong side, by one launch.
        let submitted_ns = self.launched_ns();
        let probe = probe.or_else(|| self.begun.take(|| here.now_ns(), submitted_ns, whole));
        let probe = probe.map(|probe| {
            // The first event is incomplete although the launch was submitted: it waits for earlier work, and no gap
            // lies between them.
            let gap_ns = if here.is_done(probe.event) { probe.gap_ns } else { 0 };
            Probe { gap_ns, ..probe }
        });
        let breaks = self.breaks.load(Relaxed);
        let linked = busy && self.breaks_marked.swap(breaks, Relaxed) == breaks;
        let followed = followed.filter(|_| probe.is_none());
        let edge = match among {
            true => self.window.mark(submitted_ns, self.random()),
            false => Edge::Outside,
        };
        let (at_ns, is_whole) = (now_ns, behind == Behind::Context);
        let mark =
            Mark { submitted_ns, at_ns, is_whole, epoch, linked, sharers, probe, followed, edge };
        self.ring.push(mark);
        self.marked_ns.store(submitted_ns, Relaxed);
        true
    }
}
