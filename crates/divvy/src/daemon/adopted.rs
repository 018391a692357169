//! A tenant in the daemon's hands: its words read, its gates written.
//!
//! Nothing is registered: whatever lies in a tenant's directory is read anew every fraction of a
//! second, so a daemon that was started again knows what the one before it knew. A lock on the
//! directory keeps two daemons from writing one tenant's gates.
//!
//! What is read is read twice over. A glance looks for what must be known soon, by some forty bytes of
//! the limits, one reading of the tables of devices and slots, and the locks of those who live: other
//! limits, processes that came or died, devices, contexts. A look at everything finds also what
//! happens by accident or malice: files that were cut or replaced, gates that were overwritten,
//! contexts that were given up.
//!
//! Promises: no reading or writing waits for a tenant; what a tenant wrote is a claim and changes only
//! its own row; files that are cut, replaced, garbled or another's give a [`Refusal`] with a reason
//! code. Does not decide anything: that is `divvy_policy::turns`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use divvy_abi::config::{Config, GateLine};
use divvy_abi::usage::SHARED_SLOT;
use divvy_abi::{MAX_DEVICES, Uuid};
use divvy_page::AttachError;
use divvy_page::owner::Owner;
use divvy_page::reader::{GateEntry, Head, UsageFile};
use divvy_policy::share;
use divvy_policy::turns::{Gate, GateState, Sample};
use nix::fcntl::Flock;

use crate::dir::{Dir, Identity};
use crate::doctor::Reason;
use crate::tenant_dir;

/// How long a closed gate stays closed without a word of its daemon; a lease that ends sooner than the
/// second is renewed.
const CLOSED_LEASE_NS: (u64, u64) = (100_000_000, 75_000_000);
/// The same of an open one; while it lasts, a tenant with a cap leaves turns to the daemon.
const OPEN_LEASE_NS: (u64, u64) = (1_000_000_000, 500_000_000);
/// A wish that is older is none.
const WANT_NS: u64 = 50_000_000;
/// What a wish may lie in the future: clocks are one, but it was read after ours.
const SKEW_NS: u64 = 5_000_000;
/// How long nothing must need a gate before launches are freed from looking.
const CALM_NS: u64 = 2_000_000_000;

/// Slots that are looked at of every tenant, and of all of one user's together where a daemon serves
/// several: a tenant may claim a thousand, and each look at one is two calls.
pub(super) const LEAST_SLOTS: usize = 33;
pub(super) const MOST_SLOTS: usize = 2048;

/// Why a tenant's gates are not in this daemon's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    pub(super) detail: String,
}

impl From<AttachError> for Refusal {
    fn from(error: AttachError) -> Self {
        Self { reason: Reason::GatesNotHeld, detail: error.to_string() }
    }
}

/// How much of a tenant's files is read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// What must be known soon.
    Glance,
    /// Everything.
    Whole,
}

/// A slot that is somebody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    slot: usize,
    /// Whether that one lives.
    alive: bool,
    /// Its pid namespace, and its pid there.
    identity: (u64, u32),
}

/// What is known of one device row of a tenant.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The device, as the tenant says.
    pub(super) uuid: Option<Uuid>,
    index: Option<u32>,
    /// Whether a living process has a context there.
    pub(super) is_attached: bool,
    share_ppm: u32,
    written: Option<Gate>,
    lease_ns: u64,
    closed_at_ns: u64,
}

/// A tenant's directory and limits, open: by this the daemon's other threads read and change a tenant
/// too, so that all mean the one that was judged.
#[derive(Debug)]
pub(super) struct Hand {
    /// Where it lies; nothing is opened by it.
    pub(super) path: PathBuf,
    /// The directory's owner.
    pub(super) uid: u32,
    pub(super) dir: Dir,
    pub(super) owner: Owner,
}

/// A tenant whose gates this daemon writes.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) hand: Arc<Hand>,
    /// No other daemon writes its gates; let go of with this, whoever still has the hand.
    _lock: Flock<File>,
    config: Config,
    /// Whether a cap or a pause needs launches to look at their gates.
    is_limited: bool,
    usage: Option<(UsageFile, Identity)>,
    /// As the rows were named by it; `None` when they must be named anew.
    head: Option<Head>,
    processes: Vec<Process>,
    pub(super) rows: [Row; MAX_DEVICES],
    unneeded_since_ns: u64,
    /// Slots that are looked at.
    pub(super) most_slots: usize,
}

impl Adopted {
    /// Takes the tenant whose directory is open and was found at `path`.
    pub(super) fn take(path: PathBuf, dir: Dir) -> Result<Self, Refusal> {
        let uid = dir.uid();
        let Some(lock) = dir.lock()? else {
            return Err(Refusal {
                reason: Reason::OtherDaemon,
                detail: "another daemon writes this tenant's gates".to_owned(),
            });
        };
        let owner = Owner::within(&dir.tenant()?)?;
        let config = owner.read()?;
        let mut adopted = Self {
            hand: Arc::new(Hand { path, uid, dir, owner }),
            _lock: lock,
            config,
            is_limited: false,
            usage: None,
            head: None,
            processes: Vec::new(),
            rows: std::array::from_fn(|_| Row::default()),
            unneeded_since_ns: 0,
            most_slots: LEAST_SLOTS,
        };
        adopted.open_gates()?;
        adopted.refresh(Look::Whole)?;
        Ok(adopted)
    }

