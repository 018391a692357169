//! One context's launches: credit, marks, and the waits before a launch.
//!
//! A thread that records or settles marks holds the lane's claim ([`super::claim`]), which nobody waits
//! for: whoever finds it taken goes on without marks, and what it submits is measured by the next mark
//! of another. What marks and probes are is `measure`'s.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{GateLine, gate};

use super::among::{self, Begun};
use super::beside::Beside;
use super::claim::Claims;
use super::credit::{Credit, Paid, signed};
use super::inside::Patience;
use super::linked::{Ahead, Elsewhere};
use super::marks::{Probes, Ring};
use super::measure::Probed;
use super::sample::Sample;
use super::wait::{Drain, OFTEN_NS, Wait, horizon_ns};
use super::window::Window;
use super::{CHUNK_NS, LONG_NS, QUANTUM_NS, Terms, World};
use crate::atomic::{AtomicU32, AtomicU64};
use crate::cost::{Costs, Length};
use crate::pace::{Admission, Cap, agreed_ns};

/// What a cap saves up for whoever waits for its turn, at least.
const BESIDE_NS: u64 = 30_000_000;

/// After so long without work a context counts as one that was away; for so long its owner may not have seen that it
/// is back; and for so long others that were seen may come back.
const AWAY_NS: u64 = 5_000_000;
const UNSEEN_NS: u64 = 10_000_000;
const RIVALS_NS: u64 = 1_000_000_000;

/// Part of itself that long work may take longer than was expected.
const LATE_PART: u64 = 32;

/// Launches on the slow path after which a long one is half forgotten, and half as many again.
const LONG_LASTS: u64 = 64;

/// The launches of one context.
#[derive(Debug)]
pub struct Lane {
    /// Credit in hand.
    pub(super) credit: Credit,
    /// What was charged for launches that the driver has not been given yet, of those that came here.
    pub(super) coming_ns: AtomicU64,
    /// What was submitted before the newest point that is known to have completed.
    pub(super) done_ns: AtomicU64,
    /// When the work in flight will have ended.
    pub(super) busy_until_ns: AtomicU64,
    /// The same of work that is charged when it has ended.
    pub(super) uneven_until_ns: AtomicU64,
    /// Not 0 while work in flight takes longer than was expected.
    pub(super) is_overdue: AtomicU32,
    /// What the longest launch of late costs.
    pub(super) long_ns: AtomicU64,
    /// Launches of unknown length in flight.
    pub(super) unknown: AtomicU32,
    /// How often what ends a measured span has happened; how often before the last mark whose span it could end,
    /// and before all that has been waited for.
    pub(super) breaks: AtomicU32,
    pub(super) breaks_marked: AtomicU32,
    pub(super) breaks_done: AtomicU32,
    /// Held while marks are recorded or settled.
    pub(super) claims: Claims,
    pub(super) ring: Ring,
    pub(super) probes: Probes,
    /// One more than the event of the settled mark that completed last; 0 for none.
    pub(super) anchor: AtomicU32,
    /// What had been submitted before the mark that was settled last.
    pub(super) settled_ns: AtomicU64,
    /// What had been submitted before the mark that was recorded last.
    pub(super) marked_ns: AtomicU64,
    /// Stream of the slow path's last launch, and how many more launches on one stream make the lane
    /// count as having only that one.
    pub(super) stream: AtomicU64,
    pub(super) streams_mixed: AtomicU32,
    /// The windows in which several streams are measured, and what the next mark measures from.
    pub(super) window: Window,
    pub(super) begun: Begun,
    /// Which short launches are measured.
    pub(super) sample: Sample,
    /// State of the generator that spreads probes.
    pub(super) random: AtomicU64,
    /// When the oldest work that is not settled was submitted, or earlier.
    pub(super) since_ns: AtomicU64,
    /// What is known of work with others' slices in it.
    pub(super) beside: Beside,
    /// When the process's turn in its tenant began, and when that or what kept it waiting in it ended last.
    pub(super) turn_ns: AtomicU64,
    pub(super) turn_from_ns: AtomicU64,
    /// When work came that followed on none for a while, and when others were last seen to use the device.
    pub(super) back_ns: AtomicU64,
    pub(super) rivals_ns: AtomicU64,
    /// The turn of the launch that was admitted last, and when it was first seen.
    pub(super) epoch: AtomicU64,
    pub(super) epoch_at_ns: AtomicU64,
    /// What was seen of the tenant's other devices while the gate was closed.
    pub(super) ahead: Ahead,
}

