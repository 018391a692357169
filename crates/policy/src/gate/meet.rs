//! Meeting of processes at a board, by which they share the device where no daemon makes turns.
//!
//! Two contexts that work at once are sliced by the driver, and each switch costs as much as a kernel may last: two
//! programs that synchronise after each kernel of 0.1 ms get 42 % of an H200 together. So a process with a cap takes
//! the device for a burst, says until when, and says so again while it goes on; a process that finds it taken waits.
//! The holder lets go when its cap closes, or, where another waits, after [`TURN_NS`]. The one that has waited longest
//! is next. Processes of one tenant do not wait for each other here: their order is the tenant's own
//! ([`super::Inside`]).
//!
//! Promises: a process that says nothing more (killed, stopped, or without work) has lost the device some milliseconds
//! later; a process waits no longer than [`PATIENCE_NS`], with anything on the board, and goes then beside the others;
//! a board that cannot be used changes nothing.
//!
//! Does not touch a file: that is its [`Board`]'s.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use divvy_abi::meet::{self, BoardPlace, PLACES};

/// Time that a process keeps the device beyond what it has submitted.
const HOLD_NS: u64 = 2_500_000;
/// Time without others after which a process counts as alone: more than a cap keeps one closed.
const ALONE_AFTER_NS: u64 = 1_000_000_000;
/// Longest use of the device while others wait.
const TURN_NS: u64 = 10_000_000;
/// Time between two looks of a process that waits.
const LOOK_NS: u64 = 150_000;
/// Time before the end of a leaver's work at which a launch may begin, since it has a way to go.
const EARLY_NS: u64 = 100_000;
/// Time after its last request from which a process does not wait any more.
const WANTS_FOR_NS: u64 = 1_500_000;
/// Time after which a process that waited begins to wait anew.
const FORGETS_AFTER_NS: u64 = 10_000_000;
/// Longest wait.
const PATIENCE_NS: u64 = 60_000_000;
/// Time after which a board that could not be used is tried again.
const WITHOUT_NS: u64 = 1_000_000_000;
/// Furthest time ahead that is believed of a process; a later one is ignored.
const BELIEVED_NS: u64 = 1_000_000_000;
/// Age at which a place is free to any process, counted from [`BELIEVED_NS`] ahead of now.
const STALE_NS: u64 = 6_000_000_000;

/// The places of a device.
pub trait Board {
    /// Returns the process's number: a forked child finds its parent's state.
    fn process(&self) -> u32;
    /// Returns a number that all processes of the tenant have, and no others; 0 where that is not known.
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
    /// Held by the thread that changes the rest; no thread waits for it.
    claim: AtomicBool,
    /// Number drawn at the first look; a forked child finds its parent's, and tells by `owner` that it is.
    id: AtomicU64,
    owner: AtomicU32,
    /// One more than the place's number; 0 for none.
    place: AtomicU32,
    since_ns: AtomicU64,
    until_ns: AtomicU64,
    waits_from_ns: AtomicU64,
    wanted_ns: AtomicU64,
    others_seen_ns: AtomicU64,
    /// Others that had the device at the last look.
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
    /// Others that have the device, or whose work still runs, before us.
    before: u32,
    /// End of the last of them, as far as they say.
    until_ns: u64,
    /// True if another waits.
    is_wanted: bool,
    /// True if another has waited longer.
    is_behind: bool,
    /// True if our place is another's.
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

    /// Returns how many others had the device when this process took it all the same.
    pub fn others(&self) -> u32 {
        self.others.load(Relaxed)
    }

    /// True if no other was met of late.
    pub fn is_alone(&self, now_ns: u64) -> bool {
        now_ns >= self.others_seen_ns.load(Relaxed).saturating_add(ALONE_AFTER_NS)
    }

