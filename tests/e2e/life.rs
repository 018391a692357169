//! Processes: forks, execs, threads, closed descriptors, ends of every kind. What a process held is
//! free when it is gone, however it went, and not before.

use crate::harness::{GIB, MIB, Machine, Running, finish, scenarios, until};

scenarios! { "life", 4 * GIB;
    forked_before_any_call,
    forked_after_start,
    vforked_and_spawned,
    executed_anew,
    many_threads,
    calls_from_destructors,
    every_descriptor_closed,
    no_descriptors_left,
    no_memory_left,
}

/// Waits until clients are there: until so much of the card is taken.
pub(crate) fn wait_for(machine: &Machine, bytes: u64) {
    let what = format_args!("{bytes} bytes of the card are taken");
    until(what, || machine.card_used_bytes() >= bytes);
}

#[test]
fn every_end_leaves_nothing() {
    let machine = Machine::new().limited(4 * GIB);
    for end in ["return", "exit", "_exit", "abort", "crash", "1", "2", "9", "11", "15", "10"] {
        let finished = finish(machine.scenario("life", "ends").env("END", end));
        assert!(!finished.hung, "{end}\n{finished}");
        if let Ok(number) = end.parse() {
            assert_eq!(finished.signal(), Some(number), "{end}: the signal is the program's own");
        }
        let since = std::time::Instant::now();
        machine.plays("life", "nothing_but_a_context");
        assert!(since.elapsed().as_secs() < 10, "{end}: the next process waited");
    }
}

#[test]
fn parents_death_frees_its_charge_while_its_child_lives() {
    let machine = Machine::new().limited(4 * GIB);
    let mut parent = Running::start(&mut machine.scenario("life", "leaves_a_forked_child"));
    wait_for(&machine, GIB + 518 * MIB);
    parent.kill();
    // The child keeps the pipes open; do not wait for their end.
    until("the parent ends", || parent.ended());
    machine.plays("life", "nothing_but_a_context");
}

#[test]
fn closed_descriptors_do_not_end_a_process_for_the_others() {
    let machine = Machine::new().limited(4 * GIB);
    let mut command = machine.scenario("life", "every_descriptor_closed");
    let mut holder = Running::start(command.env("STAY", "1"));
    wait_for(&machine, (518 + 128) * MIB);
    machine.plays("life", "own_charge_alone");
    holder.kill();
    let _ = holder.finish();
    machine.plays("life", "nothing_but_a_context");
}
