//! The daemon's scheduling thread in the simulated world: the shipped step over the tenants' simulated files.
//!
//! The daemon's own code stands here once more: its looks at limits and processes, its seats, its sleep. Times are those of `divvy`'s engine, and of the thread that asks NVML for strangers.
//!
//! Promises: reading a tenant's lines is one site for each eight of its processes, and each write is one, as
//! each is a system call of the daemon's. NVML's answers are free.

use divvy_abi::Uuid;
use divvy_abi::config::{Config, GateLine, Rule, class, quantity, selector};
use divvy_policy::share;
use divvy_policy::turns::{
    CapEntry, DeviceState, Files, Gate, GateEntry, LINE_WORDS, Round, Sample, Seated, Served,
    TenantState, Tenants,
};

use crate::files::{Row, SimFiles};
use crate::sched::{self, point};
use crate::site::Site;
use crate::world::words;
use crate::world::{self, SimDriver};

/// Time between two glances at limits, devices and processes: while tenants share a device, and while
/// they do not.
const REFRESH_NS: (u64, u64) = (50_000_000, 200_000_000);
/// Time between two looks for tenants.
const SCAN_NS: u64 = 200_000_000;
/// The shortest time between two questions to NVML.
const GAP_NS: u64 = 2_500_000_000;
/// Chores that are due wait so long for the next step.
const CHORE_SLACK_NS: u64 = 5_000_000;

/// Nothing of a simulated file is refused.
pub type Never = std::convert::Infallible;

/// A tenant's files, as the daemon has them open.
#[derive(Debug)]
pub struct Opened {
    tenant: u32,
    words: &'static SimFiles,
    /// Slots and whether their processes live, as of the last look.
    processes: Vec<(usize, bool)>,
}

fn uuid(device: usize) -> Uuid {
    let mut uuid = [0x5a; 16];
    uuid[0] = u8::try_from(device).unwrap_or(u8::MAX);
    uuid
}

impl Opened {
    fn words_of(&self, row: usize, slot: usize) -> Option<[u64; LINE_WORDS]> {
        Some(self.words.row(row)?.line(slot))
    }

    /// Updates which processes live; true if that has changed.
    fn look(&mut self) -> bool {
        point(Site::DaemonRead);
        let now = world::with(|world| world.slots(self.tenant));
        let is_other = now != self.processes;
        self.processes = now;
        is_other
    }

    fn write(&self, row: usize, change: impl FnOnce(&mut GateLine)) {
        point(Site::DaemonWrite);
        let Some(mut line) = self.words.row(row).map(Row::gate_line) else { return };
        change(&mut line);
        let at_ns = sched::now_ns();
        world::with(|world| words::open_or_close(world, self.tenant, row, &line, at_ns));
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        let Some(plan) = world::with(|world| {
            let one = world.tenant(self.tenant)?;
            Some((one.plan.clone(), one.paused, one.any_gate, one.changes))
        }) else {
            return config;
        };
        let (plan, paused, any_gate, changes) = plan;
        if plan.share_ppm != 0 {
            config.compute_rule_count = 1;
            config.compute_rules[0] = Rule {
                selector: selector::ALL,
                index: 0,
                uuid: Uuid::default(),
                quantity: quantity::PPM,
                reserved: 0,
                value: plan.share_ppm,
            };
        }
        config.epoch = 2 + 2 * changes;
        config.weight = plan.weight;
        config.priority = plan.priority;
        config.class = if plan.is_latency { class::LATENCY } else { class::NORMAL };
        config.paused = u32::from(paused);
        config.any_gate = u32::from(any_gate);
        for (row, gate) in config.gates.iter_mut().enumerate() {
            *gate = self.words.row(row).map(Row::gate_line).unwrap_or_default();
        }
        config
    }
}

impl Files for Opened {
    type Error = Never;

    fn processes(&self) -> impl Iterator<Item = (usize, bool)> + Clone {
        self.processes.iter().copied()
    }

    fn gates(
        &self,
        row: usize,
        slots: impl Iterator<Item = usize>,
        mut each: impl FnMut(usize, GateEntry),
    ) -> Option<CapEntry> {
        point(Site::DaemonRead);
        let tenant = self.words_of(row, 0)?;
        each(0, GateEntry::of_slot(0, &tenant));
        for (nth, slot) in slots.enumerate() {
            // One reading has eight lines.
            if nth % 8 == 7 {
                point(Site::DaemonRead);
            }
            if let Some(words) = self.words_of(row, slot) {
                each(slot, GateEntry::of(&words));
            }
        }
        Some(CapEntry::of(&tenant))
    }

    fn holds_any(&self, row: usize, mut slots: impl Iterator<Item = usize>) -> bool {
        point(Site::DaemonRead);
        let of = |slot: usize| world::with(|world| world.has_context(self.tenant, slot, row));
        slots.any(of)
    }

    fn read(&self) -> Result<Config, Never> {
        point(Site::DaemonRead);
        Ok(self.config())
    }

    fn set_gate(&mut self, row: usize, line: &GateLine) -> Result<(), Never> {
        // Two writes: what describes it, then its state.
        self.describe_gate(row, line)?;
        self.write(row, |there| there.gate = line.gate);
        Ok(())
    }

    fn describe_gate(&mut self, row: usize, line: &GateLine) -> Result<(), Never> {
        self.write(row, |there| *there = GateLine { gate: there.gate, ..*line });
        Ok(())
    }

    fn renew(&mut self, row: usize, lease_ns: u64) -> Result<(), Never> {
        self.write(row, |there| there.lease_ns = lease_ns);
        Ok(())
    }

    fn wake(&mut self, row: usize) {
        point(Site::DaemonWrite);
        let at_ns = sched::now_ns();
        world::with(|world| words::wake(world, self.tenant, row, at_ns));
    }