    /// Asks for the device, for a launch of `next_ns` behind work that ends at `busy_until_ns`: returns 0 when it may
    /// be used, else the time to ask again. `board` is opened only where it is needed.
    ///
    /// Cost: a few loads; once a burst or a millisecond, or while waiting, a read and a write or two.
    pub fn ask<B: Board>(
        &self,
        now_ns: u64,
        busy_until_ns: u64,
        next_ns: u64,
        board: impl FnOnce() -> Option<B>,
    ) -> u64 {
        let has_it = self.since_ns.load(Relaxed) != 0 && now_ns < self.until_ns.load(Relaxed);
        let end_ns = busy_until_ns.max(now_ns).saturating_add(next_ns);
        let ahead_ns = end_ns.saturating_add(HOLD_NS / 2);
        if has_it && ahead_ns <= self.until_ns.load(Relaxed) {
            return 0;
        }
        if self.claim.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            return if has_it { 0 } else { now_ns.saturating_add(LOOK_NS) };
        }
        let again_ns = match board() {
            Some(board) => {
                let until_ns = end_ns.saturating_add(HOLD_NS);
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
        if self.place().is_none() && !(board.read(&mut places) && self.find(&places, now_ns)) {
            return self.go_without(now_ns);
        }
        let Some(at) = self.place() else { return 0 };
        // The hold is renewed within its time, or begins anew.
        let since_ns = self.since_ns.load(Relaxed);
        let is_new = since_ns == 0 || now_ns >= self.until_ns.load(Relaxed);
        let since_ns = if is_new { now_ns } else { since_ns };
        // The hold is published before its outcome is known: of two that take the device at once each sees the other,
        // and the first has it.
        self.publish(board, at, since_ns, until_ns);
        if !board.read(&mut places) {
            return self.go_without(now_ns);
        }
        let seen = self.see(&places, (at, board.tenant()), now_ns, since_ns);
        if seen.is_lost {
            self.place.store(0, Relaxed);
        }
        let waits_from_ns = self.waits_from_ns.load(Relaxed);
        let is_patient = waits_from_ns == 0 || now_ns.saturating_sub(waits_from_ns) < PATIENCE_NS;
        let is_over = seen.is_wanted && now_ns.saturating_sub(since_ns) >= TURN_NS;
        if is_patient && (is_over || seen.before != 0 || (is_new && seen.is_behind)) {
            if waits_from_ns == 0 {
                self.waits_from_ns.store(now_ns, Relaxed);
            }
            self.wanted_ns.store(now_ns, Relaxed);
            // Work that was submitted before still runs.
            self.publish(board, at, 0, busy_until_ns);
            let next_ns = now_ns.saturating_add(LOOK_NS);
            return if seen.until_ns > now_ns { next_ns.min(seen.until_ns) } else { next_ns };
        }
        self.waits_from_ns.store(0, Relaxed);
        self.others.store(seen.before, Relaxed);
        0
    }

    /// Lets the device go: the cap has closed, and submitted work ends at `busy_until_ns`.
    pub fn leave<B: Board>(&self, busy_until_ns: u64, board: impl FnOnce() -> Option<B>) {
        if self.since_ns.load(Relaxed) == 0
            || self.claim.compare_exchange(false, true, Acquire, Relaxed).is_err()
        {
            return;
        }
        if let (Some(at), Some(board)) = (self.place(), board()) {
            self.publish(&board, at, 0, busy_until_ns);
        }
        self.claim.store(false, Release);
    }

    /// Goes on without a board, or a place on it, and looks for one again after a while.
    fn go_without(&self, now_ns: u64) -> u64 {
        self.since_ns.store(now_ns, Relaxed);
        self.until_ns.store(now_ns.saturating_add(WITHOUT_NS), Relaxed);
        0
    }

    /// Gives a new process an id and no place; forgets a wait that was not renewed of late.
    fn begin(&self, now_ns: u64, owner: u32) {
        let wanted_ns = self.wanted_ns.load(Relaxed);
        let is_another = self.owner.swap(owner, Relaxed) != owner;
        if is_another {
            self.id.store(now_ns << 20 ^ u64::from(owner) | 1, Relaxed);
            self.place.store(0, Relaxed);
            self.since_ns.store(0, Relaxed);
        }
        // Either its cap has closed meanwhile, or it had nothing more to do.
        if is_another || now_ns > wanted_ns.saturating_add(FORGETS_AFTER_NS) {
            self.waits_from_ns.store(0, Relaxed);
        }
    }

    fn place(&self) -> Option<usize> {
        self.place.load(Relaxed).checked_sub(1).map(|at| at as usize)
    }

    /// Takes an unused place.
    fn find(&self, places: &meet::Board, now_ns: u64) -> bool {
        let is_free = |place: &BoardPlace| {
            let last_ns = place.until_ns.max(place.want_ns);
            // The last sign of use is seconds old, or so far ahead that it wraps.
            place.id == 0 || now_ns.wrapping_add(BELIEVED_NS).wrapping_sub(last_ns) > STALE_NS
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
        let believed = |ns: u64| ns <= now_ns.saturating_add(BELIEVED_NS);
        for (other, place) in places.iter().enumerate() {
            if other == at {
                seen.is_lost = place.id != mine.1;
                continue;
            }
            // The order within a tenant is its own.
            if tenant != 0 && place.tenant == tenant {
                continue;
            }
            let early_ns = if place.since_ns == 0 { EARLY_NS } else { 0 };
            let until_ns = place.until_ns.saturating_sub(early_ns);
            let has_it = until_ns > now_ns && believed(until_ns);
            if has_it && (place.since_ns, place.id) < mine {
                seen.before = seen.before.saturating_add(1);
                seen.until_ns = seen.until_ns.max(until_ns);
            }
            let wants = place.want_ns.saturating_add(WANTS_FOR_NS) > now_ns
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

    #[inline(never)]
    fn publish<B: Board>(&self, board: &B, at: usize, since_ns: u64, until_ns: u64) {
        self.since_ns.store(since_ns, Relaxed);
        self.until_ns.store(until_ns, Relaxed);
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
mod tests {
    use std::cell::RefCell;

    use super::*;

    const MS: u64 = 1_000_000;
    const START_NS: u64 = 77_000_000_000;

    /// Places in memory, and the process that looks at them.
    struct Table<'a>(&'a RefCell<meet::Board>, u32);

    impl Board for Table<'_> {
        fn process(&self) -> u32 {
            self.1
        }
        fn read(&self, into: &mut meet::Board) -> bool {
            *into = *self.0.borrow();
            true
        }
        fn write(&self, at: usize, place: &BoardPlace) -> bool {
            self.0.borrow_mut()[at] = *place;
            true
        }
    }

    fn empty() -> RefCell<meet::Board> {
        RefCell::new([BoardPlace::default(); PLACES])
    }

    fn asks(one: &Meeting, now_ns: u64, board: &RefCell<meet::Board>, process: u32) -> bool {
        one.ask(now_ns, now_ns, 0, || Some(Table(board, process))) == 0
    }

    #[test]
    fn one_has_it_until_it_leaves_or_says_nothing_more() {
        let (board, one, other) = (empty(), Meeting::new(), Meeting::new());
        assert!(asks(&one, START_NS, &board, 1));
        assert!(!asks(&other, START_NS + 1_000, &board, 2));
        one.leave(START_NS + 2_000, || Some(Table(&board, 1)));
        assert!(asks(&other, START_NS + 3_000, &board, 2));
        assert!(!asks(&one, START_NS + 4_000, &board, 1));
        assert!(!one.is_alone(START_NS + 4_000));
        // The other has gone silent.
        assert!(asks(&one, START_NS + 4 * MS, &board, 1));
    }

    /// A process that names its tenant.
    struct Of<'a>(Table<'a>, u64);

    impl Board for Of<'_> {
        fn process(&self) -> u32 {
            self.0.process()
        }
        fn tenant(&self) -> u64 {
            self.1
        }
        fn read(&self, into: &mut meet::Board) -> bool {
            self.0.read(into)
        }
        fn write(&self, at: usize, place: &BoardPlace) -> bool {
            self.0.write(at, place)
        }
    }

    #[test]
    fn processes_of_a_tenant_do_not_wait_for_each_other_here() {
        let (board, now_ns) = (empty(), START_NS);
        let asks = |one: &Meeting, process, tenant| {
            one.ask(now_ns, now_ns, 0, || Some(Of(Table(&board, process), tenant))) == 0
        };
        let (one, two, other) = (Meeting::new(), Meeting::new(), Meeting::new());
        assert!(asks(&one, 1, 7) && asks(&two, 2, 7));
        assert!(one.is_alone(now_ns) && two.is_alone(now_ns) && two.others() == 0);
        assert!(!asks(&other, 3, 9) && !other.is_alone(now_ns));
    }

    #[test]
    fn who_has_waited_longest_is_next() {
        let (board, one) = (empty(), Meeting::new());
        let (first, second) = (Meeting::new(), Meeting::new());
        let mut now_ns = START_NS;
        assert!(asks(&one, now_ns, &board, 1));
        let mut is_lent = false;
        while !is_lent {
            now_ns += MS;
            is_lent = !asks(&one, now_ns, &board, 1);
            if !is_lent {
                assert!(!asks(&first, now_ns + 100, &board, 2));
                assert!(!asks(&second, now_ns + 200, &board, 3));
            }
            assert!(now_ns < START_NS + 2 * TURN_NS);
        }
        assert!(!asks(&second, now_ns + 300, &board, 3));
        assert!(asks(&first, now_ns + 400, &board, 2));
    }

    #[test]
    fn nobody_waits_longer_than_the_patience_and_others_are_counted() {
        let (board, one) = (empty(), Meeting::new());
        let mut now_ns = START_NS;
        let hostile = |now_ns| BoardPlace {
            id: 9,
            until_ns: now_ns + 100 * MS,
            since_ns: 1,
            want_ns: now_ns,
            waits_from_ns: 1,
            ..BoardPlace::default()
        };
        loop {
            board.borrow_mut()[0..2].fill(hostile(now_ns));
            if asks(&one, now_ns, &board, 1) {
                break;
            }
            now_ns += MS;
            assert!(now_ns <= START_NS + PATIENCE_NS + MS);
        }
        assert_eq!(one.others(), 2);
    }

    #[test]
    fn what_is_not_believed_or_full_changes_nothing() {
        let one = Meeting::new();
        let garbage = BoardPlace {
            id: u64::MAX,
            until_ns: u64::MAX,
            since_ns: u64::MAX,
            want_ns: u64::MAX,
            waits_from_ns: u64::MAX,
            tenant: u64::MAX,
            reserved: [u64::MAX; 2],
        };
        assert!(asks(&one, START_NS, &RefCell::new([garbage; PLACES]), 1));
        let full = BoardPlace { id: 5, until_ns: START_NS, ..BoardPlace::default() };
        let other = Meeting::new();
        assert!(asks(&other, START_NS, &RefCell::new([full; PLACES]), 1));
        assert_eq!(Meeting::new().ask(START_NS, 0, 0, || None::<Table<'_>>), 0);
    }

    #[test]
    fn a_forked_child_takes_a_place_of_its_own() {
        let (board, one) = (empty(), Meeting::new());
        assert!(asks(&one, START_NS, &board, 1));
        // Another process finds the same words, as a forked child does.
        assert!(!asks(&one, START_NS + 2 * MS, &board, 2));
        assert_eq!(board.borrow().iter().filter(|place| place.id != 0).count(), 2);
    }
}
