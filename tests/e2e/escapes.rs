//! Every known way past a memory limit, tried. The list is that of a study of an older limiter;
//! where another module has the test already, the list here names it.

use crate::harness::{GIB, Machine, scenarios};

scenarios! { "escape", 2 * GIB;
    own_pool,
    dropped_handles,
    per_thread_entry_points,
    graph_nodes,
    captured_allocations,
    arrays,
    mipmaps,
    module_globals,
    library_globals,
    device_heap,
    further_contexts,
    oldest_allocation,
    rounding,
    next_symbol,
    resets,
    exported_descriptors,
    managed_pools,
}

#[test]
fn another_device_than_the_current_one() {
    for scenario in [
        "handles_are_charged_where_they_lie",
        "threads_without_a_context",
        "frees_go_to_the_right_device",
    ] {
        Machine::new().limited(2 * GIB).with("SIMGPU_DEVICES", 2).plays("devices", scenario);
    }
}
