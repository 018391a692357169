//! A simulated node: devices, tenants with their shims, and the daemon that runs the turns.
//!
//! Event by event; every random number comes from one seed. The shim is the simplest one that keeps
//! the contract: it looks at its gates before each launch, bounds the time in flight, enforces its own
//! cap by a virtual clock, says what it wants and when its work will have ended.
#![allow(dead_code, reason = "each test uses its part of the simulator")]

mod card;
mod program;
pub(crate) mod stats;

use divvy_policy::turns::{
    DeviceState, Gate, GateState, Sample, TenantState, TurnMode, Turns, tuning,
};

use card::Card;
use program::Op;
pub(crate) use program::Program;
use stats::Ledger;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SEC: u64 = 1_000_000_000;

/// Device time is charged by so much at a time.
const CHUNK_NS: u64 = 400 * US;
/// Host time of a launch, and of the return from a synchronisation.
const LAUNCH_NS: u64 = 3 * US;
const RETURN_NS: u64 = 4 * US;
/// Host time of the daemon for a step, and for each sample read.
const STEP_CPU_NS: u64 = 5 * US;
const READ_CPU_NS: u64 = US;

/// A tenant as the operator describes it.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) program: Program,
    pub(crate) devices: Vec<usize>,
    pub(crate) weight: u32,
    pub(crate) share_ppm: u32,
    pub(crate) priority: i32,
    pub(crate) latency: bool,
    pub(crate) start_ns: u64,
    pub(crate) stop_ns: u64,
    /// Writes garbage instead of its sample.
    pub(crate) hostile: bool,
    /// Rings the daemon when it launches after idleness.
    pub(crate) doorbell: bool,
    /// A device on which it has a context and no work.
    pub(crate) visits: Option<usize>,
}

