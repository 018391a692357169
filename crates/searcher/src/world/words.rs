//! A tenant's words on a device, as its processes and the daemon see them: what the two mapped files hold.
//!
//! Processes write lines of their own and the tenant's shared words; the owner writes the gate's line.
//! Each look is a site, the owner's line one word at a time, so that a line can be read torn.
//!
//! Names and forms are those of the gate's traits, so that [`SimDevice`] and [`SimWords`] can be made to
//! implement them. Does not know what the words mean.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use divvy_abi::config::GateLine;
use divvy_abi::meet::{self, BoardPlace};
use divvy_abi::usage::{SHARED_SLOT, gate_tenant};
use divvy_policy::gate::{Board, Meeting, Terms};
use divvy_policy::pace::Clock;

use crate::choice::mix;
use crate::files::{LINE, LINE_USED, Row, SimFiles, line_of};
use crate::sched::{self, point};
use crate::site::{Actor, Fault, Site};
use crate::world::sim_driver::{SimDriver, in_run_ns};
use crate::world::state::{World, with};

/// Key by which a gate's word is waited for.
pub fn gate_key(tenant: u32, device: usize) -> u64 {
    mix(u64::from(tenant) << 32 | device as u64).max(1)
}

/// The owner writes a tenant's gate and wakes who waits for its word to change.
pub fn open_or_close(world: &mut World, tenant: u32, device: usize, line: &GateLine, at_ns: u64) {
    let Some(row) = world.tenant(tenant).and_then(|tenant| tenant.files.row(device)) else {
        return;
    };
    let was = row.state();
    row.put_gate(line);
    if was == row.state() {
        return;
    }
    world.note(at_ns, "gate", u64::from(tenant), u64::from(line.gate));
    wake(world, tenant, device, at_ns);
}

/// Wakes all who wait at a tenant's gate.
pub fn wake(world: &mut World, tenant: u32, device: usize, at_ns: u64) {
    wake_all(world, device, gate_key(tenant, device), at_ns);
}

pub(crate) fn wake_all(world: &mut World, device: usize, key: u64, at_ns: u64) {
    let [least, most] = world.card(device).map_or([0; 2], |card| card.model().wake_late_ns);
    for (nth, thread) in sched::waiting(key).into_iter().enumerate() {
        // By time and order: a choice that no thread's own choices move.
        let late_ns = least + mix(at_ns ^ mix(nth as u64)) % (most.saturating_sub(least) + 1);
        sched::wake(thread, key, at_ns + late_ns);
    }
}

fn sleep(key: u64, deadline_ns: u64) {
    let until_ns = in_run_ns(deadline_ns);
    if until_ns > sched::now_ns() {
        let late_ns = SimDriver.late_ns(|model| model.sleep_late_ns);
        sched::block(key, until_ns.saturating_add(late_ns));
    }
}

/// A device of the tenant, as a process sees it.
#[derive(Clone, Copy, Debug)]
pub struct SimDevice {
    actor: Actor,
    device: usize,
    files: &'static SimFiles,
    meeting: &'static Meeting,
}

/// A cell that holds a device: the place of a context.
#[derive(Default, Debug)]
pub struct SimHome(Cell<Option<SimDevice>>);

impl SimHome {
    /// Nothing in it.
    #[allow(clippy::declare_interior_mutable_const, reason = "each use is to be a cell of its own")]
    pub const NONE: Self = Self(Cell::new(None));

    /// Its contents.
    pub fn get(&self) -> Option<SimDevice> {
        self.0.get()
    }

    /// Puts a device in.
    pub fn set(&self, device: SimDevice) {
        self.0.set(Some(device));
    }
}

impl SimDevice {
    pub(crate) fn of(world: &mut World, actor: Actor, device: usize) -> Option<Self> {
        let meeting = world.meeting(actor, device)?;
        let files = world.tenant(actor.tenant)?.files;
        files.row(device).map(|_| Self { actor, device, files, meeting })
    }

    /// The device's number.
    pub fn number(&self) -> usize {
        self.device
    }

