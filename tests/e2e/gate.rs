//! Every way to give the device work asks the share gate; what comes between ends what is measured.
//!
//! A paused tenant is the exact test of a gate: a call that asks does not return while the pause lasts,
//! and one that does not ask returns at once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use divvy_abi::config::{GateLine, gate};
use divvy_abi::usage;
use divvy_page::now_ns;
use divvy_page::owner::Owner;

use crate::harness::{GIB, Machine, PATIENCE, Talk, best_of, best_of_three, finish, until};
use crate::pace::usage as usage_of;

const MS: u64 = 1_000_000;
/// Between two looks at a call.
const LOOK: Duration = Duration::from_millis(5);
/// Waits of a call, each published when it is over, that are enough to say that it goes on waiting.
const WAITS: u64 = 5;

/// What the client takes its kernels to last.
const SHORT_MS: u64 = 60;
const LONG_MS: u64 = 120;

fn owner(machine: &Machine) -> Owner {
    Owner::open(&machine.tenant_directory()).expect("the first process wrote the limits")
}

fn pause(owner: &Owner, paused: bool) {
    let change = |config: &mut divvy_abi::config::Config| {
        config.paused = u32::from(paused);
    };
    owner.update(change).expect("the config can be changed");
    if !paused {
        owner.lower_any_gate().expect("the config can be written").expect("nobody else writes");
    }
}

fn set(owner: &Owner, line: &GateLine) {
    owner.set_gate(0, line).expect("the config can be written");
    owner.raise_any_gate().expect("the config can be written");
}

/// Counted, with room for whatever the client has in flight.
fn timed() -> GateLine {
    GateLine { gate: gate::TIMED, active: 1, horizon_ns: 10_000 * MS, ..GateLine::default() }
}

fn used_ms(machine: &Machine) -> u64 {
    usage_of(machine).gate_sum(0).used_ns / MS
}

/// A client at the first call of `scenario`.
fn ready(machine: &Machine, program: &str, scenario: &str) -> Talk {
    let client = Talk::start(&mut machine.scenario(program, scenario));
    client.expect("ready");
    client
}

/// A client of a paused tenant, one of whose calls waits at the gate, and the tenant's owner.
fn waiting(machine: &Machine, scenario: &str) -> (Talk, Owner) {
    let mut client = ready(machine, "gate", scenario);
    let owner = owner(machine);
    pause(&owner, true);
    next_call(&mut client).expect("a call");
    assert_eq!(returned(machine, &client), None);
    (client, owner)
}

/// What the client says after its call, or nothing once it has been seen to wait at the gate, again and again.
fn returned(machine: &Machine, client: &Talk) -> Option<String> {
    let usage = usage_of(machine);
    let (mut waits, mut waited_ns) = (0, usage.gate_sum(0).waited_ns);
    let mut line = None;
    until("the call returns, or waits", || {
        line = client.line_within(LOOK);
        let now_ns = usage.gate_sum(0).waited_ns;
        waits += u64::from(now_ns != waited_ns);
        waited_ns = now_ns;
        line.is_some() || waits >= WAITS
    });
    line
}

/// Lets the client make its next call; the call's name, none when it has made all.
fn next_call(client: &mut Talk) -> Option<String> {
    client.go();
    let line = client.line();
    if line == "end" {
        return None;
    }
    Some(line.strip_prefix("calling ").unwrap_or_else(|| panic!("{line:?}")).to_owned())
}

/// Processes that share memory or events take no turns between them: each says so in its line of the usage file, when
/// it exports or opens any.
#[test]
fn processes_that_share_are_one_unit() {
    let machine = Machine::new().limited(4 * GIB).with("DIVVY_COMPUTE", "50%");
    let mut client = ready(&machine, "span", "sharing");
    let usage =
        std::fs::File::options().read(true).write(true).open(machine.tenant().join("usage"));
    let usage = usage.expect("the first process wrote it");
    let at = (usage::gate_at(0, 1) + usage::gate::JOINED) as u64;
    let joined = || {
        let mut word = [0; 8];
        usage.read_exact_at(&mut word, at).expect("the word can be read");
        u64::from_ne_bytes(word)
    };
    let mut calls = 0;
    while let Some(call) = next_call(&mut client) {
        client.expect(&format!("did {call}"));
        assert_eq!(joined(), 1, "{call}");
        usage.write_all_at(&[0; 8], at).expect("the word can be written");
        assert_eq!(joined(), 0);
        calls += 1;
    }
    assert_eq!(calls, 3);
    client.ends_well();
}

