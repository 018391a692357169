//! The floor of low priority: a small part of a device for tenants that others of higher priority
//! would keep from it for ever.
//!
//! A tenant that wants a device, beside one of higher priority at work, is owed a part of the time
//! that passes. When it is owed a piece it goes first, once: for a piece, or for the one kernel
//! that outlasts it.
//!
//! Promises: lower tenants together have no more than the floor, over any time in which one of
//! higher priority is at work, but for one piece and one kernel of each; a piece that is not used
//! is paid for. Without a floor a tenant of lower priority may have nothing for as long as others
//! work. What a tenant had while no other was at work is neither a debt nor a credit.
//!
//! Does not choose among those that go first, nor end turns.

use super::domain::Domain;
use super::piece::{Floor, Piece};
use super::tenant::TenantState;
use super::tuning;
use crate::scaled::scaled;

impl TenantState {
    /// The higher one goes first: its priority, but for the time of a piece.
    pub(super) fn rank(&self) -> i32 {
        if self.floor.goes_first() { i32::MAX } else { self.seen.priority }
    }
}

impl Domain<'_> {
    /// Gives each tenant what it is owed for the time since the last step.
    pub(super) fn settle_floors(&mut self) {
        let level = self.members().map(|t| t.seen.priority).next();
        if self.members().all(|t| Some(t.seen.priority) == level) {
            return self.members_mut().for_each(|tenant| tenant.floor = Floor::default());
        }
        self.note_kept_out();
        let (now_ns, piece_ns) = (self.now_ns, self.piece_of_ns());
        let wall_ns = now_ns.saturating_sub(self.state.last_ns);
        let floor_ns = scaled(wall_ns, self.floor_ppm, 1_000_000);
        for row in 0..self.tenants.len() {
            let more_ns = self.part_of_floor_ns(row, floor_ns);
            if let Some(tenant) = self.tenants.get_mut(row).filter(|_| more_ns != 0) {
                tenant.floor.accrue(more_ns, piece_ns);
            }
        }
    }

    /// Notes which tenants want a device that others of higher priority keep from them.
    fn note_kept_out(&mut self) {
        for row in 0..self.tenants.len() {
            let Some(tenant) = self.tenants.get(row).filter(|t| self.is_member(t)) else {
                continue;
            };
            let is_beside = self.is_beside_higher(tenant);
            let is_kept = !tenant.seat.is_open() || tenant.floor.goes_first();
            let wants = tenant.demands(self.now_ns);
            let Some(tenant) = self.tenants.get_mut(row) else { continue };
            if !is_beside && tenant.seat.is_open() {
                tenant.floor = Floor::default();
            }
            tenant.floor.is_kept_out = is_beside && is_kept && wants;
        }
    }

    /// Ends the pieces that are over, which are charged by then.
    pub(super) fn end_pieces(&mut self) {
        let (now_ns, piece_ns) = (self.now_ns, self.piece_of_ns());
        for tenant in self.members_mut() {
            let has_ended = !tenant.seat.holds() && !tenant.seat.lingers();
            tenant.floor.end_piece(now_ns, piece_ns, has_ended);
        }
    }

    /// Begins the pieces of those whose turns begin.
    pub(super) fn begin_pieces(&mut self) {
        let piece_ns = self.piece_of_ns();
        let taken_ns = self.now_ns.saturating_add(tuning::TAKEOVER_NS);
        for tenant in self.members_mut().filter(|t| t.seat.holds()) {
            tenant.floor.begin(piece_ns, taken_ns.saturating_add(piece_ns));
        }
    }

    /// The length of a tenant's turn, where that is a piece.
    pub(super) fn piece_ns(&self, row: usize) -> Option<u64> {
        self.tenants.get(row).filter(|t| t.floor.goes_first())?;
        Some(self.piece_of_ns())
    }

    /// A piece, without the take-over before it.
    fn piece_of_ns(&self) -> u64 {
        tuning::MIN_TURN_NS.saturating_sub(tuning::TAKEOVER_NS).max(1)
    }

    /// When to look at pieces: as one ends.
    pub(super) fn piece_look_ns(&self) -> u64 {
        let of = |tenant: &TenantState| match tenant.floor.piece {
            Piece::Runs { until_ns } => until_ns.max(self.now_ns),
            Piece::Accrues | Piece::Due | Piece::Drains { .. } => u64::MAX,
        };
        self.members().map(of).min().unwrap_or(u64::MAX)
    }

    /// A tenant's part of the floor's time. Each that is in debt pays with its part; all other parts are
    /// those of the one that has waited longest: of several that accrued alike all would be owed their
    /// pieces at once, in one step of a higher one.
    fn part_of_floor_ns(&self, row: usize, floor_ns: u64) -> u64 {
        let is_kept_out = |t: &TenantState| self.is_member(t) && t.floor.is_kept_out;
        let Some(tenant) = self.tenants.get(row).filter(|t| is_kept_out(t)) else { return 0 };
        let all = self.tenants.iter().enumerate();
        let all = all.filter(|(_, t)| is_kept_out(t) && t.shares_device(tenant));
        let (mut count, mut parts, mut first) = (0_u64, 0_u64, None);
        for (at, other) in all {
            count = count.saturating_add(1);
            if other.floor.owed_ns >= 0 {
                parts = parts.saturating_add(1);
                first = first.into_iter().chain([(other.seat.served_ns, at)]).min();
            }
        }
        let parts = match tenant.floor.owed_ns < 0 {
            true => 1,
            false if first.is_some_and(|(_, at)| at == row) => parts,
            false => 0,
        };
        floor_ns.saturating_mul(parts) / count.max(1)
    }

    fn is_beside_higher(&self, tenant: &TenantState) -> bool {
        let is_higher =
            |t: &&TenantState| t.seen.priority > tenant.seen.priority && t.shares_device(tenant);
        self.members().filter(is_higher).any(|t| self.is_at_work(t))
    }
}
