//! Turns that are switched off, for the memory of one tenant and for all tenants: `divvy set --oversubscribe`, `divvy daemon
//! --schedule`.

use serde_json::Value;

use crate::harness::{Divided, Finished, Machine, Talk, finish, signal, until};
use crate::turns::{
    all_end_well, count, machine, machine_of, memory, programs, size, status, tenant,
};

/// A program that works until the test ends it.
const FOREVER_MS: u64 = 120_000;

/// `divvy` with these words, which must succeed.
fn done(machine: &Divided, arguments: &[&str]) -> Finished {
    let finished = finish(&mut machine.divvy(arguments));
    assert_eq!(finished.code(), Some(0), "{finished}");
    finished
}

/// Says whether the memory of the tenant `name` may leave; the command's JSON.
fn set(machine: &Divided, name: &str, word: &str) -> Value {
    let said = done(machine, &["set", name, "--oversubscribe", word, "--json"]);
    serde_json::from_str(&said.out).expect("JSON")
}

/// The tenants whose memory is in the state `state` by the daemon's word, of those called so.
fn are<'a>(machine: &Divided, names: &[&'a str], state: &str) -> Vec<&'a str> {
    let status = status(machine);
    let tenants = status["tenants"].as_array().cloned().unwrap_or_default();
    let is = |name: &&&str| {
        let beginning = format!("/{name}-");
        tenants.iter().any(|tenant| {
            let directory = tenant["directory"].as_str().unwrap_or_default();
            tenant["memory"] == state && directory.contains(&beginning)
        })
    };
    names.iter().filter(is).copied().collect()
}

/// Where the memory of the tenant `name` is: a figure of `divvy ps`.
fn residence(machine: &Divided, name: &str, figure: &str) -> u64 {
    let told = done(machine, &["ps", "--json"]);
    let all: Value = serde_json::from_str(&told.out).expect("JSON");
    let tenants = all["tenants"].as_array().expect("a list");
    let ours = tenants.iter().find(|tenant| tenant["name"] == name).expect("the tenant");
    count(&ours["devices"][0]["residence"], figure)
}

/// Tenants of 200 MiB each, at work for so long.
fn tenants(machine: &Divided, names: [&str; 2], ms: u64) -> [Talk; 2] {
    let tenants = names.map(|name| tenant(machine, name, 4, ms, 0));
    tenants.iter().for_each(|tenant| tenant.expect("ready"));
    tenants
}

/// Ends the program of the tenant `name`, whose `divvy run` ends then.
fn end(machine: &Divided, name: &str) {
    programs(machine, name).iter().for_each(|pid| signal(*pid, "KILL"));
}

fn is_handed_over(machine: &Divided, so_often: u64) {
    until("memory is handed over", || {
        let memory = memory(machine);
        !memory.is_null() && count(&memory, "hand_overs") >= so_often
    });
}

#[test]
fn memory_that_is_to_stay_takes_no_turns_until_it_may_leave_again() {
    let machine = machine("300MiB");
    let names = ["stays", "other"];
    let _tenants = tenants(&machine, names, FOREVER_MS);
    is_handed_over(&machine, 1);
    assert_eq!(set(&machine, "stays", "off")["oversubscribe"], "off");
    until("all of it is there", || !are(&machine, &["stays"], "stays").is_empty());
    let before = residence(&machine, "stays", "out_bytes");
    // What is left of the bound is not enough for the other, which no bound keeps from running.
    until("the other runs beside it", || !are(&machine, &["other"], "runs").is_empty());
    assert!(count(&memory(&machine), "capacity_bytes") <= size(4));
    assert_eq!(residence(&machine, "stays", "away_bytes"), 0);
    assert_eq!(residence(&machine, "stays", "out_bytes"), before, "nothing of it has left");
    let so_often = count(&memory(&machine), "hand_overs");
    assert_eq!(set(&machine, "stays", "on")["oversubscribe"], "on");
    is_handed_over(&machine, so_often + 1);
    names.iter().for_each(|name| end(&machine, name));
}

#[test]
fn of_two_that_are_to_stay_and_do_not_fit_one_waits_for_its_turn() {
    // Room for two contexts, and for one's blocks.
    let machine = machine_of(Machine::new().with("SIMGPU_MEMORY", "1350MiB"), &[]);
    let names = ["a", "b"];
    let _tenants = tenants(&machine, names, FOREVER_MS);
    names.iter().for_each(|name| drop(set(&machine, name, "off")));
    until("one is there", || !are(&machine, &names, "stays").is_empty());
    let [stays, waits] =
        if are(&machine, &names, "stays") == ["a"] { ["a", "b"] } else { ["b", "a"] };
    assert!(residence(&machine, waits, "away_bytes") > 0, "{waits} has no room for all");
    end(&machine, stays);
    until("the other is there", || are(&machine, &names, "stays") == [waits]);
    assert_eq!(residence(&machine, waits, "away_bytes"), 0);
    end(&machine, waits);
}

#[test]
fn bytes_are_right_whatever_is_switched() {
    let machine = machine("300MiB");
    let tenants = tenants(&machine, ["a", "b"], 1000);
    for (name, word) in [("a", "off"), ("a", "on"), ("b", "off"), ("b", "on")] {
        set(&machine, name, word);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    for word in ["off", "on"] {
        done(&machine, &["daemon", "--schedule", word]);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    all_end_well(tenants);
}

#[test]
fn without_turns_all_run_and_all_comes_back() {
    let machine = machine("300MiB");
    let names = ["a", "b"];
    let _tenants = tenants(&machine, names, FOREVER_MS);
    is_handed_over(&machine, 1);
    let said = done(&machine, &["daemon", "--schedule", "off", "--json"]);
    let said: Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(said["schedule"] == "off" && said["pid"] == status(&machine)["pid"], "{said}");
    until("the daemon gives no turns", || {
        let status = status(&machine);
        status["schedule"] == "off" && status["devices"][0]["mode"] == "off"
    });
    let told = done(&machine, &["daemon", "--status"]);
    assert!(told.out.contains("no turns, until `divvy daemon --schedule on`"), "{told}");
    assert!(memory(&machine).is_null());
    until("all of both is there", || {
        names.iter().all(|name| residence(&machine, name, "away_bytes") == 0)
    });
    done(&machine, &["daemon", "--schedule", "on"]);
    is_handed_over(&machine, 1);
    assert_eq!(status(&machine)["schedule"], "on");
    names.iter().for_each(|name| end(&machine, name));
}

#[test]
fn a_daemon_may_begin_without_turns() {
    let machine = Divided::with(Machine::new(), &["--capacity", "300MiB", "--schedule", "off"]);
    until("the daemon answers", || status(&machine)["pid"].is_u64());
    let tenants = tenants(&machine, ["a", "b"], 1000);
    assert_eq!(status(&machine)["schedule"], "off");
    assert!(memory(&machine).is_null());
    all_end_well(tenants);
}

#[test]
fn a_word_that_is_no_switch_is_refused() {
    let machine = machine("300MiB");
    for arguments in [
        &["daemon", "--schedule", "maybe"][..],
        &["daemon", "--schedule", "off", "--status"],
        &["daemon", "--json"],
    ] {
        let refused = finish(&mut machine.divvy(arguments));
        assert_eq!(refused.code(), Some(2), "{refused}");
    }
    assert_eq!(status(&machine)["schedule"], "on");
}
