//! What two well-known reviews of a limiter asked for (HAMi-core pull requests 163 and 165), each as
//! a named test.

use crate::harness::{GIB, Machine, Running, best_of_three, finish, scenarios};
use crate::life::wait_for;

scenarios! { "hot", 2 * GIB;
    many_live_blocks,
}

#[test]
fn snapshots_are_consistent_under_concurrent_updates() {
    let machine = Machine::new().limited(4 * GIB);
    let context = machine.plays("hot", "context_bytes").out.trim().to_owned();
    let mut movers: Vec<Running> =
        (0..2).map(|_| Running::start(&mut machine.scenario("hot", "mover"))).collect();
    wait_for(&machine, 2 * (64 << 20) + 2 * context.parse::<u64>().expect("a number of bytes"));
    let finished = finish(machine.scenario("hot", "reader").env("CONTEXT_BYTES", &context));
    for mover in &mut movers {
        assert!(!mover.ended(), "a mover ended by itself");
        mover.kill();
    }
    assert_eq!(finished.code(), Some(0), "{finished}");
}

/// The longest of many refusals in each of eight processes at once, in milliseconds, whose tenants these are.
fn longest_refusal_ms(tenants: [&Machine; 8]) -> f64 {
    let start =
        |tenant: &Machine| Running::start(&mut tenant.scenario("hot", "refusals_do_not_wait"));
    let ms = tenants.map(start).map(|one| {
        let finished = one.finish();
        assert_eq!(finished.code(), Some(0), "{finished}");
        finished.out.trim().parse::<f64>().expect("milliseconds")
    });
    ms.into_iter().fold(0.0, f64::max)
}

/// Eight processes are refused again and again at once: each refusal is quick, none inherits another's wait. How quick,
/// eight that have nothing in common show, on the same host.
#[test]
fn no_stale_timeouts() {
    let machine = || Machine::new().limited(8 * GIB);
    let (together, apart) = (machine(), [(); 8].map(|()| machine()));
    best_of_three("refusals", || {
        let [apart, together] = [apart.each_ref(), [&together; 8]].map(longest_refusal_ms);
        println!("{together} ms, and {apart} ms where each has a tenant of its own");
        let late =
            (together - apart >= 500.0).then(|| ("late".to_owned(), format!("{together} ms")));
        late.into_iter().collect()
    });
}

#[test]
fn no_lock_is_held_across_a_driver_call() {
    let machine = Machine::new().limited(4 * GIB);
    let mut command = machine.scenario("hot", "hangs_in_a_call");
    let mut hung = Running::start(command.env("SIMGPU_FAULTS", "cuMemAlloc_v2@1=hang"));
    wait_for(&machine, 500 << 20);
    for scenario in ["limit_is_exact", "refusal_leaves_nothing", "alloc_is_charged"] {
        machine.plays("blocks", scenario);
    }
    hung.kill();
    let _ = hung.finish();
    let mut command = machine.scenario("hot", "another_thread_goes_on");
    let finished = finish(command.env("SIMGPU_FAULTS", "cuMemAlloc_v2@1=hang"));
    assert_eq!(finished.code(), Some(0), "{finished}");
}

#[test]
fn no_lock_is_held_across_an_nvml_call() {
    let machine = Machine::new().limited(4 * GIB);
    let mut command = machine.scenario("hot", "hangs_in_a_call");
    command.env("SIMGPU_FAULTS", "nvmlDeviceGetMemoryInfo@1=hang").env("HANG_NVML", "1");
    let mut hung = Running::start(&mut command);
    wait_for(&machine, 500 << 20);
    machine.plays("answer", "nvml_total_is_the_limit");
    machine.plays("blocks", "limit_is_exact");
    hung.kill();
    let _ = hung.finish();
}

#[test]
fn exit_is_clean_and_leaves_nothing_to_wait_for() {
    let machine = Machine::new().limited(4 * GIB);
    for end in ["return", "15", "9"] {
        let _ = finish(machine.scenario("life", "ends").env("END", end));
        let next = machine.plays("life", "nothing_but_a_context");
        assert!(next.took.as_secs() < 5, "{end}: the next process took {:?}", next.took);
    }
}

#[test]
fn hot_paths_make_no_system_call() {
    let machine = || Machine::new().limited(4 * GIB).with("SIMGPU_MODE", "null");
    machine().plays("hot", "hot_calls_make_no_system_call");
    machine().plays("hot", "launches_make_no_system_call");
}