/// A launch that may go: what is to be done once the driver has it.
#[derive(Debug)]
#[must_use = "the launch must be reported by `Lane::launched`"]
pub struct Ticket {
    pub(super) key: u64,
    pub(super) charged_ns: u64,
    pub(super) is_unknown: bool,
    /// Work is in flight whose end is to be seen. What follows a synchronisation is marked by the next
    /// launch that comes here, if it has not been synchronised by then: a mark delays who waits.
    pub(super) is_marked: bool,
    /// The event recorded before it, and the host's time after that.
    pub(super) probed: Option<Probed>,
    /// The turn it is in.
    pub(super) epoch: u64,
    /// Contexts that worked on the device when it was let go.
    pub(super) sharers: u32,
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

impl Lane {
    /// Nothing submitted yet.
    pub const fn new() -> Self {
        Self {
            credit: Credit::new(),
            coming_ns: AtomicU64::new(0),
            done_ns: AtomicU64::new(0),
            busy_until_ns: AtomicU64::new(0),
            uneven_until_ns: AtomicU64::new(0),
            is_overdue: AtomicU32::new(0),
            long_ns: AtomicU64::new(0),
            unknown: AtomicU32::new(0),
            breaks: AtomicU32::new(0),
            breaks_marked: AtomicU32::new(0),
            breaks_done: AtomicU32::new(0),
            claims: Claims::new(),
            ring: Ring::new(),
            probes: Probes::new(),
            anchor: AtomicU32::new(0),
            settled_ns: AtomicU64::new(0),
            marked_ns: AtomicU64::new(0),
            stream: AtomicU64::new(0),
            streams_mixed: AtomicU32::new(0),
            window: Window::new(),
            begun: Begun::new(),
            sample: Sample::new(),
            random: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            beside: Beside::new(),
            turn_ns: AtomicU64::new(0),
            turn_from_ns: AtomicU64::new(0),
            back_ns: AtomicU64::new(0),
            rivals_ns: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            epoch_at_ns: AtomicU64::new(0),
            ahead: Ahead::new(),
        }
    }

    /// Pays for a launch from the chunk in hand, and counts it; [`Paid::Not`] when there is not enough,
    /// nothing or little is known of the launch, or it is one of several streams' that are measured.
    ///
    /// Cost: a look-up and a change of a word in a line of the calling thread's own.
    #[inline]
    pub fn take(&self, costs: &Costs, key: u64, stripe: usize) -> Paid {
        match costs.firm(key) {
            Some(cost_ns) if !self.is_watched() => self.credit.spend(stripe, signed(cost_ns)),
            _ => Paid::Not,
        }
    }

    /// Estimate of all that was submitted, in nanoseconds, since the lane began.
    pub fn submitted_ns(&self) -> u64 {
        self.credit.submitted_ns()
    }

    /// The same of what the driver has been given, or is about to be by who paid from the credit in hand.
    pub(super) fn launched_ns(&self) -> u64 {
        // In this order: what comes meanwhile is in both.
        let coming_ns = self.coming_ns.load(Relaxed);
        self.submitted_ns().saturating_sub(coming_ns)
    }

    /// The launches paid from a stripe's credit since this was asked last, or since [`Lane::admit`], but
    /// for a [`Paid::First`].
    pub fn take_launches(&self, stripe: usize) -> u64 {
        self.credit.take_launches(stripe)
    }

