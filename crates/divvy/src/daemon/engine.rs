//! The scheduling thread: samples of all tenants in, gates out, on absolute deadlines.
//!
//! One plain thread does all of it: looks for tenants, takes the steps of `divvy_policy::turns`, which
//! read their words and write their gates, and sleeps until the scheduler wants to be called again. It
//! takes no lock that it could have to wait for; what the socket shows is left in a [`Shared`] that is only
//! tried.
//!
//! A step is [`Round`]'s. Tenants that came, went or changed are chores between steps, done after the gates that
//! processes wait for.
//!
//! Promises: a tenant that vanishes, is garbled or hostile costs the others nothing but the time to
//! read it; a row is seen empty once before another tenant has it, of whom nothing is known then; at the end every gate is opened; a
//! step allocates nothing unless tenants or devices have changed.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use divvy_abi::{MAX_DEVICES, Uuid};
use divvy_policy::residence::DeviceSpan;
use divvy_policy::turns::{
    DeviceLine, DeviceState, Gate, REST_NS, Round, Sample, Seated, TenantState, tuning,
};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use super::adopted::{Adopted, Hand, ReadDepth};
use super::card::CardNews;
use super::device::ServedDevice;
use super::host_room::HostRoom;
use super::memory::MemoryBounds;
use super::memory_news::MemoryNews;
use super::memory_row::row_bit;
use super::owned::Locks;
use super::scan::{self, Scanner};
use super::seat::{self, Seat, Seats};
use super::seen::{Seen, Shared};
use crate::defaults::values::Floor;
use crate::log::line::Event;
use crate::pause::pause;
use crate::wire::{Schedule, TenantMemoryView, TenantView};

/// Time between two glances at limits, devices and processes: while tenants share a device, and while
/// they do not.
const REFRESH_NS: (u64, u64) = (50_000_000, REST_NS);
/// Time between two looks for tenants, and at all that is theirs.
const SCAN_NS: u64 = 200_000_000;
/// Chores that are due wait so long for the next step, which wakes us anyway.
const CHORE_SLACK_NS: u64 = 5_000_000;
/// Time between two views for the socket.
const VIEW_NS: u64 = 100_000_000;

/// The scheduler with all it holds.
#[derive(Debug)]
pub(super) struct Engine {
    scanner: Scanner,
    locks: Locks,
    news: Option<Arc<Mutex<CardNews>>>,
    shared: Arc<Shared>,
    floor_ppm: u64,
    seats: Vec<Seat>,
    devices: Vec<Option<ServedDevice>>,
    /// Bounds of the memory that can move, on each.
    bounds: MemoryBounds,
    /// Room on the host for what may have to leave any of them.
    host: HostRoom,
    tenant_states: Vec<TenantState>,
    device_states: Vec<DeviceState>,
    samples: Vec<Sample>,
    gates: Vec<Gate>,
    /// The gates of the step before.
    before: Vec<Gate>,
    seated: Vec<Seated>,
    foreign: Vec<u32>,
    /// Tenants, devices or what is attached to what may have changed since the last step.
    is_changed: bool,
    /// The same since the card's thread was told.
    is_news: bool,
    leases_ns: u64,
    /// No turns are given, as if there were no daemon.
    is_off: bool,
    wakes: u64,
    /// Tenants that have come so far.
    arrived: u64,
    /// News of tenants' memory that the log has already.
    memory_news: MemoryNews,
}

