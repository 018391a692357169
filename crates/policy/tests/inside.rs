//! A tenant's processes at its turn, step by step: who is next, and what nobody's death, pause or words may do.
#![cfg(not(shuttle))]

mod lines;

use std::sync::atomic::Ordering::Relaxed;

use divvy_abi::usage::{gate, gate_tenant};
use divvy_policy::gate::{Had, Inside, Patience, Queued, Turned, Words};

/// A process with nothing kept beside its words.
type One = lines::One<()>;

const MS: u64 = 1_000_000;
const START_NS: u64 = 9_000_000 * MS;
/// The turn is had since the beginning.
const SINCE: Had = Had { began_ns: START_NS, since_ns: START_NS };

fn tenant(processes: usize) -> Vec<One> {
    let table = lines::Table::new(processes, ());
    (1..=processes).map(|slot| lines::One(table, slot)).collect()
}

/// What tests ask of a process.
trait Acts: Sized {
    fn inside(self, now_ns: u64) -> Option<Inside<Self>>;
    /// Whether it may go at that time.
    fn goes(self, now_ns: u64) -> bool;
    fn uses(self, ms: u64);
    fn set(self, word: usize, value: u64);
}

impl Acts for One {
    fn inside(self, now_ns: u64) -> Option<Inside<Self>> {
        Inside::of(self, true, || now_ns)
    }

    fn goes(self, now_ns: u64) -> bool {
        self.inside(now_ns)
            .expect("there are others")
            .ask(now_ns, Had::default(), &mut Patience::default())
            .is_ok()
    }

    fn uses(self, ms: u64) {
        self.add_used((ms * MS).cast_signed());
    }

    fn set(self, word: usize, value: u64) {
        self.own(word).store(value, Relaxed);
    }
}

#[test]
fn who_is_alone_takes_no_turns() {
    assert!(tenant(1)[0].inside(START_NS).is_none());
}

#[test]
fn the_one_that_was_served_least_is_next_and_is_woken() {
    let all = tenant(3);
    let [one, two, three] = [all[0], all[1], all[2]];
    for (one, served_ms) in [(one, 0), (two, 5), (three, 0)] {
        one.set(gate::SERVED_NS, served_ms * MS);
        one.set(gate::TURN, 1 << 18);
        one.set(gate::LEASE_NS, START_NS + 60 * MS);
    }
    assert!(one.goes(START_NS));
    assert!(!two.goes(START_NS) && !three.goes(START_NS));
    one.uses(9);
    assert!(one.goes(START_NS + MS / 2), "less than a turn");
    one.uses(2);
    assert!(!one.goes(START_NS + MS), "a turn, and others wait");
    assert_eq!(one.0.woken.load(Relaxed), 3);
    // The other may take it a step later, if the third does not come.
    assert!(!two.goes(START_NS + MS + 1));
    assert!(three.goes(START_NS + MS + 2));
    assert!(!one.goes(START_NS + MS + 3) && !two.goes(START_NS + MS + 3));
}

#[test]
fn nobody_hands_on_to_nobody() {
    let all = tenant(2);
    for turn in 0..20 {
        all[0].uses(30);
        assert!(all[0].goes(START_NS + turn * 30 * MS));
    }
}

#[test]
fn who_says_nothing_more_has_lost_it_a_moment_after_its_work() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS));
    all[0].set(gate::BUSY_UNTIL_NS, START_NS + 3 * MS);
    assert!(!all[1].goes(START_NS + 3 * MS));
    let queued = all[1].inside(0).expect("two").ask(
        START_NS + 3 * MS,
        Had::default(),
        &mut Patience::default(),
    );
    let until_ns = queued.expect_err("it is held").until_ns;
    assert_eq!(until_ns, START_NS + 4 * MS);
    assert!(all[1].goes(until_ns));
    // It idled while another waited, and so does that one: others may go beside whoever has the turn, until the cap binds
    // them. One that is gone idles once.
    assert!(!all[0].goes(until_ns));
    let until_ns = until_ns + MS;
    assert!(all[0].goes(until_ns) && all[1].goes(until_ns), "two have left it unused");
    all[0].inside(0).expect("two").keep(until_ns + 50 * MS, true);
    assert!(!all[1].goes(until_ns));
    // What it kept while it waited for its cap is kept for so long.
    assert!(!all[1].goes(until_ns + 50 * MS));
    assert!(all[1].goes(until_ns + 51 * MS));
}

