//! Stream-ordered memory: pools are charged by what they reserve, in every variant of the calls.

use crate::harness::{GIB, Machine, Talk, scenarios};

scenarios! { "pool", 4 * GIB;
    async_alloc_is_charged_by_reserve,
    free_async_gives_back,
    plain_free_of_async_memory,
    over_the_limit_is_out_of_memory,
    own_pool_is_charged,
    destroyed_pool_gives_back,
    pools_destroyed_behind_work_stay_charged,
    pool_destroyed_before_its_block,
    kept_memory_stays_charged,
    lowered_threshold_gives_back,
    trim_gives_back,
    per_thread_variants_are_charged,
    per_thread_by_proc_address,
    host_pool_is_free,
    imported_pool_is_charged,
    slack_serves_near_the_limit,
    slack_in_pieces_is_no_room,
    idle_pools_give_way,
    capture_takes_nothing,
}

/// Workers of one program, each with threads and a pool of its own, which one limit is too little for.
#[test]
fn of_two_processes_stay_below_their_limit() {
    let limit = 2 * GIB;
    let machine = Machine::new().limited(limit);
    let mut watcher = machine.scenario("watcher", "most");
    let mut watcher = Talk::start(watcher.env_remove("LD_PRELOAD"));
    watcher.expect("watching");
    let worker = || Talk::start(&mut machine.scenario("pools", "of_a_worker"));
    let mut workers = [worker(), worker()];
    // The first would leave no room for the second's context.
    workers.iter().for_each(|worker| worker.expect("ready"));
    workers.iter_mut().for_each(Talk::go);
    workers.into_iter().for_each(Talk::ends_well);
    watcher.say("enough");
    let most: u64 = watcher.line().parse().expect("a number of bytes");
    assert!((GIB..=limit).contains(&most), "{most} of {limit}");
}

/// Pools that threads make and destroy: 1 GiB is too little for all of them at once.
mod made_and_destroyed {
    use crate::harness::{GIB, scenarios};

    scenarios! { "pools", GIB;
        of_one_thread,
        of_eight_threads,
        of_sixteen_threads,
        of_eight_threads_beside_forks,
        of_eight_threads_beside_captures,
        of_four_threads_at_one_pool,
        of_contexts_that_end,
    }
}
