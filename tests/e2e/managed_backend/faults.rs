//! Managed memory that leaves the card and comes back while the driver fails: at each call of the sequence, each time it
//! is made, and always.
//!
//! Promises: all bytes are compared after each fault; the card, the ledger and the daemon agree then; what hangs fails.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::shown;
use crate::faults::each;
use crate::harness::{Divided, Finished, MIB, Machine, Talk, client, finish, stage, until};
use crate::turns::{count, memory};

/// Longest time until a program whose memory moves has gone on, faults included.
const DEADLINE: Duration = Duration::from_secs(30);
const DEADLINE_S: &str = "30";
/// The slab with the block that kernels work on, and two blocks beside it.
pub(super) const MOVED_BYTES: u64 = 32 * MIB + 2 * 34 * MIB;
/// More calls of one kind than the sequence has.
const CALLS: u32 = 40;

/// When a call is let fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Leaving,
    ComingBack,
}

/// A tenant with managed memory, whose driver fails as a file says.
pub(super) struct Held<'m> {
    machine: &'m Divided,
    name: String,
    rules: PathBuf,
    pub(super) client: Talk,
    /// How often the program has gone on.
    pub(super) round: u32,
}

impl<'m> Held<'m> {
    pub(super) fn new(machine: &'m Divided, name: &str) -> Self {
        let held = Self::start(machine, name);
        let said = held.client.line();
        assert!(said.starts_with("ready 0 "), "{said}");
        held
    }

    /// One whose driver does so from the start, and that need not come as far as to have its memory.
    pub(super) fn dying(machine: &'m Divided, name: &str, rules: &str) -> Self {
        std::fs::write(rules_of(machine, name), rules).expect("the test's own directory");
        let held = Self::start(machine, name);
        let _ = held.client.line_within(DEADLINE);
        held
    }

    /// Another process of its tenant.
    fn beside(&self) -> Self {
        let directory = shown(self.machine, &self.name)["directory"].clone();
        let mut command = self.machine.machine.scenario("handover", "holds");
        command.env("DIVVY_TENANT", directory.as_str().expect("a directory"));
        command.env("LD_PRELOAD", stage().join("lib/libdivvy.so"));
        let held = Self::holding(self.machine, &self.name, &mut command);
        let said = held.client.line();
        assert!(said.starts_with("ready 0 "), "{said}");
        held
    }

    fn start(machine: &'m Divided, name: &str) -> Self {
        let options = ["run", "--no-daemon", "--oversubscribe", "--backend", "managed"];
        let mut command = machine.divvy(&options);
        command.args(["--memory", "4GiB", "--name", name, "--"]);
        command.arg(client("handover")).arg("holds");
        Self::holding(machine, name, &mut command)
    }

    fn holding(machine: &'m Divided, name: &str, command: &mut Command) -> Self {
        let rules = rules_of(machine, name);
        command.env("SIMGPU_FAULTS_FILE", &rules);
        command.env("HOLD_BYTES", (2 * MIB).to_string()).env("HOLD_MORE", "2");
        let client = Talk::start(command);
        Self { machine, name: name.to_owned(), rules, client, round: 0 }
    }

    /// Lets its driver fail, or end it, as `rules` say from now on.
    pub(super) fn fails(&self, rules: &str) {
        std::fs::write(self.rules.with_extension("new"), rules).expect("the test's own directory");
        std::fs::rename(self.rules.with_extension("new"), &self.rules)
            .expect("the test's own directory");
    }

    pub(super) fn wish(&self, wish: &str, seconds: &str) -> Finished {
        finish(&mut self.machine.divvy(&[wish, "--json", "--timeout", seconds, &self.name]))
    }

    /// Its memory leaves, all of it.
    pub(super) fn leave(&self) {
        let frozen = self.wish("freeze", DEADLINE_S);
        assert_eq!(frozen.code(), Some(0), "{frozen}");
        let report: Value = serde_json::from_str(&frozen.out).unwrap_or_default();
        assert_eq!(report["away_bytes"].as_u64(), Some(MOVED_BYTES), "{report}");
    }

    /// It goes on, which brings its memory back, and finds every byte.
    pub(super) fn go_on(&mut self) {
        self.client.go();
        self.is_back();
    }

