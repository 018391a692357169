//! One device row of a tenant in its daemon's hands: what its words say, and what is written to its gate.
//!
//! Promises: a gate is written when it is not as before, and else only its lease, before that ends; what a
//! tenant wrote is a claim and changes only its own row. No clock, no allocation.
//!
//! Does not decide what the gate is: that is [`super::Turns`].

use divvy_abi::Uuid;
use divvy_abi::config::{Config, GateLine, class, priority};
use divvy_abi::usage::SHARED_SLOT;

use super::entry::GateEntry;
use super::files::Files;
use super::gate::{Gate, GateState};
use super::sample::Sample;
use super::tuning;
use super::workers::{Inner, Workers};
use crate::share::MAX_WEIGHT;

/// State of one device row of a tenant, from one reading to the next.
#[derive(Clone, Debug, Default)]
pub struct DeviceLine {
    /// The device, as the tenant says.
    pub uuid: Option<Uuid>,
    /// Whether a living process has a context there.
    pub is_attached: bool,
    /// The share that the limits set there, in millionths; 0 for none.
    pub share_ppm: u32,
    /// Its memory is away, so that it takes no turns.
    is_held: bool,
    /// Its work must be known, though nobody else may be on the device.
    is_watched: bool,
    /// The gate as it stands, where that is known.
    pub(super) written: Option<Gate>,
    lease_ns: u64,
    closed_at_ns: u64,
    workers: Workers,
}

impl DeviceLine {
    /// Whether the gate that stands is none that launches pass without a look.
    pub(super) fn is_gate(&self) -> bool {
        self.written.is_some_and(|gate| gate.state != GateState::Free)
    }

    /// Says whether its memory is away, and whether what it does must be known; whether either is new.
    pub(super) fn hold(&mut self, is_held: bool, is_watched: bool) -> bool {
        let is_new = (self.is_held, self.is_watched) != (is_held, is_watched);
        (self.is_held, self.is_watched) = (is_held, is_watched);
        is_new
    }

    /// Whether a living process of the tenant has a context on device `row`.
    pub(super) fn finds_context<F: Files>(&self, files: &F, row: usize) -> bool {
        let works = |gate: GateEntry| gate.last_launch_ns != 0 || gate.want_ns != 0;
        let living = || files.processes().filter(|(_, alive)| *alive).map(|(slot, _)| slot);
        self.uuid.is_some()
            && (files.holds_any(row, living()) || {
                let mut is_any = false;
                files.gates(row, living(), |slot, gate| {
                    is_any |= slot != SHARED_SLOT && works(gate);
                });
                is_any
            })
    }

    /// Samples device `row` of the tenant whose limits are `config`. Cost: one reading of its lines.
    pub(super) fn sample<F: Files>(
        &mut self,
        files: &F,
        row: usize,
        config: &Config,
        now_ns: u64,
    ) -> Sample {
        if !self.is_attached {
            return Sample::default();
        }
        if self.is_held {
            let paused = config.paused != 0;
            return Sample { attached: paused, paused, ..Sample::default() };
        }
        let mut sum = GateEntry::default();
        let mut processes = files.processes();
        let slots = files.processes().map(|(slot, _)| slot);
        let workers = &mut self.workers;
        workers.begin();
        let mut contexts = 0_u32;
        let cap = files.gates(row, slots, |slot, gate| {
            let is_ended = slot != SHARED_SLOT && processes.next().is_none_or(|(_, alive)| !alive);
            if slot != SHARED_SLOT && !is_ended {
                workers.see(slot, &gate);
                let works = gate.busy_until_ns > now_ns || gate.sleepers != 0;
                contexts = contexts.saturating_add(works.into());
            }
            // As it will be when its slot is cleared.
            sum = sum.with(if is_ended { gate.ended() } else { gate });
        });
        let Some(cap) = cap else { return Sample::default() };
        let is_closed = self.written.is_some_and(|gate| gate.state == GateState::Closed);
        let wants = is_closed
            && sum.want_ns > self.closed_at_ns
            && sum.want_ns <= now_ns.saturating_add(tuning::SKEW_NS)
            && now_ns.saturating_sub(sum.want_ns) < tuning::WANT_NS;
        let (weight, priority) = claimed(config);
        Sample {
            attached: true,
            wants,
            paused: config.paused != 0,
            latency: config.class == class::LATENCY,
            busy_until_ns: sum.busy_until_ns,
            last_launch_ns: sum.last_launch_ns,
            used_ns: sum.used_ns,
            launches: sum.launches,
            waited_ns: sum.waited_ns,
            sleeps: sum.sleepers != 0,
            sleepers: sum.sleepers,
            contexts,
            closed_until_ns: cap.closed_until_ns,
            longest_ns: sum.longest_ns,
            weight,
            priority,
            share_ppm: self.share_ppm,
        }
    }