    /// Waits until a launch may go, takes the next chunk of credit, and begins a probe where one is due.
    pub fn admit<W: World>(&self, world: &W, costs: &Costs, key: u64) -> Ticket {
        if let Some(ticket) = self.take_watched(world, costs, key) {
            return ticket;
        }
        let (mut drain, mut patience) = (Drain::default(), Patience::default());
        self.note_long(costs.get(key));
        let (now_ns, line, next, room_ns, submitted_ns, is_let_go) = loop {
            let now_ns = world.now_ns();
            let terms = world.terms();
            let mut line = world.line();
            if has_rivals(&line) {
                self.rivals_ns.store(now_ns, Relaxed);
            }
            self.settle(world, costs, &line);
            // Once: all threads' stripes are read, and each of them misses its own once for that.
            let submitted_ns = self.submitted_ns();
            match world.ask_turn(now_ns, self.had_turn(), &mut patience) {
                Ok(false) => {}
                Ok(true) => {
                    // Of this turn from here on.
                    line = world.line();
                    self.turn_ns.store(now_ns, Relaxed);
                    self.turn_from_ns.store(now_ns, Relaxed);
                }
                Err(queued) => {
                    self.wait(world, costs, now_ns, (Wait::Inside(queued), 0), &line);
                    continue;
                }
            }
            // Before the turn: who may not use it must not be given it.
            let unsettled_since_ns = self.unsettled_since_ns(submitted_ns);
            let cap = self.cap(world, terms, &line, now_ns, unsettled_since_ns);
            let closed_until_ns = match cap.map(|cap| cap.admit(world.clock(), now_ns)) {
                Some(Admission::Closed { until_ns }) => until_ns,
                _ => 0,
            };
            // What an owner has left behind is nobody's.
            let is_owned = line.gate != gate::FREE && now_ns < line.lease_ns;
            let closed = is_owned && line.gate == gate::CLOSED;
            let is_alone = closed_until_ns == 0 && !closed && !world.is_linked(now_ns);
            let seen = if is_alone { Elsewhere::default() } else { world.elsewhere(now_ns) };
            // Caps of linked devices are closed as one.
            let closed_until_ns = match cap {
                Some(_) => closed_until_ns.max(seen.closed_until_ns),
                None => 0,
            };
            let what = match () {
                () if closed_until_ns > now_ns => Some(Wait::Cap(closed_until_ns)),
                () if terms.paused => Some(Wait::Pause),
                () if closed => Some(Wait::Turn),
                () => None,
            };
            let is_let_go = what.is_some()
                && !terms.paused
                && self.is_waited_for(world, (seen, cap, has_rivals(&line)), submitted_ns, now_ns);
            if let Some(what) = what.filter(|_| !is_let_go) {
                self.wait(world, costs, now_ns, (what, seen.look_ns), &line);
                continue;
            }
            // An owner that makes turns leaves no gate free.
            if terms.share_ppm != 0 && !is_owned && !is_let_go {
                let again_ns = world.ask_device(now_ns, costs.get(key).unwrap_or(0));
                if again_ns != 0 {
                    self.wait(world, costs, now_ns, (Wait::Device(again_ns), 0), &line);
                    continue;
                }
            }
            let horizon_ns = horizon_ns(&line, now_ns);
            if line.active > 1 && line.strangers == 0 && !world.has_turns() {
                // Their work may have been in what was seen before turns began.
                costs.forget_uneven(key);
            }
            if !self.has_one_stream() {
                // Windows measure it, whatever its lengths do.
                costs.forget_uneven(key);
            }
            let next = costs.expect(key, now_ns);
            if self.wait_for_horizon(world, now_ns, submitted_ns, horizon_ns, next, &mut drain) {
                continue;
            }
            let room_ns = horizon_ns.min(world.chunk_ns(now_ns));
            break (now_ns, line, next, room_ns, submitted_ns, is_let_go);
        };
        costs.hunted();
        let is_unknown = next == Length::Unknown;
        let (charged_ns, longer_ns) = self.charged_at_first(next);
        let is_drained = submitted_ns <= self.done_ns.load(Relaxed) && self.ring.pending() == 0;
        if is_drained {
            self.since_ns.store(now_ns, Relaxed);
        }
        if self.epoch.swap(line.epoch, Relaxed) != line.epoch {
            self.epoch_at_ns.store(now_ns, Relaxed);
        }
        // What was submitted since the last mark may still run.
        let all_marked = is_drained || submitted_ns <= self.marked_ns.load(Relaxed);
        // What others have in hand is in advance already; who finds much there takes less.
        let others_ns = self.credit.others_left_ns(world.stripe(), submitted_ns);
        let room_ns = room_ns.saturating_sub(others_ns).max(room_ns / 4);
        let known_ns = costs.firm(key);
        // Beside strangers what is known stands, and an event behind a kernel may be a slice later.
        let long_ns = if line.strangers == 0 { LONG_NS } else { u64::MAX };
        let is_mixed = self.is_mixed(world.stream());
        let due_ns = if is_mixed {
            self.open_window(world, &line, charged_ns);
            self.window.due_in_ns(submitted_ns)
        } else {
            if known_ns.is_none_or(|ns| ns >= long_ns) {
                self.sample.set_apart(charged_ns);
            }
            self.sample.due_in_ns(submitted_ns)
        };
        // Of what is let go each launch is asked for.
        let room_ns = if is_let_go { 0 } else { room_ns.min(due_ns) };
        match is_let_go {
            true => self.ahead.went(world, charged_ns.max(longer_ns), now_ns),
            false => self.ahead.is_over(),
        }
        self.draw(world, &line, now_ns, charged_ns, longer_ns, room_ns);
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
            epoch: line.epoch,
            // Through a gate that is closed it goes beside whoever has the turn.
            sharers: line.active.max(1 + u32::from(is_let_go && line.gate == gate::CLOSED)),
        };
        if is_mixed {
            let is_due = self.begin_among(world, (key, charged_ns), is_unknown);
            // In a window no sooner: closer marks show what streams run ahead by.
            ticket.is_marked = is_due || ticket.is_marked && !self.window.is_open();
        } else {
            ticket.probed = self.probe(world, submitted_ns, (known_ns, long_ns), all_marked);
        }
        ticket
    }