    /// It was let go on, and has found every byte.
    pub(super) fn is_back(&mut self) {
        self.round += 1;
        let said = self.client.line_within(DEADLINE);
        let wanted = format!("ready {} ", self.round);
        assert!(said.as_ref().is_some_and(|line| line.starts_with(&wanted)), "{wanted}: {said:?}");
    }
}

fn rules_of(machine: &Divided, name: &str) -> PathBuf {
    machine.machine.home().join(format!("{name}.faults"))
}

/// A machine whose driver fails, and the one tenant on it.
struct Broken<'m> {
    held: Held<'m>,
    /// What the ledger holds, and what is managed.
    held_bytes: u64,
    managed_bytes: u64,
    /// Bytes taken on the card while all is there, and while all is away. The driver's pages are not the library's.
    used_bytes: [u64; 2],
}

impl<'m> Broken<'m> {
    fn new(machine: &'m Divided) -> Self {
        let held = Held::new(machine, "broken");
        let mut broken = Self { held, held_bytes: 0, managed_bytes: 0, used_bytes: [0; 2] };
        let used_bytes = || machine.machine.card_used_bytes();
        [broken.held_bytes, _, broken.managed_bytes] = broken.said();
        broken.used_bytes[0] = used_bytes();
        broken.held.leave();
        broken.used_bytes[1] = used_bytes();
        broken.held.go_on();
        let [there_bytes, away_bytes] = broken.used_bytes;
        assert!(there_bytes >= away_bytes + MOVED_BYTES, "{there_bytes} and {away_bytes}");
        assert!(broken.managed_bytes >= MOVED_BYTES, "{}", broken.managed_bytes);
        broken
    }

    /// Bytes that the ledger holds, that are away, and that are managed.
    fn said(&self) -> [u64; 3] {
        let shown = shown(self.held.machine, &self.held.name)["devices"][0].clone();
        let residence = &shown["residence"];
        let words = [&shown["held_bytes"], &residence["away_bytes"], &residence["managed_bytes"]];
        words.map(|word| word.as_u64().unwrap_or_else(|| panic!("{shown}")))
    }

    /// How many calls have failed so far.
    fn failed(&self) -> usize {
        let log = self.held.machine.machine.home().join("sim/faults.log");
        std::fs::read_to_string(log).unwrap_or_default().lines().count()
    }

    /// The card, the tenant's residence and its ledger say that so much is away, with a driver that does not fail any more.
    fn agrees(&self, away_bytes: u64) {
        self.held.fails("");
        assert_eq!(self.said(), [self.held_bytes, away_bytes, self.managed_bytes]);
        let machine = &self.held.machine.machine;
        let used_bytes = self.used_bytes[usize::from(away_bytes > 0)];
        // What a failed step left on the card goes home a moment later.
        until(format!("{used_bytes} on the card, {away_bytes} away"), || {
            machine.card_used_bytes() == used_bytes
        });
    }

    /// One hand-over during which the driver fails as `rules` say. False if it was not asked for that.
    fn survives(&mut self, step: Step, rules: &str) -> bool {
        let before = self.failed();
        if step == Step::Leaving {
            self.held.fails(rules);
        }
        self.held.leave();
        self.agrees(MOVED_BYTES);
        if step == Step::ComingBack {
            self.held.fails(rules);
        }
        self.held.go_on();
        self.agrees(0);
        self.failed() > before
    }

    /// It ends, and the daemon has its bytes back.
    fn ends(self) {
        let machine = self.held.machine;
        self.held.client.ends_well();
        all_is_given_back(machine);
    }
}

/// Nothing of managed memory is left, nor of the reservation.
pub(super) fn all_is_given_back(machine: &Divided) {
    until("the reservation is given back", || {
        let memory = memory(machine);
        memory.is_null() || count(&memory, "managed_bytes") == 0
    });
    until("the card is free", || machine.machine.card_used_bytes() == 0);
    machine.machine.all_was_simulated();
}

fn machine() -> Divided {
    crate::turns::machine_of(Machine::new(), &["--managed-limit", "1GiB"])
}

