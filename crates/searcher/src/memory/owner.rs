//! The owner's side: the daemon's step over what processes say, with the shipped planner, promise and division.
//!
//! Promises: it reads after its last orders were written, and keeps what the daemon keeps (`crates/divvy/src/daemon/memory.rs`):
//! a new one knows nothing. Does not see what is true.

use divvy_policy::residence::{
    DeviceRoom, Freeze, Holder, HolderOrder, HolderState, HostClaim, HostPlace, HostPromise,
    ORDER_LEASE_NS, PINNED_OUT_NS, ProcessCeiling, ProcessMemory, ResidencePlanner, ResidenceState,
    ResidenceTuning, divide,
};

use super::process::{PIECE_BYTES, StandingOrder};

/// Time between steps while tenants come, grow or ask, and for how long after.
const LIVELY_NS: (u64, u64) = (2_000_000, 2_000_000_000);

/// Words of a process, as the owner reads them.
#[derive(Clone, Copy, Debug)]
pub struct ProcessWords {
    /// Its tenant.
    pub tenant: usize,
    /// Its memory.
    pub memory: ProcessMemory,
    /// Since when it waits.
    pub waits_from_ns: u64,
    /// Its last launch, and the end of its work.
    pub work_ns: (u64, u64),
}

/// Settings of a tenant by a user.
#[derive(Clone, Copy, Debug, Default)]
pub struct TenantWish {
    /// Its weight.
    pub weight: u32,
    /// Length of its turns; 0 for the default.
    pub quantum_ns: u64,
    /// A wish that its memory leave.
    pub frozen: bool,
}

/// The owner of one device.
#[derive(Debug)]
pub struct MemoryOwner {
    tuning: ResidenceTuning,
    states: Vec<HolderState>,
    /// The planner's own.
    pub state: ResidenceState,
    /// The last samples.
    pub holders: Vec<Holder>,
    /// The last orders.
    pub orders: Vec<HolderOrder>,
    /// Bytes that the host is promised for, and the room that there was.
    pub promised_bytes: u64,
    claims: Vec<HostClaim>,
    pinned_out_ns: Vec<u64>,
    sizes: Vec<u64>,
    /// Ceilings that stand, by process.
    ceilings: Vec<ProcessCeiling>,
    lively_until_ns: u64,
    /// When the next step is due.
    pub next_ns: u64,
}

impl MemoryOwner {
    /// One that knows nothing, of so many tenants and processes.
    pub fn new(tenants: usize, processes: usize, max_wait_ns: u64) -> Self {
        let tuning = ResidenceTuning {
            max_wait_ns,
            patience_ns: ResidenceTuning::default().patience_ns.min(max_wait_ns / 6),
            ..ResidenceTuning::default()
        };
        Self {
            tuning,
            states: vec![HolderState::default(); tenants],
            state: ResidenceState::default(),
            holders: vec![Holder::default(); tenants],
            orders: vec![HolderOrder::default(); tenants],
            promised_bytes: 0,
            claims: vec![HostClaim::default(); tenants],
            pinned_out_ns: vec![0; tenants],
            sizes: vec![0; tenants],
            ceilings: vec![ProcessCeiling::default(); processes],
            lively_until_ns: 0,
            next_ns: 0,
        }
    }

    /// Constants of its turns.
    pub fn tuning(&self) -> &ResidenceTuning {
        &self.tuning
    }

    /// A step: reads `words`, of each process or of none that lives there, and writes `standing`.
    pub fn step(
        &mut self,
        now_ns: u64,
        (room, host_bytes): (DeviceRoom, u64),
        words: &[Option<ProcessWords>],
        wishes: &[TenantWish],
        standing: &mut [StandingOrder],
    ) {
        let capacity_bytes = room.capacity_bytes;
        let sample = |tenant| {
            let (holder, refuses) = self.sample(tenant, now_ns, capacity_bytes, words, wishes);
            self.holders[tenant] = holder;
            refuses
        };
        let mut refuses: Vec<_> = (0..wishes.len()).map(sample).collect();
        self.promise(capacity_bytes, host_bytes, words, &mut refuses);
        for (holder, size_bytes) in self.holders.iter().zip(&mut self.sizes) {
            if holder.asked_bytes > 0 || holder.size_bytes != *size_bytes {
                self.lively_until_ns = now_ns + LIVELY_NS.1;
            }
            *size_bytes = holder.size_bytes;
        }
        let Self { tuning, states, state, holders, orders, .. } = self;
        let mut planner = ResidencePlanner { tuning, rows: states, state };
        self.next_ns = planner.step(now_ns, room, holders, orders);
        if now_ns < self.lively_until_ns {
            self.next_ns = self.next_ns.min(now_ns + LIVELY_NS.0);
        }
        for (tenant, refuses) in refuses.into_iter().enumerate() {
            self.put(tenant, now_ns, refuses, words, standing);
        }
    }