    /// Whether nobody else's work has been on the device since then, as far as is known: where an owner makes turns,
    /// since the beginning of ours.
    pub(super) fn is_quiet_since<W: World>(
        &self,
        world: &W,
        line: &GateLine,
        since_ns: u64,
    ) -> bool {
        let began_ns = self.epoch_at_ns.load(Relaxed);
        let is_ours = !in_turns(world, line) || began_ns <= since_ns;
        line.active <= 1 && is_ours && world.is_alone_since(since_ns)
    }

    /// Whether this context has had no work for a while, and its owner, who makes turns where others have, may not have
    /// seen yet that it does again.
    pub(super) fn is_just_back<W: World>(&self, world: &W, line: &GateLine, now_ns: u64) -> bool {
        // Between turns inside the tenant it is not the tenant that was away.
        let is_open = line.gate != gate::FREE && line.turn_end_ns == 0 && !world.has_turns();
        let is_within = |at: &AtomicU64, ns| now_ns.saturating_sub(at.load(Relaxed)) < ns;
        is_open && is_within(&self.back_ns, UNSEEN_NS) && is_within(&self.rivals_ns, RIVALS_NS)
    }

    /// Takes a chunk of credit that covers `charged_ns`, and no more than `room_ns` where that is more,
    /// and spends `charged_ns`.
    fn draw<W: World>(
        &self,
        world: &W,
        line: &GateLine,
        now_ns: u64,
        charged_ns: u64,
        longer_ns: u64,
        room_ns: u64,
    ) {
        let stripe = world.stripe();
        let left_ns = self.credit.left_ns(stripe);
        // Spread, so that chunks do not end at the same place of a loop each time.
        let spread_ns = CHUNK_NS / 2 + self.random() % CHUNK_NS;
        let chunk_ns = charged_ns.max(spread_ns.min(room_ns)).saturating_sub(left_ns);
        self.credit.take(stripe, chunk_ns, charged_ns);
        // The launch itself is not settled.
        self.charge(world, line, self.since_ns.load(Relaxed), signed(chunk_ns));
        let before_ns = self.busy_until_ns.load(Relaxed);
        if now_ns > before_ns.saturating_add(AWAY_NS) {
            self.back_ns.store(now_ns, Relaxed);
        }
        let ahead_ns = before_ns.max(now_ns);
        // One long launch may take longer than was expected; who waits for it sees when it ends.
        let late_ns = if charged_ns < OFTEN_NS { longer_ns } else { charged_ns / LATE_PART };
        let until_ns = ahead_ns.saturating_add(chunk_ns).saturating_add(late_ns);
        self.is_overdue.store(0, Relaxed);
        if longer_ns != 0 {
            self.uneven_until_ns.store(until_ns, Relaxed);
        }
        self.set_busy_until(world, until_ns);
        world.note_launch(now_ns);
        world.count_launches(self.credit.take_launches(stripe).saturating_add(1));
    }

