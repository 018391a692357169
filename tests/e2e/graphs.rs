//! Memory nodes of graphs: added, captured, instantiated, launched, trimmed.

use crate::harness::{GIB, scenarios};

scenarios! { "graph", 4 * GIB;
    launched_nodes_are_charged,
    trim_gives_back,
    captured_allocation_is_charged,
    over_the_limit_is_refused,
    every_instantiation_is_charged,
    upload_is_charged,
    added_by_the_general_call,
    nodes_in_a_child_graph,
    global_capture_survives_our_hooks,
    destroyed_executables_leave_nothing,
}

/// Graphs that share memory: 1 GiB is too little for all of them at once.
mod that_share {
    use crate::harness::{GIB, scenarios};

    scenarios! { "graphs", GIB;
        nodes_that_share_addresses,
        of_one_stream,
        of_two_streams,
        of_moved_executables,
        of_destroyed_executables,
        of_four_threads,
    }
}
