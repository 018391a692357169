//! Processes at one board, in memory: which of them has the device, which waits, and what a hostile board does.

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
        assert!(now_ns < START_NS + 2 * tuning::MEET_TURN_NS);
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
        assert!(now_ns <= START_NS + tuning::MEET_PATIENCE_NS + MS);
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

#[test]
fn a_place_that_was_taken_while_its_process_was_idle_is_left_to_the_other() {
    let (board, one, other) = (empty(), Meeting::new(), Meeting::new());
    assert!(asks(&one, START_NS, &board, 1));
    let mut now_ns = START_NS + tuning::STALE_NS;
    assert!(asks(&other, now_ns, &board, 2));
    assert_eq!(board.borrow().iter().filter(|place| place.id != 0).count(), 1);
    for _ in 0..8 {
        assert!(!asks(&one, now_ns + 1_000, &board, 1), "one device, and two that have it");
        now_ns += MS;
        assert!(asks(&other, now_ns, &board, 2));
    }
}

#[test]
fn of_two_that_choose_one_place_at_once_both_have_one_soon() {
    let (board, one, other) = (empty(), Meeting::new(), Meeting::new());
    assert!(asks(&one, START_NS, &board, 1));
    // The other read the board before that, and writes now.
    let before = RefCell::new([BoardPlace::default(); PLACES]);
    assert!(asks(&other, START_NS + 1_000, &before, 2));
    board.borrow_mut()[0] = before.borrow()[0];
    let now_ns = START_NS + 2 * MS;
    assert!(asks(&one, now_ns, &board, 1) && !asks(&other, now_ns + 1_000, &board, 2));
    assert_eq!(board.borrow().iter().filter(|place| place.id != 0).count(), 2);
}

/// A board during whose reading another thread of the process launches.
struct Watched<'a>(Table<'a>, &'a Meeting, u64);

impl Board for Watched<'_> {
    fn process(&self) -> u32 {
        self.0.process()
    }
    fn read(&self, into: &mut meet::Board) -> bool {
        let (one, now_ns) = (self.1, self.2);
        assert_ne!(
            one.ask(now_ns, now_ns, 0, || None::<Table<'_>>),
            0,
            "on a hold that is undecided"
        );
        self.0.read(into)
    }
    fn write(&self, at: usize, place: &BoardPlace) -> bool {
        self.0.write(at, place)
    }
}

#[test]
fn no_thread_launches_on_a_hold_that_another_has_only_asked_for() {
    let (board, one, other) = (empty(), Meeting::new(), Meeting::new());
    assert!(asks(&other, START_NS, &board, 2));
    let now_ns = START_NS + 1_000;
    assert_ne!(one.ask(now_ns, now_ns, 0, || Some(Watched(Table(&board, 1), &one, now_ns))), 0);
    let later_ns = START_NS + 4 * MS;
    assert_eq!(
        one.ask(later_ns, later_ns, 0, || Some(Watched(Table(&board, 1), &one, later_ns))),
        0
    );
    assert_eq!(one.ask(later_ns, later_ns, 0, || None::<Table<'_>>), 0, "it has the device now");
}