impl Engine {
    pub(super) fn new(
        scanner: Scanner,
        locks: Locks,
        news: Option<Arc<Mutex<CardNews>>>,
        shared: Arc<Shared>,
        (bounds, host_bytes): (MemoryBounds, Option<u64>),
        floor: Option<Floor>,
    ) -> Self {
        Self {
            scanner,
            locks,
            news,
            shared,
            floor_ppm: floor.map_or(tuning::FLOOR_PPM, |floor| floor.ppm),
            seats: Vec::new(),
            devices: Vec::new(),
            bounds,
            host: HostRoom::new(host_bytes),
            tenant_states: Vec::new(),
            device_states: Vec::new(),
            samples: Vec::new(),
            gates: Vec::new(),
            before: Vec::new(),
            seated: Vec::new(),
            foreign: Vec::new(),
            is_changed: true,
            is_news: true,
            leases_ns: 0,
            is_off: false,
            wakes: 0,
            arrived: 0,
            memory_news: MemoryNews::default(),
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
            let next_ns = self.step(now);
            self.shared.stepped_ns.store(now, Relaxed);
            if now >= scan_ns {
                self.scan();
                let in_use = self.tenants().any(|tenant| tenant.is_in_use());
                if ends(in_use) {
                    break;
                }
            }
            if now >= scan_ns.min(refresh_ns) {
                self.refresh(
                    now,
                    if now >= scan_ns { ReadDepth::Whole } else { ReadDepth::Glance },
                );
                let is_shared = self.tenants().count() > 1;
                let period_ns = if is_shared { REFRESH_NS.0 } else { REFRESH_NS.1 };
                refresh_ns = now.saturating_add(period_ns);
            }
            if now >= scan_ns {
                scan_ns = now.saturating_add(SCAN_NS);
            }
            self.wakes += 1;
            // A change counts at once, and is shown when it does.
            if !self.is_changed {
                if now >= view_ns {
                    self.show();
                    view_ns = now.saturating_add(VIEW_NS);
                }
                let chores_ns = scan_ns.min(refresh_ns);
                let may_wait = next_ns <= chores_ns.saturating_add(CHORE_SLACK_NS);
                sleep_until(if may_wait { next_ns } else { chores_ns });
            }
        }
        self.let_all_run();
    }

    /// Opens all gates and takes all orders back.
    fn let_all_run(&mut self) {
        for device in self.devices.iter_mut().flatten() {
            device.memory.end(&mut self.seats);
        }
        for seat in &mut self.seats {
            if let Seat::Taken(tenant, _) = seat {
                // Where this fails the leases end.
                let _ = tenant.served.open_gates();
            }
        }
    }

    /// Takes note of whether turns are given; true if none are, and nothing is to be decided.
    fn is_idle(&mut self) -> bool {
        let is_off = self.shared.is_off.load(Relaxed);
        if is_off && !self.is_off {
            self.let_all_run();
        }
        // Changes of the meantime count once there are turns again.
        self.is_changed = !is_off && (self.is_changed || self.is_off);
        self.is_off = is_off;
        is_off
    }

    fn tenants(&self) -> impl Iterator<Item = &Adopted> {
        self.seats.iter().filter_map(Seat::tenant)
    }

    /// Lets go of tenants that are gone and takes those that have come. A round of [`Self::refresh`]
    /// follows.
    fn scan(&mut self) {
        // With other limits than those that are open it is another tenant.
        let journal = Arc::clone(&self.shared.journal);
        let ended = |tenant: &Adopted| journal.tell(tenant.subject().line(Event::Ended));
        let mut is_gone = seat::keep(&mut self.seats, Hand::has_its_config, ended);
        let known = self.tenants().map(|tenant| Arc::clone(tenant.hand()));
        let known = known.map(|hand| (hand.dir.identity(), hand)).collect();
        let found = self.scanner.look(&known);
        let is_there = |hand: &Hand| found.in_place.contains(&hand.dir.identity());
        is_gone |= seat::keep(&mut self.seats, is_there, ended);
        self.is_changed |= is_gone;
        self.is_news |= is_gone;
        for arrival in found.arrivals {
            (self.is_changed, self.is_news) = (true, true);
            if let Some(uid) = arrival.instead {
                self.let_go_of_one(uid);
            }
            self.arrived += 1;
            journal.tell(arrival.tenant.subject().line(Event::Adopted));
            let taken = Seat::Taken(Box::new(arrival.tenant), self.arrived);
            match self.seats.iter().position(|seat| matches!(seat, Seat::Empty)) {
                Some(at) => {
                    if let Some(seat) = self.seats.get_mut(at) {
                        *seat = taken;
                    }
                }
                None => {
                    self.seats.push(taken);
                    self.tenant_states.push(TenantState::default());
                }
            }
        }
        seat::share_slots(&mut self.seats, self.scanner.serves_all());
    }

    /// Has one of a user's tenants leave for another's.
    fn let_go_of_one(&mut self, uid: u32) {
        let Some((mut tenant, others)) = seat::leave_one(&mut self.seats, uid) else { return };
        // Where this fails the leases end.
        let _ = tenant.served.open_gates();
        let Hand { path, dir, .. } = tenant.hand().as_ref();
        self.scanner.refuse(path, dir.identity(), uid, scan::too_many(others));
    }

