//! Turns inside a tenant: one of its processes at a time is at the gate, where a cap binds all of them.
//!
//! Contexts of several processes are sliced by the driver, and each switch costs as much as a kernel may last; and the
//! first to wake of those that wait for one cap has all that it opens for. So processes of a tenant with a cap queue:
//! one has the tenant's turn on the device until it has used [`tuning::TURN_NS`] of device time or has nothing to do,
//! then the turn goes to the one that was served least. The words lie in the tenant's usage file, with a daemon and
//! without; a daemon sees one tenant.
//!
//! Processes whose work may wait for one another's, since they share memory or events, are one *unit*: the turn is
//! theirs together, and they go at once. Where work seems to have waited for another's all the same, twice within 2 s,
//! the tenant takes no turns for a minute. Under an owner a turn of which little is used, or that comes behind two that
//! were left unused, is *loose*: others go beside its holder, until the cap closes, and for 100 ms at most, so that
//! each one's use is measured alone now and then.
//!
//! Promises: a place is a lease. A process that is killed or stopped, or has nothing to do, has lost the turn
//! [`tuning::IDLE_NS`] after its work should have ended, and is passed over [`tuning::STEP_NS`] after it could have
//! been next. A process that comes back counts as served as much as those that are there: neither absence nor a time
//! alone counts. Work that does not end is waited for [`tuning::PATIENCE_NS`] beyond its first announced end,
//! regardless of later ones. A process that is alone in its tenant pays one load.
//!
//! Does not wait, and does not know of caps: that is the lane's.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use divvy_abi::usage::{SHARED_SLOT, gate, gate_tenant};

use super::driver::Words;
use super::tuning;
use super::turn::{Had, Patience, Queued, Turned};
use super::turn_word::{JOINED, Turn};

/// The tenant's other processes, as one look shows them.
#[derive(Default)]
struct Queue {
    /// Others that wait, and those of them that were served less.
    waiting: u64,
    ahead: u64,
    /// Service and slot of the one that was served least.
    next: Option<(u64, usize)>,
    /// Least and greatest service of the processes that wait or have the turn.
    served_ns: Option<(u64, u64)>,
}

/// Device time used of a turn, and wall time since its begin or the last wait in it.
#[derive(Clone, Copy)]
struct Used {
    ns: u64,
    wall_ns: u64,
    /// The turn has lasted long enough to be shared no more.
    is_over: bool,
}

/// A place in the queue for the turn, as it was seen.
struct Place {
    turn: Turn,
    /// Others that go first.
    ahead: u64,
    /// Time that this process leaves to those that it has just let go first.
    later_ns: u64,
    may_be_next: bool,
}

/// A process's part in its tenant's turns.
#[derive(Clone, Copy, Debug)]
pub struct Inside<W> {
    words: W,
    /// True if a turn of which little is used is shared.
    may_share: bool,
}

impl<W: Words> Inside<W> {
    /// Returns the part of the process with these words, where its tenant has others and they take turns.
    pub fn of(words: W, may_share: bool, now_ns: impl FnOnce() -> u64) -> Option<Self> {
        if words.slots_high() <= FIRST_SLOT + 1 {
            return None;
        }
        let together_ns = words.word(SHARED_SLOT, gate_tenant::TOGETHER_NS).load(Relaxed);
        // A time too far ahead counts as none.
        let takes_turns = together_ns == 0
            || together_ns.wrapping_sub(now_ns().wrapping_add(1)) >= tuning::TOGETHER_NS;
        takes_turns.then_some(Self { words, may_share })
    }

    /// Notes that work of this process has not ended in time. Where others wait it may have waited for theirs.
    pub fn drain_given_up(&self, now_ns: u64) {
        if self.look(self.unit(self.words.slot()), now_ns).waiting != 0 {
            self.suspect(now_ns);
        }
    }