    /// Cap and pause, as they are now.
    pub fn terms(&self) -> Terms {
        point(Site::Terms);
        if !crate::fiber::is_inside() {
            return Terms::default();
        }
        with(|world| {
            let tenant = world.tenant(self.actor.tenant);
            tenant.map(|one| Terms { share_ppm: one.plan.share_ppm, paused: one.paused })
        })
        .unwrap_or_default()
    }

    /// The gate's word.
    pub fn state(&self) -> u32 {
        point(Site::State);
        self.files.row(self.device).map_or(0, Row::state)
    }

    /// The process's part in the device's meetings.
    pub fn meeting(&self) -> &'static Meeting {
        self.meeting
    }

    /// Its words; none where the process has no slot.
    pub fn words(&self) -> Option<SimWords> {
        if point(Site::Slot) == Some(Fault::Refuse) {
            return None;
        }
        let slot = self.files.slot_of(self.actor.process)?;
        Some(SimWords { row: self.files.row(self.device)?, device: *self, slot })
    }

    /// Where tenants meet without a daemon.
    pub fn board(&self) -> Option<SimBoard> {
        let is_there =
            crate::fiber::is_inside() && with(|world| world.board(self.device).is_some());
        is_there.then_some(SimBoard { actor: self.actor, device: self.device })
    }

    /// Whether both are one.
    pub fn is(&self, other: Self) -> bool {
        self.actor.is_beside(other.actor) && self.device == other.device
    }
}

/// One device's words in the tenant's files, as one process sees them.
#[derive(Clone, Copy, Debug)]
pub struct SimWords {
    row: &'static Row,
    device: SimDevice,
    slot: usize,
}

impl SimWords {
    /// The process's slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The same on the `nth` device of the tenant's files.
    pub fn beside(&self, nth: usize) -> Option<Self> {
        let device = SimDevice { device: nth, ..self.device };
        Some(Self { row: self.device.files.row(nth)?, device, slot: self.slot })
    }

    /// One more than the highest slot in use.
    pub fn slots_high(&self) -> usize {
        point(Site::Slot);
        self.device.files.slots_high()
    }

    /// A word of a slot's line, by the offset that `divvy_abi::usage::gate` names it by. To come here is
    /// the site; what is done with the word happens at the same time.
    pub fn word(&self, slot: usize, word: usize) -> &'static AtomicU64 {
        let fault = point(Site::Word);
        let word = self.row.word(slot, word);
        if let Some(Fault::Garbage(garbage)) = fault {
            word.store(garbage, Relaxed);
        }
        word
    }

    /// The owner's line, read a word at a time.
    pub fn gate_line(&self) -> GateLine {
        let mut words = [0; LINE];
        for (word, at) in words.iter_mut().zip(&self.row.gate).take(LINE_USED) {
            let fault = point(Site::Line);
            *word = at.load(Acquire);
            if let Some(Fault::Garbage(garbage)) = fault {
                *word = garbage;
            }
        }
        line_of(words)
    }

    /// Waits while the gate's word is `state`, at most until a time.
    pub fn wait(&self, state: u32, deadline_ns: u64) {
        point(Site::Wait);
        if !crate::fiber::is_inside() || self.row.state() != state {
            return;
        }
        sleep(gate_key(self.device.actor.tenant, self.device.device), deadline_ns);
    }

    /// Waits for the tenant's turn while its word is as it was seen, at most until a time.
    pub fn wait_for_turn(&self, turn: u64, deadline_ns: u64) {
        point(Site::Wait);
        let now = self.row.word(SHARED_SLOT, gate_tenant::TURN).load(Acquire);
        if crate::fiber::is_inside() && now & 0xffff_ffff == turn & 0xffff_ffff {
            sleep(self.turn_key(self.slot), deadline_ns);
        }
    }

    /// Wakes a slot's threads that wait so.
    pub fn wake_for_turn(&self, slot: usize) {
        point(Site::Wake);
        if crate::fiber::is_inside() {
            let key = self.turn_key(slot);
            with(|world| wake_all(world, self.device.device, key, sched::now_ns()));
        }
    }

    fn turn_key(&self, slot: usize) -> u64 {
        mix(gate_key(self.device.actor.tenant, self.device.device) ^ (slot as u64 % 32 + 1)).max(1)
    }

    fn tenant_word(&self, offset: usize) -> &'static AtomicU64 {
        self.word(0, offset)
    }
}

