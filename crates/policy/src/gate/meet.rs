//! Meeting of processes at a board, by which they share the device where no daemon makes turns.
//!
//! Two contexts that work at once are sliced by the driver, and a switch between them may cost as much as a short
//! kernel takes: two programs that synchronise after each kernel of 0.1 ms get 42 % of an H200 together. So a process
//! with a cap takes the device for a burst, writes on the board until when, and writes again while it goes on; a
//! process that finds the device taken waits. A process gives the device up when its cap closes, or, if another waits,
//! after [`tuning::MEET_TURN_NS`]. The process that has waited longest is next. Processes of one tenant do not wait for
//! each other here: their order is the tenant's own ([`super::Inside`]).
//!
//! Promises: a process that writes no more (killed, stopped, or without work) has lost the device [`tuning::HOLD_NS`]
//! after the end of its submitted work, as it had announced it; a process that asks steadily waits no longer than
//! [`tuning::MEET_PATIENCE_NS`], whatever stands on the board, then uses the device beside the others for one hold, and
//! waits anew; a board that cannot be read keeps no process waiting.
//!
//! Does not open the file: the caller's closure does, and the [`Board`] reads and writes it.

use super::tuning;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use divvy_abi::meet::{self, BoardPlace, PLACES};

/// Access to the places on a device's board. A read that fails is answered by going on without a board; a write that
/// fails costs the others the knowledge of this process, and nothing else.
pub trait Board {
    /// Returns the process's number, by which a forked child notices that the state it finds is its parent's.
    fn process(&self) -> u32;
    /// Returns a number that all processes of the tenant have, and no others; 0 if it is not known.
    fn tenant(&self) -> u64 {
        0
    }
    /// Reads all places.
    fn read(&self, into: &mut meet::Board) -> bool;
    /// Writes one place.
    fn write(&self, at: usize, place: &BoardPlace) -> bool;
}

/// This process's part, in cache lines of its own: launches read the data beside it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Meeting {
    /// True while a thread changes the rest. Another thread does not wait for it: it launches if this process has the
    /// device, else it asks again after [`tuning::BOARD_LOOK_NS`].
    claim: AtomicBool,
    /// This process's number on the board, made from the time and the process's number at its first look.
    id: AtomicU64,
    /// Number of the process whose state this is; another one in a forked child.
    owner: AtomicU32,
    /// One more than the place's number; 0 for none.
    place: AtomicU32,
    /// Beginning of its hold on the device, which may have run out; 0 after the device was given up.
    since_ns: AtomicU64,
    /// End of that hold; of its submitted work, after the device was given up.
    until_ns: AtomicU64,
    /// Time at which its wait began; 0 while it does not wait.
    waits_from_ns: AtomicU64,
    /// Time of its last request that had to wait.
    wanted_ns: AtomicU64,
    /// Time at which another was last seen on the board, using the device or waiting.
    others_seen_ns: AtomicU64,
    /// Others that had the device before this process when it took it last.
    others: AtomicU32,
}

impl Default for Meeting {
    fn default() -> Self {
        Self::new()
    }
}

/// State of the board at one look.
#[derive(Default)]
struct Seen {
    /// Others that took the device before this process and have it, or whose last work still runs.
    before: u32,
    /// End of the last of them, as far as they say.
    until_ns: u64,
    /// True if another waits.
    is_wanted: bool,
    /// True if another has waited longer than this process.
    is_behind: bool,
    /// True if another has written to this process's place.
    is_lost: bool,
}

impl Meeting {
    /// State before any meeting.
    pub const fn new() -> Self {
        Self {
            claim: AtomicBool::new(false),
            id: AtomicU64::new(0),
            owner: AtomicU32::new(0),
            place: AtomicU32::new(0),
            since_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(0),
            waits_from_ns: AtomicU64::new(0),
            wanted_ns: AtomicU64::new(0),
            others_seen_ns: AtomicU64::new(0),
            others: AtomicU32::new(0),
        }
    }

    /// Returns how many others had the device before this process when it took it last: 0 unless its patience was over.
    pub fn others(&self) -> u32 {
        self.others.load(Relaxed)
    }

    /// True if no other was seen on the board for a second.
    pub fn is_alone(&self, now_ns: u64) -> bool {
        now_ns >= self.others_seen_ns.load(Relaxed).saturating_add(tuning::ALONE_AFTER_NS)
    }

