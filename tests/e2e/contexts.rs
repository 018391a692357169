//! Contexts: each costs what the card says, whichever call made it, and is never half made.

use crate::harness::{GIB, MIB, Machine, Running, scenarios};

scenarios! { "context", 4 * GIB;
    primary_is_charged_once,
    primary_release_gives_back,
    primary_reset_gives_back,
    created_is_charged,
    every_version_is_charged,
    destroy_frees_its_blocks,
    a_context_that_does_not_fit,
    no_version_fits_when_full,
    green_contexts_are_charged,
    two_green_contexts_add_up,
    context_ends_while_it_is_anothers,
    streams_are_charged,
    urgent_streams_are_charged,
    green_view_takes_nothing,
    last_green_context_ends_the_primary,
    green_streams_are_charged,
    attached_context_keeps_its_blocks,
    no_graphics_context_fits_when_full,
    heap_limit_is_charged,
    stack_limit_is_charged,
}

#[test]
fn first_context_that_does_not_fit() {
    Machine::new().limited(400 * MIB).plays("context", "first_context_that_does_not_fit");
}

#[test]
fn two_threads_at_a_full_limit() {
    for _ in 0..5 {
        Machine::new().limited(1200 * MIB).plays("context", "two_threads_at_a_full_limit");
    }
}

#[test]
fn two_first_contexts_at_a_full_limit_give_one_out_of_memory() {
    for _ in 0..5 {
        let machine = Machine::new().limited(700 * MIB);
        let both: Vec<Running> = (0..2)
            .map(|_| Running::start(&mut machine.scenario("context", "one_attempt")))
            .collect();
        let mut codes: Vec<String> =
            both.into_iter().map(|one| one.finish().out.trim().to_owned()).collect();
        codes.sort();
        assert_eq!(codes, ["0", "2"]);
        machine.all_was_simulated();
    }
}