    /// Whether somebody runs or is about to run in it.
    pub(super) fn is_in_use(&self) -> bool {
        self.processes.iter().any(|process| process.alive)
            || tenant_dir::is_owner_alive(&self.hand.dir)
    }

    /// Reads limits, devices and processes anew; whether anything of it is not as it was.
    pub(super) fn refresh(&mut self, look: Look) -> Result<bool, Refusal> {
        let mut is_changed = self.refresh_limits(look)?;
        if look == Look::Whole || self.usage.is_none() {
            is_changed |= self.refresh_usage()?;
        }
        let Some((usage, _)) = &self.usage else { return Ok(is_changed) };
        let head = usage.head();
        let process = |slot| {
            let entry = usage.slot(slot)?;
            Some(Process { slot, alive: entry.alive, identity: (entry.pid_namespace, entry.pid) })
        };
        let most = head.slots_high.min(self.most_slots);
        let processes: Vec<_> = (1..most).filter_map(process).collect();
        let is_other = self.processes != processes || self.head != Some(head);
        self.processes = processes;
        if is_changed || is_other {
            self.head = Some(head);
            self.name_rows(&head);
        }
        Ok(self.find_contexts(is_other || look == Look::Whole) || is_changed || is_other)
    }

    fn refresh_limits(&mut self, look: Look) -> Result<bool, Refusal> {
        let config = match look {
            Look::Whole => self.hand.owner.read()?,
            Look::Glance => match self.hand.owner.read_changed(&self.config)? {
                Some(config) => config,
                None => return Ok(false),
            },
        };
        let mut is_changed = config.epoch != self.config.epoch;
        for (row, line) in self.rows.iter_mut().zip(&config.gates) {
            // The first process of a tenant without an owner writes the whole file.
            if row.written.is_some_and(|gate| gate.state as u32 != line.gate) {
                row.written = None;
                is_changed = true;
            }
        }
        self.config = config;
        self.take_limits();
        Ok(is_changed)
    }

    fn take_limits(&mut self) {
        let gates = [GateLine::default(); MAX_DEVICES];
        self.is_limited = share::needs_gate(&Config { gates, ..self.config.clone() });
    }

    /// Opens the usage file where another lies there than the one that is open.
    fn refresh_usage(&mut self) -> Result<bool, Refusal> {
        let there = self.hand.dir.identity_of("usage");
        if self.usage.as_ref().map(|(_, identity)| *identity) == there {
            return Ok(false);
        }
        self.usage = UsageFile::within(&self.hand.dir.tenant()?)?.zip(there);
        Ok(true)
    }

    /// Gives each row the device that it is of, and the share that the limits set there.
    fn name_rows(&mut self, head: &Head) {
        let rules = self.config.compute_rules();
        let mut seen = Vec::new();
        for (row, device) in self.rows.iter_mut().zip(head.devices) {
            let device = device.filter(|device| !seen.contains(&device.uuid));
            row.uuid = device.map(|device| device.uuid);
            row.index = device.and_then(|device| device.index);
            seen.extend(row.uuid);
            // Rules that make no sense are the library's to refuse.
            let share = row.uuid.and_then(|uuid| share::resolve(rules, row.index, &uuid).ok()?);
            row.share_ppm = share.unwrap_or(0);
        }
    }

    /// Finds the rows where a living process has a context, those that had one only if `all`; whether
    /// any has changed.
    fn find_contexts(&mut self, all: bool) -> bool {
        let Some((usage, _)) = &self.usage else { return false };
        let mut is_changed = false;
        for (at, row) in self.rows.iter_mut().enumerate() {
            if row.is_attached && !all {
                continue;
            }
            let works = |gate: GateEntry| gate.last_launch_ns != 0 || gate.want_ns != 0;
            let living = || self.processes.iter().filter(|one| one.alive).map(|one| one.slot);
            let is_attached = row.uuid.is_some()
                && (usage.holds_any(at, living()) || {
                    let mut is_any = false;
                    usage.gates(at, living(), |slot, gate| {
                        is_any |= slot != SHARED_SLOT && works(gate);
                    });
                    is_any
                });
            is_changed |= row.is_attached != is_attached;
            row.is_attached = is_attached;
        }
        is_changed
    }

    /// The processes that live, by pid namespace and pid.
    pub(super) fn processes(&self) -> impl Iterator<Item = (u64, u32)> {
        let living = self.processes.iter().filter(|process| process.alive);
        living.map(|process| process.identity)
    }

