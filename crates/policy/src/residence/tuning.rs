//! Constants of the hand-over, in one place, so that a test or a search may change them.
//!
//! Promises: the defaults are an H200's with a host link of 50 GB/s each way. Does not hold anything that a user sets
//! for one tenant.

/// The constants of the planner.
#[derive(Clone, Debug)]
pub struct ResidenceTuning {
    /// Released bytes count as in use for so long: a create right behind a release waits 7.7 ms in the driver.
    pub release_ahead_ns: u64,
    /// Without a submission and with all work complete for so long, and an eighth of what a hand-over takes: idle.
    pub idle_ns: u64,
    /// How long a tenant whose turn has begun may take until its first submission.
    pub start_ns: u64,
    /// Shortest turn, counted from when the tenant is resident.
    pub min_quantum_ns: u64,
    /// Longest wait for a turn, movement aside, as long as it leaves all turns time to be had.
    pub max_wait_ns: u64,
    /// Part of the time that movement may cost, in millionths of the turns it serves.
    pub overhead_ppm: u64,
    /// How long a tenant may not follow its order: a victim keeps its bytes then, a newcomer loses its place.
    pub patience_ns: u64,
    /// Slowest movement that counts as following an order, in bytes a second.
    pub slowest_bytes_per_s: u64,
    /// Bytes by which what leaves may be ahead of what comes. Those that were released lately, those being copied and two
    /// pieces of the largest size find room in it.
    pub lead_bytes: u64,
    /// Rate at which a process makes the host's memory for copies, in bytes a second.
    pub copies_bytes_per_s: u64,
    /// Rate of the link one way until it has been measured, in bytes a second.
    pub link_bytes_per_s: u64,
    /// Tenants that fit together run together. Without it one tenant runs at a time under pressure, which moves the
    /// fewest bytes.
    pub together: bool,
    /// Time to the next step while bytes move.
    pub moving_poll_ns: u64,
    /// Time to the next step while a tenant waits and none moves.
    pub waiting_poll_ns: u64,
    /// Time to the next step while some memory has no room on the device, and nobody waits for it.
    pub short_poll_ns: u64,
    /// Longest time between two steps.
    pub calm_poll_ns: u64,
}

impl Default for ResidenceTuning {
    fn default() -> Self {
        const MS: u64 = 1_000_000;
        Self {
            release_ahead_ns: 8 * MS,
            idle_ns: 2 * MS,
            start_ns: 100 * MS,
            min_quantum_ns: 100 * MS,
            max_wait_ns: 30_000 * MS,
            overhead_ppm: 25_000,
            patience_ns: 2_000 * MS,
            slowest_bytes_per_s: 1_500_000_000,
            lead_bytes: 3 << 29,
            copies_bytes_per_s: 3_000_000_000,
            link_bytes_per_s: 50_000_000_000,
            together: true,
            moving_poll_ns: MS / 2,
            waiting_poll_ns: MS,
            short_poll_ns: 4 * MS,
            calm_poll_ns: 50 * MS,
        }
    }
}
