//! Every known way past a memory limit, tried. The first list is that of a study of an older limiter;
//! where another module has the test already, the list here names it. The second is of roads through
//! other processes, descriptors and contexts, where the program's own account proves nothing: there the
//! card is asked, from a process that nobody limits.

use std::path::PathBuf;
use std::process::Command;

use divvy_abi::config::{Config, FLAG_STRICT};
use divvy_page::Directory;
use divvy_page::reader::{UsageFile, read_config, write_config};

use crate::harness::{
    Finished, GIB, MIB, Machine, Talk, build_program, finish, root, scenarios, stage,
};

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
    exported_buffers,
    exported_mapped_buffers,
    closed_buffers_give_back,
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
    buffers_of_forked_children,
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
    more_buffers_than_the_table_holds,
    dead_exporters_descriptors,
    dead_exporters_buffers,
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

/// The plugin that takes memory, which finds the driver as `how` says.
fn plugin(how: &str) -> PathBuf {
    let name = format!("libtaker-{}.so", how.to_lowercase());
    let define = format!("-D{how}");
    let source = root().join("tests/clients/plugins/taker.c");
    let driver = stage().join("sim/libcuda.so.1");
    let mut flags = vec!["-shared", "-fPIC", &define, "-Wl,--no-as-needed"];
    if how != "OPENED" {
        flags.push(driver.to_str().expect("a path in UTF-8"));
    }
    build_program(&name, &source, &[], &flags)
}

/// Every way to load a plugin, with every way of the plugin's to find the driver.
#[track_caller]
fn plugins_are_limited(scenario: &str, ways: &[&str]) {
    for how in ways {
        let machine = Machine::new().limited(GIB);
        let mut host = machine.scenario("host", scenario);
        is_closed(&machine, GIB, host.env("PLUGIN", plugin(how)));
    }
}

#[test]
fn plugins() {
    plugins_are_limited("opened", &["LINKED", "OPENED", "BEHIND"]);
}

#[test]
fn namespaces() {
    for scenario in ["in_a_namespace", "in_a_second_namespace", "in_a_used_namespace"] {
        plugins_are_limited(scenario, &["LINKED", "OPENED", "BEHIND"]);
    }
}

#[test]
fn the_driver_in_a_namespace() {
    let machine = Machine::new().limited(GIB);
    is_closed(&machine, GIB, &mut machine.scenario("host", "drivers_own_handle"));
}

/// Plays a scenario of `host` in a strict tenant.
fn in_a_strict_tenant(machine: Machine, scenario: &str) -> Finished {
    machine.plays("blocks", "alloc_is_charged");
    let directory = Directory::open(&machine.tenant_directory()).expect("it is there");
    let config = read_config(&directory).expect("a config").expect("one was written");
    let strict = Config { flags: config.flags | FLAG_STRICT, ..config };
    write_config(&directory, &strict).expect("it can be written");
    let tenant = machine.tenant();
    let machine = machine.without("DIVVY_MEMORY").with("DIVVY_TENANT", tenant.display());
    finish(machine.scenario("host", scenario).env("PLUGIN", plugin("LINKED")))
}

#[test]
fn deep_binding_is_refused_in_a_strict_tenant() {
    let finished = in_a_strict_tenant(Machine::new().limited(GIB), "bound_deeply");
    assert!(finished.out.contains("refused: DV210"), "{finished}");
    assert!(finished.err.contains("DV210"), "{finished}");
}

#[test]
fn a_namespace_that_cannot_be_limited_is_refused_in_a_strict_tenant_and_told_elsewhere() {
    let machine = || {
        let machine = Machine::new().limited(2 * GIB);
        let copy = machine.home().join("libdivvy.so");
        std::fs::copy(stage().join("lib/libdivvy.so"), &copy).expect("it can be copied");
        machine.with("LD_PRELOAD", copy.display())
    };
    let refused = in_a_strict_tenant(machine(), "without_the_library");
    assert!(refused.out.contains("refused: DV210"), "{refused}");
    let machine = machine();
    let mut host = machine.scenario("host", "without_the_library");
    let passed = finish(host.env("PLUGIN", plugin("LINKED")));
    assert!(passed.err.contains("DV210"), "{passed}");
}
