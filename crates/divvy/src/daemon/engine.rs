//! The scheduling thread: samples of all tenants in, gates out, on absolute deadlines.
//!
//! One plain thread does all of it: looks for tenants, reads their words, steps `divvy_policy::turns`,
//! writes the gates, and sleeps until the scheduler wants to be called again. It takes no lock that it
//! could have to wait for; what the socket shows is left in a [`Shared`] that is only tried.
//!
//! Promises: a tenant that vanishes, is garbled or hostile costs the others nothing but the time to
//! read it; a row is seen empty once before another tenant has it; at the end every gate is opened.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use divvy_abi::{MAX_DEVICES, Uuid};
use divvy_page::now_ns;
use divvy_policy::limit::UuidText;
use divvy_policy::turns::{DeviceState, Gate, GateState, Mode, Sample, TenantState, Tuning, Turns};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use super::adopted::Adopted;
use super::card::{Board, Found};
use super::owned::{Locks, Ownership};
use super::scan::Scanner;
use super::wire::{DeviceView, TenantView, View};
use crate::doctor::Reason;
use crate::metrics::Steady;

/// Time between two rounds of reading limits, devices and processes: while tenants share a device, and
/// while they do not.
const REFRESH_NS: (u64, u64) = (50_000_000, 200_000_000);
/// Time between two looks for tenants.
const SCAN_NS: u64 = 200_000_000;
/// Time between two views for the socket, and two attempts at a device's lock.
const VIEW_NS: u64 = 100_000_000;
const LOCK_NS: u64 = 1_000_000_000;
/// Without a launch for so long, devices are looked at by the leases' period alone.
const QUIET_NS: u64 = 500_000_000;

/// What the scheduling thread and the others share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Set to end the daemon.
    pub(super) stop: AtomicBool,
    /// What the daemon sees.
    pub(super) view: Mutex<View>,
    /// What collectors were told last.
    pub(super) steady: Mutex<Steady>,
}

/// One row of samples.
#[derive(Debug)]
enum Seat {
    Empty,
    /// Left since the last step.
    Left,
    Taken(Box<Adopted>),
}

#[derive(Debug)]
struct Device {
    uuid: Uuid,
    text: String,
    ownership: Ownership,
    tried_ns: u64,
    found: Found,
}

/// The scheduler with all it holds.
#[derive(Debug)]
pub(super) struct Engine {
    scanner: Scanner,
    locks: Locks,
    board: Option<Arc<Mutex<Board>>>,
    shared: Arc<Shared>,
    tuning: Tuning,
    seats: Vec<Seat>,
    devices: Vec<Option<Device>>,
    tenant_states: Vec<TenantState>,
    device_states: Vec<DeviceState>,
    samples: Vec<Sample>,
    gates: Vec<Gate>,
    /// Tenants, devices or what is attached to what may have changed since the last step.
    is_changed: bool,
    wakes: u64,
}

