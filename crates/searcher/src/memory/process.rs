//! A process with memory that may leave: it follows orders as the library does.
//!
//! It raises its word before memory exists, looks at its ceiling after that, and takes the raise back where that is too high;
//! it lowers its word after memory was released. What is asked for is withdrawn in the step in which it is raised. To let go
//! it closes its door, lets its work end (`service.rs`) and copies piece by piece.
//!
//! Promises: a step is what happens between two ticks, and it may be stopped, or die, between any two of them. Does not
//! know others.

use divvy_policy::residence::ProcessMemory;
use divvy_policy::slab::MAX_BYTES;

use super::card::MemoryCard;
use super::case::{MIB, MemoryProgram};
use super::fault::Fault;
use super::service::{Look, MemoryService};
use crate::choice::mix;

/// Largest piece in which memory moves.
pub const PIECE_BYTES: u64 = MAX_BYTES;
/// Between two attempts at a driver that has no memory, and how long a new block is tried for.
const RETRY_NS: u64 = 5_000_000;
const PATIENCE_NS: u64 = 300_000_000;

/// Words of a process that are not sums over its pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpokenWords {
    /// Bytes that are there, or about to come.
    pub resident_bytes: u64,
    /// Bytes that it asks for.
    pub asked_bytes: u64,
}

/// Order to a process, as the owner's file has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandingOrder {
    /// When it ends to hold.
    pub lease_ns: u64,
    /// Bytes that may be on the card.
    pub allowed_bytes: u64,
    /// Calls may use the memory.
    pub run: bool,
    /// Calls that wait for it wait in vain.
    pub locked_out: bool,
    /// When what was asked for was refused; 0 for not.
    pub refused_ns: u64,
}

/// A raise of the word for which no memory exists yet.
#[derive(Clone, Copy, Debug)]
enum Raise {
    /// It has not looked at its ceiling.
    Looks { bytes: u64, is_new: bool },
    /// Memory exists from then on, or begins to be filled.
    Made { bytes: u64, is_new: bool, from_ns: u64 },
}

/// A process.
#[derive(Debug)]
pub struct MemoryProcess {
    program: MemoryProgram,
    /// Its words: bytes that are there or about to come, and those asked for.
    pub words: SpokenWords,
    /// Since when a call waits; 0 for none.
    pub waits_from_ns: u64,
    /// Its last launch, and the end of its kernels.
    pub work_ns: (u64, u64),
    pub(super) service: MemoryService,
    /// Bytes on the card.
    pub there_bytes: u64,
    /// Bytes on the host.
    pub away_bytes: u64,
    raise: Option<Raise>,
    /// Blocks that it is to make.
    wanted_bytes: u64,
    asked_ns: u64,
    denied_ns: u64,
    retry_ns: u64,
    noticed: StandingOrder,
    notice_ns: u64,
    out_budget: u64,
    in_budget: u64,
    draw: u64,
    /// Stopped, lets nothing go, and the kind of its lies.
    pub stopped: bool,
    /// It lets nothing go, and whether some of it was to leave meanwhile.
    pub holds: bool,
    stays: bool,
    /// The kind of its lies.
    pub lie: Option<u64>,
    /// The driver has nothing for it until then.
    pub no_create_until_ns: u64,
    /// Its calls have failed, since they would wait in vain.
    pub is_told: bool,
    /// The driver refused what the owner allowed, in the last tick.
    is_denied: bool,
    /// Counts: blocks refused, creates that found the card full, copies that found the host full.
    pub refused: u64,
    /// Creates that found the card full.
    pub full: u64,
    /// When a copy found the host full last.
    pub host_full_ns: u64,
    /// Bytes that have left, and come back.
    pub moved_bytes: [u64; 2],
    /// Whether it worked in the last tick.
    pub works: bool,
}

impl MemoryProcess {
    /// One that starts now; a fault is one of its library.
    pub fn new(program: &MemoryProgram, seed: u64, fault: Option<Fault>) -> Self {
        Self {
            program: program.clone(),
            words: SpokenWords::default(),
            waits_from_ns: 0,
            work_ns: (0, 0),
            service: MemoryService::new(fault),
            there_bytes: 0,
            away_bytes: 0,
            raise: None,
            wanted_bytes: program.mib * MIB,
            asked_ns: 0,
            denied_ns: 0,
            retry_ns: 0,
            noticed: StandingOrder::default(),
            notice_ns: 0,
            out_budget: 0,
            in_budget: 0,
            draw: seed,
            stopped: false,
            holds: false,
            stays: false,
            lie: None,
            no_create_until_ns: 0,
            is_told: false,
            is_denied: false,
            refused: 0,
            full: 0,
            host_full_ns: 0,
            moved_bytes: [0; 2],
            works: false,
        }
    }