/// Makes every call of `scenario` in a paused tenant: each must wait for the end of the pause, or, if
/// not `wait`, none may.
fn in_a_pause(program: &str, scenario: &str, wait: bool) -> Machine {
    let machine = Machine::new().limited(4 * GIB);
    let mut client = ready(&machine, program, scenario);
    let owner = owner(&machine);
    let (mut calls, mut wrong) = (0, String::new());
    loop {
        pause(&owner, true);
        let Some(call) = next_call(&mut client) else { break };
        let did = if wait { returned(&machine, &client) } else { client.line_within(PATIENCE) };
        pause(&owner, false);
        if did.is_some() == wait {
            let _ = write!(wrong, " {call}");
        }
        let did = did.unwrap_or_else(|| client.line());
        assert_eq!(did, format!("did {call}"));
        calls += 1;
        if !wait && !wrong.is_empty() {
            break;
        }
    }
    assert!(calls > 0, "{scenario} makes no calls");
    let what = if wait { "not waited for the gate" } else { "waited, and should not have" };
    assert!(wrong.is_empty(), "{scenario}: {what}:{wrong}");
    client.ends_well();
    machine
}

#[test]
fn launches_wait() {
    in_a_pause("gate", "launches", true).all_was_simulated();
}

#[test]
fn fills_wait() {
    in_a_pause("gate", "fills", true).all_was_simulated();
}

#[test]
fn copies_within_the_device_wait() {
    in_a_pause("gate", "copies", true).all_was_simulated();
}

/// The simulated driver refuses the call; the gate comes before it.
#[test]
fn decompression_waits() {
    in_a_pause("gate", "unpacking", true);
}

#[test]
fn copies_from_and_to_the_host_pass() {
    in_a_pause("span", "host_copies", false);
}

/// What is captured is submitted, and charged, when its graph is launched.
#[test]
fn captured_launches_pass() {
    in_a_pause("gate", "captures", false).all_was_simulated();
}

#[test]
fn nothing_is_asked_after_a_capture() {
    let machine = Machine::new().limited(4 * GIB).with("DIVVY_COMPUTE", "50%");
    let faults =
        "cuStreamIsCapturing@*=kill-before;cuThreadExchangeStreamCaptureMode@*=kill-before";
    machine.with("SIMGPU_FAULTS", faults).plays("gate", "nothing_is_asked_after_a_capture");
}

/// A machine that keeps time, and a client in a tenant whose launches are counted, and whose kernels
/// have been measured: a probe that the host held up is none, so that may take more than one.
fn learnt(scenario: &str) -> (Machine, Owner, Talk) {
    learnt_on(Machine::new(), scenario)
}

fn learnt_on(machine: Machine, scenario: &str) -> (Machine, Owner, Talk) {
    let machine = machine.limited(4 * GIB).with("SIMGPU_MODE", "calibrated");
    let mut client = ready(&machine, "span", scenario);
    let owner = owner(&machine);
    set(&owner, &timed());
    for _ in 0..50 {
        let before_ms = used_ms(&machine);
        client.go();
        client.expect("tried");
        if used_ms(&machine) - before_ms >= SHORT_MS - 5 {
            client.say("enough");
            client.expect("learnt");
            return (machine, owner, client);
        }
    }
    panic!("{scenario}: no kernel was measured");
}

/// Charged for the client's next call and the kernels around it, in milliseconds.
fn charged_ms(machine: &Machine, client: &mut Talk) -> Option<(String, u64)> {
    let before_ms = used_ms(machine);
    let call = next_call(client)?;
    client.expect(&format!("did {call}"));
    Some((call, used_ms(machine).saturating_sub(before_ms)))
}

/// The calls of which something else is charged than what is `due`, and how much.
fn charged_beside(
    due: &RangeInclusive<u64>,
    machine: &Machine,
    mut client: Talk,
) -> BTreeMap<String, String> {
    let (mut calls, mut wrong) = (0, BTreeMap::new());
    while let Some((call, ms)) = charged_ms(machine, &mut client) {
        calls += 1;
        if !due.contains(&ms) {
            wrong.insert(call, format!("{ms} ms"));
        }
    }
    assert!(calls > 0, "no call was made");
    client.ends_well();
    wrong
}

/// Between two kernels of which the second takes longer than its like, each call ends the span that is
/// measured: the second is charged what is known of it, which is short. Without the call, or if it did not end
/// the span, it would be charged what it took.
///
/// Each in a process of its own: what took long behind one makes the launches behind it be measured. A host that stops
/// for longer than the first kernel takes spoils a trial, and so does a draw of the second.
fn ends_the_span(scenario: &str) {
    // 60 where the estimate stands, 60 + 120 where the span was measured.
    let due = 0..=SHORT_MS + LONG_MS / 2;
    for number in 0.. {
        let mut was_made = false;
        best_of(8, &format!("{scenario} {number}"), || {
            let machine = Machine::new().with("CALL", number);
            let (machine, _owner, mut client) = learnt_on(machine, scenario);
            let charged = charged_ms(&machine, &mut client);
            was_made = charged.is_some();
            if was_made {
                assert_eq!(next_call(&mut client), None, "one call a process");
            }
            client.ends_well();
            let wrong = charged.filter(|(_, ms)| !due.contains(ms));
            wrong.map(|(call, ms)| (call, format!("{ms} ms"))).into_iter().collect()
        });
        if !was_made {
            assert!(number > 0, "{scenario} has no call");
            return;
        }
    }
}

#[test]
fn linear_host_copies_end_the_span() {
    ends_the_span("between_copies");
}

#[test]
fn shaped_host_copies_end_the_span() {
    ends_the_span("between_shapes");
}