impl Engine {
    pub(super) fn new(
        scanner: Scanner,
        locks: Locks,
        board: Option<Arc<Mutex<Board>>>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            scanner,
            locks,
            board,
            shared,
            tuning: Tuning::default(),
            seats: Vec::new(),
            devices: Vec::new(),
            tenant_states: Vec::new(),
            device_states: Vec::new(),
            samples: Vec::new(),
            gates: Vec::new(),
            is_changed: true,
            wakes: 0,
        }
    }

    /// Runs until told to stop, or until `ends` says so, which is asked now and then with whether
    /// any tenant is in use.
    pub(super) fn run(&mut self, mut ends: impl FnMut(bool) -> bool) {
        // Else the kernel wakes us up to 50 us late.
        let _ = nix::sys::prctl::set_timerslack(1);
        let (mut scan_ns, mut refresh_ns, mut view_ns) = (0, 0, 0);
        while !self.shared.stop.load(Relaxed) {
            let now = now_ns();
            if now >= scan_ns {
                self.scan();
                let in_use = self.tenants().any(|(_, tenant)| tenant.is_in_use());
                if ends(in_use) {
                    break;
                }
                scan_ns = now.saturating_add(SCAN_NS);
                refresh_ns = 0;
            }
            if now >= refresh_ns {
                self.refresh(now);
                let is_shared = self.tenants().count() > 1;
                let period_ns = if is_shared { REFRESH_NS.0 } else { REFRESH_NS.1 };
                refresh_ns = now.saturating_add(period_ns);
            }
            let next_ns = self.step();
            if now >= view_ns {
                self.show();
                view_ns = now.saturating_add(VIEW_NS);
            }
            self.wakes += 1;
            sleep_until(next_ns.min(scan_ns).min(refresh_ns));
        }
        for seat in &mut self.seats {
            if let Seat::Taken(tenant) = seat {
                // Where this fails the leases end.
                let _ = tenant.open_gates();
            }
        }
    }

    fn tenants(&self) -> impl Iterator<Item = (usize, &Adopted)> {
        self.seats.iter().enumerate().filter_map(|(at, seat)| match seat {
            Seat::Taken(tenant) => Some((at, tenant.as_ref())),
            Seat::Empty | Seat::Left => None,
        })
    }

    /// Lets go of tenants that are gone and takes those that have come. A round of [`Self::refresh`]
    /// follows.
    fn scan(&mut self) {
        for seat in &mut self.seats {
            if matches!(seat, Seat::Taken(tenant) if !tenant.is_in_place()) {
                *seat = Seat::Left;
            }
        }
        let known = self.tenants().map(|(_, tenant)| tenant.directory.clone()).collect();
        for tenant in self.scanner.new_tenants(&known) {
            match self.seats.iter().position(|seat| matches!(seat, Seat::Empty)) {
                Some(at) => {
                    if let Some(seat) = self.seats.get_mut(at) {
                        *seat = Seat::Taken(Box::new(tenant));
                    }
                }
                None => {
                    self.seats.push(Seat::Taken(Box::new(tenant)));
                    self.tenant_states.push(TenantState::default());
                }
            }
        }
    }

    /// Reads what changes rarely: limits, devices, processes, locks, foreign processes.
    fn refresh(&mut self, now: u64) {
        self.is_changed = true;
        for seat in &mut self.seats {
            if let Seat::Taken(tenant) = seat
                && let Err(refusal) = tenant.refresh()
            {
                self.scanner.refuse(&tenant.directory, tenant.uid, refusal);
                *seat = Seat::Left;
            }
        }
        let uuids: Vec<Uuid> =
            self.tenants().flat_map(|(_, t)| t.rows.iter().filter_map(|row| row.uuid)).collect();
        for (slot, state) in self.devices.iter_mut().zip(&mut self.device_states) {
            if slot.as_ref().is_some_and(|device| !uuids.contains(&device.uuid)) {
                *slot = None;
                *state = DeviceState::default();
            }
        }
        for uuid in uuids {
            self.add_device(uuid);
        }
        for device in self.devices.iter_mut().flatten() {
            let due = now >= device.tried_ns.saturating_add(LOCK_NS);
            if due && !device.ownership.is_ours() {
                device.ownership = self.locks.take(&device.text);
            }
            if due {
                device.tried_ns = now;
            }
        }
        self.ask_the_card();
    }

    fn add_device(&mut self, uuid: Uuid) {
        if self.devices.iter().flatten().any(|device| device.uuid == uuid)
            || !self.scanner.accepts(&uuid)
        {
            return;
        }
        let text = UuidText(&uuid).to_string();
        let ownership = self.locks.take(&text);
        let device = Device { uuid, text, ownership, tried_ns: now_ns(), found: Found::default() };
        if let Some(slot) = self.devices.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(device);
        } else if self.devices.len() < MAX_DEVICES {
            self.devices.push(Some(device));
            self.device_states.push(DeviceState::default());
        }
        // Else there are more devices than a scheduler divides: the others stay free.
    }

    /// Hands the card's thread what to look for, and takes what it found.
    fn ask_the_card(&mut self) {
        let Some(board) = &self.board else { return };
        let Ok(mut board) = board.try_lock() else { return };
        board.asked.clear();
        for device in self.devices.iter().flatten() {
            let uses = |row: &super::adopted::Row| row.is_attached && row.uuid == Some(device.uuid);
            if self.tenants().filter(|(_, t)| t.rows.iter().any(uses)).count() > 1 {
                board.asked.insert(device.text.clone());
            }
        }
        board.known = match board.asked.is_empty() {
            true => Default::default(),
            false => self.tenants().flat_map(|(_, tenant)| tenant.processes()).collect(),
        };
        for device in self.devices.iter_mut().flatten() {
            device.found = board.found.get(&device.text).copied().unwrap_or_default();
        }
    }

    /// One step of the scheduler; when it wants the next one.
    fn step(&mut self) -> u64 {
        let now = now_ns();
        let width = self.devices.len();
        if self.is_changed {
            // Rows and columns may be others' now: everything is read.
            self.is_changed = false;
            self.samples.clear();
            self.samples.resize(self.seats.len() * width, Sample::default());
            self.gates.clear();
            self.gates.resize(self.seats.len() * width, Gate { watch: true, ..Gate::default() });
        }
        let rows = self.samples.chunks_mut(width.max(1)).zip(self.gates.chunks(width.max(1)));
        for (seat, (samples, gates)) in self.seats.iter_mut().zip(rows) {
            let Seat::Taken(tenant) = seat else { continue };
            for (device, (sample, gate)) in self.devices.iter().zip(samples.iter_mut().zip(gates)) {
                if let Some(at) = row_of(tenant, device.as_ref())
                    && gate.watch
                {
                    *sample = tenant.sample(at, now);
                }
            }
        }
        let is_quiet = self.samples.iter().all(|sample| {
            !sample.wants
                && sample.busy_until_ns <= now
                && !sample.sleeps
                && sample.last_launch_ns.saturating_add(QUIET_NS) < now
        });
        let foreign: Vec<u32> = self.devices.iter().map(|d| foreign(d.as_ref())).collect();
        let mut next_ns = Turns {
            tuning: &self.tuning,
            tenants: &mut self.tenant_states,
            devices: &mut self.device_states,
        }
        .step(now, &self.samples, &foreign, &mut self.gates);
        for seat in self.seats.iter_mut().filter(|seat| matches!(seat, Seat::Left)) {
            *seat = Seat::Empty;
        }
        for (seat, row) in self.seats.iter_mut().zip(self.gates.chunks(width.max(1))) {
            let Seat::Taken(tenant) = seat else { continue };
            let mut done = Ok(());
            for (device, gate) in self.devices.iter().zip(row) {
                if let Some(at) = row_of(tenant, device.as_ref()) {
                    let has_turns = !device.as_ref().is_some_and(|device| device.found.mps);
                    let gate = if has_turns { *gate } else { Gate::default() };
                    done = done.and_then(|()| tenant.put(at, gate, now));
                }
            }
            if let Err(refusal) = done.and_then(|()| tenant.put_any_gate(now)) {
                self.scanner.refuse(&tenant.directory, tenant.uid, refusal);
                *seat = Seat::Left;
                self.is_changed = true;
            }
        }
        let is_closed = |gate: &Gate| gate.state == GateState::Closed;
        if is_quiet && !self.gates.iter().any(is_closed) {
            // Until the next round: a tenant that starts to work is met by an open gate.
            next_ns = now.saturating_add(REFRESH_NS.1);
        }
        next_ns
    }

    /// Leaves a view for the socket, unless somebody reads the last one just now.
    fn show(&mut self) {
        let Ok(mut view) = self.shared.view.try_lock() else { return };
        view.pid = std::process::id();
        view.seen_ns = now_ns();
        view.wakes = self.wakes;
        let devices = self.devices.iter().zip(&self.device_states);
        view.devices =
            devices.filter_map(|(d, state)| Some(device_view(d.as_ref()?, state))).collect();
        view.tenants.clear();
        for (seat, state) in self.seats.iter().zip(&self.tenant_states) {
            if let Seat::Taken(tenant) = seat {
                view.tenants.push(TenantView {
                    directory: tenant.directory.display().to_string(),
                    uid: tenant.uid,
                    held_ns: state.held_ns(),
                    ..TenantView::default()
                });
            }
        }
        view.tenants.extend(self.scanner.refused());
    }
}