    /// Whether it does as it is told, at once.
    pub fn is_able(&self) -> bool {
        !self.stopped && !self.holds && !self.service.is_bare() && self.lie.is_none()
    }

    /// Something holds it up for which others have to wait, and that is to end by itself.
    pub fn is_held_up(&self, now_ns: u64) -> bool {
        !self.stopped && self.service.is_held_up(now_ns)
    }

    /// Calls have used memory that was not there.
    pub fn works_on_away(&self) -> bool {
        self.works && self.away_bytes > 0
    }

    /// Its last launch, and the end of its work, as it says them.
    pub fn said_work_ns(&self) -> (u64, u64) {
        match self.service.waits_for_host() {
            true => (self.work_ns.0, u64::MAX),
            false => self.work_ns,
        }
    }

    /// Whether it says what is free of the card: it has memory, on the card or away, and a context there in which the driver
    /// is asked; or the driver refuses what the owner allows. One that can let nothing go says it too.
    pub fn tells_free(&self) -> bool {
        let is_heard = !self.stopped && self.lie.is_none() && self.service.tells();
        is_heard && (self.held_bytes() > 0 || self.is_denied)
    }

    /// Bytes that exist, and those that it makes or wants beside.
    pub fn size_bytes(&self) -> u64 {
        let raised_bytes = match self.raise {
            Some(Raise::Looks { bytes, is_new: true }) => bytes,
            _ => 0,
        };
        self.held_bytes() + raised_bytes + self.wanted_bytes
    }

    /// Bytes that exist.
    pub fn held_bytes(&self) -> u64 {
        let twice_bytes = match self.raise {
            Some(Raise::Made { bytes, is_new: false, .. }) => bytes,
            _ => 0,
        };
        self.there_bytes + self.away_bytes - twice_bytes
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw = mix(self.draw);
        self.draw % bound.max(1)
    }

    fn has_work(&self, now_ns: u64) -> bool {
        let MemoryProgram { start_ms, on_ms, off_ms, .. } = self.program;
        (now_ns / 1_000_000).saturating_sub(start_ms) % (on_ms + off_ms).max(1) < on_ms
    }

    /// Makes blocks of `bytes` more, once those before are made.
    pub fn ask(&mut self, bytes: u64) {
        if self.words.asked_bytes == 0 && self.raise.is_none() {
            self.wanted_bytes += bytes;
        }
    }

    /// Frees what is there and is not on its way.
    pub fn free(&mut self, bytes: u64, card: &mut MemoryCard, now_ns: u64) {
        let moving_bytes = match self.raise {
            // A block that is being made is not the program's yet.
            Some(Raise::Made { bytes, .. }) => bytes,
            _ => 0,
        };
        if self.stopped || self.lie.is_some() {
            return;
        }
        let bytes = bytes.min(self.there_bytes - moving_bytes);
        self.there_bytes -= bytes;
        card.release(bytes, now_ns);
        self.words.resident_bytes -= bytes;
    }

    /// Its memory ends with it.
    pub fn die(&mut self, card: &mut MemoryCard, now_ns: u64) {
        card.release(self.there_bytes, now_ns);
        card.away_bytes -= self.away_bytes;
    }

    /// From now on its words are lies; what it had is gone.
    pub fn begin_to_lie(&mut self, kind: u64, card: &mut MemoryCard, now_ns: u64) {
        self.die(card, now_ns);
        (self.there_bytes, self.away_bytes, self.wanted_bytes, self.raise) = (0, 0, 0, None);
        self.lie = Some(kind);
    }

    /// Its words, be they true or not.
    pub fn say(&mut self, now_ns: u64, card_bytes: u64) -> ProcessMemory {
        let Some(kind) = self.lie else {
            let coming_bytes = match self.raise {
                Some(Raise::Looks { bytes, .. } | Raise::Made { bytes, .. }) => bytes,
                None => 0,
            };
            let SpokenWords { resident_bytes, asked_bytes } = self.words;
            let there_bytes = resident_bytes - coming_bytes;
            let said =
                ProcessMemory::said(there_bytes, resident_bytes, self.away_bytes, asked_bytes);
            return ProcessMemory { stays: self.stays, ..said };
        };
        let mut any = |most: u64| match self.below(4) {
            0 => 0,
            1 => most,
            2 => u64::MAX,
            _ => self.below(most),
        };
        let full_bytes = card_bytes / 4;
        let [there_bytes, resident_bytes, away_bytes, asked_bytes] = match kind {
            0 => [full_bytes, full_bytes, 0, 0],
            1 => [full_bytes - (now_ns >> 10) % full_bytes.max(1), 0, full_bytes / 2, 0],
            2 => [0, 0, 0, full_bytes],
            _ => [any(card_bytes), any(card_bytes), any(card_bytes), any(card_bytes)],
        };
        ProcessMemory::said(there_bytes, resident_bytes, away_bytes, asked_bytes)
    }

