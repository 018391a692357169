//! Length of a turn: long enough to pay for its movement, short enough for those that wait.
//!
//! Promises: the turns of all that want, as many side by side as always fit, take no waiter more than the longest wait;
//! within that a turn's movement is at most the part of it that the tuning allows. Does not count time.

use super::holder::HolderState;
use super::view::{Contest, Step, WEIGHT_UNIT};

impl Step<'_> {
    /// Counts the competitors: those in the running set that are active, and those that wait.
    pub(super) fn count_contest(&self) -> Contest {
        let competing = || self.rows.iter().filter(|h| self.may_run(h) && h.active);
        let counted = competing().fold(Contest::default(), |all, h| Contest {
            tenants: all.tenants + 1,
            weights: all.weights.saturating_add(h.weight),
            least_weight: match all.tenants {
                0 => h.weight,
                _ => all.least_weight.min(h.weight),
            },
            ..all
        });
        Contest { lanes: self.lanes(competing().map(|h| h.size_bytes)), ..counted }
    }

    /// How many tenants of these sizes fit together, whichever they are; one at least.
    fn lanes(&self, sizes_bytes: impl Iterator<Item = u64> + Clone) -> u64 {
        if !self.tuning.together {
            return 1;
        }
        let (mut lanes, mut sum_bytes, mut below_bytes) = (0_u64, 0_u64, u64::MAX);
        // Sizes from the largest on, those that are the same together.
        while let Some(bytes) = sizes_bytes.clone().filter(|bytes| *bytes < below_bytes).max() {
            below_bytes = bytes;
            for _ in sizes_bytes.clone().filter(|other| *other == bytes) {
                sum_bytes = sum_bytes.saturating_add(bytes);
                if sum_bytes > self.left_bytes {
                    return lanes.max(1);
                }
                lanes = lanes.saturating_add(1);
            }
        }
        lanes.max(1)
    }

    /// Time that a turn must last for its movement.
    pub(super) fn due_ns(&self) -> u64 {
        let cost = u128::from(self.state.cost_ns) * 1_000_000;
        u64::try_from(cost / u128::from(self.tuning.overhead_ppm.max(1))).unwrap_or(u64::MAX)
    }

    /// Difference of virtual time that is none: half a turn. Tenants within it take their turns by age, since an order
    /// that stays the same from round to round moves the fewest bytes.
    pub(super) fn grain_ns(&self) -> u64 {
        (self.turn_ns(1, self.due_ns()) / 2).saturating_mul(WEIGHT_UNIT).max(1)
    }

    /// Longest turn of a weight that leaves every other tenant its turn within the longest wait; a small weight has the
    /// shortest turn, as long as there is time for one of each tenant. Where some always run side by side, the turns
    /// before a waiter's pass in a part of the time.
    pub(super) fn longest_ns(&self, weight: u64) -> u64 {
        let max_wait_ns = self.tuning.max_wait_ns;
        let least_ns = self.tuning.min_quantum_ns.min(max_wait_ns / self.contest.tenants.max(1));
        match self.contest.weights.saturating_sub(self.contest.least_weight) {
            0 => max_wait_ns,
            others => {
                let lanes_ns = max_wait_ns.saturating_mul(self.contest.lanes);
                scale(lanes_ns, weight, others).min(max_wait_ns).max(least_ns)
            }
        }
    }

    /// Length of a turn of a weight that must pay for `due_ns`.
    fn turn_ns(&self, weight: u64, due_ns: u64) -> u64 {
        let Contest { tenants, weights, .. } = self.contest;
        let weighted_ns = scale(due_ns, weight.saturating_mul(tenants.max(1)), weights);
        weighted_ns.max(self.tuning.min_quantum_ns).min(self.longest_ns(weight))
    }

    /// Length of a turn of a tenant: as a user set it, whatever that costs, but for a wait that is too long, and for a turn
    /// that is over before its processes have noticed that it has begun: such moves memory for no work at all.
    pub(super) fn quantum_ns(&self, holder: &HolderState) -> u64 {
        if holder.quantum_ns != 0 {
            let quantum_ns = holder.quantum_ns.max(self.tuning.min_quantum_ns);
            return quantum_ns.min(self.longest_ns(holder.weight));
        }
        let carried_ns = holder.member.map_or(0, |m| m.carried_ns);
        self.turn_ns(holder.weight, self.due_ns().saturating_add(carried_ns))
    }

    /// Whether a tenant's turn has lasted its quantum.
    pub(super) fn is_over(&self, holder: &HolderState) -> bool {
        holder.member.is_some_and(|m| {
            m.resident_since_ns != 0 && m.ran_ns(self.now_ns) >= self.quantum_ns(holder)
        })
    }

    /// Rate at which a newcomer restores.
    pub(super) fn rate_bytes_per_s(&self) -> u64 {
        match self.state.rate_bytes_per_s {
            0 => self.tuning.link_bytes_per_s,
            rate => rate,
        }
    }
}

/// `value * part / whole`, the value itself where the whole is 0.
pub(super) fn scale(value: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return value;
    }
    u64::try_from(u128::from(value) * u128::from(part) / u128::from(whole)).unwrap_or(u64::MAX)
}
