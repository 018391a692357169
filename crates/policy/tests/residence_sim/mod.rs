//! A device, its link and processes that evict and restore, in virtual time; the planner beside them.
//!
//! Promises: the same seed gives the same run; what honest processes really have on the device is checked at each tick.
//! Does not model compute beyond "those whose gates are open share it".
#![allow(dead_code, reason = "each test binary uses a part of the model")]

pub(crate) mod process;

use divvy_policy::residence::{
    DeviceRoom, Freeze, Holder, HolderOrder, HolderState, HolderStatus, ResidencePlanner,
    ResidenceState, ResidenceTuning,
};
use process::{Process, Program};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SEC: u64 = 1_000_000_000;
pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const MIB: u64 = 1 << 20;

/// Rate of the link one way, bytes a second.
pub(crate) const LINK: u64 = 50_000_000_000;
/// Time for which the driver clears released bytes before it hands them out again.
const CLEAR_NS: u64 = 7_700 * US;

/// Pseudo-random numbers.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

pub(crate) struct Node {
    pub(crate) now_ns: u64,
    pub(crate) tick_ns: u64,
    pub(crate) tuning: ResidenceTuning,
    pub(crate) room: DeviceRoom,
    pub(crate) rows: Vec<HolderState>,
    pub(crate) state: ResidenceState,
    pub(crate) procs: Vec<Option<Process>>,
    pub(crate) orders: Vec<HolderOrder>,
    pub(crate) draw: Draw,
    /// Part of the orders that are lost, and how late a step may be.
    pub(crate) lost_percent: u64,
    pub(crate) late_ns: u64,
    next_step_ns: u64,
    /// True bytes in use at the last tick, to see that they do not grow while there are too many.
    last_true_bytes: u64,
    pub(crate) steps: u64,
    /// Time in which a process had work, and in which one of them ran.
    pub(crate) wanted_ns: u64,
    pub(crate) ran_ns: u64,
    pub(crate) moved_out_bytes: u64,
    pub(crate) moved_in_bytes: u64,
    tenants: u64,
}

impl Node {
    pub(crate) fn new(capacity_bytes: u64, rows: usize) -> Self {
        Self {
            now_ns: SEC,
            tick_ns: MS / 4,
            tuning: ResidenceTuning::default(),
            room: DeviceRoom { capacity_bytes, room_bytes: capacity_bytes },
            rows: vec![HolderState::default(); rows],
            state: ResidenceState::default(),
            procs: (0..rows).map(|_| None).collect(),
            orders: vec![HolderOrder::default(); rows],
            draw: Draw(7),
            lost_percent: 0,
            late_ns: 0,
            next_step_ns: 0,
            last_true_bytes: 0,
            steps: 0,
            wanted_ns: 0,
            ran_ns: 0,
            moved_out_bytes: 0,
            moved_in_bytes: 0,
            tenants: 0,
        }
    }

    /// Puts a process into a row, whose memory it asks for.
    pub(crate) fn start(&mut self, row: usize, size_bytes: u64, program: Program) -> &mut Process {
        self.tenants += 1;
        self.orders[row] = HolderOrder::default();
        let process = Process::new(self.tenants, size_bytes, program, self.now_ns);
        self.next_step_ns = 0;
        self.procs[row].insert(process)
    }

    pub(crate) fn kill(&mut self, row: usize) {
        self.procs[row] = None;
        self.next_step_ns = 0;
        self.last_true_bytes = u64::MAX;
    }

    /// Another planner takes over: all state is lost, the orders stand.
    pub(crate) fn restart(&mut self) {
        self.rows.iter_mut().for_each(|row| *row = HolderState::default());
        self.state = ResidenceState::default();
    }

    pub(crate) fn proc(&self, row: usize) -> &Process {
        self.procs[row].as_ref().expect("a process in this row")
    }

    pub(crate) fn proc_mut(&mut self, row: usize) -> &mut Process {
        self.procs[row].as_mut().expect("a process in this row")
    }

    pub(crate) fn status(&self, row: usize) -> HolderStatus {
        self.orders[row].status
    }

    pub(crate) fn run_until(&mut self, end_ns: u64) {
        while self.now_ns < end_ns {
            self.tick();
        }
    }

    pub(crate) fn run_for(&mut self, ns: u64) {
        self.run_until(self.now_ns + ns);
    }

    pub(crate) fn step_now(&mut self) {
        self.next_step_ns = 0;
        self.step();
    }

    fn step(&mut self) {
        if self.now_ns < self.next_step_ns {
            return;
        }
        let holders: Vec<Holder> = (0..self.rows.len())
            .map(|row| match &mut self.procs[row] {
                Some(process) => process.sample(self.orders[row].allowed_bytes, &mut self.draw),
                None => Holder::default(),
            })
            .collect();
        let mut planner =
            ResidencePlanner { tuning: &self.tuning, rows: &mut self.rows, state: &mut self.state };
        let before = self.orders.clone();
        self.next_step_ns = planner.step(self.now_ns, self.room, &holders, &mut self.orders);
        assert!(self.next_step_ns > self.now_ns);
        if self.late_ns > 0 {
            self.next_step_ns += self.draw.below(self.late_ns);
        }
        self.steps += 1;
        self.check_orders(&before, &holders);
        if self.procs.iter().flatten().all(Process::is_honest) {
            self.check_deficit(&holders);
        }
        for (order, before) in self.orders.iter_mut().zip(before) {
            if self.draw.below(100) < self.lost_percent {
                *order = before;
            }
        }
    }

