//! Managed memory of a process that dies, or forks: at each call of the driver while memory is made, leaves and comes back.
//!
//! Promises: the room of the dead and its part of the bound of all are another's at once, and nobody else's bytes are lost.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::faults::{Held, MOVED_BYTES, all_is_given_back};
use crate::faults::each;
use crate::harness::{Divided, MIB, Machine, Talk, until};
use crate::turns::{all_end_well, count, memory};

const DEADLINE: Duration = Duration::from_secs(30);

/// When it dies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Making,
    Leaving,
    ComingBack,
}

/// Two contexts, room for the memory of one tenant, and a bound of managed memory that has room for two of them alone.
fn narrow() -> Divided {
    let card = Machine::new().with("SIMGPU_MEMORY", "1170MiB").with("DIVVY_LOG", "error");
    crate::turns::machine_of(card, &["--managed-limit", "230MiB"])
}

/// Kills victims before and after the first and the second call of an entry point; each time the heir has all of its bytes,
/// and the next victim as much managed memory as the one before.
fn killed_at(step: Step, entry: &str) {
    let machine = narrow();
    let mut heir = Held::new(&machine, "heir");
    heir.go_on();
    heir.leave();
    let mut deaths = 0;
    for moment in ["1=kill-before", "1=kill-after", "2=kill-before", "2=kill-after"] {
        println!("{step:?} {entry}@{moment}");
        let name = format!("victim-{}", moment.replace('=', "-"));
        let rule = format!("{entry}@{moment}");
        let mut victim = match step {
            Step::Making => Held::dying(&machine, &name, &rule),
            Step::Leaving | Step::ComingBack => {
                let mut victim = Held::new(&machine, &name);
                victim.go_on();
                victim
            }
        };
        match step {
            Step::Making => {}
            Step::Leaving => {
                victim.fails(&rule);
                let _ = victim.wish("freeze", "2");
            }
            Step::ComingBack => {
                victim.leave();
                victim.fails(&rule);
                victim.client.go();
                let _ = victim.client.line_within(Duration::from_secs(2));
            }
        }
        let log = std::fs::read_to_string(machine.machine.home().join("sim/faults.log"));
        if log.unwrap_or_default().lines().count() == deaths {
            // Some are made once.
            assert!(moment.starts_with('2'), "{entry} is not called");
            victim.client.kill();
        } else {
            deaths += 1;
        }
        let status = victim.client.end_within(DEADLINE);
        let is_killed = |status: std::process::ExitStatus| {
            status.signal() == Some(9) || status.code() == Some(128 + 9)
        };
        assert!(status.is_some_and(is_killed), "{status:?}");
        until("the bytes of the dead are another's", || {
            count(&memory(&machine), "managed_bytes") < 2 * MOVED_BYTES
        });
        heir.go_on();
        heir.leave();
    }
    assert!(deaths >= 2, "{entry}: {deaths}");
    heir.go_on();
    heir.client.ends_well();
    all_is_given_back(&machine);
}

/// Calls while memory is made, in their order.
const MAKING: [&str; 5] = [
    "cuMemAllocManaged",
    "cuStreamCreate",
    "cuMemPrefetchAsync",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
];
/// Those while it leaves.
const LEAVING: [&str; 9] = [
    "cuCtxPushCurrent_v2",
    "cuEventCreate",
    "cuCtxRecordEvent",
    "cuEventQuery",
    "cuStreamCreate",
    "cuMemPrefetchAsync",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamDestroy_v2",
];
/// Those while it comes back.
const COMING_BACK: [&str; 5] = [
    "cuStreamCreate",
    "cuMemPrefetchAsync",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamDestroy_v2",
];

#[test]
fn killed_while_memory_is_made_gives_it_back() {
    each(&MAKING, |entry| killed_at(Step::Making, entry));
}

#[test]
fn killed_at_each_step_of_leaving_gives_it_back() {
    each(&LEAVING, |entry| killed_at(Step::Leaving, entry));
}

#[test]
fn killed_at_each_step_of_coming_back_gives_it_back() {
    each(&COMING_BACK, |entry| killed_at(Step::ComingBack, entry));
}

/// At the end of its life: a block is freed.
#[test]
fn killed_as_memory_is_freed_gives_it_back() {
    each(&["1=kill-before", "1=kill-after", "2=kill-before"], |moment| {
        let machine = crate::turns::machine_of(Machine::new(), &["--managed-limit", "230MiB"]);
        let victim = Held::new(&machine, "victim");
        victim.fails(&format!("cuMemFree_v2@{moment}"));
        let status = victim.client.end_within(DEADLINE);
        assert!(status.is_some_and(|status| !status.success()), "{status:?}");
        until("its bytes are given back", || {
            let memory = memory(&machine);
            memory.is_null() || count(&memory, "managed_bytes") == 0
        });
        // As much again is to be had.
        let next = Held::new(&machine, "next");
        until("the daemon counts it", || {
            let memory = memory(&machine);
            !memory.is_null() && (MOVED_BYTES..230 * MIB).contains(&count(&memory, "managed_bytes"))
        });
        next.client.ends_well();
        all_is_given_back(&machine);
    });
}

/// Children that come and go, by themselves or as other programs, while memory takes turns.
#[test]
fn children_leave_it_alone() {
    let machine = crate::turns::machine_of(
        Machine::new(),
        &["--capacity", "300MiB", "--managed-limit", "1GiB"],
    );
    let tenants = ["a", "b"].map(|name| {
        let mut command = super::command(&machine, name, super::MANAGED, 4, 3000);
        Talk::start(command.env("TURNS_CHILDREN", "1"))
    });
    for tenant in &tenants {
        tenant.expect("ready");
    }
    until("memory has been handed over", || count(&memory(&machine), "hand_overs") >= 1);
    all_end_well(tenants);
    all_is_given_back(&machine);
}