    fn note_long(&self, cost_ns: Option<u64>) {
        let before_ns = self.long_ns.load(Relaxed);
        let faded_ns = before_ns.saturating_sub(before_ns / LONG_LASTS);
        self.long_ns.store(faded_ns.max(cost_ns.unwrap_or(0)), Relaxed);
    }

    /// The tenant's cap. Who waits for its turn must not lose what its cap saves up meanwhile, up to
    /// a launch as long as any of late and the next like it.
    fn cap<W: World>(
        &self,
        world: &W,
        terms: Terms,
        line: &GateLine,
        now_ns: u64,
        unsettled_since_ns: u64,
    ) -> Option<Cap> {
        let unsettled_since_ns = match self.has_one_stream() {
            true => unsettled_since_ns,
            false => unsettled_since_ns.min(now_ns.saturating_sub(among::KEPT_NS)),
        };
        let long_ns = self.long_ns.load(Relaxed).saturating_mul(2);
        let saved_ns = match line.gate {
            gate::FREE => 0,
            // A burst fills a turn: who gets one kernel into each would wait for another's behind it.
            _ if has_rivals(line) => long_ns.saturating_mul(2).max(BESIDE_NS),
            _ => long_ns,
        };
        let quantum_ns = line.quantum_ns.max(QUANTUM_NS).max(saved_ns);
        let share_ppm = terms.share_ppm;
        (share_ppm != 0).then(|| {
            let unsettled_since_ns = world.unsettled_since_ns(unsettled_since_ns, now_ns);
            let quantum_ns = agreed_ns(world.clock(), now_ns, quantum_ns);
            Cap { share_ppm, quantum_ns, unsettled_since_ns }
        })
    }

    /// Since when there is work whose charge may be wrong, where so much was submitted; `u64::MAX` for none.
    pub(super) fn unsettled_since_ns(&self, submitted_ns: u64) -> u64 {
        let is_settled = self.done_ns.load(Relaxed) >= submitted_ns;
        match is_settled && self.ring.pending() == 0 {
            true => u64::MAX,
            false => self.since_ns.load(Relaxed),
        }
    }

    /// Charges the tenant, against its cap where it has one, for work of which the oldest was not settled
    /// since then.
    pub(super) fn charge<W: World>(
        &self,
        world: &W,
        line: &GateLine,
        unsettled_since_ns: u64,
        ns: i64,
    ) {
        world.add_used(ns);
        let now_ns = world.now_ns();
        if let Some(cap) = self.cap(world, world.terms(), line, now_ns, unsettled_since_ns) {
            cap.charge(world.clock(), now_ns, ns);
        }
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

    /// When the work in flight will have ended, as far as this lane can tell.
    pub fn busy_until_ns(&self) -> u64 {
        self.busy_until_ns.load(Relaxed)
    }

    /// Whether launches came on one stream alone of late, so that its end is the end of all.
    pub fn has_one_stream(&self) -> bool {
        self.streams_mixed.load(Relaxed) == 0
    }

    /// Something that is no work of the device's lies between the launches: the span ends here.
    pub fn break_span(&self) {
        self.breaks.fetch_add(1, Relaxed);
    }
}

/// Whether this process has the device in turn with others.
pub(super) fn in_turns<W: World>(world: &W, line: &GateLine) -> bool {
    line.gate != gate::FREE || world.has_turns()
}

/// Whether others use the device in turn, or at once.
fn has_rivals(line: &GateLine) -> bool {
    line.active > 1 || line.gate == gate::CLOSED || line.turn_end_ns != 0
}
