//! Tenants that have no room on the card for what they hold: one that waits runs within a bound, or is told why not.

use std::fs::{self, File};
use std::time::Duration;

use crate::harness::{Divided, Machine, Talk, client, finish, until};
use crate::turns::status;

/// Time after which a call that waits in vain fails, and what a busy machine may add.
const TOLD_WITHIN: Duration = Duration::from_secs(180);
/// Time in which room that has come is found, and what a busy machine may add. A call that waits in vain fails after 20 s.
const FOUND_WITHIN: Duration = Duration::from_secs(15);

/// A tenant of so many MiB, and of so many threads that capture.
fn tenant(machine: &Divided, name: &str, mib: u64, captures: i64) -> Talk {
    let mut command =
        machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--name", name, "--"]);
    command.arg(client("room")).arg("works");
    command.env("ROOM_MIB", mib.to_string()).env("ROOM_CAPTURES", captures.to_string());
    command.stderr(File::create(log(machine, name)).expect("a file"));
    Talk::start(&mut command)
}

fn log(machine: &Divided, name: &str) -> std::path::PathBuf {
    machine.machine.home().join(format!("{name}.log"))
}

/// Whether the call that waits ends with an error within its time.
fn fails(tenant: &mut Talk) -> bool {
    let line = tenant.line_within(TOLD_WITHIN);
    line.is_some_and(|line| line.parse().is_ok_and(|code: u32| code != 0))
}

/// Its memory has left, and contexts that came meanwhile have taken its room.
#[test]
fn one_whose_room_is_gone_is_told() {
    let machine = Divided::with(Machine::new().with("SIMGPU_MEMORY", "2GiB"), &[]);
    let mut first = tenant(&machine, "first", 1216, 0);
    first.expect("has 1216 MiB 0");
    finish(&mut machine.divvy(&["freeze", "first", "--timeout", "20"]));
    let mut second = tenant(&machine, "second", 64, 0);
    second.expect("has 64 MiB 0");
    first.go();
    assert!(fails(&mut first));
    let said = fs::read_to_string(log(&machine, "first")).expect("its log");
    let lines = said.lines().filter(|line| line.contains("DV214") && line.contains("device 0"));
    assert_eq!(lines.count(), 1, "{said}");
    // It goes on failing, and no other does.
    first.go();
    assert!(fails(&mut first));
    second.go();
    second.expect("right");
    for tenant in [first, second] {
        tenant.ends_well();
    }
}

/// Where the room comes back in time, no tenant is told.
#[test]
fn one_whose_room_comes_back_runs() {
    let machine = Divided::with(Machine::new().with("SIMGPU_MEMORY", "2GiB"), &[]);
    let mut first = tenant(&machine, "first", 1216, 0);
    first.expect("has 1216 MiB 0");
    finish(&mut machine.divvy(&["freeze", "first", "--timeout", "20"]));
    let second = tenant(&machine, "second", 64, 0);
    second.expect("has 64 MiB 0");
    first.go();
    std::thread::sleep(Duration::from_secs(2));
    second.ends_well();
    assert_eq!(first.line_within(TOLD_WITHIN).as_deref(), Some("right"));
    first.ends_well();
}

#[test]
fn a_capacity_below_what_is_held_lets_its_tenant_run() {
    let mut machine = Divided::with(Machine::new(), &[]);
    let mut held = tenant(&machine, "held", 512, 0);
    held.expect("has 512 MiB 0");
    machine.start(&["--capacity", "300MiB"]);
    std::thread::sleep(Duration::from_secs(2));
    held.go();
    held.expect("right");
    // What is held bounds the room while it is more than the capacity: another has its turn there.
    let mut other = tenant(&machine, "other", 512, 0);
    other.expect("has 512 MiB 0");
    for tenant in [&mut other, &mut held] {
        tenant.go();
        assert_eq!(tenant.line_within(TOLD_WITHIN).as_deref(), Some("right"));
    }
    for tenant in [held, other] {
        tenant.ends_well();
    }
}

/// Of several threads there is always one that captures, but none for long.
#[test]
fn a_neighbour_of_captures_that_end_has_its_turn() {
    let machine = Divided::with(Machine::new(), &["--capacity", "300MiB"]);
    let mut captures = tenant(&machine, "captures", 256, 4);
    captures.expect("has 256 MiB 0");
    let mut other = tenant(&machine, "other", 256, 0);
    assert_eq!(other.line_within(TOLD_WITHIN).as_deref(), Some("has 256 MiB 0"));
    for tenant in [&mut captures, &mut other] {
        tenant.go();
        assert_eq!(tenant.line_within(TOLD_WITHIN).as_deref(), Some("right"));
    }
    for tenant in [captures, other] {
        tenant.ends_well();
    }
}

/// The device has room for both, and a bound keeps no tenant from running.
#[test]
fn a_bound_keeps_out_no_neighbour_of_a_capture_that_never_ends() {
    let machine = Divided::with(Machine::new(), &["--capacity", "300MiB"]);
    let captures = tenant(&machine, "captures", 256, -1);
    captures.expect("has 256 MiB 0");
    let mut other = tenant(&machine, "other", 256, 0);
    assert_eq!(other.line_within(TOLD_WITHIN).as_deref(), Some("has 256 MiB 0"));
    other.go();
    assert_eq!(other.line_within(TOLD_WITHIN).as_deref(), Some("right"));
    for tenant in [captures, other] {
        tenant.ends_well();
    }
}

#[test]
fn a_neighbour_of_a_capture_that_never_ends_is_told() {
    // Room for two contexts, and for one's blocks.
    let machine = Divided::with(Machine::new().with("SIMGPU_MEMORY", "1400MiB"), &[]);
    let mut other = tenant(&machine, "other", 256, 0);
    other.expect("has 256 MiB 0");
    finish(&mut machine.divvy(&["freeze", "other", "--timeout", "20"]));
    let captures = tenant(&machine, "captures", 256, -1);
    captures.expect("has 256 MiB 0");
    other.go();
    assert!(fails(&mut other));
    other.ends_well();
    captures.ends_well();
}

/// Of the two one can do nothing but capture, and the other nothing but wait: both say still what is free on the card.
#[test]
fn room_that_comes_beside_a_capture_that_never_ends_is_found() {
    // Room for three contexts, for the stranger's blocks and for those of one of the others.
    let machine = Divided::with(Machine::new().with("SIMGPU_MEMORY", "2400MiB"), &[]);
    let mut other = tenant(&machine, "other", 256, 0);
    other.expect("has 256 MiB 0");
    finish(&mut machine.divvy(&["freeze", "other", "--timeout", "20"]));
    let mut stranger = machine.machine.command(client("room"));
    stranger.env_remove("LD_PRELOAD").arg("works").env("ROOM_MIB", "512");
    let mut stranger = Talk::start(&mut stranger);
    stranger.expect("has 512 MiB 0");
    let captures = tenant(&machine, "captures", 256, -1);
    captures.expect("has 256 MiB 0");
    other.go();
    until("one is passed over, and the other waits", || {
        let tenants = status(&machine)["tenants"].as_array().cloned().unwrap_or_default();
        let is_any = |state| tenants.iter().any(|tenant| tenant["memory"] == state);
        is_any("bypassed") && is_any("pinned-out")
    });
    stranger.kill();
    assert_eq!(other.line_within(FOUND_WITHIN).as_deref(), Some("right"));
    for tenant in [captures, other] {
        tenant.ends_well();
    }
}
