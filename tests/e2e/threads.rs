//! Programs of many threads under a cap, in turns beside another tenant, and in both.
//!
//! What is judged is that they end, that every launch was made once, and that no thread of theirs, or of
//! the library's for them, met what it must not: an event of a context that is gone or a capture that was
//! invalidated. How much of the device they get is `pace`'s and the daemon's.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Finished, GIB, Machine, Running, finish, stage};
use crate::pace::usage;

const THREADS: [u32; 3] = [2, 4, 16];
/// A thread's default stream by the calls whose default it is, and by its handle; streams of their own whose threads sleep
/// until all of the context's work is done.
const STREAMS: [&str; 6] = ["own", "shared", "per_thread", "handle", "default", "asleep"];

/// Launches of each program, whatever its threads are: at 40 us on average, some tenths of a second of
/// the device's time under a cap of 30 %.
const LAUNCHES: u32 = 960;

fn machine() -> Machine {
    Machine::new().with("SIMGPU_MODE", "calibrated")
}

fn capped() -> Machine {
    machine().limited(4 * GIB).with("DIVVY_COMPUTE", "30%")
}

fn program(machine: &Machine, what: &str, threads: u32, kind: &str, count: u32) -> Command {
    let mut command = machine.scenario("threads", what);
    command.args([&threads.to_string(), kind, &count.to_string()]);
    command
}

fn ended_well(machine: &Machine, what: &str, finished: &Finished) {
    assert!(finished.code() == Some(0) && !finished.hung, "{what}\n{finished}");
    machine.all_was_simulated();
}

/// Every number of threads on every kind of stream.
fn each_way(machine: &Machine, mut run: impl FnMut(&str, Command)) {
    for threads in THREADS {
        for kind in STREAMS {
            let command = program(machine, "launches", threads, kind, LAUNCHES / threads);
            run(&format!("{threads} threads, {kind}"), command);
        }
    }
}

#[test]
fn capped_threads_end() {
    let machine = capped();
    let began = Instant::now();
    each_way(&machine, |what, mut command| {
        ended_well(&machine, what, &finish(&mut command));
        let usage = usage(&machine).gate_sum(0);
        // Where the driver's events said so, decades.
        assert!(Duration::from_nanos(usage.used_ns) < began.elapsed(), "{what}: {usage:?}");
    });
}

/// Two programs of one tenant, and two tenants that meet without a daemon.
#[test]
fn capped_threads_beside_others_end() {
    for two_tenants in [false, true] {
        let machine = capped();
        let beside = machine.tenant().with_file_name(".meet");
        std::fs::create_dir_all(beside).expect("it can be made");
        each_way(&machine, |what, mut command| {
            let mut other = program(&machine, "launches", 2, "own", LAUNCHES / 4);
            if two_tenants {
                let cache = machine.home().join("second.cache");
                other.env("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache);
            }
            let other = Running::start(&mut other);
            let finished = finish(&mut command);
            ended_well(&machine, what, &finished);
            ended_well(&machine, what, &other.finish());
        });
    }
}

/// Tenants of a daemon, without caps and with one, that take turns.
#[test]
fn threads_in_turns_end() {
    let machine = machine().native();
    let tenant = |share: &[&str], command: &Command| {
        let mut run = machine.command(stage().join("bin/divvy"));
        run.args(["run", "--no-daemon", "--memory", "2GiB"]).args(share).arg("--");
        run.arg(command.get_program()).args(command.get_args());
        Running::start(&mut run)
    };
    let mut daemon = Running::start(machine.command(stage().join("bin/divvy")).args(["daemon"]));
    each_way(&machine, |what, command| {
        let running = [tenant(&[], &command), tenant(&["--compute", "40%"], &command)];
        running.into_iter().for_each(|running| ended_well(&machine, what, &running.finish()));
    });
    daemon.kill();
    let _ = daemon.finish();
}

#[test]
fn captures_begin_while_others_launch() {
    let machine = capped();
    for threads in [2, 4] {
        let mut command = program(&machine, "captures", threads, "own", 400);
        ended_well(&machine, "captures", &finish(&mut command));
    }
}

/// The same where an event behind the whole context takes long enough for a capture to begin meanwhile.
#[test]
fn captures_wait_for_marks_under_way() {
    let machine = capped().with("SIMGPU_FAULTS", "cuCtxRecordEvent@*=delay:2ms");
    let mut command = program(&machine, "captures", 2, "own", 200);
    ended_well(&machine, "captures", &finish(&mut command));
}

#[test]
fn contexts_end_while_others_launch() {
    let machine = capped();
    for threads in [1, 3] {
        let mut command = program(&machine, "contexts_end", threads, "own", 30);
        ended_well(&machine, "contexts end", &finish(&mut command));
    }
}

/// The same where a thread is at an event for long enough for its context to end meanwhile.
#[test]
fn contexts_wait_for_threads_at_their_events() {
    let faults = "cuEventQuery@*=delay:1ms;cuEventRecord@*=delay:1ms";
    let machine = capped().with("SIMGPU_FAULTS", faults);
    let mut command = program(&machine, "contexts_end", 3, "own", 12);
    ended_well(&machine, "contexts end", &finish(&mut command));
}
