//! Managed memory: what is answered of it, under a limit; and without one, where it is on the simulated card and
//! what that takes of the card and of the device's time.

use crate::harness::{GIB, Machine, scenarios};

scenarios! { "managed", 4 * GIB;
    goes_there_and_back,
    advice_is_answered,
    strange_requests_are_refused,
    batches_are_prefetched,
}

/// A card of 250 MiB beside one context.
fn small(mode: &str) -> Machine {
    Machine::new().native().with("SIMGPU_MEMORY", "768MiB").with("SIMGPU_MODE", mode)
}

#[test]
fn takes_of_the_card_what_is_there() {
    small("fast").plays("managed", "takes_of_the_card_what_is_there");
}

#[test]
fn more_than_the_card() {
    small("fast").plays("managed", "more_than_the_card");
}

#[test]
fn allocations_make_room() {
    small("calibrated").plays("managed", "allocations_make_room");
}

#[test]
fn another_process_makes_room() {
    small("fast").with("SIMGPU_MEMORY", "1200MiB").plays("managed", "another_process_makes_room");
}

#[test]
fn moves_at_the_links_rates() {
    let machine = Machine::new().native().with("SIMGPU_MODE", "calibrated");
    machine.plays("managed", "moves_at_the_links_rates");
}

#[test]
fn moves_beside_kernels() {
    let machine = Machine::new().native().with("SIMGPU_MODE", "calibrated");
    machine.plays("managed", "moves_beside_kernels");
}
