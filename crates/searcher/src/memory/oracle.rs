//! Properties that must hold of a run, in bytes and in waits.
//!
//! Promises: bytes are the card's own, not what anybody says. Bounds are formulas of the planner's constants, the link and the
//! processes' own slowness.

use divvy_policy::residence::{HolderStatus, LOCKED_OUT_NS, PINNED_OUT_NS};

use super::card::LINK_BYTES_PER_S;
use super::case::MemoryCase;
use super::process::PIECE_BYTES;
use super::world::{BEGIN_NS, MemoryWorld};
use crate::MS;

/// Time in which memory may move in vain beyond what moving all of it takes.
const IN_VAIN_TIMES: u64 = 6;

/// The judge of one run.
#[derive(Debug)]
pub struct MemoryJudge {
    /// Faults that were seen.
    pub broken: Vec<String>,
    /// The most that was away beyond what did not fit the card.
    pub most_beyond_bytes: u64,
    /// Since when each tenant is owed a turn, or the word that it can have none; and whether it is a turn.
    owed_ns: Vec<u64>,
    may_run: Vec<bool>,
    /// Since when that has been so.
    since_ns: Vec<u64>,
    /// Whether each has asked for memory while it was owed something.
    has_asked: Vec<bool>,
    /// Words of that kind that were looked at.
    told: usize,
    /// Bytes moved, and when anybody worked last.
    worked: (u64, u64),
    /// All has fitted at all times, and nobody was sent away.
    has_fitted: bool,
    /// Only able tenants that work all the time.
    is_plain: bool,
    slowest_ns: u64,
    full: u64,
    /// Time in which somebody wanted to work, and somebody did, in the second half.
    wanted_ns: u64,
    ran_ns: u64,
    half_ns: u64,
}

impl MemoryJudge {
    /// Of a case.
    pub fn new(case: &MemoryCase) -> Self {
        let programs = || case.tenants.iter().flat_map(|tenant| &tenant.processes);
        let slow = programs().map(|p| 3 * p.lag_us + 2 * p.kernel_us).max().unwrap_or(0);
        let is_plain = case.events.is_empty()
            && case.tenants.iter().all(|tenant| tenant.processes.len() == 1)
            && programs().all(|p| p.on_ms > 0 && p.off_ms == 0 && p.start_ms == 0);
        Self {
            broken: Vec::new(),
            most_beyond_bytes: 0,
            owed_ns: vec![BEGIN_NS; case.tenants.len()],
            may_run: vec![true; case.tenants.len()],
            since_ns: vec![BEGIN_NS; case.tenants.len()],
            has_asked: vec![false; case.tenants.len()],
            told: 0,
            worked: (0, BEGIN_NS),
            has_fitted: true,
            is_plain,
            slowest_ns: 1_000 * slow,
            full: 0,
            wanted_ns: 0,
            ran_ns: 0,
            half_ns: BEGIN_NS + case.run_ms * MS / 2,
        }
    }

    fn breaks(&mut self, world: &MemoryWorld, what: String) {
        let ms = (world.now_ns - BEGIN_NS) as f64 / 1e6;
        self.broken.push(format!("{ms:.1} ms: {what}"));
    }

    /// Looks at orders that were just given: no more than the card is given where more is given at all, and a turn only
    /// over memory that is there.
    pub fn see_orders(&mut self, world: &MemoryWorld) {
        let owner = &world.owner;
        let running = owner.orders.iter().zip(&owner.holders).filter(|(order, _)| order.run);
        let bytes = running.clone().map(|(_, h)| h.size_bytes).fold(0, u64::saturating_add);
        if bytes > world.card.card_bytes {
            self.breaks(world, format!("{} MiB run", bytes >> 20));
        }
        for (tenant, (order, holder)) in owner.orders.iter().zip(&owner.holders).enumerate() {
            let is_honest = world.living().all(|(t, p)| t != tenant || p.lie.is_none());
            let here_bytes = holder.resident_bytes.saturating_sub(holder.returning_bytes);
            let here_bytes = here_bytes.saturating_add(holder.asked_bytes);
            if order.run && is_honest && here_bytes < holder.size_bytes {
                self.breaks(world, format!("tenant {tenant} runs without its memory"));
            }
        }
    }

    /// Looks at the world after a tick.
    pub fn see(&mut self, world: &MemoryWorld) {
        self.see_bytes(world);
        self.see_moves(world);
        self.see_waits(world);
    }