    /// Notes that work seems to have waited for another process's.
    #[inline(never)]
    fn suspect(&self, now_ns: u64) {
        let word = self.words.word(SHARED_SLOT, gate_tenant::TOGETHER_NS);
        // A time in the past is that of the last suspicion.
        let is_again = now_ns.wrapping_sub(word.load(Relaxed)) < tuning::SUSPECTED_NS;
        let until_ns = if is_again { now_ns.saturating_add(tuning::TOGETHER_NS) } else { now_ns };
        word.store(until_ns, Relaxed);
    }

    /// Loads a word of a slot. Small in code, so not for fast paths.
    #[inline(never)]
    fn load(&self, slot: usize, word: usize) -> u64 {
        self.words.word(slot, word).load(Relaxed)
    }

    fn own(&self, word: usize) -> u64 {
        self.load(self.words.slot(), word)
    }

    #[inline(never)]
    fn set(&self, word: usize, value: u64) {
        self.words.own(word).store(value, Relaxed);
    }

    #[inline(never)]
    fn turn(&self) -> Turn {
        Turn(self.words.word(SHARED_SLOT, gate_tenant::TURN).load(Acquire))
    }

    /// Changes the turn `from` one `to` another; false if it was another already.
    #[inline(never)]
    fn change(&self, from: Turn, to: Turn) -> bool {
        let word = self.words.word(SHARED_SLOT, gate_tenant::TURN);
        word.compare_exchange(from.0, to.0, AcqRel, Relaxed).is_ok()
    }

    /// Returns the other slots that are looked at.
    fn others(&self) -> impl Iterator<Item = usize> {
        let me = self.words.slot();
        (FIRST_SLOT..self.words.slots_high()).filter(move |slot| *slot != me)
    }

    /// Returns the unit that a turn names a process by: its slot, or the one number of the processes that share.
    #[inline(never)]
    fn unit(&self, slot: usize) -> usize {
        if self.load(slot, gate::JOINED) == 0 { slot } else { JOINED }
    }

    /// Asks for the tenant's turn, which this process has had since `had`; returns the kind of turn when the process
    /// may go.
    ///
    /// Cost: five loads while the turn goes on; else a look at the lines of all slots, and while waiting again some 20
    /// ms later, or when the holder's lease ends.
    ///
    /// # Errors
    /// A place in the queue for it.
    pub fn ask(&self, now_ns: u64, had: Had, patience: &mut Patience) -> Result<Turned, Queued> {
        let unit = self.unit(self.words.slot());
        let turn = self.turn();
        let has_turn = turn.is_held() && turn.unit() == unit;
        // Another process of the unit has taken the turn.
        let is_new = has_turn && self.own(gate::TURN) != turn.number();
        if is_new {
            self.begin(turn);
        }
        let used = self.used_since(had, is_new, now_ns);
        if let Some(turned) = self.goes_at_once(turn, has_turn.then_some(used), is_new, now_ns) {
            return Ok(turned);
        }
        if !has_turn {
            self.count();
        }
        let queue = self.look(unit, now_ns);
        let place = match has_turn {
            true => self.hand_on(turn, used, &queue, now_ns),
            false => Some(self.place(turn, now_ns, &queue)),
        };
        let Some(place) = place else {
            self.go_on(now_ns);
            return Ok(Turned::GoesOn);
        };
        self.take(unit, place, now_ns, patience)
    }

    /// Returns what was used of the turn, which this process has had since `had`; one that is new to it has just begun.
    fn used_since(&self, Had { began_ns, since_ns }: Had, is_new: bool, now_ns: u64) -> Used {
        let used_ns = u64::try_from(self.used_ns()).unwrap_or(0);
        let wall_ns = if is_new || since_ns == 0 { 0 } else { now_ns.saturating_sub(since_ns) };
        Used { ns: used_ns, wall_ns, is_over: now_ns.saturating_sub(began_ns) >= tuning::LOOSE_NS }
    }

