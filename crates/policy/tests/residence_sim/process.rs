//! One simulated process: its program, its gate, its chunks.
//!
//! Promises: an honest one obeys the orders as late as it is told to; a hostile one says anything. Does not know of
//! others.

use std::collections::VecDeque;

use divvy_policy::residence::{Freeze, Holder, HolderOrder, HolderStatus};

use super::{Draw, GIB, MIB, MS};

/// Size of a piece, where a test is not about it.
pub(crate) const CHUNK: u64 = 32 * MIB;
/// Rate at which the host's memory is made, bytes a second.
const COPIES: u64 = 4_000_000_000;

/// What a process does with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Always has work.
    Busy,
    /// Has none.
    Idle,
    /// Works and pauses, from its start on.
    Phases { on_ns: u64, off_ns: u64 },
    /// So much work, then it ends.
    Job { work_ns: u64 },
    /// So much work in phases that last until their work is done, with pauses between.
    PhasedJob { work_ns: u64, on_ns: u64, off_ns: u64 },
    /// Says anything; never evicts.
    Hostile,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) tenant: u64,
    pub(crate) program: Program,
    pub(crate) weight: u32,
    pub(crate) held_bytes: u64,
    pub(crate) asked_bytes: u64,
    pub(crate) resident_bytes: u64,
    /// Copies on the host that it has; more than it needs from the start where a test is not about them.
    pub(crate) copies_bytes: u64,
    pub(crate) freeze: Freeze,
    pub(crate) stopped: bool,
    /// The host has no room for what is to leave.
    pub(crate) cannot_leave: bool,
    stayed: u64,
    /// Size of its pieces.
    pub(crate) piece_bytes: u64,
    /// Time until an order is noticed, at most.
    pub(crate) lag_ns: u64,
    /// Length of its kernels: how long a drain takes.
    pub(crate) kernel_ns: u64,
    pub(crate) started_ns: u64,
    noticed: HolderOrder,
    notice_ns: u64,
    out_progress: u64,
    in_progress: u64,
    wants_since_ns: u64,
    submitted_ns: u64,
    busy_until_ns: u64,
    phase_done_ns: u64,
    pause_until_ns: u64,
    /// Levels left lately, that the driver is still clearing.
    cleared: VecDeque<(u64, u64)>,
    pub(crate) ran_ns: u64,
    pub(crate) work_ns: u64,
    pub(crate) done_ns: Option<u64>,
    /// Since when it waits with its gate closed.
    pub(crate) closed_since_ns: u64,
    pub(crate) longest_wait_ns: u64,
    pub(crate) refused: u64,
}

impl Process {
    pub(crate) fn new(tenant: u64, size_bytes: u64, program: Program, now_ns: u64) -> Self {
        Self {
            tenant,
            program,
            weight: 1,
            held_bytes: 0,
            asked_bytes: size_bytes,
            resident_bytes: 0,
            copies_bytes: u64::MAX,
            freeze: Freeze::No,
            stopped: false,
            cannot_leave: false,
            stayed: 0,
            piece_bytes: CHUNK,
            lag_ns: 0,
            kernel_ns: MS,
            started_ns: now_ns,
            noticed: HolderOrder::default(),
            notice_ns: 0,
            out_progress: 0,
            in_progress: 0,
            wants_since_ns: 0,
            submitted_ns: 0,
            busy_until_ns: 0,
            phase_done_ns: 0,
            pause_until_ns: 0,
            cleared: VecDeque::new(),
            ran_ns: 0,
            work_ns: 0,
            done_ns: None,
            closed_since_ns: 0,
            longest_wait_ns: 0,
            refused: 0,
        }
    }

    pub(crate) fn is_honest(&self) -> bool {
        self.program != Program::Hostile
    }

    pub(crate) fn has_work(&self, now_ns: u64) -> bool {
        match self.program {
            Program::Busy | Program::Hostile => true,
            Program::Idle => false,
            Program::Phases { on_ns, off_ns } => {
                (now_ns - self.started_ns) % (on_ns + off_ns).max(1) < on_ns
            }
            Program::Job { .. } => self.done_ns.is_none(),
            Program::PhasedJob { .. } => self.done_ns.is_none() && now_ns >= self.pause_until_ns,
        }
    }

