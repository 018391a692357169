//! Memory that leaves the card and comes back while the driver fails: at each call of the sequence, and each time it is
//! made, one is let fail before it does anything.
//!
//! Promises: all bytes are compared after each fault; the card and the ledger agree then; what hangs fails. Which calls
//! there are is in `crates/shim/src/sys/driver`, and that each is made is checked here.

mod short;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use crate::harness::residence::Movable;
use crate::harness::{MIB, Machine, Talk};

/// Longest time until a program whose memory moves has gone on, faults included.
const DEADLINE: Duration = Duration::from_secs(20);
const DEADLINE_S: u32 = 20;
/// The slab with the block that kernels work on, and two blocks beside it.
const MOVED_BYTES: u64 = 32 * MIB + 2 * 34 * MIB;
/// More calls of one kind than the sequence has.
const CALLS: u32 = 40;

/// When a call is let fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Leaving,
    ComingBack,
}

/// A machine whose driver fails as a file says, and a client on it.
struct Broken<'m> {
    machine: &'m Machine,
    tenant: Movable<'m>,
    client: Talk,
    /// Bytes taken on the card while all is there, and what the ledger holds.
    full: (u64, u64),
    round: u32,
}

fn machine() -> Machine {
    Machine::new()
}

impl<'m> Broken<'m> {
    fn new(machine: &'m Machine) -> Self {
        Self::busy(machine, 0)
    }

    /// The same with work that lasts so long under way whenever memory leaves.
    fn busy(machine: &'m Machine, busy_ns: u64) -> Self {
        let tenant = Movable::new(machine, "broken");
        let mut command = tenant.scenario("handover", "holds");
        command.env("HOLD_BYTES", (2 * MIB).to_string()).env("HOLD_MORE", "2");
        command.env("SIMGPU_FAULTS_FILE", tenant.home().join("faults"));
        command.env("HOLD_BUSY_NS", busy_ns.to_string());
        let (client, _) = tenant.holding(&mut command);
        let mut broken = Self { machine, tenant, client, full: (0, 0), round: 0 };
        broken.full = (machine.card_used_bytes(), broken.held());
        broken
    }

    fn held(&self) -> u64 {
        let shown = self.tenant.shown();
        shown["held_bytes"].as_u64().unwrap_or_else(|| panic!("{shown}"))
    }

    /// Lets the driver fail as `rules` say from now on.
    fn fails(&self, rules: &str) {
        let path = self.tenant.home().join("faults");
        fs::write(path.with_extension("new"), rules).expect("the test's own directory");
        fs::rename(path.with_extension("new"), path).expect("the test's own directory");
    }

    /// How many calls have failed so far.
    fn failed(&self) -> usize {
        let log = self.machine.home().join("sim/faults.log");
        fs::read_to_string(log).unwrap_or_default().lines().count()
    }

    /// The owner wishes the memory away, and all of it goes.
    fn wishes_away(&self) {
        let report = self.tenant.wished("freeze", DEADLINE_S);
        assert_eq!(report["away_bytes"].as_u64(), Some(MOVED_BYTES), "{report}");
    }

    /// The memory leaves, and all that is said agrees, with a driver that does not fail any more.
    fn leave(&self) {
        self.wishes_away();
        self.fails("");
        self.agrees(MOVED_BYTES);
    }

    /// The program goes on, which brings its memory back, and finds every byte.
    fn go_on(&mut self) {
        self.client.go();
        self.is_back();
    }

    /// The program, which was let go on, has found every byte.
    fn is_back(&mut self) {
        let said = self.client.line_within(DEADLINE);
        self.round += 1;
        let wanted = format!("ready {} ", self.round);
        assert!(said.as_ref().is_some_and(|line| line.starts_with(&wanted)), "{wanted}: {said:?}");
        self.fails("");
        self.agrees(0);
    }

    /// The card, the tenant's residence and its ledger say that so much is away.
    fn agrees(&self, away_bytes: u64) {
        assert_eq!(self.tenant.residence("away_bytes"), away_bytes);
        assert_eq!(self.held(), self.full.1, "what is charged does not change");
        let used = self.machine.card_used_bytes();
        assert_eq!(used, self.full.0 - away_bytes, "on the card, with {away_bytes} bytes away");
    }

    /// One hand-over during which the driver fails as `rules` say. False if it was not asked for that.
    fn survives(&mut self, step: Step, rules: &str) -> bool {
        let before = self.failed();
        if step == Step::Leaving {
            self.fails(rules);
        }
        self.leave();
        if step == Step::ComingBack {
            self.fails(rules);
        }
        self.go_on();
        self.failed() > before
    }
}

