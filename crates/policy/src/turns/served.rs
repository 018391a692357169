//! A tenant in its daemon's hands: its rows, its limits as they were last read, and its files.
//!
//! Promises: launches look at their gates as soon as one is not free, and not any more some time after
//! all are; what another hand wrote over a gate is written again. No clock, no allocation: what reads a
//! tenant in production and what searches its schedules runs this.
//!
//! Does not say when its files are read anew, nor decide a gate.

use divvy_abi::config::{Config, GateLine, gate};
use divvy_abi::{MAX_DEVICES, Uuid};

use super::files::Files;
use super::gate::Gate;
use super::line::DeviceLine;
use super::sample::Sample;
use super::tuning;
use crate::share;

/// A tenant whose gates one daemon writes.
#[derive(Debug)]
pub struct Served<F> {
    /// Its files.
    pub files: F,
    config: Config,
    /// Whether a cap or a pause needs launches to look at their gates.
    is_limited: bool,
    lines: [DeviceLine; MAX_DEVICES],
    unneeded_since_ns: u64,
}

impl<F: Files> Served<F> {
    /// Takes the tenant of these files, with all of its gates open.
    ///
    /// # Errors
    /// [`Files::Error`].
    pub fn take(files: F) -> Result<Self, F::Error> {
        let config = files.read()?;
        let mut served = Self {
            files,
            config,
            is_limited: false,
            lines: core::array::from_fn(|_| DeviceLine::default()),
            unneeded_since_ns: 0,
        };
        served.open_gates()?;
        Ok(served)
    }

    /// Its limits, as they were last read.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its device rows.
    pub fn lines(&self) -> &[DeviceLine] {
        &self.lines
    }

    /// Its row for the device.
    pub fn row_of(&self, uuid: &Uuid) -> Option<usize> {
        self.lines.iter().position(|line| line.uuid == Some(*uuid))
    }

    /// Takes limits that were read anew; whether they or the gates beside them are not as they were.
    pub fn take_limits(&mut self, config: Config) -> bool {
        let mut is_changed = config.epoch != self.config.epoch;
        for (line, there) in self.lines.iter_mut().zip(&config.gates) {
            // The first process of a tenant without an owner writes the whole file.
            if line.written.is_some_and(|gate| gate.state as u32 != there.gate) {
                line.written = None;
                is_changed = true;
            }
        }
        let gates = [GateLine::default(); MAX_DEVICES];
        self.is_limited = share::needs_gate(&Config { gates, ..config.clone() });
        self.config = config;
        is_changed
    }

    /// Gives each row the device that it is of, by its UUID and its index on the machine, and the share
    /// that the limits set there.
    pub fn name_rows(&mut self, devices: impl Iterator<Item = Option<(Uuid, Option<u32>)>>) {
        let rules = self.config.compute_rules();
        for (row, device) in (0..MAX_DEVICES).zip(devices) {
            let (above, rest) = self.lines.split_at_mut_checked(row).unwrap_or_default();
            let Some(line) = rest.first_mut() else { break };
            // Of a device that is named twice the first row counts.
            let is_new = |uuid: &Uuid| above.iter().all(|line| line.uuid != Some(*uuid));
            let device = device.filter(|(uuid, _)| is_new(uuid));
            line.uuid = device.map(|(uuid, _)| uuid);
            // Rules that make no sense are the library's to refuse.
            let share =
                device.and_then(|(uuid, index)| share::resolve(rules, index, &uuid).ok()?);
            line.share_ppm = share.unwrap_or(0);
        }
    }

    /// Finds the rows where a living process has a context, those that had one only if `all`; whether
    /// any has changed.
    pub fn find_contexts(&mut self, all: bool) -> bool {
        let mut is_changed = false;
        for (row, line) in self.lines.iter_mut().enumerate() {
            if line.is_attached && !all {
                continue;
            }
            let is_attached = line.finds_context(&self.files, row);
            is_changed |= line.is_attached != is_attached;
            line.is_attached = is_attached;
        }
        is_changed
    }

    /// Leaves the tenant out of the turns of device `row` while its memory is away, with its gate open: its calls wait
    /// for the memory. `is_watched` has its work counted, though it may be alone. Whether either is new.
    pub fn hold(&mut self, row: usize, is_away: bool, is_watched: bool) -> bool {
        self.lines.get_mut(row).is_some_and(|line| line.hold(is_away, is_watched))
    }

    /// Samples device `row` of the tenant. Cost: one reading of its lines there.
    pub fn sample(&mut self, row: usize, now_ns: u64) -> Sample {
        let line = self.lines.get_mut(row);
        line.map(|line| line.sample(&self.files, row, &self.config, now_ns)).unwrap_or_default()
    }

    /// Lets the tenant's processes take turns among themselves on device `row`, by trial, where no cap binds them; when
    /// to look again.
    pub fn put_turns(&mut self, row: usize, gate: &mut Gate, now_ns: u64) -> u64 {
        self.lines.get_mut(row).map_or(u64::MAX, |line| line.put_turns(gate, now_ns))
    }

    /// Writes `gate` to device `row` where it is not what stands there, and keeps its lease alive.
    ///
    /// # Errors
    /// [`Files::Error`].
    pub fn put(&mut self, row: usize, gate: Gate, now_ns: u64) -> Result<(), F::Error> {
        let Some(line) = self.lines.get_mut(row) else { return Ok(()) };
        line.put(&mut self.files, row, gate, now_ns)
    }

    /// Makes launches look at the gates as soon as one is not free, and not any more some time after
    /// all are.
    ///
    /// # Errors
    /// [`Files::Error`].
    pub fn put_any_gate(&mut self, now_ns: u64) -> Result<(), F::Error> {
        let is_needed = self.is_limited || self.lines.iter().any(DeviceLine::is_gate);
        match (is_needed, self.config.any_gate != 0) {
            (true, false) => {
                self.files.raise_any_gate()?;
                self.config.any_gate = 1;
            }
            (false, true) if self.unneeded_since_ns == 0 => self.unneeded_since_ns = now_ns,
            (false, true)
                if now_ns.saturating_sub(self.unneeded_since_ns) > tuning::UNNEEDED_NS =>
            {
                // Under the lock of those who change limits, so that a cap that was just set counts. A
                // tenant may keep that lock: then it looks at its gates for longer, and nobody waits.
                if let Some(config) = self.files.lower_any_gate()? {
                    self.config = config;
                    self.unneeded_since_ns = 0;
                }
            }
            (false, true) => {}
            _ => self.unneeded_since_ns = 0,
        }
        Ok(())
    }

    /// Opens every gate that stands, and lets launches pass without a look where nothing else needs
    /// one: what a daemon leaves behind, and what it starts from.
    ///
    /// # Errors
    /// [`Files::Error`].
    pub fn open_gates(&mut self) -> Result<(), F::Error> {
        let before = self.files.read()?;
        for (row, line) in before.gates.iter().enumerate() {
            if line.gate != gate::FREE {
                self.files.set_gate(row, &GateLine::default())?;
            }
        }
        for line in &mut self.lines {
            line.written = Some(Gate::default());
        }
        if before.any_gate != 0
            && let Some(config) = self.files.lower_any_gate()?
        {
            self.config = config;
        }
        Ok(())
    }
}