impl Clock for SimWords {
    fn paid_at_ns(&self) -> u64 {
        self.tenant_word(gate_tenant::PAID_AT_NS).load(Relaxed)
    }
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64> {
        let word = self.tenant_word(gate_tenant::PAID_AT_NS);
        word.compare_exchange(old, new, Relaxed, Relaxed).map(|_| ())
    }
    fn share_ppm(&self) -> u64 {
        self.tenant_word(gate_tenant::SHARE_PPM).load(Relaxed)
    }
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64> {
        let word = self.tenant_word(gate_tenant::SHARE_PPM);
        word.compare_exchange(old, new, Relaxed, Relaxed).map(|_| ())
    }
    fn closed_until_ns(&self) -> u64 {
        self.tenant_word(gate_tenant::CLOSED_UNTIL_NS).load(Relaxed)
    }
    fn set_closed_until_ns(&self, until_ns: u64) {
        self.tenant_word(gate_tenant::CLOSED_UNTIL_NS).store(until_ns, Relaxed);
    }
    fn saves(&self) -> u64 {
        self.tenant_word(gate_tenant::SAVES).load(Relaxed)
    }
    fn set_saves(&self, word: u64) {
        self.tenant_word(gate_tenant::SAVES).store(word, Relaxed);
    }
}

/// The places of a device, as a process finds them.
#[derive(Clone, Copy, Debug)]
pub struct SimBoard {
    actor: Actor,
    device: usize,
}

impl Board for SimBoard {
    fn process(&self) -> u32 {
        (self.actor.tenant + 1) << 16 | (self.actor.process + 1)
    }
    fn tenant(&self) -> u64 {
        u64::from(self.actor.tenant) + 1
    }
    fn read(&self, into: &mut meet::Board) -> bool {
        if point(Site::BoardRead) == Some(Fault::Refuse) || !crate::fiber::is_inside() {
            return false;
        }
        with(|world| world.board(self.device).map(|board| *into = *board).is_some())
    }
    fn write(&self, at: usize, place: &BoardPlace) -> bool {
        if point(Site::BoardWrite) == Some(Fault::Refuse) || !crate::fiber::is_inside() {
            return false;
        }
        with(|world| {
            let board = world.board(self.device);
            board.and_then(|board| board.get_mut(at)).map(|one| *one = *place).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use divvy_abi::usage::gate;

    use super::*;
    use crate::files::{give_back_files, take_files};

    #[test]
    fn a_line_comes_back_and_cleared_files_are_used_again() {
        let files = take_files(2);
        let row = files.row(1).expect("two");
        let line = GateLine {
            gate: 2,
            active: 3,
            epoch: 4,
            lease_ns: 5,
            turn_end_ns: 6,
            t_open_ns: 7,
            quantum_ns: 8,
            horizon_ns: 9,
            strangers: 10,
            reserved: [0; 8],
        };
        row.put_gate(&line);
        let actor = Actor { tenant: 0, process: 0, thread: 0 };
        let meeting = Box::leak(Box::new(Meeting::new()));
        let device = SimDevice { actor, device: 1, files, meeting };
        let home = SimHome::NONE;
        assert!(home.get().is_none());
        home.set(device);
        assert!(home.get().is_some_and(|one| one.is(device)));
        assert!(device.words().is_none(), "it has joined first");
        files.take_slot(0, |_| true, 0);
        let words = device.words().expect("a slot");
        assert_eq!((words.gate_line(), device.state()), (line, 2));
        assert_eq!((words.slot(), words.slots_high()), (1, 2));
        words.word(1, gate::LAUNCHES).store(5, Relaxed);
        words.replace_paid_at_ns(0, 11).expect("it was 0");
        assert_eq!((words.paid_at_ns(), words.replace_paid_at_ns(0, 1)), (11, Err(11)));
        assert_eq!(row.word(1, gate::LAUNCHES).load(Relaxed), 5);
        let none = SimDevice { actor: Actor { process: 99, ..actor }, ..device };
        assert!(none.words().is_none() && !none.is(device) && device.is(device));
        give_back_files(files);
        let again = take_files(2);
        assert_eq!(again.row(1).expect("two").word(1, gate::LAUNCHES).load(Relaxed), 0);
    }
}
