//! Virtual memory management: a charge lives as long as a handle or a mapping does.

use crate::harness::{GIB, Machine, scenarios};

scenarios! { "vmm", 4 * GIB;
    create_is_charged,
    release_gives_back,
    mapping_keeps_the_charge,
    unmap_gives_back,
    dropped_handles_cannot_pile_up,
    retained_handle_keeps_the_charge,
    unmapped_handle_keeps_its_content,
    released_memory_comes_back_as_zeros,
    launching_after_unmap_ends_the_context,
    two_mappings_of_one_handle,
    one_unmap_of_many_mappings,
    import_by_descriptor_is_charged_once,
    external_memory_is_charged,
    plain_calls_on_a_range,
    host_located_handles_are_free,
}

/// Kernels last there.
#[test]
fn unmapping_waits_for_no_kernel() {
    let machine = Machine::new().limited(4 * GIB).with("SIMGPU_MODE", "calibrated");
    machine.plays("vmm", "unmapping_waits_for_no_kernel");
}

/// Plays a scenario on a machine that can bind memory to multicast objects.
fn plays_behind_an_nvswitch(scenario: &str) {
    Machine::new().limited(4 * GIB).with("SIMGPU_NVSWITCH", 1).plays("vmm", scenario);
}

#[test]
fn bound_handle_keeps_the_charge() {
    plays_behind_an_nvswitch("bound_handle_keeps_the_charge");
}

#[test]
fn bound_mapping_keeps_the_charge() {
    plays_behind_an_nvswitch("bound_mapping_keeps_the_charge");
}

#[test]
fn bound_import_keeps_the_charge() {
    plays_behind_an_nvswitch("bound_import_keeps_the_charge");
}
