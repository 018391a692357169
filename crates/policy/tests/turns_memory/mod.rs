//! A daemon of one card whose tenants are in memory: it counts readings of their lines and notes what is
//! written. Time is a number that the test counts up; nothing runs by itself.

use std::cell::Cell;

use divvy_abi::Uuid;
use divvy_abi::config::{Config, GateLine};
use divvy_policy::share;
use divvy_policy::turns::{
    CapEntry, DeviceState, Files, Gate, GateEntry, Round, Sample, Seated, Served, TenantState,
    Tenants, tuning,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SEC: u64 = 1_000_000_000;
pub(crate) const CARD: Uuid = [7; 16];

/// A write to a tenant's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Set(u32),
    Describe,
    Renew,
    Wake,
    Raise,
    Lower,
}

/// The file cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// A tenant's files in memory, with one device row.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) config: Config,
    /// Slots 1 and on: the line, and whether the process lives.
    pub(crate) slots: Vec<(GateEntry, bool)>,
    /// What processes that have ended left in slot 0.
    pub(crate) ended: GateEntry,
    pub(crate) readings: Cell<usize>,
    pub(crate) writes: Vec<Write>,
    /// Somebody changes limits.
    pub(crate) is_kept: bool,
    pub(crate) is_broken: bool,
}

impl Memory {
    fn write(&mut self, write: Write) -> Result<(), Broken> {
        self.writes.push(write);
        if self.is_broken { Err(Broken) } else { Ok(()) }
    }

    pub(crate) fn line(&mut self, row: usize) -> &mut GateLine {
        self.config.gates.get_mut(row).expect("a row")
    }
}

impl Files for Memory {
    type Error = Broken;

    fn processes(&self) -> impl Iterator<Item = (usize, bool)> + Clone {
        self.slots.iter().zip(1..).map(|((_, alive), slot)| (slot, *alive))
    }

    fn gates(
        &self,
        row: usize,
        slots: impl Iterator<Item = usize>,
        mut each: impl FnMut(usize, GateEntry),
    ) -> Option<CapEntry> {
        self.readings.set(self.readings.get() + 1);
        if row == 0 {
            each(0, self.ended);
            slots.for_each(|slot| each(slot, self.slots[slot - 1].0));
        }
        Some(CapEntry::default())
    }

    fn holds_any(&self, row: usize, mut slots: impl Iterator<Item = usize>) -> bool {
        row == 0 && slots.next().is_some()
    }

    fn read(&self) -> Result<Config, Broken> {
        Ok(self.config.clone())
    }

    fn set_gate(&mut self, row: usize, line: &GateLine) -> Result<(), Broken> {
        self.write(Write::Set(line.gate))?;
        *self.line(row) = *line;
        Ok(())
    }

    fn describe_gate(&mut self, row: usize, line: &GateLine) -> Result<(), Broken> {
        self.write(Write::Describe)?;
        assert_eq!(self.line(row).gate, line.gate, "the state stands there already");
        *self.line(row) = *line;
        Ok(())
    }

    fn renew(&mut self, row: usize, lease_ns: u64) -> Result<(), Broken> {
        self.write(Write::Renew)?;
        self.line(row).lease_ns = lease_ns;
        Ok(())
    }

    fn wake(&mut self, _: usize) {
        self.writes.push(Write::Wake);
    }

    fn raise_any_gate(&mut self) -> Result<(), Broken> {
        self.write(Write::Raise)?;
        self.config.any_gate = 1;
        Ok(())
    }

    fn lower_any_gate(&mut self) -> Result<Option<Config>, Broken> {
        self.write(Write::Lower)?;
        if self.is_kept {
            return Ok(None);
        }
        self.config.any_gate = u32::from(share::needs_gate(&self.config));
        Ok(Some(self.config.clone()))
    }
}

/// A tenant of one living process, attached to the card.
pub(crate) fn served() -> Served<Memory> {
    let files = Memory { slots: vec![(GateEntry::default(), true)], ..Memory::default() };
    let mut served = Served::take(files).expect("sound files");
    served.name_rows([Some((CARD, Some(0)))].into_iter());
    assert!(served.find_contexts(true), "the process holds memory");
    assert_eq!(served.row_of(&CARD), Some(0));
    served
}

/// Who sits in a row.
#[derive(Debug)]
pub(crate) enum Seat {
    Empty,
    Left,
    Taken(Box<Served<Memory>>),
}

#[derive(Debug, Default)]
pub(crate) struct Seats(pub(crate) Vec<Seat>);

impl Tenants for Seats {
    type Files = Memory;

    fn get(&self, seat: usize) -> Option<&Served<Memory>> {
        match self.0.get(seat)? {
            Seat::Taken(tenant) => Some(tenant),
            Seat::Empty | Seat::Left => None,
        }
    }

    fn get_mut(&mut self, seat: usize) -> Option<&mut Served<Memory>> {
        match self.0.get_mut(seat)? {
            Seat::Taken(tenant) => Some(tenant),
            Seat::Empty | Seat::Left => None,
        }
    }

    fn vacate(&mut self, seat: usize) -> bool {
        let is_left = matches!(self.0[seat], Seat::Left);
        if is_left {
            self.0[seat] = Seat::Empty;
        }
        is_left
    }

    fn refuse(&mut self, seat: usize, error: Broken) {
        assert_eq!(error, Broken);
        self.0[seat] = Seat::Left;
    }
}

/// A daemon of one card.
#[derive(Debug, Default)]
pub(crate) struct Daemon {
    pub(crate) seats: Seats,
    pub(crate) floor_ppm: u64,
    pub(crate) tenants: Vec<TenantState>,
    pub(crate) devices: Vec<DeviceState>,
    pub(crate) seated: Vec<Seated>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) before: Vec<Gate>,
    pub(crate) leases_ns: u64,
    pub(crate) is_changed: bool,
}

impl Daemon {
    /// Of so many tenants.
    pub(crate) fn of(tenants: usize) -> Self {
        let mut daemon = Self { is_changed: true, floor_ppm: tuning::FLOOR_PPM, ..Self::default() };
        daemon.devices.push(DeviceState::default());
        for seat in 0..tenants {
            let served = served();
            daemon.seats.0.push(Seat::Taken(Box::new(served)));
            daemon.tenants.push(TenantState::default());
            daemon.seated.push(Seated { seat, row: 0, at: seat, mps: false });
        }
        daemon.samples.resize(tenants, Sample::default());
        daemon.gates.resize(tenants, Gate::default());
        daemon.before.resize(tenants, Gate::default());
        daemon
    }

    pub(crate) fn step(&mut self, now_ns: u64) -> u64 {
        let is_changed = std::mem::take(&mut self.is_changed);
        Round {
            floor_ppm: self.floor_ppm,
            tenants: &mut self.tenants,
            devices: &mut self.devices,
            seated: &self.seated,
            foreign: &[0],
            samples: &mut self.samples,
            gates: &mut self.gates,
            before: &mut self.before,
            leases_ns: &mut self.leases_ns,
        }
        .step(&mut self.seats, now_ns, is_changed)
    }

    pub(crate) fn files(&mut self, seat: usize) -> &mut Memory {
        &mut self.seats.get_mut(seat).expect("a tenant").files
    }

    pub(crate) fn line(&mut self, seat: usize) -> GateLine {
        *self.files(seat).line(0)
    }
}
