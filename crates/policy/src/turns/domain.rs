//! Domains: devices whose tenants must take their turns together, and the state of each.
//!
//! Two devices are of one domain when a tenant competes on both. The domain's state is kept with its
//! lowest device, the root. A device with fewer than two tenants is in no domain.
//!
//! Promises: a change of a domain's devices or tenants forgets what was measured under turns, and
//! nothing else: who was ahead of the others stays ahead by as much, in whatever domain it is, so that
//! nobody loses a debt by opening or closing a context.

use divvy_abi::MAX_DEVICES;

use super::device_set::bit;
use super::gate::{Gate, GateState};
use super::tenant::TenantState;
use super::tuning;

/// Number of a turn that nobody has.
const NO_TURN: u64 = u64::MAX;

/// How a device's time is divided now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnMode {
    /// At most one tenant: nothing to divide.
    #[default]
    Free,
    /// Contexts of others use it too: everybody is open and counts.
    Counted,
    /// Several tenants, at most one of them at work: all are open.
    Lull,
    /// One holder.
    Held,
    /// Between two holders.
    Drain,
    /// All are open because nobody loses by it.
    Together,
}

/// Counts of events on a device since its state was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns begun.
    pub turns: u64,
    /// Turns that went to another tenant than the one before.
    pub handovers: u64,
    /// Drains given up after [`tuning::DRAIN_TIMEOUT_NS`].
    pub drain_timeouts: u64,
    /// Turns ended early for a tenant of higher priority, for a piece of the floor, or for one far behind.
    pub preemptions: u64,
    /// Trials of "everybody open".
    pub trials: u64,
    /// Time spent with everybody open because nobody loses by it.
    pub together_ns: u64,
}

/// State of one device in the scheduler. Starts as `default()`.
#[derive(Clone, Debug, Default)]
pub struct DeviceState {
    pub(super) mode: TurnMode,
    pub(super) counters: Counters,
    /// Devices of the domain; 0 outside one.
    pub(super) group: u32,
    /// Hash of the domain's members, to notice a change.
    signature: u64,
    pub(super) last_ns: u64,
    pub(super) since_ns: u64,
    /// Its devices or tenants are others than at the last step.
    pub(super) is_another: bool,
    pub(super) turn: u64,
    pub(super) turn_end_ns: u64,
    /// When those who are next are expected to have their turn.
    pub(super) opens_ns: u64,
    /// Virtual time that the holders of the current round are taken to.
    pub(super) round_ns: u64,
    /// Moving mean of the time a device stood drained before the next gate opened.
    pub(super) bubble_ns: u64,
    /// Mean turn beside steppers; 0 where no stepper is at work.
    pub(super) step_turn_ns: u64,
    pub(super) overlap_since_ns: u64,
    /// Steps in the running turn.
    pub(super) looks: u32,
    /// Time of the next step with fresh samples of all tenants.
    pub(super) full_step_ns: u64,
    /// The next step is *light*: it needs fresh samples of idle tenants that go first alone.
    pub(super) light_step: bool,
    /// Time between light steps; 0 when none are needed.
    pub(super) light_poll_ns: u64,
    /// Start of the running measurement, under turns or together.
    pub(super) window_ns: u64,
    /// How many were active when it began.
    pub(super) window_active: usize,
    pub(super) next_trial_ns: u64,
    pub(super) retrial_ns: u64,
    /// The running "together" is a trial.
    pub(super) trial: bool,
}

impl DeviceState {
    /// How the device's time is divided now.
    pub fn mode(&self) -> TurnMode {
        self.mode
    }

    /// The counts so far. A domain counts on its lowest device.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Mean length of a turn.
    pub(super) fn quantum_ns(&self) -> u64 {
        let full_ns = self.full_quantum_ns();
        if self.has_steps() { full_ns.min(self.step_turn_ns) } else { full_ns }
    }

    /// Whether a stepper is at work, of whose priority none is higher.
    pub(super) fn has_steps(&self) -> bool {
        self.step_turn_ns != 0
    }

    /// Mean length of a turn without steppers: long enough that takeovers cost little.
    pub(super) fn full_quantum_ns(&self) -> u64 {
        let handover_ns = tuning::TAKEOVER_NS.saturating_add(self.bubble_ns);
        let long_enough = handover_ns.saturating_mul(1_000_000) / tuning::TAKEOVER_COST_PPM;
        long_enough.clamp(tuning::MIN_QUANTUM_NS, tuning::MAX_QUANTUM_NS)
    }

    pub(super) fn root(&self) -> usize {
        self.group.trailing_zeros() as usize
    }

    pub(super) fn is_root(&self, device: usize) -> bool {
        self.root() == device
    }
}

/// One domain for the time of a step.
pub(super) struct Domain<'a> {
    pub(super) floor_ppm: u64,
    pub(super) now_ns: u64,
    pub(super) state: &'a mut DeviceState,
    pub(super) tenants: &'a mut [TenantState],
}

