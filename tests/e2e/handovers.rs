//! Two tenants whose memory is on the card by turns: every byte through many hand-overs, and through the death of one of them
//! at each step.
//!
//! A hand-over counts if at least [`LEAST_BYTES`] of a tenant left and came back, if kernels ran on a part of them before and
//! after, on another part each time, if a graph that was captured before the first one was launched on both sides of
//! it, and if all of the tenant's bytes were what they are in its own model of them. `DIVVY_HANDOVERS` says how many there are to be,
//! `DIVVY_SECONDS` ends them earlier, and the result is written to the file `DIVVY_RESULT`.

use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::harness::residence::Movable;
use crate::harness::{MIB, Machine, Soaking, Talk};

/// Bytes that must leave, and come back, in a hand-over that counts.
const LEAST_BYTES: u64 = 16 * MIB;
/// A kernel works on so great a part of a tenant's bytes: with all of them it would take most of a hand-over's time.
const PARTS: u64 = 4;
/// Longest time until a program goes on.
const DEADLINE: Duration = Duration::from_secs(30);
const DEADLINE_S: u32 = 30;

/// A tenant and its only process.
struct Side<'m> {
    tenant: Movable<'m>,
    client: Talk,
    /// How often the program has gone on.
    round: u64,
    /// Bytes that left the last time; 0 before.
    away_bytes: u64,
}

impl<'m> Side<'m> {
    fn new(machine: &'m Machine, name: &str, hold_bytes: u64, hold_more: u32) -> Self {
        let tenant = Movable::new(machine, name);
        let mut command = tenant.scenario("handover", "holds");
        command.env("HOLD_BYTES", hold_bytes.to_string()).env("HOLD_MORE", hold_more.to_string());
        command.env("HOLD_PARTS", PARTS.to_string());
        command.env("SIMGPU_FAULTS_FILE", tenant.home().join("faults"));
        let (client, _) = tenant.holding(&mut command);
        Self { tenant, client, round: 0, away_bytes: 0 }
    }

    /// Lets its driver fail, or end it, as `rules` say from now on.
    fn fails(&self, rules: &str) {
        let path = self.tenant.home().join("faults");
        std::fs::write(path.with_extension("new"), rules).expect("the test's own directory");
        std::fs::rename(path.with_extension("new"), path).expect("the test's own directory");
    }

    /// Its memory leaves the card.
    fn leave(&mut self) {
        let report = self.tenant.wished("freeze", DEADLINE_S);
        self.away_bytes = report["away_bytes"].as_u64().expect("a number");
    }

    /// It goes on; what it says within the deadline must be that it found all its bytes.
    fn go_on(&mut self) {
        self.begin();
        self.await_bytes();
    }

    /// It goes on by the graph, the kernel and the comparison, and its memory comes back.
    fn begin(&mut self) {
        self.client.go();
        self.round += 1;
    }

    /// Bytes that have left so far, which have all come back.
    fn moved_bytes(&self) -> u64 {
        let [out, back] = ["out_bytes", "in_bytes"].map(|name| self.tenant.residence(name));
        assert_eq!(out, back, "what left came back");
        out
    }

    fn await_bytes(&self) {
        let said = self.client.line_within(DEADLINE);
        let wanted = format!("ready {} ", self.round);
        assert!(said.as_ref().is_some_and(|line| line.starts_with(&wanted)), "{wanted}: {said:?}");
    }
}

/// The room on the card goes from one tenant, which has had its turn, to the other, which has it then: by wishes of the
/// owner's, and by the call of a program.
fn hand_over(from: &mut Side<'_>, to: &mut Side<'_>) {
    from.leave();
    to.begin();
    to.await_bytes();
}

/// A number of the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_byte_survives_hand_overs() {
    let wanted = number("DIVVY_HANDOVERS").unwrap_or(500);
    let budget = number("DIVVY_SECONDS").map_or(Duration::MAX, Duration::from_secs);
    // There is room for the memory of one of them.
    // Beside two contexts there is room for the memory of one of them.
    let machine = Machine::new().with("SIMGPU_MEMORY", "1090MiB").with("DIVVY_LOG", "error");
    let mut away = Side::new(&machine, "first", LEAST_BYTES, 0);
    away.go_on();
    away.leave();
    let mut there = Side::new(&machine, "second", LEAST_BYTES, 0);
    there.go_on();
    let since = Instant::now();
    let (mut count, mut times_ms) = (0_u64, Vec::new());
    let mut soaking = Soaking::new("hand-overs", wanted);
    while count < wanted && since.elapsed() < budget {
        let began = Instant::now();
        hand_over(&mut there, &mut away);
        std::mem::swap(&mut there, &mut away);
        times_ms.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(away.away_bytes >= LEAST_BYTES, "{} bytes left", away.away_bytes);
        count += 1;
        let spent = since.elapsed().as_secs_f64() / budget.as_secs_f64();
        soaking.note(count, spent.max(count as f64 / wanted as f64));
    }
    let seconds = since.elapsed().as_secs_f64();
    assert!(count > 0, "no time for any");
    // One ends with all it has on the card; what the other has comes back then.
    let mut moved_bytes = there.moved_bytes();
    there.client.ends_well();
    away.go_on();
    moved_bytes += away.moved_bytes();
    away.client.ends_well();
    assert!(moved_bytes >= (count + 1) * LEAST_BYTES, "{moved_bytes} bytes in {count} hand-overs");
    machine.all_was_simulated();
    times_ms.sort_by(f64::total_cmp);
    let [median_ms, longest_ms] = [times_ms[times_ms.len() / 2], times_ms[times_ms.len() - 1]];
    println!(
        "{count} hand-overs in {seconds:.1} s; one takes {median_ms:.0} ms, the longest {longest_ms:.0} ms"
    );
    if let Some(path) = std::env::var_os("DIVVY_RESULT") {
        // A wrong byte ends its client, and this test: there is no other number of them in a result.
        let result = serde_json::json!({
            "benchmark": "soak handovers", "version": env!("CARGO_PKG_VERSION"),
            "wanted": wanted, "handovers": count, "seconds": seconds, "tenants": 2,
            "moved_bytes_each_way": moved_bytes, "least_bytes_each_way": LEAST_BYTES,
            "compared_bytes": count * LEAST_BYTES, "wrong_bytes": 0,
            "median_ms": median_ms, "longest_ms": longest_ms,
        });
        std::fs::write(path, format!("{result:#}\n")).expect("DIVVY_RESULT can be written");
    }
}

