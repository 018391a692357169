//! Admission of a launch: paid from the credit in hand, or behind the waits before it, with the next chunk.
//!
//! The slow path has three steps. A *look* reads all that a decision goes by. A *decision* is that the launch goes, or
//! it is a wait, behind which the next look comes. The launch that goes *pays*.
//!
//! Promises: a launch is charged before the driver has it, by its known cost, and counted; after each wait the limits,
//! the gate and the work in flight are looked at anew. Does not wait itself (`wait`), nor measure launches that have
//! gone (`measure`).

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{GateLine, gate};

use super::credit::{Paid, signed};
use super::driver::{Driver, Terms, Words};
use super::elsewhere::Elsewhere;
use super::here::Here;
use super::lane::Lane;
use super::oldest::Place;
use super::rivals::has_rivals;
use super::ticket::Ticket;
use super::tuning;
use super::turn::{Patience, Turned};
use super::wait::{Drain, Wait, horizon_ns};
use crate::cost::{Costs, Length, Moments};
use crate::pace::{Cap, CapState};

/// Progress of one thread's launch through its waits.
#[derive(Default)]
struct Asking {
    /// The owner's line as the last look has shown it.
    line: GateLine,
    drain: Drain,
    patience: Patience,
    place: Place,
}

/// State that one look has shown.
struct Seen {
    now_ns: u64,
    terms: Terms,
    /// Work submitted by then, by all threads.
    submitted_ns: u64,
    /// True if the launch would go beside the holder of the turn inside the tenant.
    is_beside: bool,
    cap: Option<Cap>,
    /// Time until which the cap is closed, or a linked device's; 0 for open.
    closed_until_ns: u64,
    /// True if an owner makes turns, and whether it keeps the gate closed.
    is_owned: bool,
    is_closed: bool,
    /// State of the tenant's other devices, where that matters.
    elsewhere: Elsewhere,
}

/// A launch that goes.
struct Goes {
    next: Length,
    /// Credit that may be taken at most, where that is more than the launch's charge.
    room_ns: u64,
    /// True if it goes through a closed gate, since another device may wait for it.
    is_let_go: bool,
}

impl Lane {
    /// Pays for a launch from the chunk in hand, and counts it; [`Paid::Not`] when there is not enough, nothing or
    /// little is known of the launch, or each launch is being measured: in a window, or while there is doubt.
    ///
    /// Cost: a look-up and a change of a word in a line of the calling thread's own.
    #[inline]
    pub(super) fn take(&self, costs: &Costs, key: u64, stripe: usize) -> Paid {
        match costs.firm(key) {
            Some(cost_ns) if !self.is_watched() && !self.doubt.is_high() => {
                self.credit.spend(stripe, signed(cost_ns))
            }
            _ => Paid::Not,
        }
    }

    /// Waits until a launch may go, takes the next chunk of credit, and begins a probe where one is due.
    pub(super) fn admit<D: Driver>(&self, here: &Here<'_, D>, costs: &Costs, key: u64) -> Ticket {
        if let Some(ticket) = self.take_watched(here, costs, key) {
            return ticket;
        }
        let mut asking = Asking::default();
        self.note_long(costs.get(key));
        loop {
            let Some(seen) = self.look(here, costs, &mut asking) else { continue };
            if let Some(goes) = self.decide(here, costs, key, &seen, &mut asking) {
                return self.pay(here, costs, key, (&seen, &asking.line), goes);
            }
        }
    }

