//! Every known way past a memory limit, tried. The first list is that of a study of an older limiter;
//! where another module has the test already, the list here names it. The second is of roads through
//! other processes, descriptors and contexts, where the program's own account proves nothing: there the
//! card is asked, from a process that nobody limits.

use std::process::Command;

use divvy_page::reader::UsageFile;

use crate::harness::{GIB, MIB, Machine, Talk, scenarios};

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

/// Plays a road. At each of its stations the card must hold no more than the tenant is charged, and that
/// must be within the limit; at an exact one both must be the same.
#[track_caller]
fn is_closed(machine: &Machine, limit: u64, command: &mut Command) {
    let scenario = format!("{command:?}");
    let mut road = Talk::start(command);
    let mut stations = 0;
    while let Some(line) = road.next_line() {
        let mut words = line.split(' ');
        let (how, bytes) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let charged: u64 = bytes.parse().expect("a station says what is used");
        let card = machine.card_used_bytes();
        assert!(charged <= limit, "{scenario}: {line}: charged more than {limit}");
        assert!(card <= charged, "{scenario}: {line}: the card holds {card}");
        assert!(how == "covered" || card == charged, "{scenario}: {line}: the card holds {card}");
        stations += 1;
        road.go();
    }
    road.ends_well();
    assert!(stations > 0, "{scenario} says nothing");
    machine.all_was_simulated();
}

/// Tests that only play the road of their own name under a limit.
macro_rules! roads {
    ($limit:expr; $($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                let machine = Machine::new().limited($limit);
                is_closed(&machine, $limit, &mut machine.scenario("road", stringify!($name)));
            }
        )*
    };
}

roads! { GIB;
    own_handles,
    handles_of_one_address,
    copied_descriptors,
    imported_and_exported_again,
    descriptors_in_flight,
    descriptors_of_forked_children,
    exported_twice,
    kept_by_a_mapping,
    detached_primary,
    destroyed_primary,
}

roads! { 2 * GIB;
    two_openers,
    opener_of_a_dead_exporters,
    exports_beside_frees,
    more_than_the_table_holds,
    dead_exporters_descriptors,
    executed_with_a_descriptor,
    refused_import,
    detached_primary_that_was_retained_twice,
    detached_and_attached,
    detached_by_two_threads,
    reset_beside_green_contexts,
}

#[test]
fn descriptors_in_a_process_that_may_have_few() {
    let machine = Machine::new().limited(GIB);
    let road = machine.scenario("road", "copied_descriptors");
    let mut shell = machine.command("sh");
    let limited = "ulimit -n 128; exec \"$0\" copied_descriptors";
    is_closed(&machine, GIB, shell.arg("-c").arg(limited).arg(road.get_program()));
}

#[test]
fn what_a_descriptor_keeps_is_shown_as_shared() {
    let machine = Machine::new().limited(GIB);
    let shared_bytes = || {
        let file = UsageFile::open(&machine.tenant_directory()).expect("a tenant");
        file.expect("with processes").totals(0).shared_bytes
    };
    let mut road = Talk::start(&mut machine.scenario("road", "exported_twice"));
    for wanted in [64 * MIB, 0] {
        road.line();
        assert_eq!(shared_bytes(), wanted);
        road.go();
    }
    road.ends_well();
}