/// The row of `tenant` that is of `device`.
fn row_of(tenant: &Adopted, device: Option<&Device>) -> Option<usize> {
    let uuid = device?.uuid;
    tenant.rows.iter().position(|row| row.uuid == Some(uuid))
}

/// Contexts that the scheduler must count on beside its own tenants'.
fn foreign(device: Option<&Device>) -> u32 {
    device.map_or(0, |device| match device.ownership {
        Ownership::Ours(_) => device.found.foreign,
        // At least those of whoever has the lock.
        Ownership::Others(_) | Ownership::Unusable(_) => device.found.foreign.max(1),
    })
}

fn device_view(device: &Device, state: &DeviceState) -> DeviceView {
    let (reason, detail) = match (&device.ownership, device.found) {
        (_, Found { mps: true, .. }) => {
            (Some(Reason::Mps), Some("an MPS daemon serves it: no turns are taken".to_owned()))
        }
        (Ownership::Others(path), _) => (
            Some(Reason::OtherDaemon),
            Some(format!("another daemon divides it: {} is locked", path.display())),
        ),
        (Ownership::Unusable(why), _) => (Some(Reason::DeviceLock), Some(why.clone())),
        (Ownership::Ours(_), Found { foreign: 1.., .. }) => (
            Some(Reason::ForeignProcesses),
            Some(format!("{} process(es) of no tenant use it", device.found.foreign)),
        ),
        (Ownership::Ours(_), _) => (None, None),
    };
    let counters = state.counters();
    let mode = match state.mode() {
        _ if device.found.mps => "mps",
        Mode::Free => "free",
        Mode::Counted => "counted",
        Mode::Lull => "lull",
        Mode::Held => "held",
        Mode::Drain => "drain",
        Mode::Together => "together",
    };
    DeviceView {
        uuid: device.text.clone(),
        mode: mode.to_owned(),
        reason: reason.map(|reason| reason.to_string()),
        detail,
        foreign: device.found.foreign,
        turns: counters.turns,
        handovers: counters.handovers,
        drain_timeouts: counters.drain_timeouts,
        preemptions: counters.preemptions,
        trials: counters.trials,
        together_ns: counters.together_ns,
    }
}

/// Sleeps until `deadline_ns`, a signal, or not at all where it has passed.
pub(crate) fn sleep_until(deadline_ns: u64) {
    let seconds = i64::try_from(deadline_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let rest = i64::try_from(deadline_ns % 1_000_000_000).unwrap_or(0);
    let deadline = TimeSpec::new(seconds, rest);
    let clock = ClockId::CLOCK_MONOTONIC;
    let _ = clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &deadline);
}
