//! Graphs: their memory nodes, added, captured, instantiated, launched, trimmed; and what decides on the device what runs.

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

/// Conditional nodes: what they run is what they run without the library, under a cap as well.
mod that_decide {
    use crate::harness::{GIB, Machine};

    fn decides(scenario: &str) {
        let native = Machine::new().native().plays("loop", scenario);
        let limited = Machine::new().limited(GIB).with("DIVVY_COMPUTE", "50%");
        assert_eq!(limited.plays("loop", scenario).out, native.out);
    }

    macro_rules! decides {
        ($($name:ident),* $(,)?) => {
            $(
                #[test]
                fn $name() {
                    decides(stringify!($name));
                }
            )*
        };
    }

    decides! {
        loops_run_as_often_as_their_conditions_say,
        defaults_hold_at_each_launch,
        loops_within_loops,
        branches_run_once,
        bodies_are_updated,
        what_is_refused,
    }
}
