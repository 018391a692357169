//! Calls that give memory back settle the ledger themselves: others of the tenant may take it at once,
//! though the process that gave it back asks nothing more. Read from outside, as an owner reads.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use divvy_page::reader::UsageFile;

use crate::harness::{GIB, MIB, Machine, Running, until};

/// What the tenant of `scenario` holds once it has done its work.
fn held_after(scenario: &str) -> u64 {
    let machine = Machine::new().limited(4 * GIB);
    let mut client = Running::start(&mut machine.scenario("settle", scenario));
    until(scenario, || {
        assert!(!client.ended(), "{scenario} failed");
        machine.home().join("settled").exists()
    });
    let directory = CString::new(machine.tenant().as_os_str().as_bytes()).expect("no NUL inside");
    let usage = UsageFile::open(&directory)
        .unwrap_or_else(|error| panic!("{scenario}: {error}"))
        .expect("the tenant has a usage file");
    let held = usage.totals(0).used_bytes;
    client.kill();
    let _ = client.finish();
    held
}

/// Held without the context: what pools and graphs still have.
fn reserved_after(scenario: &str) -> u64 {
    held_after(scenario) - 518 * MIB
}

#[test]
fn kept_memory_stays_held() {
    assert_eq!(reserved_after("kept_by_the_pool"), 96 * MIB);
}

#[test]
fn by_trimming() {
    assert_eq!(reserved_after("by_trimming"), 0);
}

#[test]
fn by_stream_synchronisation() {
    assert_eq!(reserved_after("by_stream_synchronisation"), 0);
}

#[test]
fn by_context_synchronisation() {
    assert_eq!(reserved_after("by_context_synchronisation"), 0);
}

#[test]
fn by_synchronising_a_named_context() {
    assert_eq!(reserved_after("by_synchronising_a_named_context"), 0);
}

#[test]
fn by_lowering_the_threshold() {
    assert_eq!(reserved_after("by_lowering_the_threshold"), 0);
}

#[test]
fn the_start_alone_joins_the_tenant() {
    assert_eq!(held_after("started"), 0);
}

#[test]
fn by_event_synchronisation() {
    assert_eq!(reserved_after("by_event_synchronisation"), 0);
}

#[test]
fn by_graph_trimming() {
    assert_eq!(reserved_after("by_graph_trimming"), 0);
}
