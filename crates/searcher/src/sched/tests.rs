//! The scheduler by itself: whose turn it is, what deviations do, what ends a wait.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::card::CardModel;

type Said = Rc<RefCell<Vec<(u64, u32)>>>;

fn actor(tenant: u32, thread: u32) -> Actor {
    Actor { tenant, process: 0, thread }
}

/// Runs all that can run; the run is still under way.
fn play(bound_ns: u64) {
    while let Some((_, thread)) = earliest().filter(|(at_ns, _)| *at_ns < bound_ns) {
        resume(thread, bound_ns);
    }
}

/// Comes to a site every `ns` and says when.
fn stepping(said: &Said, thread: u32, steps: u32, ns: u64) -> impl FnOnce() + 'static {
    let said = Rc::clone(said);
    move || {
        for _ in 0..steps {
            spend(ns);
            point(Site::Begin);
            said.borrow_mut().push((now_ns(), thread));
        }
    }
}

fn begin_with(devs: &[Dev]) -> Said {
    begin(1, Site::costs(&CardModel::default()), devs);
    Said::default()
}

#[test]
fn the_one_furthest_behind_goes_on() {
    let said = begin_with(&[]);
    spawn(actor(0, 0), 0, stepping(&said, 0, 4, 30));
    spawn(actor(0, 1), 5, stepping(&said, 1, 6, 20));
    play(NEVER_NS);
    let said = said.borrow();
    assert!(said.is_sorted(), "{said:?}");
    assert_eq!(said.len(), 10);
    assert_eq!(earliest(), None);
    end();
}

#[test]
fn who_is_killed_is_never_gone_on_with_and_unwound_at_the_end() {
    struct Dropped(Said);
    impl Drop for Dropped {
        fn drop(&mut self) {
            // Outside of a thread a point is neither charged nor left.
            assert_eq!((point(Site::Now), now_ns()), (None, 0));
            self.0.borrow_mut().push((0, 99));
        }
    }
    let kill = Dev { who: actor(0, 0), site: Site::Begin, nth: 2, what: Fault::Kill };
    let said = begin_with(&[kill]);
    let (dropped, body) = (Dropped(Rc::clone(&said)), stepping(&said, 0, 9, 10));
    let first = spawn(actor(0, 0), 0, move || {
        let _dropped = dropped;
        body();
    });
    let beside = spawn(actor(0, 1), 0, stepping(&said, 1, 9, 10));
    spawn(actor(1, 0), 0, stepping(&said, 2, 9, 10));
    play(NEVER_NS);
    let count = |who| said.borrow().iter().filter(|(_, thread)| *thread == who).count();
    // The whole process is gone at that time, and nobody else.
    assert_eq!([count(0), count(1), count(2), count(99)], [2, 2, 9, 0]);
    assert_eq!((take_killed(), take_killed()), (vec![(actor(0, 0), 30)], Vec::new()));
    assert!(!lives(first) && !lives(beside));
    assert_eq!((met(), visits()[&(actor(0, 0), Site::Begin)]), (vec![kill], 3));
    end();
    assert_eq!(count(99), 1);
}

#[test]
fn delays_are_one_threads_and_stops_a_processes() {
    let dev = |what| Dev { who: actor(0, 0), site: Site::Begin, nth: 1, what };
    for (what, ends) in [(Fault::Delay(500), [530, 30, 30]), (Fault::Stop(500), [530, 530, 30])] {
        let said = begin_with(&[dev(what)]);
        spawn(actor(0, 0), 0, stepping(&said, 0, 3, 10));
        spawn(actor(0, 1), 0, stepping(&said, 1, 3, 10));
        spawn(actor(1, 0), 0, stepping(&said, 2, 3, 10));
        play(NEVER_NS);
        let last = |who| {
            let said = said.borrow();
            let of_it = said.iter().filter(|(_, thread)| *thread == who);
            of_it.map(|(at_ns, _)| *at_ns).max().unwrap_or(0)
        };
        let reached = [last(0), last(1), last(2)];
        for (reached, expected) in reached.iter().zip(ends) {
            assert!(reached.abs_diff(expected) <= 10, "{what:?}: {reached:?}, not {expected}");
        }
        end();
    }
}

#[test]
fn a_wait_ends_by_its_key_or_in_time() {
    let said = begin_with(&[]);
    for (thread, until_ns) in [(0, NEVER_NS), (1, 40), (2, 1_000)] {
        let said = Rc::clone(&said);
        spawn(actor(0, thread), 0, move || {
            let woken = block(7, until_ns);
            said.borrow_mut().push((now_ns(), thread));
            assert_eq!(woken == Woken::InTime, thread == 1);
        });
    }
    spawn(actor(1, 0), 0, || {
        spend(100);
        point(Site::Begin);
        assert_eq!(waiting(7), [0, 2]);
        for thread in waiting(7) {
            assert!(!wake(thread, 8, 110) && wake(thread, 7, 110));
        }
    });
    play(NEVER_NS);
    assert_eq!(*said.borrow(), [(40, 1), (110, 0), (110, 2)]);
    end();
}