    /// Ceilings fit the device, as far as they have risen, and exceed a tenant only where all fit; a gate opens only over
    /// what is there.
    fn check_orders(&self, before: &[HolderOrder], holders: &[Holder]) {
        let capacity_bytes = self.room.capacity_bytes;
        let sum: u64 = self.orders.iter().map(|o| o.allowed_bytes).sum();
        let rises =
            self.orders.iter().zip(before).any(|(new, old)| new.allowed_bytes > old.allowed_bytes);
        assert!(sum <= capacity_bytes || !rises, "{} GiB of ceilings", sum / GIB);
        let held = holders.iter().filter(|h| h.freeze == Freeze::No).map(|h| h.size_bytes);
        let all_fit = held.fold(0, u64::saturating_add) <= capacity_bytes;
        for ((order, holder), process) in self.orders.iter().zip(holders).zip(&self.procs) {
            assert!(order.allowed_bytes <= holder.size_bytes || all_fit, "above its size");
            assert!(!order.run || holder.tenant != 0, "an empty row runs");
            // One that lies may run without its memory: its own harm.
            let is_honest = process.as_ref().is_some_and(Process::is_honest);
            let is_whole =
                holder.resident_bytes.saturating_add(holder.asked_bytes) >= holder.size_bytes;
            let is_kept = order.allowed_bytes >= holder.resident_bytes;
            assert!(!order.run || !is_honest || is_whole && is_kept, "runs without its memory");
        }
        let running = self.orders.iter().zip(holders).filter(|(o, _)| o.run);
        let sizes: u64 = running.map(|(_, h)| h.size_bytes).sum();
        assert!(sizes <= capacity_bytes, "{} GiB run", sizes / GIB);
    }

    /// Whoever loses bytes loses what the running set and the next to run are short of, and no more.
    fn check_deficit(&self, holders: &[Holder]) {
        use HolderStatus::{Bypassed, Larger, PinnedOut, Restores, Rests, Runs, Waits};
        let rows = || self.orders.iter().zip(holders);
        if rows().any(|(o, _)| o.status == Bypassed) {
            return;
        }
        let loses = rows().any(|(o, h)| {
            matches!(o.status, Waits | Rests | PinnedOut | Larger)
                && o.allowed_bytes < h.resident_bytes.min(h.size_bytes)
        });
        let needed: u64 =
            rows()
                .map(|(o, h)| {
                    if matches!(o.status, Runs | Restores) { h.size_bytes } else { o.allowed_bytes }
                })
                .sum();
        let ahead = rows()
            .filter(|(o, _)| o.status == Waits)
            .map(|(o, h)| h.size_bytes - o.allowed_bytes)
            .max()
            .unwrap_or(0);
        assert!(
            !loses || needed + ahead >= self.room.capacity_bytes,
            "more than the deficit moves"
        );
    }

    fn tick(&mut self) {
        self.step();
        let now_ns = self.now_ns;
        let rate = |movers: usize| {
            (u128::from(LINK) * u128::from(self.tick_ns) / 1_000_000_000 / movers.max(1) as u128)
                as u64
        };
        let each = self.procs.iter().zip(&self.orders);
        let (mut outs, mut ins, mut runs, mut wants) = (0, 0, 0, 0);
        for (process, order) in each.filter_map(|(p, o)| Some((p.as_ref()?, o))) {
            outs += usize::from(process.evicts(order, now_ns));
            ins += usize::from(process.restores(order));
            let works = process.has_work(now_ns) && process.is_honest();
            runs += u64::from(works && process.is_open(order));
            wants += u64::from(works);
        }
        let (out_budget, in_budget) = (rate(outs), rate(ins));
        self.wanted_ns += if wants > 0 { self.tick_ns } else { 0 };
        self.ran_ns += if runs > 0 { self.tick_ns } else { 0 };
        let mut wakes = false;
        for row in 0..self.procs.len() {
            let Some(process) = &mut self.procs[row] else { continue };
            let (moved, wake) = process.tick(
                now_ns,
                self.tick_ns,
                &self.orders[row],
                (out_budget, in_budget),
                runs,
                &mut self.draw,
            );
            self.moved_out_bytes += moved.0;
            self.moved_in_bytes += moved.1;
            wakes |= wake;
        }
        if wakes && self.late_ns == 0 {
            self.next_step_ns = 0;
        }
        self.now_ns += self.tick_ns;
        self.check_truth();
    }

    /// Honest processes never have more than the device, bytes being cleared included; too many never grow.
    fn check_truth(&mut self) {
        let now_ns = self.now_ns;
        let honest = self.procs.iter_mut().flatten().filter(|p| p.is_honest());
        let sum: u64 = honest.map(|p| p.true_bytes(now_ns, CLEAR_NS)).sum();
        let allowed = self.room.capacity_bytes.max(self.last_true_bytes);
        assert!(sum <= allowed, "{} of {} MiB in use", sum / MIB, allowed / MIB);
        self.last_true_bytes = sum;
    }

    /// Sets the bytes of the device.
    pub(crate) fn resize(&mut self, capacity_bytes: u64) {
        self.room = DeviceRoom { capacity_bytes, room_bytes: capacity_bytes };
        self.next_step_ns = 0;
        self.last_true_bytes = u64::MAX;
    }

    pub(crate) fn freeze(&mut self, row: usize, freeze: Freeze) {
        self.proc_mut(row).freeze = freeze;
        self.next_step_ns = 0;
    }
}