    /// Returns the kind of turn of a process that goes without a look at the others: in a turn that is shared, or in
    /// its own, of which it has `used` little.
    fn goes_at_once(
        &self,
        turn: Turn,
        used: Option<Used>,
        is_new: bool,
        now_ns: u64,
    ) -> Option<Turned> {
        let is_loose = turn.is_loose() && self.may_share;
        let Some(used) = used else {
            let is_beside = is_loose && self.held_until_ns(turn, now_ns) > now_ns;
            return is_beside.then_some(Turned::Beside);
        };
        let turned = if is_loose && used.is_over && self.change(turn, turn.fastened()) {
            // The holder is alone for a while, so that its use is measured without the others' slices.
            self.begin(turn);
            Turned::Begun
        } else if used.ns < tuning::LEAST_TURN_NS && used.wall_ns < tuning::JUDGED_NS || is_loose {
            if is_new { Turned::Begun } else { Turned::GoesOn }
        } else {
            return None;
        };
        self.go_on(now_ns);
        Some(turned)
    }

    /// Hands the turn on, of which this process has used its part, and returns its place behind the others; `None`
    /// where the turn goes on, by itself or shared.
    fn hand_on(&self, turn: Turn, used: Used, queue: &Queue, now_ns: u64) -> Option<Place> {
        let turn_ns = tuning::ROUND_NS / queue.waiting.saturating_add(1);
        let turn_ns = turn_ns.clamp(tuning::LEAST_TURN_NS, tuning::TURN_NS);
        let goes_on = used.ns < turn_ns && used.wall_ns < tuning::WALL_PARTS * turn_ns;
        let is_little =
            used.wall_ns >= tuning::JUDGED_NS && used.ns < used.wall_ns / tuning::WALL_PARTS;
        if self.may_share && queue.waiting != 0 && is_little {
            // The holder alone leaves most of the device unused.
            self.change(turn, turn.loosened());
            queue.next.into_iter().for_each(|(_, next)| self.words.wake_for_turn(next));
            return None;
        }
        if goes_on {
            return None;
        }
        self.count();
        let (_, next) = queue.next?;
        self.words.busy_until_ns().fetch_max(now_ns, Relaxed);
        let is_handed_on = self.change(turn, turn.handed_on());
        if is_handed_on {
            self.words.wake_for_turn(next);
        }
        // The holder is the last in the queue, regardless of its service; those before it count from now on.
        Some(Place {
            turn: if is_handed_on { turn.handed_on() } else { turn },
            ahead: queue.waiting,
            later_ns: tuning::AGAIN_NS,
            may_be_next: false,
        })
    }

    /// Takes the turn, where it is free or its holder has lost it and it is this process's; else returns the place at
    /// which it waits.
    fn take(
        &self,
        unit: usize,
        Place { turn, ahead, later_ns, may_be_next }: Place,
        now_ns: u64,
        patience: &mut Patience,
    ) -> Result<Turned, Queued> {
        let has_waited = self.own(gate::LEASE_NS) > now_ns;
        self.set(gate::LEASE_NS, now_ns.saturating_add(tuning::PLACE_NS));
        let later_ns = tuning::STEP_NS.saturating_mul(ahead).saturating_add(later_ns);
        let held_ns = self.awaited_until_ns(turn, now_ns, patience);
        let free_ns = held_ns.saturating_add(later_ns);
        if now_ns < free_ns {
            let is_next = may_be_next && !turn.is_held() && ahead == 0;
            let look_ns = if is_next { tuning::NEXT_LOOK_NS } else { tuning::PLACE_LOOK_NS };
            let until_ns = free_ns.min(now_ns.saturating_add(look_ns));
            return Err(Queued { turn: turn.0, until_ns });
        }
        // No process used the device during this wait. A turn whose holder is gone ends so too; two, one behind the
        // other, leave the device unused.
        let has_lapsed = has_waited && turn.is_held() && self.is_idle(turn.unit());
        let mine = match self.may_share && has_lapsed {
            true => turn.taken_by(unit).behind_a_lapse(turn.is_behind_a_lapse()),
            false => turn.taken_by(unit),
        };
        if !self.change(turn, mine) {
            return Err(Queued { turn: turn.0, until_ns: now_ns.saturating_add(tuning::STEP_NS) });
        }
        self.begin(mine);
        self.go_on(now_ns);
        Ok(Turned::Begun)
    }