    /// Reads what changes rarely: limits, devices, processes, locks, foreign processes.
    fn refresh(&mut self, now: u64, depth: ReadDepth) {
        let mut is_changed = self.is_changed;
        for seat in &mut self.seats {
            let Seat::Taken(tenant, _) = seat else { continue };
            let refreshed = tenant.refresh(depth);
            if tenant.take_change() {
                self.shared.journal.count_change();
            }
            match refreshed {
                Ok(is_other) => is_changed |= is_other,
                Err(refusal) => {
                    seat.refuse(&mut self.scanner, refusal);
                    is_changed = true;
                }
            }
        }
        if is_changed {
            (self.is_changed, self.is_news) = (true, true);
            self.find_devices();
        }
        for device in self.devices.iter_mut().flatten() {
            let was_ours = device.has_lock();
            self.is_changed |= device.try_lock(&self.locks, now);
            if was_ours && !device.has_lock() {
                self.shared.journal.tell(device.lost());
            }
        }
        self.ask_the_card();
    }

    /// Lets go of devices that no tenant names any more and takes those that one has come to name.
    fn find_devices(&mut self) {
        let uuids: Vec<Uuid> =
            self.tenants().flat_map(|t| t.served.lines().iter().filter_map(|l| l.uuid)).collect();
        for (slot, state) in self.devices.iter_mut().zip(&mut self.device_states) {
            if let Some(device) = slot.as_ref().filter(|device| !uuids.contains(&device.uuid)) {
                self.host.forget(&device.uuid);
                *slot = None;
                *state = DeviceState::default();
            }
        }
        for uuid in uuids {
            self.add_device(uuid);
        }
    }

    fn add_device(&mut self, uuid: Uuid) {
        if self.devices.iter().flatten().any(|device| device.uuid == uuid)
            || !self.scanner.accepts(&uuid)
        {
            return;
        }
        let device = ServedDevice::new(uuid, &self.locks, now_ns(), self.bounds);
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
        let Some(news) = &self.news else { return };
        let Ok(mut news) = news.try_lock() else { return };
        if self.is_news {
            self.is_news = false;
            news.asked.clear();
            for device in self.devices.iter().flatten() {
                let uses = |line: &&DeviceLine| line.is_attached && line.uuid == Some(device.uuid);
                let line_of = |t: &Adopted| t.served.lines().iter().find(uses).map(|l| l.share_ppm);
                let users = || self.tenants().filter_map(|t| Some((t, line_of(t)?)));
                // A cap must not be charged for what a stranger does, and processes of MPS take no turns among
                // themselves.
                let is_asked =
                    |(t, share_ppm): (&Adopted, u32)| share_ppm != 0 || t.living().count() > 1;
                if users().count() > 1 || users().any(is_asked) {
                    news.asked.insert(device.text.clone());
                }
            }
            news.known = match news.asked.is_empty() {
                true => Default::default(),
                false => self.tenants().flat_map(|tenant| tenant.living()).collect(),
            };
        }
        for device in self.devices.iter_mut().flatten() {
            let found = news.found.get(&device.text).copied().unwrap_or_default();
            self.is_changed |= device.found != found;
            device.found = found;
        }
    }

    /// One step of the scheduler; when it wants the next one.
    fn step(&mut self, now: u64) -> u64 {
        if self.is_idle() {
            return u64::MAX;
        }
        if self.is_changed {
            self.seat();
        }
        let mut memory_ns = u64::MAX;
        self.host.look(now, &self.seats);
        for device in self.devices.iter_mut().flatten() {
            let host = &mut self.host;
            let stepped = device.memory.step(now, &mut self.seats, &mut self.scanner, host);
            memory_ns = memory_ns.min(stepped.next_ns);
            self.is_changed |= stepped.is_changed;
        }
        let is_changed = std::mem::take(&mut self.is_changed);
        let (seats, scanner) = (&mut *self.seats, &mut self.scanner);
        let mut tenants = Seats { seats, scanner, is_any_refused: false };
        let next_ns = Round {
            floor_ppm: self.floor_ppm,
            tenants: &mut self.tenant_states,
            devices: &mut self.device_states,
            seated: &self.seated,
            foreign: &self.foreign,
            samples: &mut self.samples,
            gates: &mut self.gates,
            before: &mut self.before,
            leases_ns: &mut self.leases_ns,
        }
        .step(&mut tenants, now, is_changed);
        if tenants.is_any_refused {
            (self.is_changed, self.is_news) = (true, true);
        }
        next_ns.min(memory_ns)
    }