#[test]
fn waits_and_host_functions_end_the_span() {
    ends_the_span("between_waits");
}

/// Two kernels of 60 ms, and between them up to 200 ms in which the device has nothing to do. A host that
/// stops while one of the kernels ends prolongs it.
#[test]
fn waiting_is_not_charged() {
    best_of_three("long_waits", || {
        let (machine, _owner, client) = learnt("long_waits");
        let wrong = charged_beside(&(90..=150), &machine, client);
        machine.all_was_simulated();
        wrong
    });
}

/// The work in flight is known to have ended, though it was expected to take another 60 ms.
#[test]
fn a_synchronisation_ends_the_work_in_flight() {
    let (machine, _owner, mut client) = learnt("synchronisations");
    let usage = usage_of(&machine);
    while let Some(call) = next_call(&mut client) {
        client.expect(&format!("did {call}"));
        let (busy_ns, now) = (usage.gate_sum(0).busy_until_ns, now_ns());
        let ahead_ms = busy_ns.saturating_sub(now) / MS;
        assert!(ahead_ms < 20, "{call}: {ahead_ms} ms are said to be in flight");
    }
    client.ends_well();
}

/// Whatever was expected, the tenant is seen to have work for as long as a thread sleeps for it. A host
/// that does not let us look for as long as the kernel takes, 400 ms, spoils a trial.
#[test]
fn a_thread_that_sleeps_for_its_work_says_so() {
    best_of_three("sleeps", || {
        let (machine, _owner, mut client) = learnt("sleeps");
        let usage = usage_of(&machine);
        let mut wrong = BTreeMap::new();
        while let Some(call) = next_call(&mut client) {
            let mut returned = None;
            while returned.is_none() && usage.gate_sum(0).sleepers == 0 {
                returned = client.line_within(LOOK);
            }
            if returned.is_some() {
                wrong.insert(call.clone(), "slept and did not say so".to_owned());
            }
            assert_eq!(returned.unwrap_or_else(|| client.line()), format!("did {call}"));
            assert_eq!(usage.gate_sum(0).sleepers, 0, "{call} has returned");
        }
        client.ends_well();
        wrong
    });
}

/// Four kernels of 60 ms are in flight on one stream; another one, idle, was waited for.
#[test]
fn waiting_for_an_idle_stream_proves_nothing_of_others() {
    let (machine, _owner, mut client) = learnt("idle_stream");
    let call = next_call(&mut client).expect("a call");
    client.expect(&format!("did {call}"));
    let usage = usage_of(&machine).gate_sum(0);
    let ahead_ms = usage.busy_until_ns.saturating_sub(usage.last_launch_ns) / MS;
    assert!(ahead_ms >= SHORT_MS, "{ahead_ms} ms are said to be in flight");
    assert_eq!(next_call(&mut client), None);
    client.ends_well();
}

/// A host that stops at its end spoils a trial.
#[test]
fn a_closed_gate_lasts_as_long_as_its_lease() {
    best_of_three("a lease", || {
        let machine = Machine::new().limited(4 * GIB);
        let mut client = ready(&machine, "gate", "launches");
        let owner = owner(&machine);
        let lease_ns = now_ns() + 1_000 * MS;
        set(&owner, &GateLine { gate: gate::CLOSED, lease_ns, ..GateLine::default() });
        let call = next_call(&mut client).expect("a call");
        client.expect(&format!("did {call}"));
        let late_ms = now_ns().checked_sub(lease_ns).expect("it has waited for the lease") / MS;
        let waited = usage_of(&machine).gate_sum(0);
        let mut wrong = BTreeMap::new();
        if late_ms >= 1_000 {
            wrong.insert("late".to_owned(), format!("{late_ms} ms after the lease"));
        }
        if waited.waited_ns <= 100 * MS || waited.want_ns == 0 {
            wrong.insert("not seen to wait".to_owned(), format!("{waited:?}"));
        }
        wrong
    });
}

#[test]
fn a_process_killed_at_the_gate_leaves_the_tenant_usable() {
    let machine = Machine::new().limited(4 * GIB);
    let (mut client, owner) = waiting(&machine, "launches");
    client.kill();
    assert!(client.end_within(PATIENCE).is_some(), "a killed process ends");
    pause(&owner, false);
    machine.plays("graph", "launched_nodes_are_charged");
}

#[test]
fn a_process_that_waits_at_the_gate_can_be_ended() {
    let machine = Machine::new().limited(4 * GIB);
    let (client, _owner) = waiting(&machine, "launches");
    let pid = client.pid().to_string();
    assert_eq!(finish(std::process::Command::new("kill").args(["-TERM", &pid])).code(), Some(0));
    let status = client.end_within(PATIENCE).expect("it ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
}

#[test]
fn exit_does_not_wait_for_a_thread_at_the_gate() {
    let machine = Machine::new().limited(4 * GIB);
    let (mut client, _owner) = waiting(&machine, "left_by_another_thread");
    client.go();
    assert_eq!(client.end_within(PATIENCE).and_then(|status| status.code()), Some(0));
}