const UNKNOWN: u32 = 999;
const INVALID_VALUE: u32 = 1;
const INVALID_CONTEXT: u32 = 201;

/// Calls of both ways, each with a code beside out-of-memory with which it may fail.
const MOVING: [(&str, u32); 9] = [
    ("cuCtxPushCurrent_v2", INVALID_CONTEXT),
    ("cuCtxPopCurrent_v2", INVALID_CONTEXT),
    ("cuStreamCreate", UNKNOWN),
    ("cuStreamDestroy_v2", UNKNOWN),
    ("cuMemPrefetchAsync", INVALID_VALUE),
    ("cuEventCreate", UNKNOWN),
    ("cuEventRecord", UNKNOWN),
    ("cuEventSynchronize", UNKNOWN),
    ("cuEventDestroy_v2", UNKNOWN),
];
/// Those that wait for work before memory leaves.
const DRAINING: [(&str, u32); 2] = [("cuCtxRecordEvent", UNKNOWN), ("cuEventQuery", UNKNOWN)];

/// Lets the first, second, and so on call of an entry point fail, until there is none any more.
fn each_call_fails(step: Step, (entry, code): (&str, u32)) {
    let machine = machine();
    let mut broken = Broken::new(&machine);
    for code in [2, code] {
        let mut failed = 0;
        while failed < CALLS {
            let rule = format!("{entry}@{}=fail:{code}", failed + 1);
            println!("{step:?} {rule}");
            if !broken.survives(step, &rule) {
                break;
            }
            failed += 1;
        }
        assert!(failed > 0, "{entry} is not called");
        assert!(failed < CALLS, "{entry} is called without end");
    }
    broken.ends();
}

#[test]
fn each_call_of_leaving_may_fail() {
    let all: Vec<_> = MOVING.into_iter().chain(DRAINING).collect();
    each(&all, |failing| each_call_fails(Step::Leaving, failing));
}

#[test]
fn each_call_of_coming_back_may_fail() {
    each(&MOVING, |failing| each_call_fails(Step::ComingBack, failing));
}

/// A wish that failed rests for some time, in which the daemon brings it about: a call that has brought the memory back has
/// ended it, and it leaves no second time.
#[test]
fn a_wish_that_comes_about_while_it_rests_is_over() {
    let machine = machine();
    let mut broken = Broken::new(&machine);
    for call in 1..4 {
        broken.held.fails(&format!("cuMemPrefetchAsync@{call}=fail:{INVALID_VALUE}"));
        broken.held.leave();
        broken.held.go_on();
        // Longer than it rests.
        std::thread::sleep(Duration::from_secs(2));
        broken.agrees(0);
    }
    broken.ends();
}

/// The same of two processes of one tenant, each of which fails once; one has its memory back before the other is let go on.
#[test]
fn a_wish_of_two_processes_that_rested_is_over_for_each() {
    let machine = machine();
    let first = Held::new(&machine, "pair");
    let mut pair = [first.beside(), first];
    for round in 0..3 {
        pair[0].fails(&format!("cuMemPrefetchAsync@{}=fail:{INVALID_VALUE}", round % 2 + 1));
        let frozen = pair[0].wish("freeze", DEADLINE_S);
        assert_eq!(frozen.code(), Some(0), "{frozen}");
        let away = || shown(&machine, "pair")["devices"][0]["residence"]["away_bytes"].as_u64();
        assert_eq!(away(), Some(2 * MOVED_BYTES));
        pair[round % 2].go_on();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(away(), Some(MOVED_BYTES), "the other's stays away, and nothing leaves again");
        pair[(round + 1) % 2].go_on();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(away(), Some(0));
    }
    pair.into_iter().for_each(|held| held.client.ends_well());
    all_is_given_back(&machine);
}

/// All that the library does to learn that the first prefetch has ended, but for the last attempt.
const ALL_WAITS_FAIL: &str = "cuEventSynchronize@1=fail:999;cuEventSynchronize@2=fail:999;\
    cuEventSynchronize@3=fail:999;cuStreamSynchronize@1=fail:999;cuStreamSynchronize@2=fail:999";
