//! The step of a daemon's scheduling thread: samples of its tenants in, gates out, and when to come again.
//!
//! The cost of a daemon is borne by all tenants, and is mostly that of its steps. So a step touches the rows that
//! the scheduler asked for or changed, and no others: it reads the tenants that are watched,
//! writes the gates that are not as before, and looks at the leases a few times in their length.
//!
//! Promises: no clock, no allocation, no panic: the caller owns all state between steps, over
//! files in a daemon and over memory in a test or a search. A row that a tenant has left is seen empty once,
//! and then nothing is known of it.
//!
//! Does not find tenants or devices, nor read limits anew: the caller does, between steps, and says when
//! something has changed.

use super::domain::DeviceState;
use super::files::Files;
use super::gate::{Gate, GateState};
use super::sample::Sample;
use super::scheduler::Turns;
use super::served::Served;
use super::tenant::TenantState;
use super::tuning;

/// The tenants of a daemon, each in a seat: a row of the scheduler's, which is its own until it has left.
pub trait Tenants {
    /// A tenant's files.
    type Files: Files;

    /// The tenant of that seat.
    fn get(&self, seat: usize) -> Option<&Served<Self::Files>>;

    /// The same, to write its gates.
    fn get_mut(&mut self, seat: usize) -> Option<&mut Served<Self::Files>>;

    /// Gives a seat whose tenant has left to whoever comes next; whether there is such a tenant.
    fn vacate(&mut self, seat: usize) -> bool;

    /// Lets go of the tenant there, which cannot be written. The next step is told of a change.
    fn refuse(&mut self, seat: usize, error: <Self::Files as Files>::Error);
}

/// A tenant that has a row for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seated {
    /// The tenant's seat.
    pub seat: usize,
    /// The tenant's own row for it.
    pub row: usize,
    /// Index of their sample and gate.
    pub at: usize,
    /// Whether an MPS daemon serves the device, so that no turns are taken.
    pub mps: bool,
}

/// One step, over what is kept between steps.
#[derive(Debug)]
pub struct Round<'a> {
    /// Part of each device for tenants of lower priority, in millionths ([`FLOOR_PPM`](super::tuning::FLOOR_PPM) by
    /// default).
    pub floor_ppm: u64,
    /// One for each seat.
    pub tenants: &'a mut [TenantState],
    /// One for each device.
    pub devices: &'a mut [DeviceState],
    /// The tenant of each row.
    pub seated: &'a [Seated],
    /// For each device, contexts with work that belong to nobody's tenant.
    pub foreign: &'a [u32],
    /// Indexed by `seat * devices.len() + device`.
    pub samples: &'a mut [Sample],
    /// The same.
    pub gates: &'a mut [Gate],
    /// As long, and the step's own.
    pub before: &'a mut [Gate],
    /// When all gates are looked at again; 0 at first.
    pub leases_ns: &'a mut u64,
}

impl Round<'_> {
    /// Decides and writes every gate of `who`; when the next step is due. It may come early at no harm.
    ///
    /// `is_changed` says that seats, devices or what is attached to them may not be as at the step before.
    ///
    /// Cost: a reading for each row that is watched, and what [`Turns::step`] costs.
    pub fn step<T: Tenants>(&mut self, who: &mut T, now_ns: u64, is_changed: bool) -> u64 {
        if is_changed {
            // Rows and columns may be others' now: all is read.
            self.samples.fill(Sample::default());
            self.gates.fill(Gate { watch: true, ..Gate::default() });
        }
        for Seated { seat, row, at, .. } in self.seated {
            if let (Some(tenant), Some(sample), Some(Gate { watch: true, .. })) =
                (who.get_mut(*seat), self.samples.get_mut(*at), self.gates.get(*at))
            {
                *sample = tenant.sample(*row, now_ns);
            }
        }
        let is_quiet = self.is_quiet(now_ns);
        for (before, gate) in self.before.iter_mut().zip(&*self.gates) {
            *before = *gate;
        }
        let mut next_ns =
            Turns { floor_ppm: self.floor_ppm, tenants: self.tenants, devices: self.devices }.step(
                now_ns,
                self.samples,
                self.foreign,
                self.gates,
            );
        for Seated { seat, row, at, .. } in self.seated.iter().filter(|seated| !seated.mps) {
            if let (Some(tenant), Some(gate)) = (who.get_mut(*seat), self.gates.get_mut(*at)) {
                next_ns = next_ns.min(tenant.put_turns(*row, gate, now_ns));
            }
        }
        if is_changed {
            for (seat, state) in self.tenants.iter_mut().enumerate() {
                if who.vacate(seat) {
                    *state = TenantState::default();
                }
            }
        }
        self.put_gates(who, now_ns, is_changed || now_ns >= *self.leases_ns);
        let is_closed = |gate: &Gate| gate.state == GateState::Closed;
        if is_quiet && !self.gates.iter().any(is_closed) {
            // Until the caller's next look: a tenant that starts to work is met by an open gate.
            return now_ns.saturating_add(tuning::REST_NS);
        }
        next_ns
    }

    /// Whether nobody works, waits, or has just done so.
    fn is_quiet(&self, now_ns: u64) -> bool {
        self.samples.iter().all(|sample| {
            !sample.wants
                && sample.busy_until_ns <= now_ns
                && !sample.sleeps
                && sample.last_launch_ns.saturating_add(tuning::QUIET_DEVICES_NS) < now_ns
        })
    }

    /// Writes the gates that are not as before, or looks at all, whose leases may be about to end.
    fn put_gates<T: Tenants>(&mut self, who: &mut T, now_ns: u64, all: bool) {
        for Seated { seat, row, at, mps } in self.seated {
            let (Some(gate), Some(before)) = (self.gates.get(*at), self.before.get(*at)) else {
                continue;
            };
            if all || (Gate { watch: before.watch, ..*gate }) != *before {
                let gate = if *mps { Gate::default() } else { *gate };
                write(who, *seat, |tenant| {
                    tenant.put(*row, gate, now_ns)?;
                    tenant.put_any_gate(now_ns)
                });
            }
        }
        if all {
            *self.leases_ns = now_ns.saturating_add(tuning::LEASES_NS);
            // Tenants without a device too: the first launch is to meet a cap that was just set.
            for seat in 0..self.tenants.len() {
                write(who, seat, |tenant| tenant.put_any_gate(now_ns));
            }
        }
    }
}

/// Lets go of the tenant in `seat` where it cannot be written.
fn write<T: Tenants>(
    who: &mut T,
    seat: usize,
    write: impl FnOnce(&mut Served<T::Files>) -> Result<(), <T::Files as Files>::Error>,
) {
    let Some(tenant) = who.get_mut(seat) else { return };
    if let Err(error) = write(tenant) {
        who.refuse(seat, error);
    }
}
