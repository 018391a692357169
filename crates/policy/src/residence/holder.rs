//! State of one tenant in the planner, and how a sample changes it.
//!
//! Promises: a claim of resident bytes is believed as far as a ceiling allowed it, and no further; another tenant's row
//! begins afresh. Does not decide anything.

use super::member::Member;
use super::order::HolderOrder;
use super::released::Released;
use super::sample::{Freeze, Holder};
use super::tuning::ResidenceTuning;
use crate::slab::MAX_BYTES;

/// Part of a hand-over's cost that a tenant may pause before its turn is given on.
const IDLE_PART: u64 = 8;

/// Direction in which a tenant is expected to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Watch {
    #[default]
    None,
    /// It is above its ceiling.
    Falls,
    /// Its turn has come and it has room for a piece.
    Rises,
}

/// State of one row of holders. Starts as `default()`, also for another tenant in the row.
#[derive(Clone, Debug, Default)]
pub struct HolderState {
    pub(super) tenant: u64,
    pub(super) size_bytes: u64,
    pub(super) asked_bytes: u64,
    /// Bytes that may be missing, where it can run with a part away; else 0.
    pub(super) spare_bytes: u64,
    /// It is larger than it may be: its size is what the device holds of it.
    pub(super) is_cut: bool,
    /// Resident bytes as far as they are believed.
    pub(super) resident_bytes: u64,
    /// The part of them that is on its way back.
    pub(super) returning_bytes: u64,
    /// The ceiling that stood when the sample was read.
    pub(super) ceiling_bytes: u64,
    pub(super) released: Released,
    pub(super) weight: u64,
    /// Length of its turns, where a user has set it; else 0.
    pub(super) quantum_ns: u64,
    /// A call of it waits.
    pub(super) wants: bool,
    /// It wants, or it runs and has work.
    pub(super) active: bool,
    pub(super) frozen: bool,
    /// It has wanted since it was frozen until then.
    thawed: bool,
    /// When it was active last.
    pub(super) active_ns: u64,
    /// Its last turn ended early.
    pub(super) left_early: bool,
    /// Pauses of this tenant that are no idleness: it came back from such sooner than its bytes could.
    pause_ns: u64,
    /// Since when it waits for its turn; 0 when it does not.
    pub(super) waits_since_ns: u64,
    /// It waited at the last step.
    pub(super) waited: bool,
    /// Weighted time of its turns.
    pub(super) virtual_ns: u64,
    /// Its place in the running set.
    pub(super) member: Option<Member>,
    /// It leaves the running set if the step finds that this makes room.
    pub(super) leaving: bool,
    pub(super) watch: Watch,
    /// Furthest that it has come in the direction watched.
    mark_bytes: u64,
    /// Time by which it is behind the slowest movement that counts.
    pub(super) late_ns: u64,
    /// It did not evict in time: its bytes count as pinned.
    pub(super) bypassed: bool,
    /// Time for which its calls have waited in vain since it ran last: it has no room.
    pub(super) out_ns: u64,
    /// Times that it was to evict and could not, and whether it has said so of its last order to.
    stayed: u64,
    pub(super) has_stayed: bool,
    /// Turns that it has had [in place](Self::runs_in_place) since it evicted last, and when the last one began or
    /// ended.
    pub(super) turns_in_place: u32,
    pub(super) in_place_ns: u64,
    /// By when its copies on the host should be made; 0 where none are to be.
    pub(super) copies_by_ns: u64,
    /// When its resident bytes or its ceiling changed last.
    pub(super) moved_ns: u64,
    /// The last order.
    pub(super) order: HolderOrder,
    /// Bytes ordered out and not seen to have left.
    pub(super) owed_out_bytes: u64,
    /// Bytes allowed in and not seen to have come.
    pub(super) owed_in_bytes: u64,
}

