//! The step of a daemon's scheduling thread over tenants in memory: what it reads, what it writes and when.
//!
//! Readings and writes are counted; no test waits.
#![cfg(not(loom))]

mod turns_memory;

use divvy_abi::MAX_DEVICES;
use divvy_abi::config::{GateLine, gate};
use divvy_policy::turns::{Gate, GateEntry, GateState, REST_NS, Served, Tenants};
use turns_memory::{CARD, Daemon, MS, Memory, SEC, Seat, Write, served};

/// Two tenants that each would use all of the card.
trait Contend {
    fn readings(&mut self, seat: usize) -> usize;
    fn writes(&mut self, seat: usize) -> Vec<Write>;
    /// Each tenant's process has a deep queue, or waits where its gate is closed.
    fn work(&mut self, now_ns: u64);
    /// Steps when asked to, with work, until `is_done` says so of the step that was just taken; its time.
    fn run(&mut self, from_ns: u64, is_done: impl FnMut(&mut Self, u64) -> bool) -> u64;
    /// The time at which turns have begun: one gate is closed and the other open.
    fn take_turns(&mut self) -> u64;
    /// Of two tenants in turns, the one whose gate is closed.
    fn closed_seat(&mut self) -> usize;
}

impl Contend for Daemon {
    fn readings(&mut self, seat: usize) -> usize {
        self.files(seat).readings.take()
    }

    fn writes(&mut self, seat: usize) -> Vec<Write> {
        std::mem::take(&mut self.files(seat).writes)
    }

    fn work(&mut self, now_ns: u64) {
        for seat in 0..self.seats.0.len() {
            let is_closed = self.line(seat).gate == gate::CLOSED;
            let entry = &mut self.files(seat).slots[0].0;
            if is_closed {
                entry.want_ns = now_ns;
            } else {
                entry.last_launch_ns = now_ns;
                entry.busy_until_ns = now_ns + 4 * MS;
                entry.launches += 1;
                entry.used_ns += MS / 10;
            }
        }
    }

    fn run(&mut self, from_ns: u64, mut is_done: impl FnMut(&mut Self, u64) -> bool) -> u64 {
        let mut now_ns = from_ns;
        for _ in 0..100_000 {
            self.work(now_ns);
            let next_ns = self.step(now_ns);
            if is_done(self, now_ns) {
                return now_ns;
            }
            now_ns = next_ns;
        }
        panic!("it never comes");
    }

    fn take_turns(&mut self) -> u64 {
        self.run(SEC, |daemon, _| {
            let lines = [daemon.line(0).gate, daemon.line(1).gate];
            lines.contains(&gate::CLOSED) && lines.contains(&gate::TIMED)
        })
    }

    fn closed_seat(&mut self) -> usize {
        usize::from(self.line(1).gate == gate::CLOSED)
    }
}

fn closed(t_open_ns: u64) -> Gate {
    Gate { state: GateState::Closed, t_open_ns, ..Gate::default() }
}

#[test]
fn only_watched_rows_are_read() {
    let mut daemon = Daemon::of(2);
    let from_ns = daemon.take_turns();
    let (mut watched, mut left_alone) = (0, 0);
    daemon.readings(0);
    daemon.readings(1);
    let mut asked = [daemon.gates[0].watch, daemon.gates[1].watch];
    daemon.run(from_ns, |daemon, now_ns| {
        for (seat, was_asked) in asked.into_iter().enumerate() {
            assert_eq!(daemon.readings(seat), usize::from(was_asked), "seat {seat}");
            if was_asked { watched += 1 } else { left_alone += 1 }
        }
        asked = [daemon.gates[0].watch, daemon.gates[1].watch];
        now_ns > from_ns + SEC
    });
    assert!(watched > 0 && left_alone > 0, "{watched} watched, {left_alone} left alone");
    // What has changed is read whatever was asked for.
    daemon.is_changed = true;
    daemon.step(from_ns + 2 * SEC);
    assert_eq!([daemon.readings(0), daemon.readings(1)], [1, 1]);
}

