//! A tenant's turns under three processes at once, by a scheduler that tries interleavings: the shipped code over
//! shuttle's atomics, some tens of thousands of schedules, by chance and by priorities that change.
//!
//! Run by `RUSTFLAGS="--cfg shuttle" cargo test -p divvy-policy --release --test inside_model`.
//!
//! Time stands still while anybody has something to do, so that no lease ends: whoever has the turn has it until it
//! hands it on. Then no two may have it at once, and each that asks must get it. A schedule in which a process never does is cut off and fails.
//!
//! Does not model weak memory: shuttle's atomics are sequentially consistent.
#![cfg(shuttle)]

mod lines;

use std::sync::atomic::{AtomicU64 as Ghost, Ordering::SeqCst};

use divvy_abi::config::GateLine;
use divvy_policy::gate::{Had, Inside, Patience, Words};
use shuttle::{Config, MaxSteps, Runner, thread};

const SCHEDULES: usize = 10_000;
const NOW_NS: u64 = 1_000_000_000_000;
const MS: u64 = 1_000_000;
/// More than a turn.
const USED_NS: i64 = 11_000_000;
const TURNS: usize = 2;

/// What the checker knows.
#[derive(Debug)]
struct Checked {
    /// Who has the turn; 0 for nobody.
    holder: Ghost,
    now_ns: Ghost,
    /// Those that have not ended, and those of them that were refused at this time, by a bit of their slot.
    alive: Ghost,
    refused: Ghost,
}

/// Nobody owns the tenant, and a process that waits asks again.
impl lines::Owner for Checked {
    fn gate_line(&self, _: usize) -> GateLine {
        GateLine::default()
    }
    fn wait(&self, _: usize, _: u32, _: u64) {}
    fn wait_for_turn(&self, _: usize, _: &dyn Fn() -> bool, _: u64) {}
}

type One = lines::One<Checked>;

/// Whether it may go. Once all that are left were refused, time goes on.
fn asks(one: One) -> bool {
    one.0.beside.refused.fetch_and(!(1 << one.1), SeqCst);
    let now_ns = one.0.beside.now_ns.load(SeqCst);
    let inside = Inside::of(one, true, || now_ns).expect("there are others");
    if inside.ask(now_ns, Had::default(), &mut Patience::default()).is_ok() {
        return true;
    }
    let refused = one.0.beside.refused.fetch_or(1 << one.1, SeqCst) | 1 << one.1;
    let alive = one.0.beside.alive.load(SeqCst);
    if refused & alive == alive {
        one.0.beside.refused.store(0, SeqCst);
        one.0.beside.now_ns.fetch_add(MS, SeqCst);
    }
    thread::yield_now();
    false
}

fn plays(one: One) {
    // Asleep until its work ends, so that a turn that lapses is not one that was left unused.
    let _sleeper = one.sleeper();
    for _ in 0..TURNS {
        while !asks(one) {}
        one.0.beside.refused.store(0, SeqCst);
        assert_eq!(one.0.beside.holder.swap(one.1 as u64, SeqCst), 0, "beside {}", one.1);
        thread::yield_now();
        one.0.beside.holder.store(0, SeqCst);
        one.add_used(USED_NS);
    }
    one.0.beside.alive.fetch_and(!(1 << one.1), SeqCst);
    one.0.beside.refused.store(0, SeqCst);
    // Nobody is kept waiting by one that has ended: its lease would end if time went on.
    asks(one);
    one.own(divvy_abi::usage::gate::LEASE_NS).store(0, SeqCst);
}

fn explore() {
    let model = move || {
        let (holder, refused) = (Ghost::new(0), Ghost::new(0));
        let (now_ns, alive) = (Ghost::new(NOW_NS), Ghost::new(0b1110));
        let table = lines::Table::new(3, Checked { holder, now_ns, alive, refused });
        let all = (1..=3).map(|slot| thread::spawn(move || plays(lines::One(table, slot))));
        all.collect::<Vec<_>>().into_iter().for_each(|one| one.join().expect("no panic"));
    };
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(100_000);
    config.stack_size = 1 << 18;
    let random = shuttle::scheduler::RandomScheduler::new_from_seed(5, SCHEDULES);
    Runner::new(random, config.clone()).run(model);
    let priorities = shuttle::scheduler::PctScheduler::new_from_seed(13, 3, SCHEDULES);
    Runner::new(priorities, config).run(model);
}

#[test]
fn one_has_the_turn_at_a_time_and_each_gets_it() {
    explore();
}