    /// All its memory is there and its gate is open.
    pub(crate) fn is_open(&self, order: &HolderOrder) -> bool {
        order.run
            && self.resident_bytes == self.held_bytes
            && self.asked_bytes == 0
            && !self.stopped
    }

    pub(crate) fn evicts(&self, order: &HolderOrder, now_ns: u64) -> bool {
        let above = self.resident_bytes > order.allowed_bytes.max(self.noticed.allowed_bytes);
        let can = !self.stopped && !self.cannot_leave && self.is_honest();
        above && can && now_ns >= self.busy_until_ns
    }

    pub(crate) fn restores(&self, order: &HolderOrder) -> bool {
        let allowed_bytes = order.allowed_bytes.min(self.noticed.allowed_bytes);
        self.chunk_in() > 0
            && self.resident_bytes + self.chunk_in() <= allowed_bytes
            && !self.stopped
            && self.is_honest()
    }

    fn chunk_in(&self) -> u64 {
        self.piece_bytes.min(self.held_bytes - self.resident_bytes.min(self.held_bytes))
    }

    pub(crate) fn sample(&self, ceiling_bytes: u64, draw: &mut Draw) -> Holder {
        let honest = Holder {
            tenant: self.tenant,
            size_bytes: self.held_bytes + self.asked_bytes,
            asked_bytes: self.asked_bytes,
            spare_bytes: 0,
            resident_bytes: self.resident_bytes,
            returning_bytes: 0,
            stayed: self.stayed,
            copies_due_bytes: self.held_bytes.saturating_sub(self.copies_bytes),
            ceiling_bytes,
            wants_since_ns: self.wants_since_ns,
            submitted_ns: self.submitted_ns,
            waits_elsewhere: false,
            busy_until_ns: self.busy_until_ns,
            weight: self.weight,
            quantum_ns: 0,
            freeze: self.freeze,
        };
        if self.is_honest() {
            return honest;
        }
        let full_bytes = self.held_bytes;
        match self.tenant % 3 {
            // One that never lets go, and one that lets go of next to nothing.
            0 => return Holder { resident_bytes: full_bytes, wants_since_ns: 1, ..honest },
            1 => {
                let ticks = draw.0 % (1 << 20);
                let resident_bytes = full_bytes.saturating_sub(ticks);
                return Holder { resident_bytes, wants_since_ns: 1, ..honest };
            }
            _ => {}
        }
        let any = |draw: &mut Draw, most: u64| match draw.below(4) {
            0 => 0,
            1 => most,
            2 => u64::MAX,
            _ => draw.below(most),
        };
        // Its size is bounded by its limit, which the ledger enforces.
        Holder {
            asked_bytes: any(draw, 100 * GIB),
            resident_bytes: any(draw, 100 * GIB),
            stayed: any(draw, 2),
            wants_since_ns: any(draw, 1 << 40),
            submitted_ns: any(draw, 1 << 40),
            waits_elsewhere: any(draw, 2) == 1,
            busy_until_ns: any(draw, 1 << 40),
            ..honest
        }
    }

    /// Bytes on the device, with those that are being cleared.
    pub(crate) fn true_bytes(&mut self, now_ns: u64, clear_ns: u64) -> u64 {
        while self.cleared.front().is_some_and(|(left_ns, _)| left_ns + clear_ns < now_ns) {
            self.cleared.pop_front();
        }
        let peak = self.cleared.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        peak.max(self.resident_bytes)
    }

    fn release(&mut self, bytes: u64, now_ns: u64) {
        self.cleared.push_back((now_ns, self.resident_bytes));
        self.resident_bytes -= bytes.min(self.resident_bytes);
    }

    /// Gives memory back.
    pub(crate) fn free(&mut self, bytes: u64, now_ns: u64) {
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        let over = self.resident_bytes.saturating_sub(self.held_bytes);
        if over > 0 {
            self.release(over, now_ns);
        }
    }