/// The last one as well: whether it has ended is not known then, and it is begun again.
const NO_END_IS_KNOWN: &str = "cuEventSynchronize@1=fail:999;cuEventSynchronize@2=fail:999;\
    cuEventSynchronize@3=fail:999;cuStreamSynchronize@1=fail:999;cuStreamSynchronize@2=fail:999;\
    cuStreamSynchronize@3=fail:999";

#[test]
fn a_wait_for_a_prefetch_may_fail() {
    let rules = [
        ALL_WAITS_FAIL,
        NO_END_IS_KNOWN,
        "cuEventRecord@1=fail:999;cuStreamSynchronize@1=fail:999",
        "cuEventCreate@2=fail:2;cuStreamSynchronize@1=fail:999",
    ];
    let all: Vec<_> =
        rules.iter().flat_map(|rule| [(Step::Leaving, *rule), (Step::ComingBack, *rule)]).collect();
    each(&all, |(step, rules)| {
        let machine = machine();
        let mut broken = Broken::new(&machine);
        assert!(broken.survives(step, rules), "nothing failed");
        assert!(!broken.survives(step, ""), "something failed");
        broken.ends();
    });
}

/// Memory that cannot leave stays, and the program goes on with it; the wish stands, and comes about once it can.
#[test]
fn what_cannot_leave_stays() {
    let rules = [
        "cuMemPrefetchAsync@*=fail:2",
        "cuStreamCreate@*=fail:2",
        "cuEventCreate@*=fail:2;cuStreamSynchronize@*=fail:999",
    ];
    each(&rules, |rules| {
        let machine = machine();
        let mut broken = Broken::new(&machine);
        broken.held.fails(rules);
        let frozen = broken.held.wish("freeze", "1");
        assert_eq!(frozen.code(), Some(1), "{frozen}");
        assert!(frozen.err.contains("still on the card"), "{frozen}");
        broken.held.go_on();
        assert!(broken.failed() > 0, "nothing failed");
        broken.held.fails("");
        broken.held.leave();
        broken.agrees(MOVED_BYTES);
        broken.held.go_on();
        broken.agrees(0);
        broken.ends();
    });
}

#[test]
fn what_cannot_come_back_waits() {
    let rules =
        ["cuMemPrefetchAsync@*=fail:2", "cuMemPrefetchAsync@2+=fail:1", "cuStreamCreate@*=fail:2"];
    each(&rules, |rules| {
        let machine = machine();
        let mut broken = Broken::new(&machine);
        broken.held.leave();
        broken.held.fails(rules);
        broken.held.client.go();
        let said = broken.held.client.line_within(Duration::from_millis(500));
        assert_eq!(said, None, "it waits");
        assert!(broken.failed() > 0, "nothing failed");
        broken.held.fails("");
        broken.held.is_back();
        broken.agrees(0);
        broken.ends();
    });
}

/// Calls by which a block is made and freed: it is there or refused as the driver says, and nothing of it is left.
#[test]
fn a_block_is_made_whatever_fails() {
    // An allocation fails, or all is well: a driver without room is asked again for a while.
    let rules = [
        ("cuMemAllocManaged@1=fail:2", None),
        ("cuMemAllocManaged@2=fail:2", None),
        ("cuMemAllocManaged@1=fail:999", Some("is 999, wanted 0")),
        ("cuMemAllocManaged@4=fail:1", Some("is 1, wanted 0")),
        ("cuMemAllocManaged@*=fail:2", Some("is 2, wanted 0")),
        ("cuMemPrefetchAsync@1=fail:2", None),
        ("cuMemPrefetchAsync@/2=fail:1", None),
        ("cuMemFree_v2@1=fail:999", None),
        ("cuMemFree_v2@/2=fail:1", None),
    ];
    each(&rules, |(rules, refused)| {
        let machine = machine();
        let mut command = super::command(&machine, "broken", super::MANAGED, 4, 300);
        command.env("SIMGPU_FAULTS", rules);
        let played = finish(&mut command);
        match refused {
            Some(words) => assert!(played.err.contains(words), "{rules}\n{played}"),
            None => assert!(played.code() == Some(0), "{rules}\n{played}"),
        }
        all_is_given_back(&machine);
    });
}