    /// The order that it sees, as far as it has noticed it; none where the lease has passed.
    fn order(&mut self, order: &StandingOrder, now_ns: u64) -> Option<StandingOrder> {
        let is_other = |a: &StandingOrder, b: &StandingOrder| {
            (a.allowed_bytes, a.run, a.locked_out) != (b.allowed_bytes, b.run, b.locked_out)
        };
        if is_other(&self.noticed, order) {
            if self.notice_ns == 0 {
                self.notice_ns = now_ns + self.below(self.program.lag_us * 1_000 + 1);
            }
            if now_ns < self.notice_ns {
                return (now_ns < order.lease_ns).then_some(self.noticed);
            }
        }
        (self.noticed, self.notice_ns) = (*order, 0);
        (now_ns < order.lease_ns).then_some(*order)
    }

    /// Whether memory is to leave, and whether some is to come: for the parts of the link.
    pub fn moves(&self, order: &StandingOrder, now_ns: u64) -> [bool; 2] {
        let is_ordered = now_ns < order.lease_ns;
        let leaves = is_ordered && self.words.resident_bytes > order.allowed_bytes;
        let goes_on = !self.stopped && self.lie.is_none();
        [leaves && self.is_able(), self.away_bytes > 0 && self.raise.is_some() && goes_on]
    }

    /// A tick: what it sees, moves, makes and works on.
    pub fn tick(
        &mut self,
        now_ns: u64,
        standing: &StandingOrder,
        card: &mut MemoryCard,
        [out_bytes, in_bytes]: [u64; 2],
    ) {
        (self.works, self.is_denied) = (false, false);
        if self.stopped || self.lie.is_some() {
            return;
        }
        let noticed = self.order(standing, now_ns);
        // A call at the closed door, whichever process of the tenant lacks memory; one that asks waits outside.
        if self.waits_from_ns != 0 && self.words.asked_bytes == 0 && !self.service.lets_in() {
            self.is_told = noticed.is_some_and(|order| order.locked_out);
        }
        // An order that it sees late it follows late; the ceiling that it looks at is the one that stands.
        let (least_bytes, most_bytes) = noticed.map_or((u64::MAX, u64::MAX), |order| {
            let [one, other] = [order.allowed_bytes, standing.allowed_bytes];
            (one.min(other), one.max(other))
        });
        if self.service.pass(now_ns) {
            self.work_ns.1 = self.work_ns.1.min(now_ns);
        }
        self.go_on_raising(now_ns, standing, card, in_bytes);
        if !self.service.is_bare() {
            self.make_blocks(now_ns, standing);
        }
        let look = Look {
            runs: noticed.is_none_or(|order| order.run),
            is_over: self.words.resident_bytes > most_bytes,
            captures: self.holds,
            works: now_ns < self.work_ns.1,
            is_away: self.away_bytes > 0,
            moves: self.raise.is_some(),
        };
        self.stays = look.is_over && self.holds;
        self.service.step(now_ns, &look);
        if look.is_over {
            self.let_go(now_ns, most_bytes, card, out_bytes);
        } else {
            self.out_budget = 0;
            let bytes = self.away_bytes.min(PIECE_BYTES);
            let fits = self.words.resident_bytes + bytes <= least_bytes;
            let may_come = self.service.may_come() && now_ns >= self.retry_ns;
            if self.raise.is_none() && bytes > 0 && fits && may_come {
                self.words.resident_bytes += bytes;
                self.raise = Some(Raise::Looks { bytes, is_new: false });
            }
        }
        self.work(now_ns);
    }