    /// Sum of what a tenant's processes say; and whether what it asks for is not to be had.
    fn sample(
        &mut self,
        tenant: usize,
        now_ns: u64,
        capacity_bytes: u64,
        words: &[Option<ProcessWords>],
        wishes: &[TenantWish],
    ) -> (Holder, bool) {
        let own = || words.iter().flatten().filter(|words| words.tenant == tenant);
        if own().next().is_none() {
            self.claims[tenant].promised_bytes = 0;
            return (Holder::default(), false);
        }
        let sum = |part: fn(&ProcessMemory) -> u64| {
            own().map(|words| part(&words.memory)).fold(0, u64::saturating_add)
        };
        let [resident_bytes, away_bytes, asked_bytes] =
            [sum(|m| m.resident_bytes), sum(|m| m.away_bytes), sum(|m| m.asked_bytes)];
        let held_bytes = resident_bytes.saturating_add(away_bytes);
        let out_ns = self.pinned_out_ns[tenant];
        let is_out = out_ns != 0 && now_ns - out_ns >= PINNED_OUT_NS;
        let is_larger = held_bytes.saturating_add(asked_bytes) > capacity_bytes;
        let refuses = asked_bytes > 0 && (is_out || is_larger);
        let asked_bytes = if refuses { 0 } else { asked_bytes };
        let waits_ns = own().map(|words| words.waits_from_ns).filter(|ns| *ns != 0).min();
        let ceilings = words.iter().zip(&self.ceilings);
        let ceilings = ceilings.filter(|(words, _)| words.is_some_and(|w| w.tenant == tenant));
        let wish = wishes[tenant];
        let holder = Holder {
            tenant: tenant as u64 + 1,
            size_bytes: held_bytes.saturating_add(asked_bytes),
            asked_bytes,
            resident_bytes,
            spare_bytes: 0,
            returning_bytes: sum(|m| m.returning_bytes),
            stayed: 0,
            copies_due_bytes: 0,
            ceiling_bytes: ceilings.map(|(_, ceiling)| ceiling.bytes).sum(),
            wants_since_ns: waits_ns.unwrap_or(if asked_bytes > 0 { now_ns } else { 0 }),
            submitted_ns: own().map(|words| words.work_ns.0).max().unwrap_or(0),
            busy_until_ns: own().map(|words| words.work_ns.1).max().unwrap_or(0),
            weight: wish.weight,
            waits_elsewhere: false,
            quantum_ns: wish.quantum_ns,
            freeze: if wish.frozen { Freeze::UntilWanted } else { Freeze::No },
        };
        (holder, refuses)
    }

    /// Takes back what is asked for where the host has no room.
    fn promise(
        &mut self,
        capacity_bytes: u64,
        host_bytes: u64,
        words: &[Option<ProcessWords>],
        refuses: &mut [bool],
    ) {
        for (claim, holder) in self.claims.iter_mut().zip(&self.holders) {
            *claim = HostClaim {
                held_bytes: holder.size_bytes - holder.asked_bytes,
                asked_bytes: holder.asked_bytes,
                promised_bytes: claim.promised_bytes,
                is_frozen: holder.freeze != Freeze::No,
                ..HostClaim::default()
            };
        }
        let places = [HostPlace { room_bytes: host_bytes }];
        let promise = HostPromise { capacity_bytes, piece_bytes: PIECE_BYTES, places: &places };
        promise.settle(&mut self.claims);
        self.promised_bytes = promise.needed_bytes(0, &self.claims);
        let all = self.claims.iter().zip(&mut self.holders).zip(refuses);
        for (tenant, ((claim, holder), refuses)) in all.enumerate() {
            if claim.is_refused {
                *refuses = true;
                (holder.size_bytes, holder.asked_bytes) = (claim.held_bytes, 0);
                let own = words.iter().flatten().filter(|words| words.tenant == tenant);
                let waits_ns = own.map(|words| words.waits_from_ns).filter(|ns| *ns != 0).min();
                holder.wants_since_ns = waits_ns.unwrap_or(0);
            }
        }
    }

    fn put(
        &mut self,
        tenant: usize,
        now_ns: u64,
        refuses: bool,
        words: &[Option<ProcessWords>],
        standing: &mut [StandingOrder],
    ) {
        let order = self.orders[tenant];
        self.pinned_out_ns[tenant] = match order.status {
            divvy_policy::residence::HolderStatus::PinnedOut => {
                if self.pinned_out_ns[tenant] == 0 {
                    now_ns
                } else {
                    self.pinned_out_ns[tenant]
                }
            }
            _ => 0,
        };
        let rows = words.iter().enumerate();
        let rows =
            rows.filter_map(|(row, words)| Some((row, words.filter(|w| w.tenant == tenant)?)));
        let (rows, memory): (Vec<_>, Vec<_>) = rows.map(|(row, words)| (row, words.memory)).unzip();
        let stood = |(row, memory): (&usize, &ProcessMemory)| match now_ns < standing[*row].lease_ns
        {
            true => self.ceilings[*row],
            false => ProcessCeiling::found(memory),
        };
        let mut given: Vec<_> = rows.iter().zip(&memory).map(stood).collect();
        divide(order.allowed_bytes, &memory, &mut given);
        for (row, ceiling) in rows.into_iter().zip(given) {
            self.ceilings[row] = ceiling;
            let stands = &mut standing[row];
            let lease_ns =
                match now_ns + ORDER_LEASE_NS.1 > stands.lease_ns || order.run != stands.run {
                    true => now_ns + ORDER_LEASE_NS.0,
                    false => stands.lease_ns,
                };
            *stands = StandingOrder {
                lease_ns,
                allowed_bytes: ceiling.bytes,
                run: order.run,
                locked_out: order.locked_out.is_some(),
                refused_ns: if refuses { now_ns } else { 0 },
            };
        }
    }
}