#[test]
fn who_sleeps_until_its_work_ends_keeps_it_for_as_long_as_its_longest() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS));
    let sleeper = all[0].sleeper();
    all[0].note_launch(START_NS);
    all[0].note_length(40 * MS);
    assert!(!all[1].goes(START_NS + 80 * MS));
    drop(sleeper);
    assert!(all[1].goes(START_NS + 80 * MS));
}

#[test]
fn the_next_that_does_not_come_is_passed_over() {
    let all = tenant(3);
    assert!(all[0].goes(START_NS));
    all[1].set(gate::SERVED_NS, MS);
    all[2].set(gate::SERVED_NS, 2 * MS);
    assert!(!all[1].goes(START_NS) && !all[2].goes(START_NS));
    all[0].uses(20);
    assert!(!all[0].goes(START_NS));
    // The second is stopped.
    assert!(!all[2].goes(START_NS + MS / 2));
    assert!(all[2].goes(START_NS + MS));
}

#[test]
fn absence_saves_nothing_up() {
    let all = tenant(3);
    all[0].set(gate::SERVED_NS, 5_000 * MS);
    all[1].set(gate::SERVED_NS, 5_000 * MS);
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    all[1].set(gate::SERVED_NS, 5_004 * MS);
    // It comes anew, and is behind them.
    assert!(!all[2].goes(START_NS));
    assert_eq!(all[2].own(gate::SERVED_NS).load(Relaxed), 5_004 * MS);
    // It comes back, and is where the one is that was served least; where the most is, but for a turn.
    for (before_ms, after_ms) in [(3, 5_000), (5_002, 5_002), (70_000, 5_014)] {
        all[2].set(gate::TURN, 1 << 18);
        all[2].set(gate::LEASE_NS, 0);
        all[2].set(gate::SERVED_NS, before_ms * MS);
        assert!(!all[2].goes(START_NS));
        assert_eq!(all[2].own(gate::SERVED_NS).load(Relaxed), after_ms * MS);
    }
}

#[test]
fn a_charge_that_is_put_right_is_served_no_more() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    all[0].uses(60);
    assert!(!all[0].goes(START_NS));
    assert_eq!(all[0].own(gate::SERVED_NS).load(Relaxed), 60 * MS);
    all[0].add_used(-(55 * MS).cast_signed());
    assert!(!all[0].goes(START_NS));
    assert_eq!(all[0].own(gate::SERVED_NS).load(Relaxed), 5 * MS);
}

/// A kernel that waits for another process's: its marks show no end, and its process says so again and again.
#[test]
fn work_that_does_not_end_behind_a_turn_is_given_up() {
    let all = tenant(3);
    let mut patience = [Patience::default(); 3];
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS) && !all[2].goes(START_NS));
    all[0].uses(20);
    let mut now_ns = START_NS;
    let went = loop {
        all[0].set(gate::BUSY_UNTIL_NS, now_ns + MS / 3);
        let goes = |(one, patience): (&One, &mut Patience)| {
            let inside = one.inside(now_ns).expect("three");
            inside.ask(now_ns, Had::default(), patience).is_ok()
        };
        let went: Vec<bool> = all.iter().zip(&mut patience).map(goes).collect();
        if went.contains(&true) {
            break went;
        }
        now_ns += MS / 4;
        assert!(now_ns < START_NS + 260 * MS, "nobody goes");
    };
    assert_eq!(went.iter().filter(|goes| **goes).count(), 1, "{went:?}");
    assert!(now_ns >= START_NS + 250 * MS, "{} us", (now_ns - START_NS) / 1_000);
}

/// A thread in a synchronisation seems to have work for as long as its longest launch; it returns at once, and says
/// nothing.
#[test]
fn the_next_looks_again_soon_and_who_handed_on_comes_late() {
    let all = tenant(2);
    all[0].note_length(40 * MS);
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    all[0].note_launch(START_NS);
    let sleeper = all[0].sleeper();
    all[0].uses(20);
    assert!(!all[0].goes(START_NS));
    let queued =
        all[1].inside(0).expect("two").ask(START_NS, Had::default(), &mut Patience::default());
    assert_eq!(queued.expect_err("it seems busy").until_ns, START_NS + MS / 2);
    drop(sleeper);
    assert!(!all[0].goes(START_NS + 4 * MS), "before the other has looked");
    assert!(all[1].goes(START_NS + 4 * MS));
}

#[test]
fn work_of_seconds_is_waited_for() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS));
    all[0].set(gate::BUSY_UNTIL_NS, START_NS + 3_000 * MS);
    assert!(!all[1].goes(START_NS + 2_999 * MS));
    assert!(all[1].goes(START_NS + 3_001 * MS));
}