    /// Looks at the ceiling after a raise, makes the memory, and fills it.
    fn go_on_raising(
        &mut self,
        now_ns: u64,
        standing: &StandingOrder,
        card: &mut MemoryCard,
        in_bytes: u64,
    ) {
        match self.raise {
            None => self.in_budget = 0,
            Some(Raise::Looks { bytes, is_new }) => {
                // The ceiling as it stands now, whatever was noticed.
                let is_ordered = now_ns < standing.lease_ns;
                let is_above = is_ordered && self.words.resident_bytes > standing.allowed_bytes;
                let made = match is_above || now_ns < self.no_create_until_ns {
                    true => None,
                    false => card.create(bytes, now_ns),
                };
                self.raise = match made {
                    Some(from_ns) => {
                        self.there_bytes += bytes;
                        Some(Raise::Made { bytes, is_new, from_ns })
                    }
                    None => {
                        self.words.resident_bytes -= bytes;
                        self.back_out(now_ns, bytes, is_new, is_above);
                        None
                    }
                };
            }
            Some(Raise::Made { is_new: true, from_ns, .. }) if now_ns >= from_ns => {
                self.raise = None;
            }
            Some(Raise::Made { bytes, is_new: false, from_ns }) if now_ns >= from_ns => {
                self.in_budget += in_bytes;
                if self.in_budget >= bytes {
                    self.in_budget -= bytes;
                    self.away_bytes -= bytes;
                    card.away_bytes -= bytes;
                    self.moved_bytes[1] += bytes;
                    self.raise = None;
                }
            }
            Some(Raise::Made { .. }) => {}
        }
    }

    /// A raise was taken back: by the ceiling, or since the driver had nothing.
    fn back_out(&mut self, now_ns: u64, bytes: u64, is_new: bool, is_above: bool) {
        if is_new {
            self.wanted_bytes = bytes;
        }
        if is_above {
            self.denied_ns = 0;
            if is_new {
                (self.words.asked_bytes, self.asked_ns) = (bytes, now_ns);
            }
            return;
        }
        self.full += u64::from(now_ns >= self.no_create_until_ns);
        self.is_denied = true;
        self.retry_ns = now_ns + RETRY_NS;
        if is_new && self.denied_ns == 0 {
            self.denied_ns = now_ns;
        } else if is_new && now_ns - self.denied_ns >= PATIENCE_NS {
            (self.wanted_bytes, self.denied_ns) = (0, 0);
            self.refused += 1;
        }
    }

    /// Raises for a block, or waits for room for it.
    fn make_blocks(&mut self, now_ns: u64, standing: &StandingOrder) {
        if self.wanted_bytes == 0 || self.raise.is_some() || now_ns < self.retry_ns {
            return;
        }
        let is_ordered = now_ns < standing.lease_ns;
        let bytes = self.wanted_bytes;
        let fits = !is_ordered || self.words.resident_bytes + bytes <= standing.allowed_bytes;
        let asks = self.words.asked_bytes > 0;
        if asks && !fits {
            if is_ordered && standing.refused_ns >= self.asked_ns && standing.refused_ns != 0 {
                (self.words.asked_bytes, self.wanted_bytes) = (0, 0);
                self.refused += 1;
            }
            return;
        }
        self.words.asked_bytes = 0;
        self.words.resident_bytes += bytes;
        self.wanted_bytes = 0;
        self.raise = Some(Raise::Looks { bytes, is_new: true });
    }

    /// Copies pieces out and releases them, once its work has ended.
    fn let_go(&mut self, now_ns: u64, allowed_bytes: u64, card: &mut MemoryCard, out_bytes: u64) {
        if self.holds || !self.service.may_leave() || self.raise.is_some() {
            return;
        }
        self.out_budget += out_bytes;
        while self.words.resident_bytes > allowed_bytes && self.there_bytes > 0 {
            let bytes = PIECE_BYTES.min(self.there_bytes);
            if self.out_budget < bytes {
                break;
            }
            if !card.take_host(bytes) {
                self.host_full_ns = now_ns;
                break;
            }
            self.out_budget -= bytes;
            self.there_bytes -= bytes;
            self.away_bytes += bytes;
            card.release(bytes, now_ns);
            self.words.resident_bytes -= bytes;
            self.moved_bytes[0] += bytes;
        }
    }

    /// Works while calls go in and find their memory; else it waits. Without a context it makes no call.
    fn work(&mut self, now_ns: u64) {
        if self.service.is_bare() {
            self.waits_from_ns = 0;
            return;
        }
        let wants_in = self.waits_from_ns != 0 || self.service.wants_to_end();
        let has_work = self.has_work(now_ns) || wants_in;
        let is_back = self.away_bytes == 0 && self.raise.is_none() || self.service.has_left();
        let may_run = self.service.lets_in() && is_back && self.wanted_bytes == 0;
        let waits = self.words.asked_bytes > 0 || has_work && !may_run;
        if has_work && !waits {
            self.works = true;
            if self.work_ns.1 <= now_ns + 1_000_000 {
                self.work_ns.1 = now_ns + self.program.kernel_us * 1_000;
            }
            self.work_ns.0 = now_ns;
        }
        self.waits_from_ns = match (waits, self.waits_from_ns) {
            (false, _) => 0,
            (true, 0) => now_ns,
            (true, since_ns) => since_ns,
        };
    }
}