    fn see_bytes(&mut self, world: &MemoryWorld) {
        let (mut there_bytes, mut away_bytes, mut size_bytes, mut full) = (0, 0, 0_u64, 0);
        for (_, process) in world.living() {
            there_bytes += process.there_bytes;
            away_bytes += process.away_bytes;
            full += process.full;
            size_bytes = size_bytes.saturating_add(process.size_bytes());
        }
        if (there_bytes, away_bytes) != (world.card.there_bytes, world.card.away_bytes) {
            self.breaks(world, "bytes are lost".to_owned());
        }
        if world.living().any(|(_, process)| process.works_on_away()) {
            self.breaks(world, "calls find no memory: it is away".to_owned());
        }
        // Memory that cannot leave takes room that was given, and is known of a little later.
        let is_known = world.now_ns > world.fixed_ns.max(BEGIN_NS + 1) + 2_000 * MS
            || world.fixed_ns == BEGIN_NS;
        if full > self.full && world.is_in_charge() && is_known && world.knows_foreign() {
            self.breaks(world, "orders were for more than the card has".to_owned());
        }
        self.full = full;
        // Memory on its way counts as both.
        let bound_bytes = world.card.card_bytes.min(world.capacity_bytes.unwrap_or(u64::MAX));
        self.has_fitted &= size_bytes <= bound_bytes && !world.is_upset;
        let short_bytes = size_bytes.saturating_sub(bound_bytes);
        let beyond_bytes = away_bytes.saturating_sub(short_bytes);
        self.most_beyond_bytes = self.most_beyond_bytes.max(beyond_bytes);
        let is_short = world.living().any(|(_, process)| process.host_full_ns == world.now_ns);
        if is_short && !world.is_upset && world.is_in_charge() {
            let host_mib = world.card.host_bytes >> 20;
            self.breaks(world, format!("memory cannot leave: {host_mib} MiB are promised"));
        }
    }

    fn see_moves(&mut self, world: &MemoryWorld) {
        let moved = world.living().map(|(_, p)| p.moved_bytes[0] + p.moved_bytes[1]).sum::<u64>();
        if moved > 0 && self.has_fitted {
            self.breaks(world, "memory moves though all fits".to_owned());
        }
        let works = world.living().any(|(_, process)| process.works);
        let wants = world.living().any(|(_, p)| p.works || p.waits_from_ns != 0 && p.is_able());
        if world.now_ns >= self.half_ns {
            self.wanted_ns += if wants { world.tick_ns } else { 0 };
            self.ran_ns += if works { world.tick_ns } else { 0 };
        }
        let is_able = world.living().all(|(_, process)| process.is_able());
        if works || !is_able || world.upset_ns >= self.worked.1 || moved < self.worked.0 {
            self.worked = (moved, world.now_ns.max(world.upset_ns + 1));
        } else if moved - self.worked.0 > IN_VAIN_TIMES * world.card.card_bytes + 64 * PIECE_BYTES {
            self.breaks(world, "memory moves and nobody works".to_owned());
        }
    }

    /// Looks whether anybody who could run has waited too long.
    fn see_waits(&mut self, world: &MemoryWorld) {
        let tuning = world.owner.tuning();
        let sums = sums(world);
        let is_host_short = world.living().any(|(_, process)| {
            process.host_full_ns != 0
                && process.host_full_ns + 2 * tuning.max_wait_ns > world.now_ns
        });
        let pinned_bytes = sums.iter().map(|sum| sum.pinned_bytes).fold(0, u64::saturating_add);
        let left_bytes = world.card.room_bytes().saturating_sub(pinned_bytes);
        let bound_bytes = world.capacity_bytes.unwrap_or(u64::MAX);
        let given_bytes = world.card.room_bytes().min(bound_bytes).saturating_sub(pinned_bytes);
        let lies = world.living().any(|(_, process)| process.lie.is_some());
        let bound_ns = self.bound_ns(world, &sums);
        for (tenant, sum) in sums.iter().enumerate() {
            let is_frozen = world.owner.orders.get(tenant).map(|order| order.status)
                == Some(HolderStatus::Frozen);
            // A bound keeps no tenant from memory that it holds, and gives nothing beyond.
            let is_given = sum.size_bytes == sum.held_bytes || sum.size_bytes <= given_bytes;
            let may_run = sum.held_bytes <= left_bytes && is_given;
            if may_run != self.may_run[tenant] {
                (self.may_run[tenant], self.since_ns[tenant]) = (may_run, world.now_ns);
            }
            // Tenants are not told that they lack what a lie makes them believe they do not have.
            let is_owed =
                sum.waits && !sum.is_adverse && !is_host_short && !is_frozen && (may_run || !lies);
            self.has_asked[tenant] = is_owed && (self.has_asked[tenant] || sum.asks);
            if !is_owed {
                self.owed_ns[tenant] = world.now_ns;
                continue;
            }
            let since_ns = self.owed_ns[tenant].max(self.since_ns[tenant]).max(world.upset_ns);
            // Its ask is refused first: until then it is not known whether what it holds has room.
            let refusal_ns = if self.has_asked[tenant] { PINNED_OUT_NS } else { 0 };
            let bound_ns = if may_run { bound_ns } else { bound_ns + refusal_ns + LOCKED_OUT_NS };
            if world.now_ns.saturating_sub(since_ns) > bound_ns {
                let (ms, mib) = (bound_ns / MS, sum.size_bytes >> 20);
                let orders = &world.owner.orders;
                let what = if may_run { "waits" } else { "is not told" };
                self.breaks(
                    world,
                    format!("tenant {tenant} of {mib} MiB {what} {ms} ms: {orders:?}"),
                );
                return;
            }
        }
        // Memory that finds no room on the host does not leave, and a lie is believed as far as it goes.
        let is_said = is_host_short || lies;
        // The word says what room there is: it waits for no turn.
        let bound_ns = if is_said { u64::MAX } else { bound_ns - tuning.max_wait_ns };
        self.see_told(world, bound_ns);
    }

