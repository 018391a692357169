//! A run of a case: time, events, the owner's steps and the processes' ticks.
//!
//! Promises: the same case gives the same run. Does not judge: that is [`super::oracle`].

use divvy_policy::residence::DeviceRoom;

use super::card::{LINK_BYTES_PER_S, MemoryCard};
use super::case::{MIB, MemoryCase, MemoryChange, MemoryEvent, MemoryProgram};
use super::fault::Fault;
use super::owner::{MemoryOwner, ProcessWords, TenantWish};
use super::process::{MemoryProcess, StandingOrder};
use crate::MS;

/// Time at which a run begins, so that no time is 0.
pub const BEGIN_NS: u64 = 1_000 * MS;

/// A place for a process: its tenant, what it runs, and itself while it lives.
#[derive(Debug)]
pub struct ProcessPlace {
    /// Its tenant.
    pub tenant: usize,
    program: MemoryProgram,
    has_started: bool,
    /// Itself.
    pub process: Option<MemoryProcess>,
}

/// A run under way.
#[derive(Debug)]
pub struct MemoryWorld {
    /// The time.
    pub now_ns: u64,
    /// A tick.
    pub tick_ns: u64,
    /// Bytes that exist.
    pub card: MemoryCard,
    /// The processes.
    pub places: Vec<ProcessPlace>,
    /// Settings by users.
    pub wishes: Vec<TenantWish>,
    /// The orders that stand in the files.
    pub standing: Vec<StandingOrder>,
    /// The most of the card that memory which can leave may take; none for as much as there is room for.
    pub capacity_bytes: Option<u64>,
    /// Bytes of others that the owner knows of.
    known_foreign_bytes: u64,
    /// When memory that cannot leave changed last, or the owner learned that it had.
    pub fixed_ns: u64,
    /// The owner, while there is one.
    pub owner: MemoryOwner,
    /// Until when there is none.
    pub no_owner_until_ns: u64,
    /// Tenants of which a process was told that it waits in vain, and when.
    pub told: Vec<(u64, usize)>,
    /// When something happened last for which everybody may have to wait.
    pub upset_ns: u64,
    /// A process has lied, or the host had less than was promised.
    pub is_upset: bool,
    max_wait_ns: u64,
    fault: Option<Fault>,
}

impl MemoryWorld {
    pub(super) fn new(case: &MemoryCase, fault: Option<Fault>) -> Self {
        let places: Vec<_> = (0..)
            .zip(&case.tenants)
            .flat_map(|(tenant, of)| of.processes.iter().map(move |program| (tenant, program)))
            .map(|(tenant, program)| ProcessPlace {
                tenant,
                program: program.clone(),
                has_started: false,
                process: None,
            })
            .collect();
        let max_wait_ns = case.max_wait_ms * MS;
        Self {
            now_ns: BEGIN_NS,
            tick_ns: case.tick_us.max(100) * 1_000,
            card: MemoryCard::new(case.card_mib * MIB, case.host_mib * MIB),
            wishes: case
                .tenants
                .iter()
                .map(|tenant| TenantWish { weight: tenant.weight, ..TenantWish::default() })
                .collect(),
            standing: vec![StandingOrder::default(); places.len()],
            owner: MemoryOwner::new(case.tenants.len(), places.len(), max_wait_ns),
            places,
            capacity_bytes: (case.capacity_mib > 0).then_some(case.capacity_mib * MIB),
            known_foreign_bytes: 0,
            fixed_ns: BEGIN_NS,
            no_owner_until_ns: 0,
            told: Vec::new(),
            upset_ns: BEGIN_NS,
            is_upset: false,
            max_wait_ns,
            fault,
        }
    }

    /// Living processes, with their tenants.
    pub fn living(&self) -> impl Iterator<Item = (usize, &MemoryProcess)> {
        self.places.iter().filter_map(|place| Some((place.tenant, place.process.as_ref()?)))
    }

    /// Whether an owner's orders are followed by all: it is there for longer than the orders of none.
    pub fn is_in_charge(&self) -> bool {
        let settled_ns = self.no_owner_until_ns + 2_000 * MS;
        self.now_ns >= settled_ns.max(BEGIN_NS + 100 * MS)
    }

