//! Tenants by id with programs in them: limits hold on the card that a tenant was given, across a daemon's death and a
//! removal, and it gets nothing on another.

use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{GIB, Machine, Running, finish, signal, stage, until};

/// A machine of two cards whose daemon and tenants are the test's own.
fn machine() -> Machine {
    Machine::new().native().with("SIMGPU_DEVICES", 2)
}

fn daemon(machine: &Machine) -> Running {
    let daemon = Running::start(&mut machine.divvy(&["daemon"]));
    let answers = || finish(&mut machine.divvy(&["daemon", "--status"])).code() == Some(0);
    until("the daemon answers", answers);
    daemon
}

/// Directory of the tenant `job` with memory as `limit` has it; made, or there already.
fn create(machine: &Machine, limit: &str) -> PathBuf {
    let words = ["tenant", "create", "job", "--memory", limit, "--json"];
    let told = finish(&mut machine.divvy(&words));
    assert_eq!(told.code(), Some(0), "{told}");
    let answer: Value = serde_json::from_str(&told.out).expect("JSON");
    PathBuf::from(answer["tenant"]["directory"].as_str().expect("a directory"))
}

/// How a program on the first card fares in the tenant in `directory`, where the card looks as large as 2 GiB.
fn fares(machine: &Machine, directory: &PathBuf) -> String {
    let mut command = machine.scenario("under", "trouble");
    command.env("DIVVY_TENANT", directory).env("LD_PRELOAD", stage().join("lib/libdivvy.so"));
    let told = finish(command.env("EXPECT_LIMIT", (2 * GIB).to_string()));
    assert_eq!(told.code(), Some(0), "{told}");
    told.out.trim().to_owned()
}

#[test]
fn a_program_has_its_tenants_limit_there_and_nothing_elsewhere() {
    let machine = machine();
    let first = daemon(&machine);
    let directory = create(&machine, "0=2GiB");
    assert_eq!(fares(&machine, &directory), "limited");
    // With no daemon, and with the next one.
    signal(first.pid(), "KILL");
    let _ = first.finish();
    assert_eq!(fares(&machine, &directory), "limited");
    let second = daemon(&machine);
    assert_eq!(create(&machine, "0=2GiB"), directory);
    assert_eq!(fares(&machine, &directory), "limited");
    // Removed, it is no tenant that a program could join, and no program runs without limits for that.
    assert_eq!(finish(&mut machine.divvy(&["tenant", "remove", "job"])).code(), Some(0));
    until("its files are gone", || !directory.exists());
    assert_eq!(fares(&machine, &directory), "refused");

    let elsewhere = create(&machine, "1=2GiB");
    assert_eq!(fares(&machine, &elsewhere), "refused", "the first card is not its own");
    signal(second.pid(), "TERM");
    let _ = second.finish();
}
