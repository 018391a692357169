//! Turns: which tenant may submit work to which device now, when several want it.
//!
//! The scheduler of the daemon as pure logic. It is told the time and one [`Sample`] for each tenant
//! and device, answers with one [`Gate`] for each, and with the time at which it wants to be called
//! again. Tenants that share a device take exclusive turns by weight (start-time fair queueing on the
//! wall time they hold the device), because the driver's own slicing loses up to half of the device.
//!
//! Promises: no clock, no allocation, no panic, whatever the samples say. A tenant alone on a device
//! is not gated. Nobody is closed while nobody else uses the device, except by `paused`. A tenant of
//! higher priority is never closed for one of lower priority and never waits for its work to drain.
//! A tenant on several devices takes its turn on all of them at once. A drain lasts at most
//! [`Tuning::drain_timeout_ns`]; who overruns is charged for it. Claims in a sample (used time, busy
//! until) change only the claimant's own treatment: turns are charged by wall time, and a shared mode
//! is entered only if nobody loses by it.
//!
//! Around it, as pure, the step of the thread that calls it: [`Round`], over tenants ([`Served`]) whose
//! files are a trait ([`Files`]).
//!
//! Does not: enforce caps (a tenant closed by its own cap merely does not want), open files, find
//! tenants.

mod charge;
mod domain;
mod entry;
mod files;
mod in_use;
mod line;
mod pauses;
mod phase;
mod pick;
mod round;
mod served;
mod tenant;
mod together;
mod wake;
mod workers;

use divvy_abi::MAX_DEVICES;

pub use self::domain::{Counters, DeviceState, Mode};
pub use self::entry::{CapEntry, GateEntry, LINE_WORDS};
pub use self::files::Files;
pub use self::line::{Line, WANT_NS};
pub use self::round::{REST_NS, Round, Seated, Tenants};
pub use self::served::Served;
pub use self::tenant::TenantState;

/// Virtual time of one nanosecond held at weight 1. Weights divide it.
pub(crate) const VIRTUAL_SCALE: u64 = 1 << 10;

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
    /// Shortest turn of any weight; a tenant of small weight has fewer turns instead.
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
    /// Everybody open for so long is compared with turns anew, whatever is seen meanwhile.
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

/// What is known of one tenant on one device; sums and maxima over its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// A process of the tenant has a context on the device.
    pub attached: bool,
    /// A thread waits at the gate for a turn. Not looked at while the gate is open.
    pub wants: bool,
    /// The operator has paused the tenant.
    pub paused: bool,
    /// The tenant is of the latency class.
    pub latency: bool,
    /// When the work in flight is expected to end.
    pub busy_until_ns: u64,
    /// When work was last submitted.
    pub last_launch_ns: u64,
    /// Device time charged so far.
    pub used_ns: u64,
    /// Submissions so far.
    pub launches: u64,
    /// A thread sleeps until work in flight has ended.
    pub sleeps: bool,
    /// Closed by its own cap until then; 0 when not.
    pub closed_until_ns: u64,
    /// Longest kernel or graph seen.
    pub longest_ns: u64,
    /// Weight among tenants of one priority; 0 for the default: the share in percent where one is
    /// set, else 100.
    pub weight: u32,
    /// Priority: a higher one goes first.
    pub priority: i32,
    /// Share the tenant is capped at, in millionths; 0 or a million and more when not capped.
    pub share_ppm: u32,
}

/// State of one gate; the values are those of `divvy_abi`'s gate line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum GateState {
    /// Nothing is counted.
    #[default]
    Free = 0,
    /// Open; work is counted and bounded in flight.
    Timed = 1,
    /// Nothing may be submitted.
    Closed = 2,
    /// As [`GateState::Timed`], and the tenant's processes take turns among themselves.
    Turns = 3,
}

/// What one tenant is told about one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Whether it may submit.
    pub state: GateState,
    /// Tenants whose work may run on the device at once; above 1 measured times are stretched.
    pub active: u32,
    /// Contexts of no tenant beside it.
    pub strangers: u32,
    /// Number of the running turn.
    pub turn: u64,
    /// Planned end of the tenant's turn; 0 when none is planned.
    pub turn_end_ns: u64,
    /// Length of the tenant's full turn; of a closed gate no less, and rarely another.
    pub quantum_ns: u64,
    /// Time in flight the tenant may have; 0 while the gate is closed.
    pub horizon_ns: u64,
    /// When a closed gate is expected to open; 0 when unknown.
    pub t_open_ns: u64,
    /// The next step needs a fresh sample of this tenant and device.
    pub watch: bool,
}