/// A call, and a code beside out-of-memory with which it may fail.
type Failing = (&'static str, u32);

const UNKNOWN: u32 = 999;
const INVALID_VALUE: u32 = 1;
const INVALID_CONTEXT: u32 = 201;
const MAP_FAILED: u32 = 205;
const NOT_REGISTERED: u32 = 713;
const ALREADY_REGISTERED: u32 = 712;

const LEAVING: [Failing; 13] = [
    ("cuCtxPushCurrent_v2", INVALID_CONTEXT),
    ("cuCtxPopCurrent_v2", INVALID_CONTEXT),
    ("cuEventCreate", UNKNOWN),
    ("cuCtxRecordEvent", UNKNOWN),
    ("cuEventQuery", UNKNOWN),
    ("cuEventDestroy_v2", UNKNOWN),
    ("cuStreamCreate", UNKNOWN),
    ("cuStreamDestroy_v2", UNKNOWN),
    ("cuMemHostRegister_v2", ALREADY_REGISTERED),
    ("cuMemcpyDtoHAsync_v2", UNKNOWN),
    ("cuEventRecord", UNKNOWN),
    ("cuEventSynchronize", UNKNOWN),
    ("cuMemUnmap", INVALID_VALUE),
];

const COMING_BACK: [Failing; 12] = [
    ("cuCtxPushCurrent_v2", INVALID_CONTEXT),
    ("cuCtxPopCurrent_v2", INVALID_CONTEXT),
    ("cuStreamCreate", UNKNOWN),
    ("cuStreamDestroy_v2", UNKNOWN),
    ("cuMemCreate", UNKNOWN),
    ("cuMemMap", MAP_FAILED),
    ("cuMemSetAccess", INVALID_VALUE),
    ("cuMemcpyHtoDAsync_v2", UNKNOWN),
    ("cuEventCreate", UNKNOWN),
    ("cuEventRecord", UNKNOWN),
    ("cuEventSynchronize", UNKNOWN),
    ("cuEventDestroy_v2", UNKNOWN),
];

/// Runs `act` for each of `all`, several at once, and panics with what went wrong for which.
pub(crate) fn each<T: Copy + Send + std::fmt::Debug>(all: &[T], act: impl Fn(T) + Sync) {
    let left = Mutex::new(all.to_vec());
    let wrong = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(one) = left.lock().expect("nobody panics with it").pop() else {
                        return;
                    };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| act(one))) {
                        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        wrong
                            .lock()
                            .expect("nobody panics with it")
                            .insert(format!("{one:?}"), text);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("nobody panics with it");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The message of a panic.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without words".to_owned())
}

/// Lets the first, second, and so on call of an entry point fail, until there is none any more.
fn each_call_fails(step: Step, (entry, code): Failing) {
    let machine = machine();
    for code in [2, code] {
        let mut broken = Broken::new(&machine);
        let mut failed = 0;
        while failed < CALLS {
            let rule = format!("{entry}@{}=fail:{code}", failed + 1);
            println!("{step:?} {rule}");
            let survived = catch_unwind(AssertUnwindSafe(|| broken.survives(step, &rule)));
            if !survived.unwrap_or_else(|panic| panic!("{step:?} {rule}: {}", words(&*panic))) {
                break;
            }
            failed += 1;
        }
        assert!(failed > 0, "{entry} is not called");
        assert!(failed < CALLS, "{entry} is called without end");
        broken.client.ends_well();
    }
    machine.all_was_simulated();
}

#[test]
fn each_call_of_leaving_may_fail() {
    each(&LEAVING, |failing| each_call_fails(Step::Leaving, failing));
}

#[test]
fn each_call_of_coming_back_may_fail() {
    each(&COMING_BACK, |failing| each_call_fails(Step::ComingBack, failing));
}