    /// True if the process whose turn has lapsed has nothing in flight; false for a unit of several, which is not
    /// asked.
    fn is_idle(&self, slot: usize) -> bool {
        let is_one = (FIRST_SLOT..self.words.slots_high()).contains(&slot);
        is_one && self.load(slot, gate::SLEEPERS) == 0
    }

    /// Returns the time at which the turn's holder loses it, as far as it says; of a turn that is handed on, bounded by
    /// its first announced end.
    fn awaited_until_ns(&self, turn: Turn, now_ns: u64, patience: &mut Patience) -> u64 {
        let held_ns = self.held_until_ns(turn, now_ns);
        if turn.is_held() || held_ns <= now_ns {
            return held_ns;
        }
        if patience.turn != turn.0 {
            *patience =
                Patience { turn: turn.0, deadline_ns: held_ns.saturating_add(tuning::PATIENCE_NS) };
        }
        if now_ns < patience.deadline_ns {
            return held_ns;
        }
        self.suspect(now_ns);
        0
    }

    /// Keeps the turn while a thread of this process, which has it, waits until `until_ns` for something else. The
    /// tenant's cap, if that is waited for, binds all processes again.
    pub fn keep(&self, until_ns: u64, is_cap: bool) {
        let turn = self.turn();
        if is_cap && turn.is_loose() {
            self.change(turn, turn.fastened());
        }
        self.go_on(until_ns);
    }

    #[inline(never)]
    fn go_on(&self, now_ns: u64) {
        self.set(gate::LEASE_NS, now_ns.saturating_add(tuning::IDLE_NS));
    }

    /// Returns the device time used since the turn began, or since it was counted last. Negative where an earlier
    /// charge was corrected.
    #[inline(never)]
    fn used_ns(&self) -> i64 {
        self.own(gate::USED_NS).wrapping_sub(self.own(gate::TURN_FROM_NS)).cast_signed()
    }

    /// Adds the use since the last count to this process's service.
    fn count(&self) {
        let served_ns = self.own(gate::SERVED_NS).saturating_add_signed(self.used_ns());
        self.set(gate::TURN_FROM_NS, self.own(gate::USED_NS));
        self.set(gate::SERVED_NS, served_ns);
    }

    #[inline(never)]
    fn begin(&self, turn: Turn) {
        self.count();
        self.set(gate::TURN, turn.number());
    }

    /// Returns the place of a process that does not have the turn.
    fn place(&self, turn: Turn, now_ns: u64, queue: &Queue) -> Place {
        let ahead = self.queue_up(now_ns, queue).unwrap_or(queue.ahead);
        match !turn.is_held() && self.own(gate::TURN) == turn.number() {
            // It was this process that handed the turn on.
            true => {
                Place { turn, ahead: queue.waiting, later_ns: tuning::AGAIN_NS, may_be_next: true }
            }
            false => Place { turn, ahead, later_ns: 0, may_be_next: true },
        }
    }

    /// Takes a place in the queue where this process has none; returns how many go first, where that has changed.
    #[inline(never)]
    fn queue_up(&self, now_ns: u64, queue: &Queue) -> Option<u64> {
        if self.own(gate::LEASE_NS) > now_ns {
            return None;
        }
        let (least_ns, most_ns) = queue.served_ns?;
        let before_ns = self.own(gate::SERVED_NS);
        // A new process is behind all: a program that is executed again and again gains nothing.
        let served_ns = match self.own(gate::TURN) {
            0 => most_ns,
            // The value lies between the two; not `clamp`, which may panic.
            _ => most_ns.saturating_add(tuning::TURN_NS).min(before_ns.max(least_ns)),
        };
        (served_ns != before_ns).then(|| {
            self.set(gate::SERVED_NS, served_ns);
            self.look(self.unit(self.words.slot()), now_ns).ahead
        })
    }