    /// Time that a tenant which may run waits at most.
    fn bound_ns(&self, world: &MemoryWorld, sums: &[TenantSum]) -> u64 {
        let tuning = world.owner.tuning();
        let count = sums.len() as u64;
        let adverse_count = sums.iter().filter(|sum| sum.is_adverse).count() as u64;
        let move_ns = world.card.card_bytes * 2 / (LINK_BYTES_PER_S / 1_000_000_000);
        // Each may have to be moved for, and each that does not follow be waited for as a newcomer and as a victim.
        tuning.max_wait_ns
            + count * (move_ns + self.slowest_ns + 50 * MS)
            + adverse_count * (3 + count) * tuning.patience_ns
            // An ask may be one for more than there is, which is refused after a while.
            + 6_000 * MS
    }

    /// Looks whether those that were told that they wait in vain did.
    fn see_told(&mut self, world: &MemoryWorld, bound_ns: u64) {
        let from = std::mem::replace(&mut self.told, world.told.len());
        for (told_ns, tenant) in world.told.iter().skip(from).copied() {
            let had_room_ns = self.since_ns[tenant].max(world.upset_ns);
            let has_room = self.may_run[tenant] && told_ns > had_room_ns.saturating_add(bound_ns);
            if has_room {
                self.breaks(world, format!("tenant {tenant} is told that it has no room"));
            }
        }
    }

    /// Looks at the whole.
    pub fn end(&mut self, world: &MemoryWorld) {
        if !self.is_plain || !self.broken.is_empty() || self.wanted_ns == 0 {
            return;
        }
        // A turn is as long as its movement says, or as the longest wait lets it be; movement is bounded by the card's size.
        let tuning = world.owner.tuning();
        let planned = tuning.overhead_ppm as f64 / 1e6;
        let tenants = world.wishes.len().max(2) as f64;
        let longest_ns = tuning.max_wait_ns as f64 / (tenants - 1.0);
        // A process raises for a piece, looks, and then copies it: two ticks beside the copy.
        let raises_ns = world.card.card_bytes.div_ceil(PIECE_BYTES) * 2 * world.tick_ns;
        let move_ns = world.card.card_bytes as f64 * 1e9 / LINK_BYTES_PER_S as f64
            + (raises_ns + self.slowest_ns + 50 * MS) as f64;
        let turn_ns = (move_ns / planned).min(longest_ns).max(tuning.min_quantum_ns as f64);
        let most = (2.0 * move_ns / (turn_ns + move_ns)).max(2.0 * planned);
        let lost = 1.0 - self.ran_ns as f64 / self.wanted_ns as f64;
        if lost > most {
            self.breaks(world, format!("{:.1} of {:.1} % are lost", 100.0 * lost, 100.0 * most));
        }
    }
}

/// A tenant as it is: sums over its processes.
#[derive(Clone, Copy, Debug, Default)]
struct TenantSum {
    /// Bytes that exist, and those that it makes or wants beside.
    size_bytes: u64,
    /// Bytes that exist.
    held_bytes: u64,
    /// Bytes that others may have to do without.
    pinned_bytes: u64,
    waits: bool,
    asks: bool,
    is_adverse: bool,
}

fn sums(world: &MemoryWorld) -> Vec<TenantSum> {
    let mut sums = vec![TenantSum::default(); world.wishes.len()];
    for (tenant, process) in world.living() {
        let sum = &mut sums[tenant];
        sum.size_bytes = sum.size_bytes.saturating_add(process.size_bytes());
        sum.held_bytes = sum.held_bytes.saturating_add(process.held_bytes());
        sum.waits |= process.waits_from_ns != 0;
        sum.asks |= process.words.asked_bytes > 0;
        sum.is_adverse |= !process.is_able();
    }
    for (tenant, sum) in sums.iter_mut().enumerate().filter(|(_, sum)| sum.is_adverse) {
        let lies = world.living().any(|(t, p)| t == tenant && p.lie.is_some());
        sum.pinned_bytes = if lies { world.card.card_bytes } else { sum.size_bytes };
    }
    sums
}