impl Domain<'_> {
    /// It takes its turns here.
    pub(super) fn is_member(&self, tenant: &TenantState) -> bool {
        tenant.seats & self.state.group != 0
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &TenantState> {
        self.tenants.iter().filter(|t| self.is_member(t))
    }

    pub(super) fn members_mut(&mut self) -> impl Iterator<Item = &mut TenantState> {
        let group = self.state.group;
        self.tenants.iter_mut().filter(move |t| t.seats & group != 0)
    }

    pub(super) fn demanders(&self) -> impl Iterator<Item = &TenantState> {
        self.members().filter(|t| t.demands(self.now_ns))
    }
}

/// Finds the domains anew, and resets those whose devices or tenants have changed.
pub(super) fn regroup(
    now_ns: u64,
    devices: &mut [DeviceState],
    tenants: &mut [TenantState],
    foreign: &[u32],
) {
    let width = devices.len().min(MAX_DEVICES);
    let mut contended = 0_u32;
    for device in 0..width {
        let Some(state) = devices.get_mut(device) else { continue };
        let users =
            tenants.iter().filter(|t| !t.seen.paused && t.seen.attached & bit(device) != 0).count();
        if foreign.get(device).copied().unwrap_or(0) > 0 && users > 0 {
            state.mode = TurnMode::Counted;
        } else if users < 2 {
            state.mode = TurnMode::Free;
        } else {
            contended |= bit(device);
            continue;
        }
        state.group = 0;
    }
    let mut groups = [0_u32; MAX_DEVICES];
    for (device, group) in groups.iter_mut().enumerate() {
        *group = bit(device) & contended;
    }
    for tenant in tenants.iter_mut() {
        tenant.seats = tenant.seen.competes_on() & contended;
        if tenant.seats == 0 {
            tenant.seat.leave();
        }
        let joined = groups.iter().filter(|g| **g & tenant.seats != 0).fold(0, |all, g| all | *g);
        for group in groups.iter_mut().filter(|g| **g & joined != 0) {
            *group = joined;
        }
    }
    let before: [Standing; MAX_DEVICES] =
        core::array::from_fn(|device| devices.get(device).map(Standing::of).unwrap_or_default());
    for (device, state) in devices.iter_mut().enumerate().take(width) {
        let group = groups.get(device).copied().unwrap_or(0);
        if group == 0 {
            continue;
        }
        if group.trailing_zeros() as usize != device {
            state.group = group;
            state.mode = TurnMode::Lull;
            continue;
        }
        let signature = tenants
            .iter()
            .zip(0_u64..)
            .filter(|(t, _)| t.seats & group != 0)
            .fold(u64::from(group), |all, (t, row)| mix(all, row, t.seats));
        if signature == state.signature && state.group == group {
            continue;
        }
        if state.group != group {
            Standing::of_group(&before, group).hand_to(state);
        }
        let is_another = state.group != group;
        (state.group, state.signature) = (group, signature);
        reset(now_ns, state, tenants, is_another);
    }
}

/// State of a device's turns that goes on when its domain becomes another.
#[derive(Clone, Copy, Default)]
struct Standing {
    mode: TurnMode,
    group: u32,
    last_ns: u64,
    since_ns: u64,
    turn: u64,
    turn_end_ns: u64,
    opens_ns: u64,
    round_ns: u64,
    bubble_ns: u64,
}

impl Standing {
    fn of(state: &DeviceState) -> Self {
        Self {
            mode: state.mode,
            group: state.group,
            last_ns: state.last_ns,
            since_ns: state.since_ns,
            turn: state.turn,
            turn_end_ns: state.turn_end_ns,
            opens_ns: state.opens_ns,
            round_ns: state.round_ns,
            bubble_ns: state.bubble_ns,
        }
    }

    fn is_in_turns(self) -> bool {
        matches!(self.mode, TurnMode::Held | TurnMode::Drain)
    }

    /// State of the domain that `group` continues: one of those its devices were in, and one in turns if there
    /// was one.
    fn of_group(before: &[Self; MAX_DEVICES], group: u32) -> Self {
        let roots =
            (0..MAX_DEVICES).filter(|device| group & bit(*device) != 0).filter_map(|device| {
                let own = before.get(device)?;
                before
                    .get(own.group.trailing_zeros() as usize)
                    .filter(|root| root.group == own.group)
            });
        let found = roots.clone().find(|root| root.is_in_turns()).or_else(|| roots.clone().next());
        // No turn of the new domain has the number of one that a tenant may still have marks of.
        let turn = roots.map(|root| root.turn).max().unwrap_or(0);
        Self { turn: turn.wrapping_add(1), ..found.copied().unwrap_or_default() }
    }

    /// Makes it that of the domain's root.
    fn hand_to(self, state: &mut DeviceState) {
        state.mode = self.mode;
        state.last_ns = self.last_ns;
        state.since_ns = self.since_ns;
        state.turn = self.turn.max(state.turn.wrapping_add(1));
        state.turn_end_ns = self.turn_end_ns;
        state.opens_ns = self.opens_ns;
        state.round_ns = self.round_ns;
        state.bubble_ns = self.bubble_ns;
    }
}