    /// Returns the time at which the turn's holder loses it, as far as it says; 0 where there is no holder.
    fn held_until_ns(&self, turn: Turn, now_ns: u64) -> u64 {
        let slots = match turn.unit() {
            JOINED => FIRST_SLOT..self.words.slots_high(),
            slot => slot..self.words.slots_high().min(slot.saturating_add(1)),
        };
        let holders = slots.filter(|slot| *slot != SHARED_SLOT && self.unit(*slot) == turn.unit());
        let held_ns = holders.map(|slot| {
            // The next process waits for the holder's work in any case.
            let busy_ns = self.words.works_until_ns(slot);
            match turn.is_held() {
                false => busy_ns,
                true => {
                    self.load(slot, gate::LEASE_NS).max(busy_ns.saturating_add(tuning::IDLE_NS))
                }
            }
        });
        let held_ns = held_ns.fold(0, u64::max);
        if held_ns > now_ns.saturating_add(tuning::WORK_BELIEVED_NS) { 0 } else { held_ns }
    }

    fn look(&self, unit: usize, now_ns: u64) -> Queue {
        let mine = (self.own(gate::SERVED_NS), self.words.slot());
        let turn = self.turn();
        let mut queue = Queue::default();
        for slot in self.others() {
            let lease_ns = self.load(slot, gate::LEASE_NS);
            let is_there =
                lease_ns > now_ns && lease_ns <= now_ns.saturating_add(tuning::BELIEVED_NS);
            let other_unit = self.unit(slot);
            let has_turn = turn.is_held() && turn.unit() == other_unit;
            let other = (self.load(slot, gate::SERVED_NS), slot);
            if is_there || has_turn {
                let (least_ns, most_ns) = queue.served_ns.unwrap_or((other.0, other.0));
                queue.served_ns = Some((least_ns.min(other.0), most_ns.max(other.0)));
            }
            if !is_there || has_turn || other_unit == unit {
                continue;
            }
            queue.waiting = queue.waiting.saturating_add(1);
            // The process that handed the turn on is behind all, regardless of its service.
            let is_last = !turn.is_held() && self.load(slot, gate::TURN) == turn.number();
            queue.ahead = queue.ahead.saturating_add(u64::from(!is_last && other < mine));
            queue.next = Some(queue.next.map_or(other, |next| next.min(other)));
        }
        queue
    }

    /// Returns a number of this process's last turn.
    pub(super) fn last(&self) -> u64 {
        Turn(self.own(gate::TURN)).count()
    }

    /// Returns the slot that had the turn behind this process's last one: its work began when ours had ended.
    /// [`SHARED_SLOT`] for none, while the turn is ours, and where it is several's.
    pub(super) fn next(&self) -> usize {
        let turn = self.turn();
        match turn.unit() {
            _ if turn.is_loose() => SHARED_SLOT,
            JOINED => SHARED_SLOT,
            slot if slot == self.words.slot() => SHARED_SLOT,
            slot => slot,
        }
    }

    /// Returns the time since which any process of the tenant has work whose charge may be wrong, where this one has
    /// since `own_ns`; `u64::MAX` for none.
    pub fn unsettled_since_ns(&self, own_ns: u64, now_ns: u64) -> u64 {
        self.set(gate::UNSETTLED_NS, if own_ns == u64::MAX { 0 } else { own_ns });
        let since_ns = |slot: usize| {
            let at_work =
                self.words.works_until_ns(slot).saturating_add(tuning::UNSETTLED_NS) > now_ns;
            let since_ns = self.load(slot, gate::UNSETTLED_NS);
            let is_told = since_ns != 0 && since_ns.saturating_add(tuning::BELIEVED_NS) > now_ns;
            (at_work && is_told).then_some(since_ns)
        };
        self.others().filter_map(since_ns).fold(own_ns, u64::min)
    }
}

/// The first slot of a process.
const FIRST_SLOT: usize = SHARED_SLOT + 1;
