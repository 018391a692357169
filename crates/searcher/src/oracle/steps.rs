//! Tolerances of tenants that make steps beside others, and of those that others of higher priority
//! keep out.
//!
//! Promises: formulas of the plan's goals, and of the card's own figures.

use divvy_policy::turns::tuning;

use super::within::{TOGETHER, Within, part};
use crate::card::CardModel;

/// Part of a device that hand-overs between steps may cost, and time that one takes with the bubble
/// before it.
const STEPS_LOST: f64 = 0.025;
const STEPS_HANDOVER_NS: u64 = 200_000;

/// Length of a cycle of so many tenants: whole mean steps of each, one or as many as their
/// hand-overs are worth, of which the host's gaps pay a part.
pub fn cycle_ns(tenants: usize, mean_ns: u64, gaps_ns: u64) -> u64 {
    let tenants = tenants as u64;
    let lost_ns = (tenants * STEPS_HANDOVER_NS).saturating_sub(gaps_ns);
    let worth_ns = (lost_ns as f64 / STEPS_LOST) as u64;
    tenants * mean_ns * (worth_ns / tenants / mean_ns.max(1)).max(1)
}

/// The longest of a hundred steps of `own_ns`, of who has `part` percent, and a tenth: a cycle
/// where all are alike. Else there are two of its turns in what its part permits, and the longest
/// that others do not interrupt.
pub fn step_ns(cycle_ns: u64, own_ns: u64, part: f64, others_ns: Option<u64>) -> u64 {
    let due_ns = ((own_ns as f64 * 100.0 / part) as u64).max(cycle_ns);
    others_ns.map_or(due_ns, |others_ns| 2 * due_ns + others_ns) * 11 / 10
}

/// Sum of what tenants get done that make steps, each in percent of what it does alone: 97, and
/// what the simulated card's hand-overs take of a cycle beyond those of an H200, which the cycle is
/// made for.
pub fn steps_in_sum(tenants: usize, cycle_ns: u64) -> Within {
    let handover_ns = CardModel::default().switch_dry_ns;
    Within::either(3.0 + part(tenants as u64 * handover_ns, cycle_ns)).or_more()
}

/// Of drawn cases of steps one in so many may miss a bound. Known: of six and more whose steps
/// differ by ten times, or with an eager training among them; not found why.
pub const STEPS_ONE_IN: usize = 4;

/// Part of who makes steps beside others: a point, and half of the part of its time that is the
/// host's between two steps, which falls into its own turns or into others'.
pub fn steps_part(gap_ns: u64, step_ns: u64) -> Within {
    Within::either(TOGETHER + part(gap_ns, step_ns) / 2.0)
}

/// Time beyond a step for which one of higher priority waits, where a piece of the floor lies in
/// it: the goal of 2.5 ms, what the simulated card's two hand-overs take beyond those of an H200, a
/// look of the scheduler's at the end of each, and a kernel of `kernel_ns` of which all is in flight at the end of the piece. Of a longer one no more
/// is waited for than another piece, and what is left then runs in slices.
pub fn piece_ns(kernel_ns: u64) -> u64 {
    let handover_ns = CardModel::default().switch_dry_ns + tuning::GAPPY_POLL_NS;
    2_500_000 + 2 * handover_ns + 2 * kernel_ns
}

/// The longest that one of them takes: two pieces, where one came late.
pub fn two_pieces_ns(kernel_ns: u64) -> u64 {
    2 * piece_ns(kernel_ns)
}

/// The floor of low priority, in percent.
pub const FLOOR: f64 = 2.0;

/// The least progress of all together that others keep out, in percent of one alone: seven tenths of
/// the floor. A piece is wall time, in which kernels whose length was measured beside others go one
/// at a time.
pub fn least_floor() -> f64 {
    FLOOR * 0.7
}

/// The most, where they have `had` so much without a floor: half of it more, since a kernel outlasts
/// its piece.
pub fn most_floor(had: f64) -> f64 {
    had.max(FLOOR) + FLOOR / 2.0
}

/// Progress of those of higher priority: the floor less, or the part that the lower ones `have`
/// where that is more, and two hand-overs for each piece.
pub fn above_floor(have: f64) -> Within {
    let handovers_ns = 2 * (tuning::TAKEOVER_NS + CardModel::default().switch_dry_ns);
    let of_pieces = FLOOR * handovers_ns as f64 / tuning::MIN_TURN_NS as f64;
    Within::either(have.max(FLOOR) + of_pieces).or_more()
}