/// Starts the measurements of a domain over; its turns go on, and everybody keeps their place.
fn reset(now_ns: u64, state: &mut DeviceState, tenants: &mut [TenantState], is_another: bool) {
    let group = state.group;
    state.window_ns = now_ns;
    // A change gives a trial sooner, but not one after the other.
    state.next_trial_ns = state.next_trial_ns.min(now_ns.saturating_add(tuning::RETRIAL_NS));
    state.retrial_ns = 0;
    state.trial = false;
    let round_ns = state.round_ns;
    for tenant in tenants.iter_mut().filter(|t| t.seats & group != 0) {
        tenant.tried.from_ns = tenant.used_ns;
        tenant.tried.from_launches = tenant.seen.launches;
        let times = (now_ns, tuning::LAG_KEPT_NS);
        tenant.place.enter(times, round_ns, tenant.seen.priority, is_another);
    }
    if matches!(state.mode, TurnMode::Held | TurnMode::Drain) {
        return;
    }
    state.mode = TurnMode::Lull;
    state.is_another = true;
    state.since_ns = now_ns;
    state.last_ns = now_ns;
    state.overlap_since_ns = 0;
    for tenant in tenants.iter_mut().filter(|t| t.seats & group != 0) {
        tenant.open_gate(now_ns);
        tenant.seat.forgo_turn();
    }
}

fn mix(all: u64, row: u64, seats: u32) -> u64 {
    (all ^ row.wrapping_add(1) ^ (u64::from(seats) << 32))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

/// The gate of a tenant on a device of a domain.
pub(super) fn gate(
    now_ns: u64,
    root: &DeviceState,
    tenants: &[TenantState],
    tenant: &TenantState,
    device: u32,
) -> Gate {
    let mut active = 0_u32;
    let mut highest = i32::MIN;
    let mut latency_beside = false;
    // When the first of those of a higher priority may launch.
    let mut comes_ns = u64::MAX;
    for other in tenants.iter().filter(|t| t.seats & device != 0) {
        // A tenant that may still be launching is seen at work at the next look.
        let works_on = other.works_on(now_ns) || other.seat.lingers() && other.busy(now_ns);
        let may_run = other.seat.holds() || works_on || other.seat.is_open() && other.works(now_ns);
        active = active.saturating_add(u32::from(may_run));
        highest = highest.max(other.seen.priority);
        latency_beside |= other.seen.latency;
        if other.seen.priority > tenant.seen.priority {
            comes_ns = comes_ns.min(other.seen.cap_opens_ns(now_ns));
        }
    }
    let horizon_ns = if tenant.seen.priority < highest {
        // Beyond what may be in flight there is a launch.
        let closed_ns = comes_ns.saturating_sub(now_ns);
        low_horizon_ns(closed_ns.saturating_sub(tenant.seen.longest_ns))
    } else if latency_beside && !tenant.seen.latency {
        tuning::LATENCY_HORIZON_NS
    } else {
        tuning::HORIZON_NS
    };
    let t_open_ns = if tenant.next { root.opens_ns } else { 0 };
    // A turn that nobody waits for the end of has none.
    let is_waited_for = tenants.iter().any(|t| t.seats & device != 0 && t.next);
    // A closed gate holds no field that changes with others' turns: each change is a write.
    let (state, active, turn) = match tenant.seat.is_open() {
        true => (GateState::Timed, active.max(1), root.turn),
        // While that is waited for the device is still its own.
        false if tenant.seat.lingers() && root.mode == TurnMode::Drain => {
            (GateState::Closed, 1, root.turn)
        }
        false => (GateState::Closed, 1, NO_TURN),
    };
    // A step may end so much later.
    let turn_end_ns = root.turn_end_ns.saturating_add(tenant.steps.half_ns());
    // A waiting tenant goes on waiting, as a rule.
    let may_wait =
        root.mode == TurnMode::Drain || !root.looks.is_multiple_of(tuning::WAITING_EVERY);
    let waits = !tenant.seat.is_open() && !tenant.seat.lingers() && tenant.demands(now_ns);
    let is_known = may_wait && waits && !tenant.may_let_go();
    Gate {
        state,
        active,
        strangers: 0,
        turn,
        turn_end_ns: if tenant.seat.holds() && is_waited_for { turn_end_ns } else { 0 },
        quantum_ns: root.full_quantum_ns() / 1_000_000 * 1_000_000,
        horizon_ns,
        t_open_ns,
        watch: if root.light_step { goes_first(tenant, highest) } else { !is_known },
    }
}

/// Horizon of a tenant that gives way to others whose caps keep them closed for `closed_ns`: in halves of the usual
/// one, since each change is a write.
fn low_horizon_ns(closed_ns: u64) -> u64 {
    let halves = (0..u64::BITS).map(|times| tuning::HORIZON_NS >> times);
    let fitting = halves.take_while(|ns| *ns > tuning::LOW_HORIZON_NS).find(|ns| *ns <= closed_ns);
    fitting.unwrap_or(tuning::LOW_HORIZON_NS)
}

/// Tenants that are looked at more often than the others while they are idle.
pub(super) fn goes_first(tenant: &TenantState, highest: i32) -> bool {
    tenant.seen.latency || tenant.seen.priority >= highest
}