/// Calls of the driver while memory leaves, in their order.
const LEAVING: [&str; 13] = [
    "cuCtxPushCurrent_v2",
    "cuEventCreate",
    "cuCtxRecordEvent",
    "cuEventQuery",
    "cuEventDestroy_v2",
    "cuStreamCreate",
    "cuMemHostRegister_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuMemUnmap",
    "cuMemRelease",
    "cuStreamDestroy_v2",
];
/// Those while it comes back.
const COMING_BACK: [&str; 9] = [
    "cuStreamCreate",
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemcpyHtoDAsync_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamDestroy_v2",
    "cuMemHostUnregister",
];

/// Tenants of a card that has room for the memory of one: one that is killed, and one that is to have the room.
struct Pair<'m> {
    machine: &'m Machine,
    heir: Side<'m>,
    victims: u32,
}

/// Further blocks of each.
const MORE: u32 = 2;
const BLOCK_BYTES: u64 = 2 * MIB;

impl<'m> Pair<'m> {
    fn new(machine: &'m Machine) -> Self {
        let mut heir = Side::new(machine, "heir", BLOCK_BYTES, MORE);
        heir.go_on();
        heir.leave();
        Self { machine, heir, victims: 0 }
    }

    fn victim(&mut self) -> Side<'m> {
        self.victims += 1;
        let mut victim =
            Side::new(self.machine, &format!("victim-{}", self.victims), BLOCK_BYTES, MORE);
        victim.go_on();
        victim
    }

    /// The victim has died, so all it had is free, and the heir finds what it had.
    fn inherits(&mut self, victim: Side<'_>) {
        let status = victim.client.end_within(DEADLINE);
        assert_eq!(status.and_then(|status| status.signal()), Some(9), "{status:?}");
        let held = victim.tenant.shown()["held_bytes"].as_u64();
        assert!(matches!(held, None | Some(0)), "the dead holds {held:?}");
        self.heir.go_on();
        self.heir.leave();
    }
}

/// The machine of a pair: two contexts, and 100 MiB for one of them.
fn narrow() -> Machine {
    Machine::new().with("SIMGPU_MEMORY", "1150MiB").with("DIVVY_LOG", "error")
}

/// Kills a victim before and after the first and the second call of an entry point.
fn killed_at(entry: &str, is_leaving: bool) {
    let machine = narrow();
    let mut pair = Pair::new(&machine);
    let mut deaths = 0;
    for moment in ["1=kill-before", "1=kill-after", "2=kill-before", "2=kill-after"] {
        let mut victim = pair.victim();
        if !is_leaving {
            victim.leave();
        }
        victim.fails(&format!("{entry}@{moment}"));
        if is_leaving {
            let _ = victim.tenant.wish("freeze", 2);
        } else {
            victim.begin();
            // Nothing is said before the memory is back; the calls after that are few.
            let _ = victim.client.line_within(Duration::from_secs(2));
        }
        // Some are made once.
        let log = std::fs::read_to_string(machine.home().join("sim/faults.log"));
        if log.unwrap_or_default().lines().count() == deaths {
            assert!(moment.starts_with('2'), "{entry} is not called");
            victim.client.kill();
        } else {
            deaths += 1;
        }
        pair.inherits(victim);
    }
    assert!(deaths >= 2, "{entry}: {deaths}");
    pair.heir.go_on();
    pair.heir.client.ends_well();
    machine.all_was_simulated();
}

/// Runs `act` for each of `all`, two at once.
fn by_two(all: &[&'static str], act: impl Fn(&str) + Sync) {
    let left = Mutex::new(all.to_vec());
    let next = || left.lock().expect("nobody panics with it").pop();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| std::iter::from_fn(next).for_each(&act));
        }
    });
}

#[test]
fn killed_at_each_step_of_leaving_makes_room() {
    by_two(&LEAVING, |entry| killed_at(entry, true));
}

#[test]
fn killed_at_each_step_of_coming_back_makes_room() {
    by_two(&COMING_BACK, |entry| killed_at(entry, false));
}

#[test]
fn killed_at_any_moment_makes_room() {
    let machine = narrow();
    let mut pair = Pair::new(&machine);
    // What leaves takes some 40 ms here, and comes back in some 30.
    for moment in 0..24_u64 {
        let mut victim = pair.victim();
        if moment % 2 == 1 {
            victim.leave();
        }
        let pause = Duration::from_millis(moment * 3);
        std::thread::scope(|scope| {
            let tenant = &victim.tenant;
            if moment % 2 == 0 {
                scope.spawn(move || tenant.wish("freeze", 2));
            } else {
                victim.client.go();
            }
            std::thread::sleep(pause);
            victim.client.kill();
        });
        pair.inherits(victim);
    }
    pair.heir.go_on();
    pair.heir.client.ends_well();
    machine.all_was_simulated();
}