    /// What the tenant says of row `at`. Cost: one read for each eight of its processes.
    pub(super) fn sample(&self, at: usize, now_ns: u64) -> Sample {
        let (Some((usage, _)), Some(row)) = (&self.usage, self.rows.get(at)) else {
            return Sample::default();
        };
        if !row.is_attached {
            return Sample::default();
        }
        let mut sum = GateEntry::default();
        let mut processes = self.processes.iter();
        let slots = self.processes.iter().map(|process| process.slot);
        let cap = usage.gates(at, slots, |slot, gate| {
            let is_ended = slot != SHARED_SLOT && processes.next().is_none_or(|next| !next.alive);
            // As it will be when its slot is cleared.
            sum = sum.with(if is_ended { gate.ended() } else { gate });
        });
        let is_closed = row.written.is_some_and(|gate| gate.state == GateState::Closed);
        let wants = is_closed
            && sum.want_ns > row.closed_at_ns
            && sum.want_ns <= now_ns.saturating_add(SKEW_NS)
            && now_ns.saturating_sub(sum.want_ns) < WANT_NS;
        Sample {
            attached: true,
            wants,
            paused: self.config.paused != 0,
            latency: self.config.class == divvy_abi::config::class::LATENCY,
            busy_until_ns: sum.busy_until_ns,
            last_launch_ns: sum.last_launch_ns,
            used_ns: sum.used_ns,
            launches: sum.launches,
            sleeps: sum.sleepers != 0,
            closed_until_ns: cap.closed_until_ns,
            longest_ns: sum.longest_ns,
            weight: self.config.weight,
            priority: self.config.priority,
            share_ppm: row.share_ppm,
        }
    }

    /// Writes `gate` to row `at` where it is not what stands there, and keeps its lease alive.
    pub(super) fn put(&mut self, at: usize, gate: Gate, now_ns: u64) -> Result<(), Refusal> {
        let Some(row) = self.rows.get_mut(at) else { return Ok(()) };
        let is_closed = gate.state == GateState::Closed;
        let gate = Gate { watch: false, ..gate };
        let (lease_ns, renew_ns) = if is_closed { CLOSED_LEASE_NS } else { OPEN_LEASE_NS };
        let lease_ns = now_ns.saturating_add(lease_ns);
        if row.written != Some(gate) {
            let line = GateLine {
                gate: gate.state as u32,
                active: gate.active,
                epoch: gate.turn,
                lease_ns,
                turn_end_ns: gate.turn_end_ns,
                t_open_ns: gate.t_open_ns,
                quantum_ns: gate.quantum_ns,
                horizon_ns: gate.horizon_ns,
                ..GateLine::default()
            };
            if row.written.is_some_and(|before| before.state == gate.state) {
                self.hand.owner.describe_gate(at, &line)?;
            } else {
                self.hand.owner.set_gate(at, &line)?;
            }
            let expected_ns = row.written.map_or(0, |before| before.t_open_ns);
            if gate.t_open_ns != 0 && gate.t_open_ns != expected_ns {
                // It sleeps; once told, it will be awake by then.
                self.hand.owner.wake(at);
            }
            if is_closed && row.written.is_none_or(|gate| gate.state != GateState::Closed) {
                // Before it was closed: who comes to it at once, before we are back here, waits too.
                row.closed_at_ns = now_ns;
            }
            row.written = Some(gate);
            row.lease_ns = lease_ns;
        } else if gate.state != GateState::Free && now_ns.saturating_add(renew_ns) > row.lease_ns {
            self.hand.owner.renew(at, lease_ns)?;
            row.lease_ns = lease_ns;
        }
        Ok(())
    }

    /// Makes launches look at the gates as soon as one is not free, and not any more some time after
    /// all are.
    pub(super) fn put_any_gate(&mut self, now_ns: u64) -> Result<(), Refusal> {
        let is_gate = |row: &Row| row.written.is_some_and(|gate| gate.state != GateState::Free);
        let is_needed = self.is_limited || self.rows.iter().any(is_gate);
        match (is_needed, self.config.any_gate != 0) {
            (true, false) => {
                self.hand.owner.raise_any_gate()?;
                self.config.any_gate = 1;
            }
            (false, true) if self.unneeded_since_ns == 0 => self.unneeded_since_ns = now_ns,
            (false, true) if now_ns.saturating_sub(self.unneeded_since_ns) > CALM_NS => {
                // Under the lock of those who change limits, so that a cap that was just set counts. A
                // tenant may keep that lock: then it looks at its gates for longer, and nobody waits.
                if let Some(config) = self.hand.owner.lower_any_gate()? {
                    self.config = config;
                    // Somebody may have changed the limits since they were read.
                    self.head = None;
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
    pub(super) fn open_gates(&mut self) -> Result<(), Refusal> {
        let before = self.hand.owner.read()?;
        for (at, line) in before.gates.iter().enumerate() {
            if line.gate != divvy_abi::config::gate::FREE {
                self.hand.owner.set_gate(at, &GateLine::default())?;
            }
        }
        for row in &mut self.rows {
            row.written = Some(Gate::default());
        }
        if before.any_gate != 0
            && let Some(config) = self.hand.owner.lower_any_gate()?
        {
            self.config = config;
        }
        Ok(())
    }
}

impl Hand {
    /// Whether the limits that are open are those that the tenant's processes find.
    pub(super) fn has_its_config(&self) -> bool {
        self.owner.identity().ok() == self.dir.identity_of("config")
    }
}
