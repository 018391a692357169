//! The step of the planner: samples of all tenants in, all orders out, and when to come again.
//!
//! Promises: the same samples with the same state give the same orders; missing rows count as empty. Does not keep
//! anything between two steps: its caller does, in [`HolderState`] and [`ResidenceState`].

use super::holder::{HolderState, Watch};
use super::member::Member;
use super::order::{HolderOrder, HolderStatus};
use super::queue::Class;
use super::sample::{DeviceRoom, Holder};
use super::state::ResidenceState;
use super::tuning::ResidenceTuning;
use super::view::{Contest, Step, WEIGHT_UNIT};

/// A restore of less says little about the link.
const LEAST_MEASURED_BYTES: u64 = 1 << 28;

/// Turns in place that are counted, each twice as long as the one before.
const MOST_TURNS: u32 = 4;

/// The planner of one device: its constants and the state its caller owns.
#[derive(Debug)]
pub struct ResidencePlanner<'a> {
    /// Constants.
    pub tuning: &'a ResidenceTuning,
    /// One for each row of holders. Another tenant's begins by itself.
    pub rows: &'a mut [HolderState],
    /// State of the device.
    pub state: &'a mut ResidenceState,
}

impl ResidencePlanner<'_> {
    /// Decides every order; returns the time of the next step, later than `now_ns` and at most
    /// [`ResidenceTuning::calm_poll_ns`] away. A step may come early at no harm, and should when a tenant begins to
    /// want, has released bytes or has become resident.
    ///
    /// `holders` and `orders` are indexed by row as `rows` is; entries missing in a short slice count as empty. The
    /// orders are to be written before the samples of the next step are read. Cost: rows squared, times the tenants that
    /// wait.
    pub fn step(
        &mut self,
        now_ns: u64,
        room: DeviceRoom,
        holders: &[Holder],
        orders: &mut [HolderOrder],
    ) -> u64 {
        let mut step = Step {
            tuning: self.tuning,
            now_ns,
            // Sums that saturate are too many, never all.
            room: DeviceRoom {
                capacity_bytes: room.capacity_bytes.min(u64::MAX - 1),
                room_bytes: room.room_bytes.min(u64::MAX - 1),
            },
            left_bytes: 0,
            by_age: false,
            fits: false,
            headroom_bytes: 0,
            contest: Contest::default(),
            grain_ns: 1,
            rows: self.rows,
            state: self.state,
        };
        let elapsed_ns = step.observe(holders);
        step.lift();
        step.decide();
        step.count_out(elapsed_ns);
        let moves = step.order_all();
        let next_ns = step.next_ns(moves);
        for (row, order) in orders.iter_mut().enumerate() {
            *order = self.rows.get(row).map(|h| h.order).unwrap_or_default();
        }
        next_ns
    }
}