    /// Looks at the limits, the gate, the cap and the work in flight as they are now; `None` after a wait for the turn
    /// inside the tenant.
    fn look<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        asking: &mut Asking,
    ) -> Option<Seen> {
        let now_ns = here.now_ns();
        let terms = here.terms();
        let line = &mut asking.line;
        *line = here.line();
        if has_rivals(line) {
            self.rivals_ns.store(now_ns, Relaxed);
        }
        self.settle(here, costs, line);
        // One read: all threads' stripes are summed for it, and each thread misses its own once for that.
        let submitted_ns = self.submitted_ns();
        let turned = here.ask_turn(now_ns, self.had_turn(here, now_ns), &mut asking.patience);
        match turned {
            Ok(Turned::GoesOn | Turned::Beside) => {}
            Ok(Turned::Begun) => {
                // From here on the launch is of this turn.
                *line = here.line();
                self.turn_ns.store(now_ns, Relaxed);
                self.turn_from_ns.store(now_ns, Relaxed);
            }
            Err(queued) => {
                self.wait(here, costs, now_ns, (Wait::Inside(queued), 0), line);
                return None;
            }
        }
        // Cap before turn: a tenant that may not use a turn must not be given it.
        let unsettled_since_ns = self.unsettled_since_ns(submitted_ns, now_ns);
        let cap = self.cap(here, terms, line, now_ns, unsettled_since_ns);
        let closed_until_ns = match cap.map(|cap| cap.admit(&here.words, now_ns)) {
            Some(CapState::Closed { until_ns }) => until_ns,
            _ => 0,
        };
        // A gate past its lease is a leftover of an owner that is gone.
        let is_owned = line.gate != gate::FREE && now_ns < line.lease_ns;
        let is_closed = is_owned && line.gate == gate::CLOSED;
        let is_alone = closed_until_ns == 0 && !is_closed && !here.is_linked(now_ns);
        let elsewhere = if is_alone { Elsewhere::default() } else { here.elsewhere(now_ns) };
        // Caps of linked devices are closed as one.
        let closed_until_ns = match cap {
            Some(_) => closed_until_ns.max(elsewhere.closed_until_ns),
            None => 0,
        };
        let is_beside = turned == Ok(Turned::Beside);
        Some(Seen {
            now_ns,
            terms,
            submitted_ns,
            is_beside,
            cap,
            closed_until_ns,
            is_owned,
            is_closed,
            elsewhere,
        })
    }

    /// Decides on a launch by what one look has shown; `None` after a wait, behind which the next look comes.
    fn decide<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        key: u64,
        seen: &Seen,
        asking: &mut Asking,
    ) -> Option<Goes> {
        let Seen { now_ns, terms, submitted_ns, cap, elsewhere, .. } = *seen;
        let Asking { line, drain, place, .. } = asking;
        let what = match () {
            () if seen.closed_until_ns > now_ns => {
                self.oldest.wait(place, now_ns);
                Some(Wait::Cap(seen.closed_until_ns))
            }
            () if terms.paused => Some(Wait::Pause),
            () if seen.is_closed => Some(Wait::Turn),
            () => None,
        };
        let is_let_go = what.is_some()
            && !terms.paused
            && self.is_waited_for(here, (elsewhere, cap, has_rivals(line)), submitted_ns, now_ns);
        if let Some(what) = what.filter(|_| !is_let_go) {
            self.wait(here, costs, now_ns, (what, elsewhere.look_ns), line);
            return None;
        }
        if what.is_none() && cap.is_some() && !self.oldest.goes(place, now_ns) {
            self.make_way(here, now_ns);
            return None;
        }
        // An owner that makes turns leaves no gate free.
        if terms.share_ppm != 0 && !seen.is_owned && !is_let_go {
            let again_ns = here.ask_device(now_ns, costs.get(key).unwrap_or(0));
            if again_ns != 0 {
                self.wait(here, costs, now_ns, (Wait::Device(again_ns), 0), line);
                return None;
            }
        }
        let horizon_ns = horizon_ns(line, now_ns);
        if line.active > 1 && line.strangers == 0 && !here.has_turns() {
            // Others' work may have been in measurements from before turns began.
            costs.doubt_uneven(key, now_ns);
        }
        if !self.has_one_stream() {
            // Windows measure the launches of several streams, even or uneven.
            costs.forget_uneven(key);
        }
        let next = costs.expect(key, now_ns);
        if self.wait_for_horizon(here, now_ns, submitted_ns, horizon_ns, next, drain) {
            return None;
        }
        let chunk_ns =
            || if here.is_alone(now_ns) { tuning::CHUNK_NS } else { tuning::SHARED_CHUNK_NS };
        let room_ns = if seen.is_beside { 0 } else { horizon_ns.min(chunk_ns()) };
        Some(Goes { next, room_ns, is_let_go })
    }

    /// Pays for a launch that goes, with a chunk of credit for those that follow, and begins to measure it where that
    /// is due.
    fn pay<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        key: u64,
        (seen, line): (&Seen, &GateLine),
        Goes { next, room_ns, is_let_go }: Goes,
    ) -> Ticket {
        let Seen { now_ns, submitted_ns, .. } = *seen;
        costs.hunted();
        self.look_back(here, line, now_ns);
        self.drawn_key.store(key, Relaxed);
        let is_unknown = next == Length::Unknown;
        let (charged_ns, longer_ns) = self.charged_at_first(next, now_ns);
        let is_drained = submitted_ns <= self.done_ns.load(Relaxed) && self.ring.pending() == 0;
        if is_drained {
            self.since_ns.store(now_ns, Relaxed);
        }
        if self.epoch.swap(line.epoch, Relaxed) != line.epoch {
            self.epoch_at_ns.store(now_ns, Relaxed);
        }
        // Work submitted since the last mark may still run.
        let all_marked = is_drained || submitted_ns <= self.marked_ns.load(Relaxed);
        // Credit in the other stripes has been charged in advance already, so a thread that finds much there takes
        // less.
        let others_ns = self.credit.others_left_ns(here.gates.driver.stripe(), submitted_ns);
        let room_ns = room_ns.saturating_sub(others_ns).max(room_ns / 4);
        let known_ns = costs.firm(key);
        // Beside strangers a known length stands, and an event behind a kernel may be a slice later.
        let long_ns = if line.strangers == 0 { tuning::LONG_NS } else { u64::MAX };
        let is_mixed = self.is_mixed(here.gates.stream_word(here.stream), now_ns);
        let is_long = known_ns.is_none_or(|ns| ns >= long_ns);
        let due_ns = match is_mixed {
            true => self.window_due_in_ns(here, line, submitted_ns, charged_ns),
            false => self.draw_due_in_ns(submitted_ns, is_long.then_some(charged_ns)),
        };
        // Launches that are let go are asked for one by one.
        let room_ns = if is_let_go { 0 } else { room_ns.min(due_ns) };
        match is_let_go {
            true => self.let_go(here, charged_ns.max(longer_ns), now_ns),
            false => self.ahead.is_over(),
        }
        self.draw(here, line, now_ns, charged_ns, longer_ns, room_ns);
        self.coming_ns.fetch_add(charged_ns, Relaxed);
        if is_unknown {
            self.unknown.fetch_add(1, Relaxed);
        }
        let mut ticket = Ticket {
            key,
            charged_ns,
            is_unknown,
            is_marked: !matches!(next, Length::Even(_)) || !is_drained,
            probed: None,
            begun: None,
            epoch: line.epoch,
            // A launch through a closed gate goes beside the holder of the turn.
            sharers: line.active.max(1 + u32::from(is_let_go && line.gate == gate::CLOSED)),
        };
        if is_mixed {
            let is_due = self.begin_among(here, (key, charged_ns), is_unknown);
            // Marks come no sooner in a window: closer ones show by how much streams run ahead.
            ticket.is_marked = is_due || ticket.is_marked && !self.window.is_open();
            ticket.begun = self.begun.event();
        } else {
            ticket.probed = self.probe(here, submitted_ns, (known_ns, long_ns), all_marked);
        }
        ticket
    }

    /// Returns how much may be charged before the next window is due, of launches of several streams, and opens one
    /// that is due now.
    fn window_due_in_ns<D: Driver>(
        &self,
        here: &Here<'_, D>,
        line: &GateLine,
        submitted_ns: u64,
        charged_ns: u64,
    ) -> u64 {
        if self.doubt.is_high() {
            self.window.hurry(submitted_ns);
        }
        self.open_window(here, line, charged_ns);
        self.window.due_in_ns(submitted_ns)
    }

    /// Returns how much may be charged before the next launch is drawn. A launch that is measured in any case, where it
    /// was charged `apart_ns`, is not among those drawn from.
    fn draw_due_in_ns(&self, submitted_ns: u64, apart_ns: Option<u64>) -> u64 {
        if let Some(charged_ns) = apart_ns {
            self.sample.set_apart(charged_ns);
        }
        if self.doubt.is_high() { 0 } else { self.sample.due_in_ns(submitted_ns) }
    }

    /// Lets a launch of a window go that the credit in hand pays for, as it would go otherwise, and has it measured.
    fn take_watched<D: Driver>(
        &self,
        here: &Here<'_, D>,
        costs: &Costs,
        key: u64,
    ) -> Option<Ticket> {
        let charged_ns = costs.firm(key).filter(|_| self.is_watched())?;
        let line = here.line();
        if line.gate == gate::CLOSED || here.terms().paused {
            return None;
        }
        match self.credit.spend(here.gates.driver.stripe(), signed(charged_ns)) {
            Paid::Not => return None,
            Paid::First => here.words.count_launches(1),
            Paid::Next => {}
        }
        self.settle(here, costs, &line);
        self.is_mixed(here.gates.stream_word(here.stream), here.now_ns());
        self.coming_ns.fetch_add(charged_ns, Relaxed);
        Some(Ticket {
            key,
            charged_ns,
            is_unknown: false,
            is_marked: self.begin_among(here, (key, charged_ns), false),
            probed: None,
            begun: self.begun.event(),
            epoch: line.epoch,
            sharers: line.active,
        })
    }

    /// Takes a chunk of credit that covers `charged_ns`, and no more than `room_ns` where that is more, and spends
    /// `charged_ns`.
    fn draw<D: Driver>(
        &self,
        here: &Here<'_, D>,
        line: &GateLine,
        now_ns: u64,
        charged_ns: u64,
        longer_ns: u64,
        room_ns: u64,
    ) {
        let stripe = here.gates.driver.stripe();
        let left_ns = self.credit.left_ns(stripe);
        // The chunk's size is spread, so that chunks do not end at the same place of a loop each time.
        let spread_ns = tuning::CHUNK_NS / 2 + self.random() % tuning::CHUNK_NS;
        let chunk_ns = charged_ns.max(spread_ns.min(room_ns)).saturating_sub(left_ns);
        self.credit.take(stripe, chunk_ns, charged_ns);
        // The launch itself is not settled.
        self.charge(here, line, self.since_ns.load(Relaxed), signed(chunk_ns));
        let before_ns = self.busy_until_ns.load(Relaxed);
        if now_ns > before_ns.saturating_add(tuning::AWAY_NS) {
            self.back_ns.store(now_ns, Relaxed);
        }
        let ahead_ns = before_ns.max(now_ns);
        // One long launch may take longer than expected; a thread that waits for it sees its end.
        let late_ns = if charged_ns < tuning::OFTEN_NS {
            longer_ns
        } else {
            charged_ns / tuning::LONG_LATE_PART
        };
        let until_ns = ahead_ns.saturating_add(chunk_ns).saturating_add(late_ns);
        self.is_overdue.store(0, Relaxed);
        if longer_ns != 0 {
            self.uneven_until_ns.store(until_ns, Relaxed);
        }
        self.set_busy_until(here, until_ns);
        here.words.note_launch(now_ns);
        here.words.count_launches(self.credit.take_launches(stripe).saturating_add(1));
    }

    fn note_long(&self, cost_ns: Option<u64>) {
        let before_ns = self.long_ns.load(Relaxed);
        let faded_ns = before_ns.saturating_sub(before_ns / tuning::LONG_LASTS);
        self.long_ns.store(faded_ns.max(cost_ns.unwrap_or(0)), Relaxed);
    }

    /// Returns the charge of a launch before it has run, and by how much longer it may take. A launch that will be
    /// measured is charged little, so that it is not charged twice; where no mark is left for it, the average of such
    /// launches.
    fn charged_at_first(&self, next: Length, now_ns: u64) -> (u64, u64) {
        match next {
            Length::Unknown => (tuning::UNKNOWN_NS, 0),
            Length::Even(ns) => (ns, 0),
            Length::Uneven(Moments { mean_ns, rms_ns }) => {
                match self.ring.has_room() && !self.is_blind(now_ns) {
                    true => (mean_ns.min(tuning::UNKNOWN_NS), rms_ns),
                    false => (mean_ns, rms_ns),
                }
            }
        }
    }
}