impl Tenant {
    pub(crate) fn new(program: Program) -> Self {
        Self {
            program,
            devices: vec![0],
            weight: 0,
            share_ppm: 0,
            priority: 0,
            latency: false,
            start_ns: 0,
            stop_ns: u64::MAX,
            hostile: false,
            doorbell: false,
            visits: None,
        }
    }
    pub(crate) fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }
    pub(crate) fn cap(self, percent: u32) -> Self {
        Self { share_ppm: percent * 10_000, ..self }
    }
    pub(crate) fn priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }
    fn is_attached(&self, device: usize) -> bool {
        self.devices.contains(&device) || self.visits == Some(device)
    }
    pub(crate) fn on(self, devices: &[usize]) -> Self {
        Self { devices: devices.to_vec(), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Until(u64),
    Gate,
    Horizon,
    Sync,
    Never,
}

struct Shim {
    tenant: Tenant,
    run: program::Run,
    pending: Option<Op>,
    wait: Wait,
    /// Estimates of the kernels in flight, oldest first; one entry for each device's copy.
    in_flight: Vec<std::collections::VecDeque<u64>>,
    sample: Sample,
    want_ns: u64,
    /// When it came to its closed gate.
    came_ns: u64,
    closed_ns: u64,
    opens_ns: u64,
    paid_ns: u64,
    arrived_ns: u64,
    alive: bool,
}

/// The node.
pub(crate) struct Node {
    pub(crate) now_ns: u64,
    pub(crate) floor_ppm: u64,
    /// Without a daemon every gate stays open.
    pub(crate) gated: bool,
    /// Latency of a wake-up: uniform between the two.
    pub(crate) wake_ns: (u64, u64),
    pub(crate) ledger: Ledger,
    cards: Vec<Card>,
    shims: Vec<Shim>,
    tenants: Vec<TenantState>,
    devices: Vec<DeviceState>,
    samples: Vec<Sample>,
    gates: Vec<Gate>,
    foreign: Vec<u32>,
    daemon_ns: u64,
    random: u64,
}

impl Node {
    pub(crate) fn new(tenants: &[Tenant], devices: usize, seed: u64) -> Self {
        let rows = tenants.len();
        let shim = |tenant: &Tenant| Shim {
            run: program::Run::new(tenant.program.clone(), tenant.start_ns),
            pending: None,
            wait: Wait::Until(tenant.start_ns),
            in_flight: vec![Default::default(); devices],
            sample: Sample::default(),
            want_ns: 0,
            came_ns: u64::MAX,
            closed_ns: 0,
            opens_ns: 0,
            paid_ns: 0,
            arrived_ns: 0,
            alive: true,
            tenant: tenant.clone(),
        };
        Self {
            now_ns: 1,
            floor_ppm: tuning::FLOOR_PPM,
            gated: true,
            wake_ns: (20 * US, 80 * US),
            ledger: Ledger::new(rows),
            cards: (0..devices).map(|_| Card::new(rows)).collect(),
            shims: tenants.iter().map(shim).collect(),
            tenants: vec![TenantState::default(); rows],
            devices: vec![DeviceState::default(); devices],
            samples: vec![Sample::default(); rows * devices],
            gates: vec![Gate::default(); rows * devices],
            foreign: vec![0; devices],
            daemon_ns: 0,
            random: seed | 1,
        }
    }

    /// Changes a tenant while it runs.
    pub(crate) fn tenant_mut(&mut self, row: usize) -> &mut Tenant {
        &mut self.shims[row].tenant
    }

    pub(crate) fn counters(&self, device: usize) -> divvy_policy::turns::Counters {
        self.devices[device].counters()
    }

    pub(crate) fn gate(&self, row: usize, device: usize) -> Gate {
        self.gates[row * self.cards.len() + device]
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn wake_latency(&mut self) -> u64 {
        let (low, high) = self.wake_ns;
        low + self.random() % (high - low).max(1)
    }

    /// Runs until `end_ns`.
    pub(crate) fn run_until(&mut self, end_ns: u64) {
        loop {
            let card_ns = self.cards.iter().map(Card::next_ns).min().unwrap_or(u64::MAX);
            let shim_ns = self.shims.iter().map(Shim::next_ns).min().unwrap_or(u64::MAX);
            let daemon_ns = if self.gated { self.daemon_ns } else { u64::MAX };
            let next_ns = card_ns.min(shim_ns).min(daemon_ns).max(self.now_ns);
            if next_ns >= end_ns {
                break;
            }
            self.now_ns = next_ns;
            for device in 0..self.cards.len() {
                if let Some(row) = self.cards[device].advance(next_ns) {
                    self.completed(row, device);
                }
            }
            for row in 0..self.shims.len() {
                if self.shims[row].next_ns() <= next_ns {
                    self.thread(row);
                }
            }
            if self.gated && self.daemon_ns <= next_ns {
                self.daemon();
            }
        }
        for card in &mut self.cards {
            let ends = card.next_ns() <= end_ns;
            debug_assert!(!ends || end_ns <= self.now_ns || card.next_ns() == end_ns);
        }
        self.now_ns = self.now_ns.max(end_ns.saturating_sub(1));
        for device in 0..self.cards.len() {
            if let Some(row) = self.cards[device].advance(self.now_ns) {
                self.completed(row, device);
            }
        }
    }

    fn completed(&mut self, row: usize, device: usize) {
        let now_ns = self.now_ns;
        let shim = &mut self.shims[row];
        let kernel_ns = shim.in_flight[device].pop_front().unwrap_or(0);
        let devices = shim.tenant.devices.len() as u64;
        self.ledger.done(row, now_ns, kernel_ns / devices);
        let left = shim.outstanding_ns();
        shim.sample.busy_until_ns = now_ns + left;
        match shim.wait {
            Wait::Sync if left == 0 => shim.wait = Wait::Until(now_ns + RETURN_NS),
            Wait::Horizon => shim.wait = Wait::Until(now_ns + US),
            _ => {}
        }
    }

    fn closed(&self, row: usize) -> bool {
        let width = self.cards.len();
        self.shims[row]
            .tenant
            .devices
            .iter()
            .any(|d| self.gates[row * width + d].state == GateState::Closed)
    }

    fn thread(&mut self, row: usize) {
        let now_ns = self.now_ns;
        if now_ns >= self.shims[row].tenant.stop_ns {
            self.shims[row].alive = false;
            self.shims[row].wait = Wait::Never;
            for card in &mut self.cards {
                card.kill(row);
            }
            return;
        }
        loop {
            let noise = self.random();
            let closed = self.closed(row);
            let horizon_ns = self.gates[row * self.cards.len() + self.shims[row].tenant.devices[0]]
                .horizon_ns
                .max(1);
            let shim = &mut self.shims[row];
            let op = shim.pending.take().unwrap_or_else(|| shim.run.next(now_ns, noise));
            match op {
                Op::Sleep(ns) => {
                    shim.wait = Wait::Until(now_ns + ns.max(1));
                    return;
                }
                Op::Sync if shim.outstanding_ns() > 0 => {
                    shim.wait = Wait::Sync;
                    return;
                }
                Op::Sync => shim.sample.busy_until_ns = now_ns,
                Op::Arrive => shim.arrived_ns = now_ns,
                Op::Answer => self.ledger.answered(row, now_ns - shim.arrived_ns),
                Op::Launch(kernel_ns) => {
                    shim.pending = Some(op);
                    if let Some(until_ns) = shim.cap_closes(now_ns) {
                        shim.sample.closed_until_ns = until_ns;
                        shim.wait = Wait::Until(until_ns);
                        return;
                    }
                    if closed {
                        return shim.comes(now_ns);
                    }
                    if self.gated && shim.is_full(kernel_ns, horizon_ns) {
                        shim.wait = Wait::Horizon;
                        return;
                    }
                    if !self.gated && shim.in_flight[shim.tenant.devices[0]].len() >= 1000 {
                        shim.wait = Wait::Horizon;
                        return;
                    }
                    shim.passes(now_ns);
                    let rang =
                        shim.tenant.doorbell && shim.sample.last_launch_ns + 200 * US < now_ns;
                    shim.sample.launches += 1;
                    shim.pending = Some(Op::Submit(kernel_ns));
                    shim.wait = Wait::Until(now_ns + LAUNCH_NS);
                    if rang {
                        let late_ns = self.wake_latency();
                        self.daemon_ns = self.daemon_ns.min(now_ns + late_ns);
                    }
                    return;
                }
                Op::Submit(kernel_ns) => {
                    let estimate_ns = kernel_ns * (970 + noise % 60) / 1000;
                    shim.launched(now_ns, kernel_ns, estimate_ns.max(1));
                    for device in shim.tenant.devices.clone() {
                        self.cards[device].launch(row, kernel_ns);
                    }
                }
            }
        }
    }

    fn daemon(&mut self) {
        let now_ns = self.now_ns;
        let width = self.cards.len();
        let mut reads = 0;
        for row in 0..self.shims.len() {
            for device in 0..width {
                let index = row * width + device;
                let attached = self.shims[row].alive
                    && now_ns >= self.shims[row].tenant.start_ns
                    && self.shims[row].tenant.is_attached(device);
                if !attached {
                    self.samples[index] = Sample::default();
                } else if self.gates[index].watch || !self.samples[index].attached {
                    reads += 1;
                    let garbage = (self.random(), self.random());
                    self.samples[index] = self.shims[row].read(now_ns, garbage);
                }
            }
        }
        self.ledger.step(now_ns, STEP_CPU_NS + reads * READ_CPU_NS);
        let before = self.gates.clone();
        let next_ns = Turns {
            floor_ppm: self.floor_ppm,
            tenants: &mut self.tenants,
            devices: &mut self.devices,
        }
        .step(now_ns, &self.samples, &self.foreign, &mut self.gates);
        assert!(next_ns > now_ns && next_ns <= now_ns + 50 * MS, "a step is due in time");
        self.check_gates();
        for row in 0..self.shims.len() {
            let closed = self.closed(row);
            let was = (0..width).any(|d| {
                self.shims[row].tenant.devices.contains(&d)
                    && before[row * width + d].state == GateState::Closed
            });
            if closed && !was {
                self.shims[row].closed_ns = now_ns;
                self.shims[row].opens_ns = 0;
            }
            let announced = (0..width).map(|d| self.gates[row * width + d].t_open_ns).max();
            if let Some(opens_ns) = announced.filter(|ns| *ns != 0) {
                self.shims[row].opens_ns = opens_ns;
            }
            if !closed && was && self.shims[row].wait == Wait::Gate {
                // Who was told when it would open is awake around that time.
                let announced_ns = self.shims[row].opens_ns;
                let awake = now_ns.abs_diff(announced_ns) < 150 * US;
                let late_ns = if awake { 2 * US } else { self.wake_latency() };
                self.shims[row].wait = Wait::Until(now_ns + late_ns);
            }
        }
        let late_ns = self.wake_latency() / 2;
        self.daemon_ns = next_ns + late_ns;
    }

    /// What must hold after every step.
    fn check_gates(&self) {
        let width = self.cards.len();
        for device in 0..width {
            let on_device = |row: &usize| self.samples[row * width + device].attached;
            let rows: Vec<usize> = (0..self.shims.len()).filter(on_device).collect();
            let closed = |row: &usize| self.gates[row * width + device].state == GateState::Closed;
            if rows.len() == 1 {
                assert!(!closed(&rows[0]), "a tenant alone is open");
            }
            // A tenant on several devices may keep one of them while it drains on another.
            let mode = self.devices[device].mode();
            if !rows.is_empty() && width == 1 && mode != TurnMode::Drain {
                assert!(!rows.iter().all(closed), "all closed in {mode:?}");
            }
        }
    }
}

impl Shim {
    fn next_ns(&self) -> u64 {
        match self.wait {
            Wait::Until(ns) => ns,
            Wait::Gate => self.want_ns + 20 * MS,
            Wait::Never => u64::MAX,
            Wait::Horizon | Wait::Sync => self.tenant.stop_ns,
        }
    }

    fn outstanding_ns(&self) -> u64 {
        self.in_flight.iter().map(|q| q.iter().sum()).max().unwrap_or(0)
    }

    /// Whether the horizon forbids another kernel. Beside one of higher priority the horizon counts
    /// the kernel that is to come.
    fn is_full(&self, kernel_ns: u64, horizon_ns: u64) -> bool {
        let in_flight_ns = self.outstanding_ns();
        let coming_ns = if horizon_ns < MS { kernel_ns } else { 1 };
        in_flight_ns > 0 && in_flight_ns + coming_ns > horizon_ns
    }

    /// Until when its own cap keeps it from launching.
    fn cap_closes(&mut self, now_ns: u64) -> Option<u64> {
        if self.tenant.share_ppm == 0 {
            return None;
        }
        let credit_ns = 10 * MS * 1_000_000 / u64::from(self.tenant.share_ppm);
        self.paid_ns = self.paid_ns.max(now_ns.saturating_sub(credit_ns));
        let closed = self.sample.closed_until_ns > now_ns || self.paid_ns > now_ns + 2 * MS;
        closed.then_some(self.paid_ns.max(now_ns + 1))
    }

    /// Waits at its closed gate.
    fn comes(&mut self, now_ns: u64) {
        self.want_ns = now_ns;
        self.came_ns = self.came_ns.min(now_ns);
        self.wait = Wait::Gate;
    }

    fn passes(&mut self, now_ns: u64) {
        self.pending = None;
        self.sample.waited_ns += now_ns.saturating_sub(self.came_ns);
        self.came_ns = u64::MAX;
    }

    fn launched(&mut self, now_ns: u64, kernel_ns: u64, estimate_ns: u64) {
        for device in &self.tenant.devices {
            self.in_flight[*device].push_back(kernel_ns);
        }
        if self.tenant.share_ppm != 0 {
            self.paid_ns += estimate_ns * 1_000_000 / u64::from(self.tenant.share_ppm);
        }
        let sample = &mut self.sample;
        sample.busy_until_ns = sample.busy_until_ns.max(now_ns) + estimate_ns;
        sample.last_launch_ns = now_ns;
        sample.used_ns += estimate_ns;
        sample.longest_ns = sample.longest_ns.max(estimate_ns);
    }

    /// What the daemon reads.
    fn read(&self, now_ns: u64, garbage: (u64, u64)) -> Sample {
        let tenant = &self.tenant;
        let kept = Sample {
            attached: true,
            latency: tenant.latency,
            weight: tenant.weight,
            priority: tenant.priority,
            share_ppm: tenant.share_ppm,
            sleeps: self.wait == Wait::Sync,
            used_ns: self.sample.used_ns.next_multiple_of(CHUNK_NS),
            ..self.sample
        };
        // A thread at its gate sees that what it waits for takes longer than expected, and says so.
        let at_gate = matches!(self.wait, Wait::Horizon | Wait::Gate);
        let overdue_ns = if at_gate && self.outstanding_ns() > 0 { now_ns + 50 * US } else { 0 };
        let busy_until_ns = kept.busy_until_ns.max(overdue_ns);
        let kept = Sample { busy_until_ns, ..kept };
        if !tenant.hostile {
            let wants = self.want_ns > self.closed_ns && now_ns < self.want_ns + 50 * MS;
            return Sample { wants, ..kept };
        }
        let (a, b) = garbage;
        Sample {
            wants: a & 1 == 0,
            busy_until_ns: if a & 2 == 0 { b } else { u64::MAX },
            last_launch_ns: b >> (a % 64),
            used_ns: a,
            launches: b,
            sleeps: a & 8 == 0,
            closed_until_ns: if a & 4 == 0 { 0 } else { b >> (a % 31) },
            longest_ns: a,
            ..kept
        }
    }
}
