//! The constants that the scheduler goes by, in one place, so that a test or a search may change them.
//!
//! Promises: the defaults are what was measured to be right on an H200. Does not say what a constant does where others
//! are out of all proportion to it.

/// The constants of the scheduler. The defaults are an H200's.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Time between opening a gate and the first kernel of its tenant: not charged, and what the
    /// quantum is adapted to.
    pub takeover_ns: u64,
    /// Part of the device's time that takeovers may cost, in millionths.
    pub takeover_cost_ppm: u64,
    /// Shortest mean turn.
    pub min_quantum_ns: u64,
    /// Longest mean turn, and longest turn of any weight.
    pub max_quantum_ns: u64,
    /// Longest turn of others while a tenant of the latency class waits. Its own are as long as any:
    /// a request that fits is answered in one.
    pub latency_quantum_ns: u64,
    /// Shortest turn of any weight, and a piece of the floor; a tenant of small weight has fewer turns instead.
    pub min_turn_ns: u64,
    /// How long a turn lasts at least before a tenant that is far behind ends it.
    pub min_hold_ns: u64,
    /// Drained and without a launch for so long: idle.
    pub idle_ns: u64,
    /// How long a tenant whose gate has opened may take to launch before it counts as idle.
    pub grace_ns: u64,
    /// Longest wait for the work of the last holder.
    pub drain_timeout_ns: u64,
    /// How long two tenants may use a device at once before turns begin.
    pub overlap_ns: u64,
    /// A tenant that has not been active for so long does not hinder "everybody open".
    pub calm_ns: u64,
    /// A tenant without work for so long has slept: it returns with at most a quantum of credit.
    pub sleep_ns: u64,
    /// Time in flight a tenant may have.
    pub horizon_ns: u64,
    /// The same beside a tenant of the latency class.
    pub latency_horizon_ns: u64,
    /// The same beside a tenant of higher priority.
    pub low_horizon_ns: u64,
    /// Part of a device's time for tenants of lower priority, all together, that others would keep from it for ever, in
    /// millionths; 0 for none.
    pub floor_ppm: u64,
    /// How often an idle tenant of higher priority is looked at.
    pub priority_poll_ns: u64,
    /// How often an idle tenant of the latency class is looked at.
    pub latency_poll_ns: u64,
    /// How often work that should have drained is looked at.
    pub overdue_poll_ns: u64,
    /// How often a holder that is known to pause is looked at.
    pub gappy_poll_ns: u64,
    /// How often a holder that never pauses is looked at.
    pub steady_poll_ns: u64,
    /// The same where everybody else waits already, and nobody ever pauses.
    pub awaited_poll_ns: u64,
    /// How often devices without contention are looked at.
    pub calm_poll_ns: u64,
    /// Longest time between two steps: the leases are renewed by then.
    pub lease_poll_ns: u64,
    /// Below this use of the device under turns, in millionths, its tenants are taken not to fill it.
    pub fills_ppm: u64,
    /// Length of a trial of "everybody open".
    pub trial_ns: u64,
    /// Time under turns a trial is compared with, at least.
    pub baseline_ns: u64,
    /// Time between two trials at first; it doubles up to [`Tuning::max_retrial_ns`].
    pub retrial_ns: u64,
    /// Longest time between two trials.
    pub max_retrial_ns: u64,
    /// Time after which "everybody open" is compared with turns again, even if no sign asks for it.
    pub renew_ns: u64,
    /// How long a tenant that left its domain is remembered to be ahead of the others.
    pub lag_kept_ns: u64,
    /// A launch that found its gate open is with the driver so long after: an H200's takes 3 us.
    pub launch_ns: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        const US: u64 = 1_000;
        const MS: u64 = 1_000_000;
        Self {
            takeover_ns: 180 * US,
            takeover_cost_ppm: 13_500,
            min_quantum_ns: 5 * MS,
            max_quantum_ns: 50 * MS,
            latency_quantum_ns: 2 * MS,
            min_turn_ns: 2 * MS,
            min_hold_ns: 10 * MS,
            idle_ns: 200 * US,
            grace_ns: MS,
            drain_timeout_ns: 50 * MS,
            overlap_ns: MS,
            calm_ns: 100 * MS,
            sleep_ns: 5 * MS,
            horizon_ns: 4 * MS,
            latency_horizon_ns: 500 * US,
            low_horizon_ns: 150 * US,
            floor_ppm: 20_000,
            priority_poll_ns: 80 * US,
            latency_poll_ns: 500 * US,
            overdue_poll_ns: 30 * US,
            gappy_poll_ns: 200 * US,
            steady_poll_ns: 3 * MS,
            awaited_poll_ns: 8 * MS,
            calm_poll_ns: 10 * MS,
            lease_poll_ns: 50 * MS,
            fills_ppm: 800_000,
            trial_ns: 100 * MS,
            baseline_ns: 100 * MS,
            retrial_ns: 1_000 * MS,
            max_retrial_ns: 10_000 * MS,
            renew_ns: 60_000 * MS,
            lag_kept_ns: 60_000 * MS,
            launch_ns: 20 * US,
        }
    }
}