#[test]
fn a_lease_never_ends_while_steps_come() {
    let mut daemon = Daemon::of(2);
    let from_ns = daemon.take_turns();
    let mut renewed = 0;
    daemon.run(from_ns, |daemon, now_ns| {
        for seat in 0..2 {
            let line = daemon.line(seat);
            if line.gate == gate::FREE {
                continue;
            }
            // It lasts beyond the longest time to the next step.
            let least_ns = if line.gate == gate::CLOSED { 60 * MS } else { 400 * MS };
            assert!(line.lease_ns > now_ns + least_ns, "{line:?} at {now_ns}");
            renewed += daemon.writes(seat).iter().filter(|w| **w == Write::Renew).count();
        }
        now_ns > from_ns + 5 * SEC
    });
    assert!(renewed > 0);
}

#[test]
fn a_lease_is_renewed_when_a_quarter_has_passed_and_no_sooner() {
    let mut served = served();
    served.put(0, closed(0), SEC).expect("written");
    assert_eq!(served.files.line(0).lease_ns, SEC + 100 * MS);
    served.files.writes.clear();
    for now_ns in [SEC, SEC + 10 * MS, SEC + 25 * MS] {
        served.put(0, closed(0), now_ns).expect("nothing to write");
        assert_eq!(served.files.writes, [], "at {now_ns}");
    }
    served.put(0, closed(0), SEC + 25 * MS + 1).expect("written");
    assert_eq!(served.files.writes, [Write::Renew]);
    assert_eq!(served.files.line(0).lease_ns, SEC + 125 * MS + 1);
    // A free gate has none.
    served.put(0, Gate::default(), 2 * SEC).expect("written");
    served.files.writes.clear();
    served.put(0, Gate::default(), 60 * SEC).expect("nothing to write");
    assert_eq!(served.files.writes, []);
}

#[test]
fn a_gate_is_written_only_when_it_has_changed() {
    let mut daemon = Daemon::of(2);
    let from_ns = daemon.take_turns();
    let mut known = [daemon.line(0), daemon.line(1)];
    daemon.writes(0);
    daemon.writes(1);
    let (mut set, mut idle) = (0, 0);
    daemon.run(from_ns, |daemon, now_ns| {
        for (seat, known) in known.iter_mut().enumerate() {
            let line = daemon.line(seat);
            let writes = daemon.writes(seat);
            let is_same = GateLine { lease_ns: known.lease_ns, ..line } == *known;
            let is_put = |write: &Write| matches!(write, Write::Set(_) | Write::Describe);
            assert_eq!(writes.iter().any(is_put), !is_same, "{writes:?} {known:?} {line:?}");
            let is_set = writes.iter().any(|write| matches!(write, Write::Set(_)));
            assert_eq!(is_set, line.gate != known.gate, "{writes:?}");
            set += usize::from(is_set);
            idle += usize::from(writes.is_empty());
            *known = line;
        }
        now_ns > from_ns + SEC
    });
    assert!(set > 0 && idle > 0, "{set} set, {idle} without a write");
}

#[test]
fn the_flag_that_the_scheduler_keeps_for_itself_is_no_change() {
    let mut served = served();
    served.put(0, closed(0), SEC).expect("written");
    served.files.writes.clear();
    served.put(0, Gate { watch: true, ..closed(0) }, SEC + 1).expect("nothing to write");
    assert_eq!(served.files.writes, []);
}

