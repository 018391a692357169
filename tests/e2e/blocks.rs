//! Plain memory: charged by what the driver takes, given back with it, refused in CUDA's own words.

use crate::harness::{GIB, MIB, Machine, scenarios};

scenarios! { "blocks", 4 * GIB;
    alloc_is_charged,
    free_gives_back,
    small_blocks_share_granules,
    pitched_memory_is_charged,
    managed_memory_is_charged_in_full,
    limit_is_exact,
    refusal_leaves_nothing,
    refused_then_freed_then_granted,
    strange_requests_are_the_drivers,
    freed_under_another_context,
    host_memory_is_free,
}

#[test]
fn limit_of_odd_bytes_is_exact() {
    Machine::new().limited(2 * GIB + 3 * MIB + 1).plays("blocks", "limit_is_exact");
}

#[test]
fn driver_failure_is_given_back() {
    Machine::new()
        .limited(4 * GIB)
        .with("SIMGPU_FAULTS", "cuMemAlloc_v2@2=fail:2")
        .plays("blocks", "driver_failure_is_given_back");
}

#[test]
fn failed_free_keeps_the_charge() {
    Machine::new()
        .limited(4 * GIB)
        .with("SIMGPU_FAULTS", "cuMemFree_v2@1=fail:999")
        .plays("blocks", "failed_free_keeps_the_charge");
}