    /// One tick; bytes moved out and in, and whether the planner is woken.
    pub(crate) fn tick(
        &mut self,
        now_ns: u64,
        tick_ns: u64,
        order: &HolderOrder,
        (out_budget, in_budget): (u64, u64),
        runs: u64,
        draw: &mut Draw,
    ) -> ((u64, u64), bool) {
        if self.stopped || !self.is_honest() {
            // What a stopped process submitted ends all the same.
            return ((0, 0), false);
        }
        let mut wakes = false;
        if self.noticed != *order {
            if self.notice_ns == 0 {
                self.notice_ns = now_ns + draw.below(self.lag_ns + 1);
            }
            if now_ns >= self.notice_ns {
                self.noticed = *order;
                self.notice_ns = 0;
            }
        }
        self.stayed += u64::from(self.cannot_leave && self.resident_bytes > order.allowed_bytes);
        if self.asked_bytes > 0 {
            if order.status == HolderStatus::Larger {
                self.refused += 1;
                self.asked_bytes = 0;
            } else if self.resident_bytes + self.asked_bytes <= order.allowed_bytes {
                self.resident_bytes += self.asked_bytes;
                self.held_bytes += self.asked_bytes;
                self.asked_bytes = 0;
            }
        }
        let mut moved = (0, 0);
        let made_bytes = (u128::from(COPIES) * u128::from(tick_ns) / 1_000_000_000) as u64;
        if self.is_open(order) && self.copies_bytes < self.held_bytes {
            self.copies_bytes += made_bytes;
        }
        if self.evicts(order, now_ns) {
            let has_copy =
                self.held_bytes - self.resident_bytes + self.piece_bytes <= self.copies_bytes;
            let left_bytes = if has_copy { out_budget } else { out_budget.min(made_bytes) };
            self.copies_bytes += if has_copy { 0 } else { left_bytes };
            self.out_progress += left_bytes;
            while self.out_progress >= self.piece_bytes && self.resident_bytes > order.allowed_bytes
            {
                let chunk = self.piece_bytes.min(self.resident_bytes);
                self.out_progress -= self.piece_bytes;
                self.release(chunk, now_ns);
                moved.0 += chunk;
                wakes = true;
            }
        } else {
            self.out_progress = 0;
        }
        if self.restores(order) {
            self.in_progress += in_budget;
            while self.restores(order) && self.in_progress >= self.chunk_in() {
                let chunk = self.chunk_in();
                self.in_progress -= chunk;
                self.resident_bytes += chunk;
                moved.1 += chunk;
                wakes |= self.resident_bytes == self.held_bytes;
            }
        } else {
            self.in_progress = 0;
        }
        (moved, self.work(now_ns, tick_ns, order, runs) || wakes)
    }

    /// Works where it may, wants where it may not; whether it begins to want.
    fn work(&mut self, now_ns: u64, tick_ns: u64, order: &HolderOrder, runs: u64) -> bool {
        let wanted = self.wants_since_ns != 0;
        // A call that waits goes on waiting.
        let has_work = self.has_work(now_ns) || wanted && self.asked_bytes == 0;
        if has_work && self.is_open(order) {
            self.submitted_ns = now_ns;
            // The next kernel is submitted as the last one ends.
            if self.busy_until_ns <= now_ns + tick_ns {
                self.busy_until_ns = now_ns + self.kernel_ns;
            }
            self.ran_ns += tick_ns;
            let done_ns = tick_ns / runs.max(1);
            self.work_ns += done_ns;
            self.phase_done_ns += done_ns;
            if let Program::Job { work_ns } | Program::PhasedJob { work_ns, .. } = self.program
                && self.work_ns >= work_ns
            {
                self.done_ns = Some(now_ns);
            }
            if let Program::PhasedJob { on_ns, off_ns, .. } = self.program
                && self.phase_done_ns >= on_ns
            {
                self.phase_done_ns = 0;
                self.pause_until_ns = now_ns + off_ns;
            }
            self.end_wait(now_ns);
        } else if has_work || self.asked_bytes > 0 {
            if self.wants_since_ns == 0 {
                self.wants_since_ns = now_ns;
                self.closed_since_ns = now_ns;
            }
        } else {
            self.end_wait(now_ns);
        }
        !wanted && self.wants_since_ns != 0
    }

    fn end_wait(&mut self, now_ns: u64) {
        if self.wants_since_ns != 0 {
            let waited_ns = now_ns - self.closed_since_ns;
            self.longest_wait_ns = self.longest_wait_ns.max(waited_ns);
        }
        self.wants_since_ns = 0;
        self.closed_since_ns = 0;
    }

    /// Time that it has waited by now.
    pub(crate) fn waits_ns(&self, now_ns: u64) -> u64 {
        match self.closed_since_ns {
            0 => 0,
            since_ns => now_ns - since_ns,
        }
    }
}