    /// Finds anew who has which row.
    fn seat(&mut self) {
        let width = self.devices.len();
        let rows = self.seats.len() * width;
        self.samples.resize(rows, Sample::default());
        self.gates.resize(rows, Gate::default());
        self.before.resize(rows, Gate::default());
        self.seated.clear();
        for (seat, taken) in self.seats.iter().enumerate() {
            let Seat::Taken(tenant, _) = taken else { continue };
            for (column, device) in self.devices.iter().enumerate() {
                let Some(device) = device else { continue };
                if let Some(row) = tenant.served.row_of(&device.uuid) {
                    let (at, mps) = (seat * width + column, device.found.mps);
                    self.seated.push(Seated { seat, row, at, mps });
                }
            }
        }
        let mut holders = Vec::new();
        // The order of devices is the same for all tenants.
        let is_ours = |device: &&ServedDevice| device.is_ours();
        let ours = self.devices.iter();
        let ours = ours.map(|device| Some(device.as_ref().filter(is_ours)?.uuid));
        let ours: Vec<_> = ours.collect();
        let rows = |tenant: &Adopted, devices: &[Option<Uuid>]| {
            let rows = devices.iter().flatten().filter_map(|uuid| tenant.served.row_of(uuid));
            rows.fold(0, |mask, row| mask | row_bit(row))
        };
        for (column, device) in self.devices.iter_mut().enumerate() {
            let Some(device) = device else { continue };
            let (earlier, later) = ours.split_at(column);
            holders.clear();
            let is_ours = device.is_ours();
            for (seat, taken) in self.seats.iter().enumerate().filter(|_| is_ours) {
                let Seat::Taken(tenant, arrival) = taken else { continue };
                if let Some(row) = tenant.served.row_of(&device.uuid)
                    && tenant.oversubscribes()
                {
                    let later = rows(tenant, later) & !row_bit(row);
                    let span = DeviceSpan { earlier: rows(tenant, earlier), later };
                    holders.push((seat, *arrival, row, span));
                }
            }
            device.memory.seat(&holders);
        }
        self.foreign.clear();
        let devices = self.devices.iter();
        self.foreign.extend(devices.map(|device| device.as_ref().map_or(0, ServedDevice::foreign)));
    }

    /// Leaves a view for the socket, unless somebody reads the last one just now.
    fn show(&mut self) {
        let Ok(mut seen) = self.shared.seen.try_lock() else { return };
        let Seen { view, hands, spots } = &mut *seen;
        view.pid = std::process::id();
        view.seen_ns = now_ns();
        view.wakes = self.wakes;
        view.floor_ppm = self.floor_ppm;
        view.schedule = if self.is_off { Schedule::Off } else { Schedule::On };
        view.host = self.host.view();
        let devices = self.devices.iter().zip(&self.device_states);
        view.devices = devices.filter_map(|(d, state)| Some(d.as_ref()?.view(state))).collect();
        if self.is_off {
            view.devices.iter_mut().for_each(|device| "off".clone_into(&mut device.mode));
        }
        view.tenants.clear();
        hands.clear();
        spots.clear();
        for (seat, state) in self.seats.iter().zip(&self.tenant_states) {
            if let Seat::Taken(tenant, arrival) = seat {
                let devices = self.devices.iter().flatten();
                let memories =
                    devices.filter_map(|d| d.memory.view_of(*arrival, &d.text, &self.seats));
                let memories: Vec<TenantMemoryView> = memories.collect();
                hands.push(Arc::clone(tenant.hand()));
                view.tenants.push(TenantView {
                    directory: tenant.hand().path.display().to_string(),
                    uid: tenant.hand().uid,
                    held_ns: state.held_ns(),
                    memory: memories.first().map(|memory| memory.status.clone()),
                    memories,
                    ..TenantView::default()
                });
            }
        }
        self.memory_news.look(&view.tenants, &view.devices, hands, &self.shared.journal);
        view.tenants.extend(self.scanner.refused());
        spots.extend(self.scanner.spots());
    }
}

/// CLOCK_MONOTONIC, without a system call where that can be: the C library's is fit for this process.
pub(super) fn now_ns() -> u64 {
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return divvy_page::now_ns() };
    let [seconds, rest] =
        [now.tv_sec(), now.tv_nsec()].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Sleeps until `deadline_ns`, a signal, or not at all where it has passed.
pub(crate) fn sleep_until(deadline_ns: u64) {
    let seconds = i64::try_from(deadline_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let rest = i64::try_from(deadline_ns % 1_000_000_000).unwrap_or(0);
    let deadline = TimeSpec::new(seconds, rest);
    let clock = ClockId::CLOCK_MONOTONIC;
    match clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &deadline) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(_) => pause(Duration::from_nanos(deadline_ns.saturating_sub(now_ns()))),
    }
}
