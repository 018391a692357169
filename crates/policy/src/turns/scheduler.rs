//! The step of the scheduler: samples of all tenants in, all gates out, and when to come again.
//!
//! Promises: one pass over tenants and devices, whatever the samples say; missing rows count as unattached. Does not
//! keep anything between two steps: its caller does, in [`TenantState`] and [`DeviceState`].

use divvy_abi::MAX_DEVICES;

use super::device_set::bit;
use super::domain::{self, DeviceState, TurnMode};
use super::gate::{Gate, GateState};
use super::sample::Sample;
use super::tenant::TenantState;
use super::tuning;

/// The scheduler: the state its caller owns.
#[derive(Debug)]
pub struct Turns<'a> {
    /// Part of each device for tenants of lower priority, in millionths ([`tuning::FLOOR_PPM`] by default).
    pub floor_ppm: u64,
    /// One for each row of samples. Another tenant's begins as `default()`; one that is unattached for a
    /// while is remembered.
    pub tenants: &'a mut [TenantState],
    /// One for each device; beyond [`MAX_DEVICES`] they are not gated.
    pub devices: &'a mut [DeviceState],
}

impl Turns<'_> {
    /// Decides every gate; returns the time of the next step, later than `now_ns` and at most
    /// [`tuning::LEASE_POLL_NS`] away. A step may come early at no harm, and should when a tenant of
    /// higher priority has launched.
    ///
    /// `samples` and `gates` are indexed by `row * devices.len() + device`; `foreign` counts, for each
    /// device, the contexts with work that belong to no tenant. Entries missing in a short slice
    /// count as unattached. Cost: tenants x devices plus tenants squared for each device in turns.
    pub fn step(
        &mut self,
        now_ns: u64,
        samples: &[Sample],
        foreign: &[u32],
        gates: &mut [Gate],
    ) -> u64 {
        let width = self.devices.len();
        for (row, tenant) in self.tenants.iter_mut().enumerate() {
            tenant.observe(now_ns, row_of(samples, row, width));
        }
        domain::regroup(now_ns, self.devices, self.tenants, foreign);
        let mut next = now_ns.saturating_add(tuning::LEASE_POLL_NS);
        for device in 0..width.min(MAX_DEVICES) {
            let Some(state) = self.devices.get_mut(device) else { continue };
            next = next.min(match state.mode() {
                TurnMode::Free => next,
                TurnMode::Counted => now_ns.saturating_add(tuning::CALM_POLL_NS),
                _ if state.is_root(device) => domain::Domain {
                    floor_ppm: self.floor_ppm,
                    now_ns,
                    state,
                    tenants: self.tenants,
                }
                .drive(),
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
            horizon_ns: tuning::HORIZON_NS,
            quantum_ns: tuning::MIN_QUANTUM_NS,
            watch: true,
            active: 1,
            ..Gate::default()
        };
        let (Some(tenant), Some(state)) = (self.tenants.get(row), self.devices.get(device)) else {
            return open;
        };
        let bit = bit(device);
        if tenant.seen.attached & bit == 0 {
            return open;
        }
        if tenant.seen.paused {
            return Gate { state: GateState::Closed, ..open };
        }
        let timed = Gate { state: GateState::Timed, ..open };
        match state.mode() {
            TurnMode::Free if tenant.seen.asked.cap_ppm.is_none() => open,
            TurnMode::Free => timed,
            TurnMode::Counted => {
                let own =
                    self.tenants.iter().filter(|t| t.seen.attached & bit != 0 && t.works(now_ns));
                let own = u32::try_from(own.count()).unwrap_or(u32::MAX);
                let others = foreign.get(device).copied().unwrap_or(0);
                // A tenant that asks is at work by then.
                let active = own.max(1).saturating_add(others);
                Gate { active, strangers: others, ..timed }
            }
            // Its first launch there gives it a seat; until that is seen it is beside those who have one.
            _ if tenant.seats & bit == 0 => Gate { active: 2, ..timed },
            _ => {
                let Some(root) = self.devices.get(state.root()) else { return timed };
                domain::gate(now_ns, root, self.tenants, tenant, bit)
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