    /// Asks for the device, and takes it if it is free: for a launch of `next_ns` after work that ends at
    /// `busy_until_ns`. Returns 0 if the launch may go, else the time to ask again. `board` is called only if the board
    /// is needed.
    ///
    /// Cost: a few loads. At the beginning of each burst, each millisecond of one, and each time that a waiting process
    /// asks, the board is opened, read twice and written, twice by one that goes on waiting.
    pub fn ask<B: Board>(
        &self,
        now_ns: u64,
        busy_until_ns: u64,
        next_ns: u64,
        board: impl FnOnce() -> Option<B>,
    ) -> u64 {
        let has_it = self.since_ns.load(Relaxed) != 0 && now_ns < self.until_ns.load(Relaxed);
        let end_ns = busy_until_ns.max(now_ns).saturating_add(next_ns);
        let ahead_ns = end_ns.saturating_add(tuning::HOLD_NS / 2);
        if has_it && ahead_ns <= self.until_ns.load(Relaxed) {
            return 0;
        }
        if self.claim.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            return if has_it { 0 } else { now_ns.saturating_add(tuning::BOARD_LOOK_NS) };
        }
        let again_ns = match board() {
            Some(board) => {
                let until_ns = end_ns.saturating_add(tuning::HOLD_NS);
                self.look(now_ns, busy_until_ns, until_ns, &board)
            }
            None => self.go_without(now_ns),
        };
        self.claim.store(false, Release);
        again_ns
    }

    #[inline(never)]
    fn look<B: Board>(&self, now_ns: u64, busy_until_ns: u64, until_ns: u64, board: &B) -> u64 {
        let mut places = [BoardPlace::default(); PLACES];
        self.begin(now_ns, board.process());
        // A place that was not written for some time may have become another's, which must not be written over. Where
        // the board cannot be read this once, what is written is still of use to the others.
        let is_read = board.read(&mut places);
        if is_read && !self.has_place(&places) && !self.find(&places, now_ns) {
            return self.go_without(now_ns);
        }
        let Some(at) = self.place() else { return self.go_without(now_ns) };
        // A hold that has not run out is renewed; else a new one begins.
        let since_ns = self.since_ns.load(Relaxed);
        let is_new = since_ns == 0 || now_ns >= self.until_ns.load(Relaxed);
        let since_ns = if is_new { now_ns } else { since_ns };
        // The hold is published before its outcome is known: of two that take the device at once each sees the other,
        // and the first has it.
        self.publish(board, at, (since_ns, until_ns));
        if !board.read(&mut places) {
            return self.go_without(now_ns);
        }
        let seen = self.see(&places, (at, board.tenant()), now_ns, since_ns);
        if seen.is_lost {
            self.place.store(0, Relaxed);
        }
        let waits_from_ns = self.waits_from_ns.load(Relaxed);
        let is_patient =
            waits_from_ns == 0 || now_ns.saturating_sub(waits_from_ns) < tuning::MEET_PATIENCE_NS;
        let is_over = seen.is_wanted && now_ns.saturating_sub(since_ns) >= tuning::MEET_TURN_NS;
        if is_patient && (is_over || seen.before != 0 || (is_new && seen.is_behind)) {
            if waits_from_ns == 0 {
                self.waits_from_ns.store(now_ns, Relaxed);
            }
            self.wanted_ns.store(now_ns, Relaxed);
            self.give_up(board, (!seen.is_lost).then_some(at), busy_until_ns);
            let next_ns = now_ns.saturating_add(tuning::BOARD_LOOK_NS);
            return if seen.until_ns > now_ns { next_ns.min(seen.until_ns) } else { next_ns };
        }
        self.waits_from_ns.store(0, Relaxed);
        self.others.store(seen.before, Relaxed);
        // Only now, so that no other thread launches on a hold that is still undecided.
        self.since_ns.store(since_ns, Relaxed);
        self.until_ns.store(until_ns, Relaxed);
        0
    }

    /// Gives the device up, since the cap has closed and submitted work ends at `busy_until_ns`. Nothing is done if
    /// another thread has the claim or the board cannot be opened: the hold runs out by itself.
    pub fn leave<B: Board>(&self, busy_until_ns: u64, board: impl FnOnce() -> Option<B>) {
        if self.since_ns.load(Relaxed) == 0
            || self.claim.compare_exchange(false, true, Acquire, Relaxed).is_err()
        {
            return;
        }
        if let (Some(at), Some(board)) = (self.place(), board()) {
            self.give_up(&board, Some(at), busy_until_ns);
        }
        self.claim.store(false, Release);
    }

    /// Lets this process have the device without a board, or without a place on it, for [`tuning::WITHOUT_NS`].
    fn go_without(&self, now_ns: u64) -> u64 {
        self.since_ns.store(now_ns, Relaxed);
        self.until_ns.store(now_ns.saturating_add(tuning::WITHOUT_NS), Relaxed);
        0
    }

    /// Gives a new process an id and no place, and forgets a wait whose last request is [`tuning::FORGETS_AFTER_NS`]
    /// old.
    fn begin(&self, now_ns: u64, owner: u32) {
        let wanted_ns = self.wanted_ns.load(Relaxed);
        let is_another = self.owner.swap(owner, Relaxed) != owner;
        if is_another {
            self.id.store(now_ns << 20 ^ u64::from(owner) | 1, Relaxed);
            self.place.store(0, Relaxed);
            self.since_ns.store(0, Relaxed);
        }
        // A process that has not asked for so long was closed by its cap, or had nothing to launch.
        if is_another || now_ns > wanted_ns.saturating_add(tuning::FORGETS_AFTER_NS) {
            self.waits_from_ns.store(0, Relaxed);
        }
    }

    fn place(&self) -> Option<usize> {
        self.place.load(Relaxed).checked_sub(1).map(|at| at as usize)
    }

    /// True if this process has a place and wrote to it last.
    fn has_place(&self, places: &meet::Board) -> bool {
        let place = self.place().and_then(|at| places.get(at));
        place.is_some_and(|place| place.id == self.id.load(Relaxed))
    }

    /// Chooses an unused place; it is this process's once it has written there. Another may choose the same, and then
    /// the one that wrote first finds that its place is lost.
    fn find(&self, places: &meet::Board, now_ns: u64) -> bool {
        let is_free = |place: &BoardPlace| {
            let last_ns = place.until_ns.max(place.want_ns);
            // The last sign of use is seconds old, or so far ahead that it wraps.
            place.id == 0
                || now_ns.wrapping_add(tuning::BOARD_BELIEVED_NS).wrapping_sub(last_ns)
                    > tuning::STALE_NS
        };
        let Some(at) = places.iter().position(is_free) else { return false };
        self.place.store(u32::try_from(at).unwrap_or(0).saturating_add(1), Relaxed);
        true
    }

    #[inline(never)]
    fn see(
        &self,
        places: &meet::Board,
        (at, tenant): (usize, u64),
        now_ns: u64,
        since_ns: u64,
    ) -> Seen {
        let mine = (since_ns, self.id.load(Relaxed));
        let from_ns = match self.waits_from_ns.load(Relaxed) {
            0 => now_ns,
            from_ns => from_ns,
        };
        let mut seen = Seen::default();
        let believed = |ns: u64| ns <= now_ns.saturating_add(tuning::BOARD_BELIEVED_NS);
        for (other, place) in places.iter().enumerate() {
            if other == at {
                seen.is_lost = place.id != mine.1;
                continue;
            }
            // Processes of one tenant take turns by the tenant's own queue.
            if tenant != 0 && place.tenant == tenant {
                continue;
            }
            let early_ns = if place.since_ns == 0 { tuning::EARLY_NS } else { 0 };
            let until_ns = place.until_ns.saturating_sub(early_ns);
            let has_it = until_ns > now_ns && believed(until_ns);
            if has_it && (place.since_ns, place.id) < mine {
                seen.before = seen.before.saturating_add(1);
                seen.until_ns = seen.until_ns.max(until_ns);
            }
            let wants = place.want_ns.saturating_add(tuning::WANTS_FOR_NS) > now_ns
                && believed(place.want_ns)
                && place.waits_from_ns != 0;
            seen.is_wanted |= wants;
            seen.is_behind |= wants && (place.waits_from_ns, place.id) < (from_ns, mine.1);
            if has_it || wants {
                self.others_seen_ns.store(now_ns, Relaxed);
            }
        }
        seen
    }

    /// Notes that this process does not have the device, while its work runs until `busy_until_ns`, and says so at
    /// `at`.
    fn give_up<B: Board>(&self, board: &B, at: Option<usize>, busy_until_ns: u64) {
        self.since_ns.store(0, Relaxed);
        self.until_ns.store(busy_until_ns, Relaxed);
        if let Some(at) = at {
            self.publish(board, at, (0, busy_until_ns));
        }
    }

    #[inline(never)]
    fn publish<B: Board>(&self, board: &B, at: usize, (since_ns, until_ns): (u64, u64)) {
        let place = BoardPlace {
            id: self.id.load(Relaxed),
            until_ns,
            since_ns,
            want_ns: self.wanted_ns.load(Relaxed),
            waits_from_ns: self.waits_from_ns.load(Relaxed),
            tenant: board.tenant(),
            reserved: [0; 2],
        };
        board.write(at, &place);
    }
}

#[cfg(test)]
mod tests;