    fn raise_any_gate(&mut self) -> Result<(), Never> {
        point(Site::DaemonWrite);
        world::with(|world| world.set_any_gate(self.tenant, true));
        Ok(())
    }

    fn lower_any_gate(&mut self) -> Result<Option<Config>, Never> {
        point(Site::DaemonWrite);
        let is_needed = share::needs_gate(&self.config());
        world::with(|world| world.set_any_gate(self.tenant, is_needed));
        Ok(Some(self.config()))
    }
}

/// The daemon's tenants: all of the world's but strangers, in seats by their numbers.
struct Seats(Vec<Option<Served<Opened>>>);

impl Tenants for Seats {
    type Files = Opened;

    fn get(&self, seat: usize) -> Option<&Served<Opened>> {
        self.0.get(seat)?.as_ref()
    }
    fn get_mut(&mut self, seat: usize) -> Option<&mut Served<Opened>> {
        self.0.get_mut(seat)?.as_mut()
    }
    fn vacate(&mut self, _: usize) -> bool {
        false
    }
    fn refuse(&mut self, _: usize, never: Never) {
        match never {}
    }
}

/// The scheduling thread, from its beginning on.
pub fn run(driver: SimDriver) {
    let floor_ppm = world::with(|world| world.floor_ppm);
    let (devices, names) = world::with(|world| (world.devices(), world.served()));
    let open = |(tenant, words): (u32, &'static SimFiles)| {
        Served::take(Opened { tenant, words, processes: Vec::new() }).ok()
    };
    let served: Vec<_> = names.into_iter().map(|name| name.and_then(open)).collect();
    let rows = served.len() * devices;
    let mut seats = Seats(served);
    let mut tenants: Vec<_> = seats.0.iter().map(|_| TenantState::default()).collect();
    let mut states: Vec<_> = (0..devices).map(|_| DeviceState::default()).collect();
    let (mut samples, mut gates) = (vec![Sample::default(); rows], vec![Gate::default(); rows]);
    let (mut before, mut foreign) = (vec![Gate::default(); rows], vec![0; devices]);
    let mut strangers = Strangers::default();
    let mut seated = Vec::new();
    let (mut scan_ns, mut refresh_ns, mut leases_ns, mut is_changed) = (0, 0, 0, true);
    loop {
        point(Site::DaemonStep);
        let now_ns = driver.now_ns();
        if is_changed {
            seated.clear();
            for seat in 0..seats.0.len() {
                for device in 0..devices {
                    let row = seats.get(seat).and_then(|one| one.row_of(&uuid(device)));
                    let at = seat * devices + device;
                    seated.extend(row.map(|row| Seated { seat, row, at, mps: false }));
                }
            }
        }
        let next_ns = Round {
            floor_ppm,
            tenants: &mut tenants,
            devices: &mut states,
            seated: &seated,
            foreign: &foreign,
            samples: &mut samples,
            gates: &mut gates,
            before: &mut before,
            leases_ns: &mut leases_ns,
        }
        .step(&mut seats, now_ns, std::mem::take(&mut is_changed));
        let trials = states.iter().map(|state| state.counters().trials).sum();
        world::with(|world| world.trials = trials);
        if now_ns >= scan_ns.min(refresh_ns) {
            let is_whole = now_ns >= scan_ns;
            for one in seats.0.iter_mut().flatten() {
                is_changed |= refresh(one, devices, is_whole);
            }
            is_changed |= strangers.look(&mut foreign, now_ns);
            let is_shared = seats.0.iter().flatten().count() > 1;
            refresh_ns = now_ns + if is_shared { REFRESH_NS.0 } else { REFRESH_NS.1 };
            if is_whole {
                scan_ns = now_ns + SCAN_NS;
            }
        }
        if !is_changed {
            let chores_ns = scan_ns.min(refresh_ns);
            let may_wait = next_ns <= chores_ns.saturating_add(CHORE_SLACK_NS);
            driver.sleep_until(if may_wait { next_ns } else { chores_ns });
        }
    }
}

/// When NVML is asked for processes of no tenant.
#[derive(Default)]
struct Strangers {
    there: Vec<u32>,
    still_since_ns: u64,
    asked_ns: u64,
}

impl Strangers {
    /// Whether there are others than before.
    fn look(&mut self, foreign: &mut Vec<u32>, now_ns: u64) -> bool {
        let devices = foreign.len();
        let there = |at| world::with(|world| world.strangers(at, sched::now_ns()));
        let there = (0..devices).map(there).collect();
        if there != self.there {
            (self.there, self.still_since_ns) = (there, now_ns);
        }
        let unnoticed_ns = world::with(|world| world.unnoticed_ns);
        let is_still = now_ns.saturating_sub(self.still_since_ns) >= unnoticed_ns;
        let is_due = self.asked_ns == 0 || now_ns.saturating_sub(self.asked_ns) >= GAP_NS;
        let is_other = is_still && is_due && *foreign != self.there;
        if is_other {
            self.asked_ns = now_ns;
            foreign.clone_from(&self.there);
        }
        is_other
    }
}

/// Reads a tenant's limits, processes and contexts anew; whether anything is not as it was.
fn refresh(one: &mut Served<Opened>, devices: usize, is_whole: bool) -> bool {
    let Ok(config) = one.files.read();
    let mut is_changed = one.take_limits(config);
    let is_other = one.files.look() || one.row_of(&uuid(0)).is_none();
    if is_changed || is_other {
        one.name_rows((0..devices).map(|device| Some((uuid(device), None))));
    }
    is_changed |= one.find_contexts(is_other || is_whole) || is_other;
    is_changed
}
