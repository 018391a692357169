//! How calls reach the library: by link, by `dlsym` in all its forms, by `cuGetProcAddress`; and
//! what a program can see of it before that: nothing.

use std::collections::BTreeMap;

use divvy_driver_api::DRIVER;

use crate::harness::{Finished, GIB, Machine, client, finish, root, scenarios, stage};

scenarios! { "reach", GIB;
    by_explicit_handle,
    by_version,
    by_default_and_next,
    names_that_only_begin_alike,
    by_proc_address,
    hooked_call_by_found_address,
    closed_and_opened_again,
    looked_up_by_many_threads,
}

/// Names the library answers beside those the table marks: the ways to more addresses.
fn is_hooked(name: &str) -> bool {
    DRIVER.iter().any(|entry| entry.name == name && entry.effects.needs_hook())
}

#[test]
fn calls_without_an_effect_are_the_drivers_own_address() {
    let machine = Machine::new().limited(GIB);
    let names = root().join("crates/driver-api/exports-580.txt");
    let finished = finish(machine.scenario("reach", "every_address").env("NAMES", names));
    assert_eq!(finished.code(), Some(0), "{finished}");
    let wrong: Vec<&str> = finished
        .out
        .lines()
        .filter(|line| {
            let Some((name, owner)) = line.split_once(' ') else { return true };
            owner != if is_hooked(name) { "ours" } else { "driver" }
        })
        .collect();
    assert_eq!(finished.out.lines().count(), 674);
    assert!(wrong.is_empty(), "neither hooked by the table nor the driver's own: {wrong:?}");
}

#[test]
fn passive_without_a_limit() {
    let machine = Machine::new();
    let finished = finish(&mut machine.scenario("answer", "no_limit_is_the_cards_own"));
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(!machine.tenant().exists());
}

#[test]
fn one_charge_with_two_copies_loaded() {
    let machine = Machine::new().limited(2 * GIB);
    let second = machine.home().join("libvgpu.so");
    std::fs::copy(stage().join("lib/libdivvy.so"), &second).expect("the library can be copied");
    let both = format!("{}:{}", stage().join("lib/libdivvy.so").display(), second.display());
    let finished = finish(machine.scenario("reach", "charged_once").env("LD_PRELOAD", both));
    assert_eq!(finished.code(), Some(0), "{finished}");
}

#[test]
fn answers_to_the_name_libvgpu() {
    let machine = Machine::new().limited(2 * GIB);
    let library = stage().join("lib/libvgpu.so");
    for (program, scenario) in [("reach", "by_explicit_handle"), ("blocks", "limit_is_exact")] {
        let finished = finish(machine.scenario(program, scenario).env("LD_PRELOAD", &library));
        assert_eq!(finished.code(), Some(0), "{finished}");
    }
}

/// What a program saw, with and without the library.
fn seen(machine: &Machine, preload: bool, open_driver: bool) -> Finished {
    let mut command = machine.command(client("reach"));
    command.arg("before_the_first_call");
    if !preload {
        command.env_remove("LD_PRELOAD");
    }
    if open_driver {
        command.env("OPEN_DRIVER", "1");
    }
    let finished = finish(&mut command);
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert_eq!(finished.err, "", "nothing is printed");
    finished
}

#[test]
fn nothing_before_the_first_driver_call() {
    for open_driver in [false, true] {
        let machine = Machine::new().limited(GIB);
        let with = seen(&machine, true, open_driver);
        let without = seen(&machine, false, open_driver);
        assert_eq!(with.out, without.out, "threads, descriptors, signals, environment, umask");
        assert!(!machine.home().join(".divvy").exists(), "no file was made");
    }
}

#[test]
fn versions_and_flags_map_to_the_hook_of_the_same_name() {
    let conform = crate::conformance::program();
    let run = |machine: Machine| {
        let finished = finish(machine.command(&conform).arg("addresses"));
        assert_eq!(finished.code(), Some(0), "{finished}");
        finished.out.lines().map(str::to_owned).enumerate().collect::<BTreeMap<_, _>>()
    };
    let native = run(Machine::new().native());
    let ours = run(Machine::new().limited(GIB));
    assert_eq!(native, ours);
    assert!(native.len() > 800, "only {} questions", native.len());
}