impl HolderState {
    /// Takes a sample in. `floor_ns` is the least virtual time of those that are active, `cost_ns` what a grant takes;
    /// `last_ns` is 0 at a planner's first step.
    pub(super) fn observe(
        &mut self,
        tuning: &ResidenceTuning,
        now_ns: u64,
        last_ns: u64,
        (floor_ns, cost_ns): (u64, u64),
        sample: &Holder,
    ) {
        let fresh = self.tenant != sample.tenant;
        if fresh {
            let stayed = sample.stayed;
            *self = Self { tenant: sample.tenant, virtual_ns: floor_ns, stayed, ..Self::default() };
        }
        if sample.tenant == 0 {
            return;
        }
        self.weight = u64::from(sample.weight.max(1));
        self.quantum_ns = sample.quantum_ns;
        self.size_bytes = sample.size_bytes;
        self.asked_bytes = sample.asked_bytes.min(sample.size_bytes);
        (self.spare_bytes, self.is_cut) = (sample.spare_bytes, false);
        self.released.advance(now_ns, tuning.release_ahead_ns);
        let claimed_bytes = sample.resident_bytes.min(sample.size_bytes);
        let highest_bytes = match fresh {
            true => claimed_bytes,
            false => self.resident_bytes.max(self.ceiling_bytes).max(sample.ceiling_bytes),
        };
        let resident_bytes = claimed_bytes.min(highest_bytes);
        if resident_bytes < self.resident_bytes {
            self.released.fell_from(self.resident_bytes);
        }
        if resident_bytes != self.resident_bytes {
            self.moved_ns = now_ns;
        }
        self.resident_bytes = resident_bytes;
        self.returning_bytes = sample.returning_bytes.min(resident_bytes);
        self.ceiling_bytes = sample.ceiling_bytes;
        self.copies_by_ns = match (sample.copies_due_bytes, self.copies_by_ns) {
            (0, _) => 0,
            // A process that makes none is not waited for again.
            (bytes, 0) => now_ns.saturating_add(time_of(bytes, tuning.copies_bytes_per_s)),
            (_, by_ns) => by_ns,
        };
        self.has_stayed |= core::mem::replace(&mut self.stayed, sample.stayed) != sample.stayed;
        self.wants = sample.wants_since_ns != 0;
        // Of a tenant that a planner finds as it begins, the gate may be open.
        let found = fresh && last_ns == 0;
        if let Some(member) = self.member.as_mut().filter(|m| m.resident_since_ns != 0) {
            member.wait_elsewhere(now_ns, sample.waits_elsewhere, tuning.max_wait_ns);
        }
        self.observe_work(tuning, now_ns, cost_ns, found, sample);
        self.observe_freeze(sample.freeze);
        if self.wants && self.left_early {
            self.learn_pause(now_ns, cost_ns);
        }
        if self.active {
            if self.active_ns < last_ns || fresh {
                self.virtual_ns = self.virtual_ns.max(floor_ns);
            }
            self.active_ns = now_ns;
        }
        let waits = self.active && !self.frozen && self.member.is_none_or(|m| m.filler);
        self.waits_since_ns = match (waits, self.waits_since_ns) {
            (false, _) => 0,
            // It goes first then, so that it is not interrupted.
            (true, _) if found && !self.wants && self.is_whole() => 1,
            // A claim reaches back to the last step at most.
            (true, 0) => sample.wants_since_ns.clamp(last_ns.min(now_ns), now_ns).max(1),
            (true, since_ns) => since_ns,
        };
    }

    fn observe_work(
        &mut self,
        tuning: &ResidenceTuning,
        now_ns: u64,
        cost_ns: u64,
        found: bool,
        sample: &Holder,
    ) {
        let worked_ns = sample.submitted_ns.max(sample.busy_until_ns);
        let works = |since_ns: u64| {
            // A pause that is short beside the movement that would follow is waited out.
            let worth_ns = cost_ns / IDLE_PART;
            let idle_ns = tuning.idle_ns.saturating_add(worth_ns).saturating_add(self.pause_ns);
            now_ns < worked_ns.max(since_ns).saturating_add(idle_ns)
        };
        self.active = match self.member {
            Some(Member { resident_since_ns: since_ns @ 1.., .. }) => {
                // A call that still waits at an open gate is stopped, or not there.
                let asked_ns = since_ns.max(sample.wants_since_ns.min(now_ns));
                let may_come = now_ns < asked_ns.saturating_add(tuning.patience_ns);
                let starts = now_ns < since_ns.saturating_add(tuning.start_ns);
                let has_begun = worked_ns > since_ns;
                works(since_ns) || starts && !has_begun || self.wants && may_come
            }
            None if found && sample.submitted_ns != 0 => self.wants || works(0),
            _ => self.wants,
        };
    }

    /// A tenant whose turn ended early wants again. A pause shorter than the movement that it caused was none: the next
    /// turn outlasts such, or a program with short pauses would have its memory moved for each of them.
    fn learn_pause(&mut self, now_ns: u64, cost_ns: u64) {
        self.left_early = false;
        let paused_ns = now_ns.saturating_sub(self.active_ns).saturating_add(self.pause_ns);
        self.pause_ns = match paused_ns < cost_ns {
            true => self.pause_ns.max(paused_ns.saturating_mul(2)),
            false => self.pause_ns / 2,
        };
    }

    fn observe_freeze(&mut self, freeze: Freeze) {
        let was_frozen = self.frozen;
        self.thawed = match freeze {
            Freeze::UntilWanted => self.thawed || was_frozen && self.wants,
            Freeze::No | Freeze::Held => false,
        };
        self.frozen = match freeze {
            Freeze::No => false,
            Freeze::Held => true,
            Freeze::UntilWanted => !self.thawed,
        };
    }

    pub(super) fn is_present(&self) -> bool {
        self.tenant != 0
    }