/// What a cap saves up for whoever waits goes by the quantum, so a closed gate says one, in steps of
/// this: each change of what is said is a write.
const CLOSED_QUANTUM_NS: u64 = 10_000_000;

impl Gate {
    /// Without what nobody goes by while it is closed.
    fn settled(self) -> Self {
        match self.state {
            GateState::Closed => {
                let quantum_ns =
                    self.quantum_ns.div_ceil(CLOSED_QUANTUM_NS).saturating_mul(CLOSED_QUANTUM_NS);
                Self { quantum_ns, horizon_ns: 0, ..self }
            }
            GateState::Free | GateState::Timed | GateState::Turns => self,
        }
    }
}

/// The scheduler: its constants and the state its caller owns.
#[derive(Debug)]
pub struct Turns<'a> {
    /// Constants.
    pub tuning: &'a Tuning,
    /// One for each row of samples. Another tenant's begins as `default()`; one that is unattached for a
    /// while is remembered.
    pub tenants: &'a mut [TenantState],
    /// One for each device; beyond [`MAX_DEVICES`] they are not gated.
    pub devices: &'a mut [DeviceState],
}

impl Turns<'_> {
    /// Decides every gate; returns the time of the next step, later than `now_ns` and at most
    /// [`Tuning::lease_poll_ns`] away. A step may come early at no harm, and should when a tenant of
    /// higher priority has launched.
    ///
    /// `samples` and `gates` are indexed by `row * devices.len() + device`; `foreign` counts, for each
    /// device, the contexts with work that belong to nobody's tenant. What is missing in a short slice
    /// counts as unattached. Cost: tenants x devices plus tenants squared for each device in turns.
    pub fn step(
        &mut self,
        now_ns: u64,
        samples: &[Sample],
        foreign: &[u32],
        gates: &mut [Gate],
    ) -> u64 {
        let width = self.devices.len();
        for (row, tenant) in self.tenants.iter_mut().enumerate() {
            tenant.observe(self.tuning, now_ns, row_of(samples, row, width));
        }
        domain::regroup(self.tuning, now_ns, self.devices, self.tenants, foreign);
        let mut next = now_ns.saturating_add(self.tuning.lease_poll_ns);
        for device in 0..width.min(MAX_DEVICES) {
            let Some(state) = self.devices.get_mut(device) else { continue };
            next = next.min(match state.mode() {
                Mode::Free => next,
                Mode::Counted => now_ns.saturating_add(self.tuning.calm_poll_ns),
                _ if state.is_root(device) => {
                    domain::Domain { tuning: self.tuning, now_ns, state, tenants: self.tenants }
                        .drive()
                }
                _ => next,
            });
        }
        for (row, line) in gates.chunks_mut(width.max(1)).enumerate() {
            for (device, gate) in line.iter_mut().enumerate() {
                *gate = self.gate(now_ns, row, device, foreign).settled();
            }
        }
        next.max(now_ns.saturating_add(1))
    }

    fn gate(&self, now_ns: u64, row: usize, device: usize, foreign: &[u32]) -> Gate {
        let open = Gate {
            horizon_ns: self.tuning.horizon_ns,
            quantum_ns: self.tuning.min_quantum_ns,
            watch: true,
            active: 1,
            ..Gate::default()
        };
        let (Some(tenant), Some(state)) = (self.tenants.get(row), self.devices.get(device)) else {
            return open;
        };
        let bit = domain::bit(device);
        if tenant.attached & bit == 0 {
            return open;
        }
        if tenant.paused {
            return Gate { state: GateState::Closed, ..open };
        }
        let timed = Gate { state: GateState::Timed, ..open };
        match state.mode() {
            Mode::Free if !tenant.capped => open,
            Mode::Free => timed,
            Mode::Counted => {
                let own = self.tenants.iter().filter(|t| t.attached & bit != 0 && t.works(now_ns));
                let own = u32::try_from(own.count()).unwrap_or(u32::MAX);
                let others = foreign.get(device).copied().unwrap_or(0);
                // Who asks is at work by then.
                let active = own.max(1).saturating_add(others);
                Gate { active, strangers: others, ..timed }
            }
            // Its first launch there gives it a seat; until that is seen it is beside those who have one.
            _ if tenant.seats & bit == 0 => Gate { active: 2, ..timed },
            _ => {
                let Some(root) = self.devices.get(state.root()) else { return timed };
                domain::gate(self.tuning, now_ns, root, self.tenants, tenant, bit)
            }
        }
    }
}

/// The samples of one tenant, one for each device.
fn row_of(samples: &[Sample], row: usize, width: usize) -> &[Sample] {
    let start = row.saturating_mul(width);
    let end = start.saturating_add(width).min(samples.len());
    samples.get(start..end).unwrap_or(&[])
}