impl Step<'_> {
    fn observe(&mut self, holders: &[Holder]) -> u64 {
        let last_ns = self.state.last_ns.min(self.now_ns);
        let elapsed_ns = match self.state.last_ns {
            0 => 0,
            _ => self.now_ns.saturating_sub(last_ns),
        };
        if self.state.last_ns == 0 && holders.iter().any(|h| h.resident_bytes > 0) {
            let cleared_ns = self.now_ns.saturating_add(self.tuning.release_ahead_ns);
            self.state.raises_from_ns = cleared_ns;
        }
        self.state.last_ns = self.now_ns;
        let floor_ns = self.state.floor_ns;
        let lead_ns = self.tuning.max_wait_ns.saturating_mul(WEIGHT_UNIT);
        for (row, holder) in self.rows.iter_mut().enumerate() {
            if self.state.contended && holder.active && holder.member.is_some() {
                let charge_ns = elapsed_ns.saturating_mul(WEIGHT_UNIT) / holder.weight.max(1);
                let highest_ns = floor_ns.saturating_add(lead_ns / holder.weight.max(1));
                let virtual_ns = holder.virtual_ns.saturating_add(charge_ns);
                holder.virtual_ns = virtual_ns.min(highest_ns.max(holder.virtual_ns));
            }
            let sample = holders.get(row).copied().unwrap_or_default();
            let state = (floor_ns, self.state.cost_ns);
            holder.observe(self.tuning, self.now_ns, last_ns, state, &sample);
            if holder.is_present() {
                holder.follow(self.tuning, elapsed_ns);
            }
        }
        elapsed_ns
    }

    fn decide(&mut self) {
        self.bypass();
        let left_bytes = self.bytes_left();
        let capacity_bytes = self.room.capacity_bytes;
        for holder in self.rows.iter_mut() {
            // Of pinned bytes those are its own that it does not let go.
            holder.cut(if holder.bypassed { capacity_bytes } else { left_bytes });
        }
        let sizes = |h: &HolderState| if h.is_present() && !h.frozen { h.size_bytes } else { 0 };
        let all_bytes = self.rows.iter().map(sizes).fold(0, u64::saturating_add);
        let stuck = self.rows.iter().filter(|h| h.bypassed && h.frozen);
        let stuck_bytes = stuck.map(HolderState::in_use_bytes).fold(0, u64::saturating_add);
        self.fits = all_bytes <= self.room.capacity_bytes.saturating_sub(stuck_bytes);
        if self.fits {
            self.admit_all();
            let shared_bytes = self.room.capacity_bytes.saturating_sub(stuck_bytes);
            let runs = self.rows.iter().filter(|h| h.member.is_some()).count();
            let free_bytes = shared_bytes.saturating_sub(all_bytes);
            self.headroom_bytes = free_bytes.checked_div(runs as u64).unwrap_or(0);
        } else {
            // Whether all fit is asked without it: else those that do not leave would be told to stay, and then to leave again.
            self.lift_beside_pinned();
        }
        self.left_bytes = self.bytes_left();
        self.run_in_place();
        self.contest = self.count_contest();
        self.grain_ns = self.grain_ns();
        self.raise_floor();
        if !self.fits {
            self.by_age = self.is_hurried();
            self.admit_by_turns();
        }
        let mut contended = false;
        for row in 0..self.rows.len() {
            contended |= self.key(row).is_some_and(|key| key.0 == Class::Waits);
            let Some(holder) = self.rows.get_mut(row) else { continue };
            let waits = holder.waits_since_ns != 0;
            self.state.counters.waits += u64::from(waits && !holder.waited);
            holder.waited = waits;
        }
        self.state.contended = contended;
    }

    pub(super) fn pinned_bytes(&self) -> u64 {
        self.rows.iter().map(HolderState::pinned_bytes).fold(0, u64::saturating_add)
    }

    /// Capacity that pinned bytes leave.
    fn bytes_left(&self) -> u64 {
        self.room.capacity_bytes.saturating_sub(self.pinned_bytes())
    }

    /// Tenants that cannot evict and want run where their memory is: nobody else has a use for that, and it may end. One that
    /// has a part away does where nobody else could run.
    ///
    /// Where others wait it is told to evict again after the longest wait, and then after twice as long each time: nothing of
    /// it runs for [`ResidenceTuning::patience_ns`] then, and others do not count on it.
    fn run_in_place(&mut self) {
        if !self.rows.iter().any(|h| h.bypassed) {
            return;
        }
        let others_run = self.rows.iter().any(|h| h.active && self.may_run(h));
        let mut comes = self.rows.iter().any(|h| h.runs_in_place() && !h.is_whole());
        let waits = |h: &&HolderState| h.active && !h.frozen && !h.bypassed && h.member.is_none();
        let waiting_bytes = self.rows.iter().filter(waits).map(|h| h.size_bytes).max();
        let others_bytes = waiting_bytes.map(|bytes| bytes.saturating_add(self.set_bytes()));
        let mut pinned_bytes = self.pinned_bytes();
        let Self { now_ns, room, tuning, .. } = *self;
        // One has grown, or the capacity has fallen.
        let is_beyond = pinned_bytes > room.capacity_bytes;
        for holder in self.rows.iter_mut().filter(|h| h.is_present() && h.bypassed) {
            let away_bytes = holder.size_bytes.saturating_sub(holder.in_use_bytes());
            let since_ns = now_ns.saturating_sub(holder.in_place_ns);
            if holder.member.is_some() {
                let doubled = holder.turns_in_place.saturating_sub(1);
                let is_over = since_ns >= tuning.max_wait_ns.saturating_mul(1 << doubled);
                let is_late = holder.watch == Watch::Rises && holder.late_ns >= tuning.patience_ns;
                if is_beyond || is_late {
                    (holder.member, holder.bypassed) = (None, false);
                    (holder.watch, holder.late_ns) = (Watch::None, 0);
                } else if holder.frozen || is_over && others_bytes.is_some() {
                    let all_bytes = pinned_bytes.saturating_sub(holder.pinned_bytes());
                    let all_bytes = all_bytes.saturating_add(others_bytes.unwrap_or(u64::MAX));
                    let told_bytes = room.capacity_bytes.saturating_sub(all_bytes);
                    holder.end_in_place(now_ns, told_bytes, tuning.patience_ns);
                }
            } else if holder.has_stayed
                && holder.active
                && !holder.frozen
                && (holder.is_whole() || !others_run && !comes)
                && (holder.turns_in_place == 0 || since_ns >= tuning.patience_ns)
                && pinned_bytes.saturating_add(away_bytes) <= room.capacity_bytes
            {
                pinned_bytes = pinned_bytes.saturating_add(away_bytes);
                comes |= !holder.is_whole();
                let granted_bytes = holder.size_bytes;
                holder.member = Some(Member { granted_bytes, ..Member::default() });
                holder.turns_in_place = MOST_TURNS.min(holder.turns_in_place + 1);
                holder.in_place_ns = now_ns;
            }
        }
        self.left_bytes = self.bytes_left();
    }

    /// Virtual time goes on with the tenant furthest behind; one that cannot compete saves nothing up meanwhile.
    fn raise_floor(&mut self) {
        let competing = self.rows.iter().filter(|h| h.active && self.may_run(h));
        let least_ns = competing.map(|h| h.virtual_ns).min().unwrap_or(0);
        let floor_ns = self.state.floor_ns.max(least_ns);
        self.state.floor_ns = floor_ns;
        for row in 0..self.rows.len() {
            let competes = self.rows.get(row).is_some_and(|h| h.active && self.may_run(h));
            if let Some(holder) = self.rows.get_mut(row).filter(|_| !competes) {
                holder.virtual_ns = holder.virtual_ns.max(floor_ns);
            }
        }
    }

    /// Tenants that do not evict come to count as pinned, and those that do again no longer.
    fn bypass(&mut self) {
        for holder in self.rows.iter_mut().filter(|h| h.is_present() && !h.runs_in_place()) {
            let falls = holder.watch == Watch::Falls;
            if falls && !holder.bypassed && holder.late_ns >= self.tuning.patience_ns {
                holder.bypassed = true;
                holder.member = None;
                self.state.counters.bypassed += 1;
            } else if holder.bypassed && (!falls || holder.late_ns <= self.tuning.patience_ns / 2) {
                holder.bypassed = false;
            }
        }
    }

    /// Begins a member's turn once it is wholly resident and has room for what it asks; learns what that took.
    pub(super) fn note_residence(&mut self, row: usize, allowed_bytes: u64) {
        let Some(holder) = self.rows.get_mut(row) else { return };
        // One that was told to evict may be about to.
        let stays = holder.ceiling_bytes >= holder.resident_bytes;
        let is_ready = stays && holder.is_whole() && allowed_bytes >= holder.size_bytes;
        let Some(member) = &mut holder.member else { return };
        if member.resident_since_ns != 0 || !is_ready {
            return;
        }
        member.resident_since_ns = self.now_ns.max(1);
        member.held_from_ns = member.resident_since_ns;
        if member.granted_ns == 0 {
            return;
        }
        member.cost_ns = self.now_ns.saturating_sub(member.granted_ns);
        let state = &mut *self.state;
        state.cost_ns = mean(state.cost_ns, member.cost_ns);
        if member.away_bytes < LEAST_MEASURED_BYTES || member.cost_ns == 0 {
            return;
        }
        let rate = u128::from(member.away_bytes) * 1_000_000_000 / u128::from(member.cost_ns);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).min(self.tuning.link_bytes_per_s);
        state.rate_bytes_per_s = match state.rate_bytes_per_s {
            0 => rate,
            before => mean(before, rate),
        };
    }

    /// Status of a row, as its order says it.
    pub(super) fn status(&self, row: usize) -> HolderStatus {
        let Some(holder) = self.rows.get(row).filter(|h| h.is_present()) else {
            return HolderStatus::Empty;
        };
        if holder.stands_still() {
            return HolderStatus::Bypassed;
        }
        match (holder.member, self.key(row).map(|key| key.0)) {
            (_, Some(Class::Frozen)) => HolderStatus::Frozen,
            (Some(member), _) if member.resident_since_ns != 0 => HolderStatus::Runs,
            (Some(_), _) => HolderStatus::Restores,
            (None, Some(Class::Waits)) => HolderStatus::Waits,
            (None, Some(Class::Larger)) => HolderStatus::Larger,
            (None, Some(Class::PinnedOut)) => HolderStatus::PinnedOut,
            (None, _) => HolderStatus::Rests,
        }
    }

    fn next_ns(&self, moves: bool) -> u64 {
        let tuning = self.tuning;
        let poll_ns = match (moves, self.state.contended) {
            (true, _) => tuning.moving_poll_ns,
            (_, true) => tuning.waiting_poll_ns,
            _ if !self.fits => tuning.short_poll_ns,
            _ => tuning.calm_poll_ns,
        };
        self.now_ns.saturating_add(poll_ns.min(tuning.calm_poll_ns).max(1))
    }
}

/// Moving mean over about four values.
fn mean(before: u64, value: u64) -> u64 {
    before - before / 4 + value / 4
}