#[test]
fn whoever_sleeps_is_woken_before_its_gate_is_expected_to_open() {
    let mut served = served();
    served.put(0, closed(0), SEC).expect("written");
    assert_eq!(served.files.writes, [Write::Set(gate::CLOSED)], "nothing to wake up for");
    served.files.writes.clear();
    let t_open_ns = SEC + 5 * MS;
    served.put(0, closed(t_open_ns), SEC + 4 * MS).expect("written");
    assert_eq!(served.files.writes, [Write::Describe, Write::Wake]);
    served.files.writes.clear();
    served.put(0, Gate { active: 3, ..closed(t_open_ns) }, SEC + 4 * MS).expect("written");
    assert_eq!(served.files.writes, [Write::Describe], "it was told");

    // So in turns.
    let mut daemon = Daemon::of(2);
    let from_ns = daemon.take_turns();
    let mut woken = 0;
    daemon.run(from_ns, |daemon, now_ns| {
        for seat in 0..2 {
            let line = daemon.line(seat);
            if daemon.writes(seat).contains(&Write::Wake) {
                assert_eq!(line.gate, gate::CLOSED);
                assert!(line.t_open_ns > now_ns, "{line:?} at {now_ns}");
                woken += 1;
            }
        }
        now_ns > from_ns + SEC
    });
    assert!(woken > 0);
}

#[test]
fn a_wish_counts_if_it_is_newer_than_the_closing_and_neither_old_nor_to_come() {
    let mut served = served();
    let wants = |served: &mut Served<Memory>, want_ns, now_ns| {
        served.files.slots[0].0.want_ns = want_ns;
        served.sample(0, now_ns).wants
    };
    assert!(!wants(&mut served, SEC + 1, SEC + 2), "the gate is open");
    served.put(0, closed(0), SEC).expect("written");
    assert!(!wants(&mut served, SEC - 1, SEC + 2), "from before the closing");
    assert!(!wants(&mut served, SEC, SEC + 2), "of the closing's time");
    assert!(wants(&mut served, SEC + 1, SEC + 2));
    assert!(wants(&mut served, SEC + 1, SEC + 50 * MS), "not yet too old");
    assert!(!wants(&mut served, SEC + 1, SEC + 1 + 50 * MS), "too old");
    assert!(wants(&mut served, SEC + 7 * MS, SEC + 2 * MS), "read after the time was");
    assert!(!wants(&mut served, SEC + 7 * MS + 1, SEC + 2 * MS), "nobody's clock");
    // What is said anew of a closed gate is no closing.
    served.put(0, closed(SEC + 30 * MS), SEC + 20 * MS).expect("written");
    assert!(wants(&mut served, SEC + 1, SEC + 21 * MS));
    // The dead want nothing, and what they used is theirs all the same.
    served.files.slots[0] = (GateEntry { used_ns: 9, ..served.files.slots[0].0 }, false);
    let sample = served.sample(0, SEC + 21 * MS);
    assert!(sample.attached && !sample.wants && sample.used_ns == 9, "{sample:?}");
}

#[test]
fn any_gate_is_raised_at_once_and_lowered_after_two_calm_seconds() {
    let mut served = served();
    served.put(0, closed(0), SEC).expect("written");
    served.put_any_gate(SEC).expect("written");
    assert_eq!(served.files.writes, [Write::Set(gate::CLOSED), Write::Raise]);
    assert_eq!(served.files.config.any_gate, 1);
    served.put(0, Gate::default(), 2 * SEC).expect("written");
    served.files.writes.clear();
    for now_ns in [2 * SEC, 3 * SEC, 4 * SEC] {
        served.put_any_gate(now_ns).expect("nothing to write");
        assert_eq!(served.files.writes, [], "at {now_ns}");
    }
    // Somebody keeps the lock of the limits: it is tried again.
    served.files.is_kept = true;
    served.put_any_gate(4 * SEC + 1).expect("nothing to write");
    assert_eq!((served.config().any_gate, served.files.config.any_gate), (1, 1));
    served.files.is_kept = false;
    served.put_any_gate(4 * SEC + 2).expect("written");
    assert_eq!((served.config().any_gate, served.files.config.any_gate), (0, 0));
    assert_eq!(served.files.writes, [Write::Lower, Write::Lower]);
    // A gate in between begins the wait anew.
    served.files.writes.clear();
    served.put(0, closed(0), 5 * SEC).expect("written");
    served.put_any_gate(5 * SEC).expect("written");
    served.put(0, Gate::default(), 6 * SEC).expect("written");
    served.put_any_gate(6 * SEC).expect("nothing to write");
    served.put_any_gate(8 * SEC).expect("nothing to write");
    assert!(!served.files.writes.contains(&Write::Lower), "{:?}", served.files.writes);
}