/// Once its holder leaves most of the device to nobody, the others go beside it, until the cap binds them.
#[test]
fn a_turn_that_is_little_used_is_shared() {
    let all = tenant(3);
    let ask = |one: One, now_ns: u64| {
        let inside = one.inside(now_ns).expect("three");
        inside.ask(now_ns, SINCE, &mut Patience::default()).is_ok()
    };
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    all[0].uses(2);
    assert!(ask(all[0], START_NS + 4 * MS) && !ask(all[1], START_NS + 4 * MS));
    assert!(ask(all[0], START_NS + 6 * MS));
    assert!(ask(all[1], START_NS + 6 * MS) && ask(all[2], START_NS + 6 * MS));
    all[2].inside(0).expect("three").keep(START_NS + 9 * MS, true);
    assert!(!ask(all[1], START_NS + 6 * MS));
}

/// Where no cap binds them again, a turn is one process's: whether turns are worth it is the owner's to find out.
#[test]
fn without_a_cap_no_turn_is_shared() {
    let all = tenant(2);
    let ask = |one: One, now_ns: u64, is_capped: bool| {
        let inside = Inside::of(one, is_capped, || now_ns).expect("two");
        inside.ask(now_ns, SINCE, &mut Patience::default()).is_ok()
    };
    assert!(ask(all[0], START_NS, true) && !ask(all[1], START_NS, true));
    assert!(ask(all[0], START_NS + 6 * MS, true), "little was used");
    assert!(ask(all[1], START_NS + 6 * MS, true), "so it is shared");
    // The cap is lifted.
    assert!(!ask(all[1], START_NS + 6 * MS, false));
    assert!(ask(all[0], START_NS + 6 * MS, false));
    assert!(ask(all[0], START_NS + 12 * MS, false) && !ask(all[1], START_NS + 12 * MS, false));
}

/// The last holder may have been served least, and yet nobody waits for it.
#[test]
fn who_has_handed_on_is_waited_for_by_nobody() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS));
    all[1].set(gate::SERVED_NS, 90 * MS);
    assert!(!all[1].goes(START_NS));
    all[0].uses(10);
    assert!(!all[0].goes(START_NS + 10 * MS), "handed on");
    assert!(all[1].goes(START_NS + 10 * MS + 1));
}

/// Asks so long after the start, for a process that had its turn since then.
fn ask(one: One, ms: u64, had: Had) -> Result<Turned, Queued> {
    let inside = one.inside(START_NS + ms * MS).expect("several");
    inside.ask(START_NS + ms * MS, had, &mut Patience::default())
}

/// Now and then each is alone, so that what it uses is measured.
#[test]
fn a_turn_is_shared_for_a_tenth_of_a_second() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    assert!(ask(all[0], 6, SINCE).is_ok() && ask(all[1], 6, SINCE).is_ok(), "shared");
    // What its holder waited for in between does not make the time less.
    let late = Had { since_ns: START_NS + 98 * MS, ..SINCE };
    assert!(matches!(ask(all[0], 99, late), Ok(Turned::GoesOn)));
    assert!(ask(all[1], 99, SINCE).is_ok());
    assert!(matches!(ask(all[0], 100, late), Ok(Turned::Begun)), "it begins anew");
    assert!(ask(all[1], 100, SINCE).is_err());
}

/// Nobody binds them again where its holder is gone.
#[test]
fn a_turn_that_is_shared_lapses_with_its_holder() {
    let all = tenant(3);
    let ask = |one: One, ms: u64| {
        let inside = one.inside(START_NS + ms * MS).expect("three");
        inside.ask(START_NS + ms * MS, SINCE, &mut Patience::default()).is_ok()
    };
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    assert!(ask(all[0], 6) && ask(all[1], 6) && ask(all[2], 6), "shared");
    assert!(ask(all[1], 9), "taken, since the holder says nothing more");
    all[1].inside(START_NS + 9 * MS).expect("three").keep(START_NS + 9 * MS, true);
    assert!(ask(all[1], 9) && !ask(all[2], 9), "it is the second's");
}

/// Who had a turn of its own long ago is no holder for that.
#[test]
fn a_turn_that_is_shared_begins_anew_for_its_holder_alone() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    assert!(ask(all[0], 6, SINCE).is_ok() && ask(all[1], 6, SINCE).is_ok(), "shared");
    // Its holder says nothing more.
    assert!(matches!(ask(all[1], 10, Had::default()), Ok(Turned::Begun)), "it takes the turn");
    assert_ne!(all[1].own(gate::TURN).load(Relaxed), all[0].own(gate::TURN).load(Relaxed));
}

