//! Driver and NVML tell one story: total is the limit, used the tenant's, free never more than there is.

use crate::harness::{GIB, Machine, Running, finish, scenarios, until};
use crate::life::wait_for;

scenarios! { "answer", 3 * GIB;
    total_is_the_limit,
    total_before_any_context,
    oldest_questions_are_answered,
    null_places_are_harmless,
    nvml_tells_the_same,
    nvml_before_any_driver_call,
}

#[test]
fn limit_above_the_card_is_the_card() {
    Machine::new().limited(64 * GIB).plays("answer", "limit_above_the_card");
}

#[test]
fn no_limit_is_the_cards_own() {
    for none in ["0", "0m"] {
        Machine::new()
            .limited(GIB)
            .with("DIVVY_MEMORY", none)
            .plays("answer", "no_limit_is_the_cards_own");
    }
}

/// Processes that draw and that run under MPS, neither of them the tenant's.
const NEIGHBOURS: &str = "graphics:3000071:256MiB:40,mps:3000072:1GiB:30";

/// A process outside the tenant that holds `bytes` until the value is dropped.
struct Neighbour(Option<Running>);

impl Neighbour {
    fn holding(machine: &Machine, bytes: u64) -> Self {
        let ready = machine.home().join("neighbour");
        let mut command = machine.scenario("answer", "stay");
        command.env_remove("LD_PRELOAD").env("STAY_BYTES", bytes.to_string());
        let running = Running::start(&mut command);
        wait_for(machine, bytes);
        drop(ready);
        Self(Some(running))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        if let Some(mut running) = self.0.take() {
            running.kill();
            let _ = running.finish();
        }
    }
}

#[test]
fn free_never_exceeds_the_card() {
    let machine = Machine::new().limited(8 * GIB);
    let _neighbour = Neighbour::holding(&machine, 12 * GIB);
    machine.plays("answer", "free_never_exceeds_the_card");
}

#[test]
fn lists_show_only_the_tenants_own() {
    let machine = Machine::new().limited(3 * GIB).with("SIMGPU_NEIGHBOURS", NEIGHBOURS);
    let _neighbour = Neighbour::holding(&machine, GIB);
    machine.plays("answer", "lists_show_only_the_tenants_own");
}

#[test]
fn detail_list_shows_only_the_tenants_own() {
    let machine = Machine::new().limited(3 * GIB);
    let _neighbour = Neighbour::holding(&machine, GIB);
    machine.plays("answer", "detail_list_shows_only_the_tenants_own");
}

#[test]
fn utilisation_shows_only_the_tenants_own() {
    let machine = Machine::new().limited(3 * GIB).with("SIMGPU_NEIGHBOURS", NEIGHBOURS);
    let _neighbour = Neighbour::holding(&machine, GIB);
    machine.plays("answer", "utilisation_shows_only_the_tenants_own");
}

#[test]
fn lists_show_every_process_of_the_tenant() {
    let machine = Machine::new().limited(4 * GIB);
    let mut first =
        Running::start(machine.scenario("answer", "stay").env("STAY_BYTES", "67108864"));
    let pid = format!("{} ", first.pid());
    until("it is listed", || {
        let listed = finish(&mut machine.scenario("listing", "compute"));
        assert_eq!(listed.code(), Some(0), "{listed}");
        listed.out.lines().any(|line| line.starts_with(&pid))
    });
    first.kill();
    let _ = first.finish();
    let listed = finish(&mut machine.scenario("listing", "compute"));
    assert!(listed.out.trim().is_empty(), "the dead are not listed:\n{listed}");
}