    /// Whether the owner has learned of programs that are no tenant's: where none has memory, the first create that finds no room
    /// tells it.
    pub fn knows_foreign(&self) -> bool {
        self.known_foreign_bytes >= self.card.fixed_bytes[1]
    }

    pub(super) fn start(&mut self) {
        for (row, place) in self.places.iter_mut().enumerate() {
            if !place.has_started && self.now_ns >= BEGIN_NS + place.program.start_ms * MS {
                place.has_started = true;
                place.process = Some(MemoryProcess::new(&place.program, row as u64, self.fault));
                self.owner.next_ns = 0;
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "a table: one arm for each change")]
    pub(super) fn happens(&mut self, event: &MemoryEvent) {
        let now_ns = self.now_ns;
        let of_tenant = self.places.iter_mut().filter(|place| place.tenant == event.tenant);
        let process = of_tenant.map(|place| &mut place.process).nth(event.process);
        let (card, wish) = (&mut self.card, self.wishes.get_mut(event.tenant));
        let mut upsets = true;
        match (event.what, process, wish) {
            (MemoryChange::Ask { mib }, Some(Some(process)), _) => {
                upsets = false;
                if process.is_able() {
                    process.ask(mib * MIB);
                }
            }
            (MemoryChange::Free { mib }, Some(Some(process)), _) => {
                upsets = false;
                process.free(mib * MIB, card, now_ns);
            }
            (MemoryChange::Stop, Some(Some(process)), _) => process.stopped = true,
            (MemoryChange::Continue, Some(Some(process)), _) => {
                process.stopped = false;
                process.service.go_on(now_ns);
            }
            (MemoryChange::Hold, Some(Some(process)), _) => process.holds = true,
            (MemoryChange::LetGo, Some(Some(process)), _) => process.holds = false,
            (MemoryChange::Kill, Some(place), _) => {
                if let Some(process) = place.take() {
                    process_dies(process, card, now_ns);
                }
            }
            (MemoryChange::Lie { kind }, Some(Some(process)), _) if process.lie.is_none() => {
                process.begin_to_lie(kind, card, now_ns);
                self.is_upset = true;
            }
            (MemoryChange::NoCreate { ms }, Some(Some(process)), _) => {
                process.no_create_until_ns = now_ns + ms * MS;
                self.upset_ns = now_ns + ms * MS;
            }
            (
                what @ (MemoryChange::NoContext { .. }
                | MemoryChange::Waits { .. }
                | MemoryChange::Elsewhere { .. }),
                Some(Some(process)),
                _,
            ) => hold_up(process, what, now_ns),
            (MemoryChange::Fixed { mib }, ..) => {
                card.fix(0, mib * MIB, now_ns);
                (self.fixed_ns, self.is_upset) = (now_ns, true);
            }
            (MemoryChange::Foreign { mib }, ..) => {
                card.fix(1, mib * MIB, now_ns);
                (self.fixed_ns, self.is_upset) = (now_ns, true);
            }
            (MemoryChange::Quantum { ms }, _, Some(wish)) => wish.quantum_ns = ms * MS,
            (MemoryChange::Weight { weight }, _, Some(wish)) => wish.weight = weight,
            (MemoryChange::Freeze, _, Some(wish)) => {
                wish.frozen = !wish.frozen;
                self.is_upset = true;
            }
            (MemoryChange::Daemon { ms }, ..) => {
                let (tenants, processes) = (self.wishes.len(), self.places.len());
                self.owner = MemoryOwner::new(tenants, processes, self.max_wait_ns);
                self.no_owner_until_ns = now_ns + ms * MS;
                self.upset_ns = self.upset_ns.max(self.no_owner_until_ns + 2_000 * MS);
                self.is_upset = true;
            }
            (MemoryChange::Host { mib }, ..) => {
                card.host_bytes = mib * MIB;
                self.is_upset = true;
            }
            _ => upsets = false,
        }
        if upsets {
            self.upset_ns = self.upset_ns.max(now_ns);
        }
    }

    /// The owner's step, if that is due; whether it was.
    pub(super) fn step(&mut self) -> bool {
        if self.now_ns < self.owner.next_ns.max(self.no_owner_until_ns) {
            return false;
        }
        let (now_ns, card_bytes) = (self.now_ns, self.card.card_bytes);
        // Processes with memory say at times what is free, and where the driver refuses what the owner allows.
        if self.places.iter().flat_map(|place| &place.process).any(MemoryProcess::tells_free) {
            let foreign_bytes = self.card.fixed_bytes[1];
            let known_bytes = std::mem::replace(&mut self.known_foreign_bytes, foreign_bytes);
            if known_bytes != foreign_bytes {
                self.fixed_ns = now_ns;
            }
        }
        let words: Vec<_> = self
            .places
            .iter_mut()
            .map(|place| {
                let process = place.process.as_mut()?;
                Some(ProcessWords {
                    tenant: place.tenant,
                    memory: process.say(now_ns, card_bytes),
                    waits_from_ns: process.waits_from_ns,
                    work_ns: process.said_work_ns(),
                })
            })
            .collect();
        for (words, order) in words.iter().zip(&mut self.standing) {
            if words.is_none() {
                *order = StandingOrder::default();
            }
        }
        let known_bytes = self.card.fixed_bytes[0] + self.known_foreign_bytes;
        let room_bytes = card_bytes.saturating_sub(known_bytes);
        let capacity_bytes = self.capacity_bytes.map_or(room_bytes, |bytes| bytes.min(room_bytes));
        let room_bytes = match self.fault {
            Some(Fault::BoundKeepsOut) => capacity_bytes,
            _ => room_bytes,
        };
        let room = DeviceRoom { capacity_bytes, room_bytes };
        let rooms = (room, self.card.host_bytes);
        self.owner.step(now_ns, rooms, &words, &self.wishes, &mut self.standing);
        if self.fault == Some(Fault::Untold) {
            self.standing.iter_mut().for_each(|order| order.locked_out = false);
        }
        true
    }

    pub(super) fn tick(&mut self) {
        let (now_ns, tick_ns) = (self.now_ns, self.tick_ns);
        let mut movers = [0_u64; 2];
        for (place, order) in self.places.iter().zip(&self.standing) {
            let Some(process) = &place.process else { continue };
            for (count, moves) in movers.iter_mut().zip(process.moves(order, now_ns)) {
                *count += u64::from(moves);
            }
        }
        let bytes =
            u64::try_from(u128::from(LINK_BYTES_PER_S) * u128::from(tick_ns) / 1_000_000_000);
        let budgets = movers.map(|count| bytes.unwrap_or(0) / count.max(1));
        for (place, order) in self.places.iter_mut().zip(&self.standing) {
            let Some(process) = &mut place.process else { continue };
            process.tick(now_ns, order, &mut self.card, budgets);
            if process.is_held_up(now_ns) {
                self.upset_ns = self.upset_ns.max(now_ns);
            }
            // A program whose calls fail ends.
            if process.is_told
                && let Some(process) = place.process.take()
            {
                self.told.push((now_ns, place.tenant));
                process_dies(process, &mut self.card, now_ns);
            }
        }
        self.now_ns += tick_ns;
    }
}

fn process_dies(mut process: MemoryProcess, card: &mut MemoryCard, now_ns: u64) {
    process.die(card, now_ns);
}

/// Has something hold a process up that ends by itself.
fn hold_up(process: &mut MemoryProcess, what: MemoryChange, now_ns: u64) {
    match what {
        MemoryChange::NoContext { ms } => process.service.end_contexts(ms * MS),
        MemoryChange::Waits { ms, is_green }
            if process.is_able() && (process.works || process.work_ns.1 > now_ns) =>
        {
            process.service.wait_for_host(ms * MS, is_green, now_ns);
        }
        MemoryChange::Elsewhere { ms, is_bare } => {
            process.service.leave_elsewhere(ms * MS, is_bare, now_ns);
        }
        _ => {}
    }
}