    /// All that exists of it is on the device, or as much as can be.
    pub(super) fn is_whole(&self) -> bool {
        let spare_bytes = if self.is_cut { self.spare_bytes } else { 0 };
        let there_bytes = self.there_bytes().saturating_add(self.asked_bytes);
        there_bytes.saturating_add(spare_bytes) >= self.size_bytes
    }

    /// Bytes on the device, without those that are on their way back.
    pub(super) fn there_bytes(&self) -> u64 {
        self.resident_bytes.saturating_sub(self.returning_bytes)
    }

    /// A tenant that can run with a part away is no larger than `most_bytes`.
    pub(super) fn cut(&mut self, most_bytes: u64) {
        if self.spare_bytes > 0 && self.size_bytes > most_bytes {
            self.size_bytes = most_bytes;
            self.asked_bytes = self.asked_bytes.min(most_bytes);
            self.is_cut = true;
        }
    }

    /// Bytes that it holds, resident or away.
    pub(super) fn held_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.asked_bytes)
    }

    /// Bytes that it may have on the device now, before another order.
    pub(super) fn in_use_bytes(&self) -> u64 {
        match self.is_present() {
            true => self.ceiling_bytes.max(self.resident_bytes).max(self.released.peak_bytes()),
            false => 0,
        }
    }

    /// It has a turn though it did not evict: its bytes count as pinned, and it is no part of the running set.
    pub(super) fn runs_in_place(&self) -> bool {
        self.bypassed && self.member.is_some()
    }

    /// It did not evict and has no turn: it keeps what it has, and its calls wait.
    pub(super) fn stands_still(&self) -> bool {
        self.bypassed && self.member.is_none()
    }

    /// Ends a turn in place: it is told to evict down to `told_bytes`, and counts as pinned until it does.
    pub(super) fn end_in_place(&mut self, now_ns: u64, told_bytes: u64, late_ns: u64) {
        (self.member, self.in_place_ns, self.has_stayed) = (None, now_ns, false);
        self.order.allowed_bytes = told_bytes;
        (self.watch, self.mark_bytes, self.late_ns) = (Watch::Falls, self.resident_bytes, late_ns);
    }

    /// Bytes that others cannot have while it does not evict.
    pub(super) fn pinned_bytes(&self) -> u64 {
        match (self.bypassed, self.member) {
            (false, _) => 0,
            (true, None) => self.in_use_bytes(),
            (true, Some(_)) => self.in_use_bytes().max(self.size_bytes),
        }
    }

    /// It may bring back a piece of any size, or all that it holds; a piece on its way has its room, and is not back. A newcomer
    /// with less room than its next piece needs is not late: the victim is, and is to be found out first.
    fn has_room(&self) -> bool {
        let room_bytes = self.ceiling_bytes.saturating_sub(self.there_bytes());
        room_bytes >= MAX_BYTES || room_bytes > 0 && self.ceiling_bytes >= self.held_bytes()
    }

    /// Follows whether it obeys its last order; `elapsed_ns` since the last step.
    pub(super) fn follow(&mut self, tuning: &ResidenceTuning, elapsed_ns: u64) {
        let must_fall = self.resident_bytes > self.order.allowed_bytes;
        let must_rise = self.member.is_some_and(|m| m.resident_since_ns == 0) && self.has_room();
        let watch = match (must_fall, must_rise && !self.is_whole()) {
            (true, _) => Watch::Falls,
            (_, true) => Watch::Rises,
            _ => Watch::None,
        };
        let level_bytes = match watch {
            Watch::Falls => self.resident_bytes,
            _ => self.there_bytes(),
        };
        if watch != self.watch || watch == Watch::None {
            (self.watch, self.mark_bytes, self.late_ns) = (watch, level_bytes, 0);
            self.has_stayed = false;
            return;
        }
        let moved_bytes = match watch {
            Watch::Falls => self.mark_bytes.saturating_sub(level_bytes),
            _ => level_bytes.saturating_sub(self.mark_bytes),
        };
        if moved_bytes > 0 {
            self.mark_bytes = level_bytes;
            if must_fall {
                self.turns_in_place = 0;
            }
        }
        let moved_ns = time_of(moved_bytes, tuning.slowest_bytes_per_s);
        // A planner that did not run itself has no reason to be impatient.
        let elapsed_ns = elapsed_ns.min(tuning.patience_ns / 4);
        let late_ns = self.late_ns.saturating_add(elapsed_ns).saturating_sub(moved_ns);
        self.late_ns = late_ns.min(tuning.patience_ns);
    }
}

/// Time that `bytes` take at a rate.
pub(super) fn time_of(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Bytes that a rate moves in a time.
pub(super) fn bytes_in(ns: u64, bytes_per_s: u64) -> u64 {
    let bytes = u128::from(ns) * u128::from(bytes_per_s) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