    /// Lets the tenant's processes take turns among themselves, by trial, where no cap binds them; when to look again.
    pub(super) fn put_turns(&mut self, gate: &mut Gate, now_ns: u64) -> u64 {
        let is_open = matches!(gate.state, GateState::Free | GateState::Timed);
        if self.share_ppm != 0 || !self.is_attached {
            return u64::MAX;
        }
        let is_alone = (gate.state == GateState::Free || self.is_watched) && gate.active <= 1;
        let inner = self.workers.step(now_ns, is_alone, gate.state == GateState::Closed);
        gate.state = match inner {
            Inner::Counted if gate.state == GateState::Free => GateState::Timed,
            Inner::Turns | Inner::Trial if is_open => GateState::Turns,
            Inner::Shared if is_open => GateState::SharedTurns,
            _ => gate.state,
        };
        if inner == Inner::Trial { now_ns.saturating_add(tuning::TRIAL_LOOK_NS) } else { u64::MAX }
    }

    /// Writes `gate` to device `row` where it is not what stands there, and keeps its lease alive.
    pub(super) fn put<F: Files>(
        &mut self,
        files: &mut F,
        row: usize,
        gate: Gate,
        now_ns: u64,
    ) -> Result<(), F::Error> {
        let state = match gate.state {
            GateState::Free if self.is_watched => GateState::Timed,
            state => state,
        };
        let gate = Gate { watch: false, state, ..gate };
        let is_closed = gate.state == GateState::Closed;
        let (lease_ns, renew_ns) =
            if is_closed { tuning::CLOSED_LEASE_NS } else { tuning::OPEN_LEASE_NS };
        let lease_ns = now_ns.saturating_add(lease_ns);
        if self.written != Some(gate) {
            let line = GateLine {
                gate: gate.state as u32,
                active: gate.active,
                epoch: gate.turn,
                lease_ns,
                turn_end_ns: gate.turn_end_ns,
                t_open_ns: gate.t_open_ns,
                quantum_ns: gate.quantum_ns,
                horizon_ns: gate.horizon_ns,
                strangers: gate.strangers.into(),
                ..GateLine::default()
            };
            if self.written.is_some_and(|before| before.state == gate.state) {
                files.describe_gate(row, &line)?;
            } else {
                files.set_gate(row, &line)?;
            }
            let expected_ns = self.written.map_or(0, |before| before.t_open_ns);
            if gate.t_open_ns != 0 && gate.t_open_ns != expected_ns {
                // It sleeps; once told, it will be awake by then.
                files.wake(row);
            }
            if is_closed && self.written.is_none_or(|gate| gate.state != GateState::Closed) {
                // Before it was closed: who comes to it at once, before we are back here, waits too.
                self.closed_at_ns = now_ns;
            }
            self.written = Some(gate);
            self.lease_ns = lease_ns;
        } else if gate.state != GateState::Free && now_ns.saturating_add(renew_ns) > self.lease_ns {
            files.renew(row, lease_ns)?;
            self.lease_ns = lease_ns;
        }
        Ok(())
    }
}

/// Weight and priority, of which a tenant's own page may hold anything: no more than can be asked for.
fn claimed(config: &Config) -> (u32, i32) {
    (config.weight.min(MAX_WEIGHT), config.priority.clamp(priority::LOW, priority::HIGH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_claims_no_more_than_can_be_asked_for() {
        let of = |weight, priority| claimed(&Config { weight, priority, ..Config::default() });
        assert_eq!(of(3, priority::NORMAL), (3, priority::NORMAL));
        assert_eq!(of(u32::MAX, i32::MAX), (MAX_WEIGHT, priority::HIGH));
        assert_eq!(of(0, i32::MIN), (0, priority::LOW));
    }
}
