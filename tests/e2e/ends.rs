//! Contexts that come and go, and streams that wait for their host, beside memory that leaves the card: no byte is lost, the
//! program always goes on, and what has come back can leave again.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::residence::Movable;
use crate::harness::{GIB, MIB, Machine, Talk};

/// Longest time until a program goes on.
const DEADLINE: Duration = Duration::from_secs(40);

fn bytes(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"))
}

/// A tenant whose program plays a scenario of `ends`.
fn tenant<'m>(machine: &'m Machine, scenario: &str, more: &[(&str, &str)]) -> (Movable<'m>, Talk) {
    let tenant = Movable::new(machine, "tenant");
    let mut command = tenant.scenario("ends", scenario);
    command.env("SIMGPU_FAULTS_FILE", tenant.home().join("faults"));
    let client = Talk::start(command.envs(more.iter().copied()));
    (tenant, client)
}

/// Wishes that all leave, and now and then that it comes back, until the program says that it is ready; how many.
fn frozen_until_ready(tenant: &Movable<'_>, client: &Talk) -> u32 {
    let from = Instant::now();
    let mut wishes = 0;
    loop {
        if let Some(line) = client.line_within(Duration::from_millis(30)) {
            assert_eq!(line, "ready");
            return wishes;
        }
        assert!(from.elapsed() < DEADLINE, "it does not go on after {wishes} wishes");
        wishes += 1;
        let _ = tenant.wish(if wishes % 3 == 0 { "thaw" } else { "freeze" }, 1);
    }
}

/// All of it leaves, and the program finds it again, `times`.
fn leaves_again(tenant: &Movable<'_>, client: &mut Talk, least_bytes: u64, times: u32) {
    let _ = tenant.wish("thaw", 5);
    for _ in 0..times {
        let frozen = tenant.wished("freeze", 20);
        assert!(bytes(&frozen, "away_bytes") >= least_bytes, "{frozen}");
        client.go();
        assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"));
    }
}

#[test]
fn memory_of_another_device_stays_right() {
    let machine = Machine::new().with("SIMGPU_DEVICES", 2);
    let (tenant, mut client) = tenant(&machine, "memory_of_another_device_stays_right", &[]);
    assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"));
    leaves_again(&tenant, &mut client, 43 * MIB, 3);
    client.ends_well();
    machine.all_was_simulated();
}

#[test]
fn a_context_that_was_made_again_has_memory_that_leaves() {
    for seed in ["1", "2", "3"] {
        let machine = Machine::new();
        let (tenant, mut client) = tenant(&machine, "one_context_at_a_time", &[("SEED", seed)]);
        assert!(frozen_until_ready(&tenant, &client) > 2);
        leaves_again(&tenant, &mut client, 43 * MIB, 2);
        client.ends_well();
        machine.all_was_simulated();
    }
}

#[test]
fn the_primary_context_comes_and_goes() {
    for seed in ["4", "5"] {
        let machine = Machine::new();
        let more = [("SEED", seed)];
        let (tenant, mut client) = tenant(&machine, "the_primary_context_comes_and_goes", &more);
        assert!(frozen_until_ready(&tenant, &client) > 2);
        leaves_again(&tenant, &mut client, 43 * MIB, 2);
        client.ends_well();
        machine.all_was_simulated();
    }
}

#[test]
fn contexts_of_two_devices_come_and_go_in_threads() {
    let machine = Machine::new().with("SIMGPU_DEVICES", 2).with("SIMGPU_MEMORY", "16GiB");
    let more = [("DIVVY_MEMORY", "12884901888")];
    let (tenant, mut client) = tenant(&machine, "threads_with_contexts_of_two_devices", &more);
    assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"));
    for wish in 0..12 {
        let _ = tenant.wish(if wish % 3 == 2 { "thaw" } else { "freeze" }, 1);
    }
    let _ = tenant.wish("thaw", 10);
    client.go();
    assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"));
    client.ends_well();
    machine.all_was_simulated();
}