#[test]
fn those_that_share_have_it_together() {
    let all = tenant(3);
    all[0].join();
    all[1].join();
    assert!(all[0].goes(START_NS) && all[1].goes(START_NS), "at once");
    assert!(!all[2].goes(START_NS));
    // Who has used a turn hands it on for both.
    all[0].uses(8);
    all[1].uses(15);
    assert!(!all[1].goes(START_NS + MS / 2));
    assert!(!all[0].goes(START_NS + MS / 2));
    assert!(all[2].goes(START_NS + MS / 2));
    // The one that holds it lets both wait; then both are next.
    assert!(!all[0].goes(START_NS + MS) && !all[1].goes(START_NS + MS));
    all[2].uses(15);
    assert!(!all[2].goes(START_NS + MS));
    assert!(all[0].goes(START_NS + MS) && all[1].goes(START_NS + MS));
}

#[test]
fn work_that_waited_for_anothers_ends_turns_for_a_minute() {
    let all = tenant(2);
    assert!(all[0].goes(START_NS) && !all[1].goes(START_NS));
    let given_up = |at_ns| all[0].inside(at_ns).expect("two").drain_given_up(at_ns);
    given_up(START_NS - 3_000 * MS);
    assert!(all[1].inside(START_NS).is_some(), "it seemed so once");
    given_up(START_NS - 30 * MS);
    assert!(all[1].inside(START_NS).is_some(), "long ago");
    given_up(START_NS);
    assert!(all[1].inside(START_NS).is_none());
    assert!(all[1].inside(START_NS + 59_999 * MS).is_none());
    assert!(all[1].inside(START_NS + 60_000 * MS).is_some());
    // A time that nobody can have written.
    all[0].word(0, gate_tenant::TOGETHER_NS).store(u64::MAX, Relaxed);
    assert!(all[1].inside(START_NS).is_some());
}

/// The tenant's own processes may write anything into its file: it may cost the tenant its share, and nothing more.
#[test]
fn no_words_make_anybody_wait_for_long() {
    let all = tenant(3);
    for seed in 0..20_000_u64 {
        for (at, word) in all[0].0.lines.iter().flatten().enumerate() {
            let mixed = (seed * 977 + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let near = START_NS.wrapping_add(mixed % (4_000 * MS)).wrapping_sub(2_000 * MS);
            word.store([mixed, near, u64::MAX, 0][(mixed >> 61) as usize & 3], Relaxed);
        }
        for word in [gate::LEASE_NS, gate::SERVED_NS] {
            all[0].set(word, 0);
        }
        let Some(inside) = all[0].inside(START_NS) else { continue };
        if let Err(queued) = inside.ask(START_NS, Had::default(), &mut Patience::default()) {
            assert!(queued.until_ns <= START_NS + 20 * MS, "{queued:?}");
            assert!(queued.until_ns > START_NS, "{queued:?}");
        }
        let since_ns = inside.unsettled_since_ns(u64::MAX, START_NS);
        assert!(since_ns == u64::MAX || since_ns + 1_000 * MS > START_NS, "{since_ns}");
    }
}

/// Every process that goes on asking is served, as much as each other.
#[test]
fn all_are_served_alike() {
    for (processes, kernel_ms) in [(2, 1), (5, 3), (16, 1), (16, 7)] {
        let all = tenant(processes);
        let mut now_ns = START_NS;
        let mut held = 0;
        while now_ns < START_NS + 60_000 * MS {
            let mut goes = None;
            for one in &all {
                if one.goes(now_ns) {
                    assert!(goes.is_none(), "two at once");
                    goes = Some(*one);
                }
            }
            if let Some(one) = goes {
                one.uses(kernel_ms);
                one.set(gate::BUSY_UNTIL_NS, now_ns + kernel_ms * MS);
                now_ns += kernel_ms * MS;
                held += 1;
            } else {
                now_ns += MS / 4;
            }
        }
        let used: Vec<u64> =
            all.iter().map(|one| one.own(gate::USED_NS).load(Relaxed) / MS).collect();
        let (least, most) = (used.iter().min().expect("some"), used.iter().max().expect("some"));
        assert!(most - least <= 30, "{processes} of {kernel_ms} ms: {used:?}");
        assert!(held * kernel_ms > 50_000, "{processes} of {kernel_ms} ms: {held}");
    }
}