/// A hand-over in which the driver fails as each of these rules says, and one after it in which it does not.
fn survives_each(all: &[(Step, &'static str)]) {
    each(all, |(step, rules)| {
        let machine = machine();
        let mut broken = Broken::new(&machine);
        assert!(broken.survives(step, rules), "nothing failed");
        assert!(!broken.survives(step, ""), "something failed");
        broken.client.ends_well();
    });
}

#[test]
fn two_calls_may_fail() {
    survives_each(&[
        (Step::Leaving, "cuMemHostRegister_v2@2=fail:2;cuMemCreate@1=fail:2"),
        (Step::Leaving, "cuMemUnmap@2=fail:1;cuMemMap@1=fail:205"),
        (Step::Leaving, "cuStreamCreate@1=fail:2;cuMemHostRegister_v2@3=fail:712"),
        (Step::ComingBack, "cuMemCreate@2=fail:2;cuMemMap@2=fail:205"),
        (Step::ComingBack, "cuMemSetAccess@1=fail:1;cuMemcpyHtoDAsync_v2@2=fail:999"),
    ]);
}

/// Those of the calls that may fail again and again. Of no stream and no current context the library learns that a
/// context is broken, and what cannot be unmapped is in the way (`what_unmaps_may_fail`).
const BY_CHANCE: [&str; 12] = [
    "cuEventCreate",
    "cuCtxRecordEvent",
    "cuEventQuery",
    "cuEventDestroy_v2",
    "cuMemHostRegister_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemcpyHtoDAsync_v2",
];

/// With calls of many kinds that fail by chance: the same ones in each run.
#[test]
fn calls_that_fail_by_chance_lose_nothing() {
    each(&[1_u64, 2, 3, 4], |seed| {
        let machine = machine();
        let mut broken = Broken::new(&machine);
        for round in 0..4 {
            let rule = |(name, at): (&str, u64)| format!("{name}@15~{seed}{round}{at}=fail:2");
            let rules: Vec<_> = BY_CHANCE.into_iter().zip(0..).map(rule).collect();
            broken.fails(&rules.join(";"));
            broken.wishes_away();
            broken.go_on();
        }
        assert!(broken.failed() > 0, "nothing failed");
        broken.client.ends_well();
    });
}

/// All that the library does to learn that the first copy has ended, but for the last attempt.
const ALL_WAITS_FAIL: &str = "cuEventSynchronize@1=fail:999;cuEventSynchronize@2=fail:999;\
    cuEventSynchronize@3=fail:999;cuStreamSynchronize@1=fail:999;cuStreamSynchronize@2=fail:999";

#[test]
fn a_wait_for_a_copy_may_fail() {
    survives_each(&[
        // Without its event a copy is waited for by its stream, and again where that fails.
        (Step::Leaving, "cuEventRecord@1=fail:999;cuStreamSynchronize@1=fail:999"),
        (Step::ComingBack, "cuEventRecord@1=fail:999;cuStreamSynchronize@1=fail:999"),
        (Step::ComingBack, "cuEventCreate@2=fail:2;cuStreamSynchronize@1=fail:999"),
        (Step::ComingBack, ALL_WAITS_FAIL),
        (Step::Leaving, ALL_WAITS_FAIL),
    ]);
}

#[test]
fn a_registration_may_stay() {
    each_call_fails(Step::ComingBack, ("cuMemHostUnregister", NOT_REGISTERED));
    survives_each(&[
        (Step::Leaving, "cuMemcpyDtoHAsync_v2@1=fail:999;cuMemHostUnregister@1=fail:713"),
        (Step::Leaving, "cuMemUnmap@2=fail:999;cuMemHostUnregister@1=fail:713"),
    ]);
}

#[test]
fn a_release_may_fail() {
    each_call_fails(Step::Leaving, ("cuMemRelease", INVALID_VALUE));
    survives_each(&[
        (Step::ComingBack, "cuMemMap@2=fail:2;cuMemRelease@1=fail:999"),
        (Step::ComingBack, "cuMemSetAccess@2=fail:2;cuMemRelease@1=fail:999"),
        (Step::ComingBack, "cuMemcpyHtoDAsync_v2@1=fail:2;cuMemRelease@1=fail:999"),
    ]);
}

#[test]
fn what_unmaps_may_fail() {
    survives_each(&[
        (Step::ComingBack, "cuMemSetAccess@2=fail:2;cuMemUnmap@1=fail:999"),
        (Step::ComingBack, "cuMemcpyHtoDAsync_v2@1=fail:2;cuMemUnmap@1=fail:999"),
    ]);
}

/// Work is under way for a while, and what asks whether it has ended fails as these rules say.
fn work_is_waited_for(all: &[&'static str], fails: bool) {
    each(all, |rules| {
        let machine = machine().with("SIMGPU_MODE", "calibrated");
        let mut broken = Broken::busy(&machine, 150_000_000);
        assert_eq!(broken.survives(Step::Leaving, rules), fails, "whether something failed");
        broken.client.ends_well();
    });
}

#[test]
fn work_is_waited_for_where_nothing_fails() {
    work_is_waited_for(&[""], false);
}

#[test]
fn work_is_waited_for_whatever_fails() {
    let rules = [
        "cuEventCreate@1=fail:2",
        "cuCtxRecordEvent@1=fail:2",
        "cuEventQuery@1=fail:2",
        "cuEventQuery@2=fail:999",
    ];
    work_is_waited_for(&rules, true);
}