/// Freezes a program whose stream waits for the host in each of its rounds; it must go on by itself, and be able to leave
/// when it does not wait.
fn goes_on(more: &[(&str, &str)]) {
    let machine = Machine::new();
    let (tenant, mut client) = tenant(&machine, "a_stream_waits_for_the_host", more);
    assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"), "{more:?}");
    client.go();
    let from = Instant::now();
    let said = loop {
        if let Some(said) = client.line_within(Duration::from_millis(100)) {
            break said;
        }
        assert!(from.elapsed() < DEADLINE, "it hangs: {more:?}");
        let _ = tenant.wish("freeze", 1);
        let _ = tenant.wish("thaw", 1);
    };
    assert!(said.contains("rounds, the longest"), "{said}");
    assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"), "{more:?}");
    let _ = tenant.wish("thaw", 5);
    let frozen = tenant.wished("freeze", 20);
    assert!(bytes(&frozen, "away_bytes") >= 64 * MIB, "{frozen}");
    client.go();
    client.ends_well();
    machine.all_was_simulated();
}

#[test]
fn a_stream_that_waits_for_the_host_does_not_hang() {
    for how in ["h", "v"] {
        goes_on(&[("HOW", how)]);
    }
}

#[test]
fn a_green_stream_that_waits_for_the_host_does_not_hang() {
    for how in ["h", "v"] {
        goes_on(&[("HOW", how), ("GREEN", "1")]);
    }
}

#[test]
fn nor_does_one_where_the_driver_records_behind_no_context() {
    // Drivers before 12.5.
    let faults = "cuCtxRecordEvent@*=fail:500;cuGreenCtxRecordEvent@*=fail:500";
    for green in ["0", "1"] {
        goes_on(&[("HOW", "v"), ("GREEN", green), ("SIMGPU_FAULTS", faults)]);
    }
}

#[test]
fn nor_does_one_whose_copies_on_the_host_are_given_back() {
    for green in ["0", "1"] {
        let slow = ("SIMGPU_FAULTS", "cuMemHostUnregister@*=delay:30ms");
        goes_on(&[("HOW", "h"), ("GREEN", green), slow]);
    }
}

#[test]
fn a_copy_by_the_null_stream_passes_a_free() {
    // The driver's own free holds it up, as an H200 has shown (580), so that this program stands still without the library too;
    // one of memory that may leave the card waits before it calls the driver.
    let holds = "letting_go_holds_copies_up";
    Machine::new().native().plays("ends", holds);
    Machine::new().limited(4 * GIB).plays("ends", holds);
    let scenario = "a_copy_by_the_null_stream_passes_a_free";
    Machine::new().limited(4 * GIB).with("DIVVY_OVERSUBSCRIBE", "true").plays("ends", scenario);
}

#[test]
fn plain_blocks_are_no_mappings() {
    let scenario = "plain_blocks_are_no_mappings";
    Machine::new().native().plays("ends", scenario);
    Machine::new().limited(4 * GIB).plays("ends", scenario);
    Machine::new().limited(4 * GIB).with("DIVVY_OVERSUBSCRIBE", "true").plays("ends", scenario);
}

#[test]
fn what_cannot_come_back_is_told() {
    let machine = Machine::new();
    let log = machine.home().join("log");
    let (tenant, mut client) = tenant(&machine, "what_cannot_come_back_is_told", &[]);
    assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"));
    tenant.wished("freeze", 20);
    let faults = tenant.home().join("faults");
    std::fs::write(&log, "cuMemMap@*=fail:801").expect("a file of the test's own");
    std::fs::rename(&log, &faults).expect("a file of the test's own");
    client.go();
    // A driver that refuses is asked again for ten seconds.
    assert_eq!(client.line_within(DEADLINE).as_deref(), Some("ready"));
    client.go();
    client.ends_well();
}