#[test]
fn a_pause_is_met_by_the_first_launch() {
    let mut daemon = Daemon::of(1);
    daemon.step(SEC);
    assert_eq!(daemon.files(0).config.any_gate, 0);
    let config = &mut daemon.files(0).config;
    (config.paused, config.epoch) = (1, config.epoch + 2);
    let config = config.clone();
    daemon.is_changed = daemon.seats.get_mut(0).expect("a tenant").take_limits(config);
    daemon.step(SEC + MS);
    assert_eq!((daemon.files(0).config.any_gate, daemon.line(0).gate), (1, gate::CLOSED));
}

#[test]
fn a_gate_that_another_hand_wrote_is_written_again() {
    let mut daemon = Daemon::of(2);
    let now_ns = daemon.take_turns();
    let seat = daemon.closed_seat();
    *daemon.files(seat).line(0) = GateLine::default();
    let config = daemon.files(seat).config.clone();
    daemon.is_changed = daemon.seats.get_mut(seat).expect("a tenant").take_limits(config);
    assert!(daemon.is_changed);
    daemon.work(now_ns + 1);
    daemon.step(now_ns + 1);
    assert_ne!(daemon.line(seat).gate, gate::FREE);
}

#[test]
fn nobody_takes_turns_under_mps() {
    let mut daemon = Daemon::of(2);
    let now_ns = daemon.take_turns();
    daemon.seated.iter_mut().for_each(|seated| seated.mps = true);
    daemon.is_changed = true;
    daemon.run(now_ns + 1, |daemon, at_ns| {
        assert_eq!([daemon.line(0).gate, daemon.line(1).gate], [gate::FREE; 2]);
        at_ns > now_ns + SEC
    });
}

#[test]
fn a_quiet_daemon_rests() {
    let mut daemon = Daemon::of(2);
    assert_eq!(daemon.step(SEC), SEC + REST_NS);
    daemon.work(2 * SEC);
    let next_ns = daemon.step(2 * SEC);
    assert!(next_ns < 2 * SEC + REST_NS, "{next_ns}");
}

#[test]
fn who_cannot_be_written_leaves_and_its_row_is_seen_empty_once() {
    let mut daemon = Daemon::of(2);
    let now_ns = daemon.take_turns();
    let held_ns = daemon.run(now_ns, |daemon, _| daemon.tenants[1].held_ns() > 0);
    daemon.files(1).is_broken = true;
    let left_ns = daemon.run(held_ns, |daemon, _| matches!(daemon.seats.0[1], Seat::Left));
    assert!(daemon.tenants[1].held_ns() > 0, "it is known until its row was seen empty");
    daemon.is_changed = true;
    daemon.seated.retain(|seated| seated.seat == 0);
    daemon.step(left_ns + 1);
    assert!(matches!(daemon.seats.0[1], Seat::Empty));
    assert_eq!(daemon.tenants[1].held_ns(), 0);
}

#[test]
fn a_device_that_is_named_twice_is_the_first_rows() {
    let mut served = served();
    let named = (CARD, None);
    let other = ([8; 16], None);
    served.name_rows([Some(named), Some(named), None, Some(other)].into_iter());
    let uuids: Vec<_> = served.lines().iter().map(|line| line.uuid).collect();
    assert_eq!(uuids.len(), MAX_DEVICES);
    assert_eq!(uuids[..4], [Some(CARD), None, None, Some([8; 16])]);
    served.name_rows([None, Some(named), None, None].into_iter());
    assert_eq!(served.row_of(&CARD), Some(1));
}
