//! The ledger's two properties over the interleavings of two or three processes: all of them, or all
//! with so many preemptions as a model says.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test -p divvy-policy --release --test ledger_model`.
//!
//! Each loom thread is one process with a slot of its own; the ledger's code is the shipped one, over
//! loom's atomics. Ghost words beside them hold what is really held; they are plain, since loom
//! switches threads only at its own operations, and each change of a ghost belongs to the operation
//! just before it. Checked after every single operation:
//!
//! 1. the ghost sum never exceeds the limit;
//! 2. a refusal is preceded, within the call, by an instant at which `held + n` exceeded the limit.
//!
//! All operations of the ledger are SeqCst, and loom models SeqCst accesses only as acquire-release.
//! The model therefore reads by `fetch_add(0)`, which sees the newest value, as a SeqCst load among
//! nothing but SeqCst operations does, and writes by read-modify-write only, which loom keeps in one
//! order.
//!
//! Does not: model the admission lock's own implementation (page's tests do), nor wrap the 16-bit
//! change counter.
#![cfg(loom)]

use std::sync::atomic::{AtomicU64 as Ghost, Ordering::Relaxed};

use divvy_policy::ledger::{self, Admission, MemoryRefusal, Slots};
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

const PROCESSES: usize = 3;

/// One device of a tenant, and what the checker knows about it.
struct World {
    limit: u64,
    slots: usize,
    /// Whether slot 0's process dies in this model.
    mortal: bool,
    held: [AtomicU64; PROCESSES],
    asking: [AtomicU64; PROCESSES],
    admission: Mutex<()>,
    /// The slots' locks, as far as reapers take them.
    locks: [Mutex<()>; PROCESSES],
    /// Set by a process as its last act; stands for the kernel dropping its lock.
    dead: [AtomicU64; PROCESSES],
    truth: [Ghost; PROCESSES],
    /// Largest true sum during each process's running call.
    worst: [Ghost; PROCESSES],
    violations: Ghost,
}

impl World {
    fn new(slots: usize, limit: u64) -> Arc<Self> {
        Arc::new(Self::immortal(slots, limit))
    }

    fn immortal(slots: usize, limit: u64) -> Self {
        let zeros = || core::array::from_fn(|_| AtomicU64::new(0));
        let ghosts = || core::array::from_fn(|_| Ghost::new(0));
        Self {
            limit,
            slots,
            mortal: false,
            held: zeros(),
            asking: zeros(),
            admission: Mutex::new(()),
            locks: core::array::from_fn(|_| Mutex::new(())),
            dead: zeros(),
            truth: ghosts(),
            worst: ghosts(),
            violations: Ghost::new(0),
        }
    }

    /// Reads the ghosts after one of them has changed.
    fn look(&self) {
        let sum: u64 = self.truth.iter().map(|g| g.load(Relaxed)).sum();
        if sum > self.limit {
            self.violations.fetch_add(1, Relaxed);
        }
        for worst in &self.worst {
            worst.fetch_max(sum, Relaxed);
        }
    }

    /// One request of `me`, as page makes it: ask, see whether it is over, and under the lock admit.
    fn request(&self, me: usize, bytes: u64) -> Result<u64, MemoryRefusal> {
        let start: u64 = self.truth.iter().map(|g| g.load(Relaxed)).sum();
        self.worst[me].store(start, Relaxed);
        let outcome = match ledger::ask(self, me, bytes, self.limit) {
            Some(total_bytes) => Ok(total_bytes),
            None => {
                self.reap(me);
                match ledger::over(self, bytes, self.limit) {
                    Some(held_bytes) => Err(MemoryRefusal::OverLimit { held_bytes }),
                    None => self.admit(me, bytes),
                }
            }
        };
        if let Err(MemoryRefusal::OverLimit { .. }) = outcome {
            let worst = self.worst[me].load(Relaxed);
            assert!(worst + bytes > self.limit, "refused at {worst} + {bytes}");
        }
        assert_eq!(self.violations.load(Relaxed), 0, "the limit was exceeded");
        outcome
    }

    /// Clears the slots of the dead; reapers exclude each other by the slot's lock.
    fn reap(&self, me: usize) {
        // Where nobody dies, looking for the dead only adds interleavings.
        let mortals = if self.mortal { self.slots } else { 0 };
        for slot in (0..mortals).filter(|slot| *slot != me) {
            if self.dead[slot].fetch_add(0, SeqCst) == 1 {
                let _lock = self.locks[slot].lock().unwrap();
                ledger::clear(self, slot);
            }
        }
    }

    fn admit(&self, me: usize, bytes: u64) -> Result<u64, MemoryRefusal> {
        let guard = self.admission.lock().unwrap();
        let mut slow = Slow { world: self, me, pauses: 0, _guard: guard };
        ledger::admit(self, me, bytes, self.limit, &mut slow)
    }
}

impl Slots for World {
    fn high(&self) -> usize {
        self.slots
    }
    fn asking(&self, slot: usize) -> u64 {
        self.asking[slot].fetch_add(0, SeqCst)
    }
    fn held_word(&self, slot: usize) -> u64 {
        self.held[slot].fetch_add(0, SeqCst)
    }
    fn add_asking(&self, slot: usize, delta: u64) {
        self.asking[slot].fetch_add(delta, SeqCst);
    }
    fn add_held_word(&self, slot: usize, delta: u64) {
        let old = self.held[slot].fetch_add(delta, SeqCst);
        self.truth[slot].store(ledger::held_bytes(old.wrapping_add(delta)), Relaxed);
        self.look();
    }
    fn replace_held_word(&self, slot: usize, old: u64, new: u64) -> Result<(), u64> {
        self.held[slot].compare_exchange(old, new, SeqCst, SeqCst)?;
        self.truth[slot].store(ledger::held_bytes(new), Relaxed);
        self.look();
        Ok(())
    }
}

/// The world of the slow path: who holds the admission lock, and for how long it will look.
struct Slow<'a> {
    world: &'a World,
    me: usize,
    pauses: u32,
    _guard: MutexGuard<'a, ()>,
}

impl Admission for Slow<'_> {
    fn reap(&mut self) {
        self.world.reap(self.me);
    }
    fn pause(&mut self) -> bool {
        self.pauses += 1;
        thread::yield_now();
        self.pauses < 3
    }
}

fn check(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.max_branches = 20_000;
    model.check(body);
}

/// Two that ask without waiting, every interleaving there is: never both.
#[test]
fn two_ask_without_waiting() {
    check(None, || {
        let world = World::new(2, 10);
        let other = Arc::clone(&world);
        let a = thread::spawn(move || ledger::ask(&*other, 0, 6, 10));
        let b = ledger::ask(&*world, 1, 6, 10);
        let a = a.join().unwrap();
        assert!(a.is_none() || b.is_none(), "{a:?} {b:?}");
        assert_eq!(world.violations.load(Relaxed), 0);
    });
}

/// Three that ask without waiting: never more than fits.
#[test]
fn three_ask_without_waiting() {
    check(Some(4), || {
        let world = World::new(3, 10);
        let spawn = |me, bytes| {
            let world = Arc::clone(&world);
            thread::spawn(move || ledger::ask(&*world, me, bytes, 10))
        };
        let (a, b) = (spawn(0, 4), spawn(1, 5));
        ledger::ask(&*world, 2, 3, 10);
        a.join().unwrap();
        b.join().unwrap();
        assert_eq!(world.violations.load(Relaxed), 0);
    });
}

/// Two processes ask for more than fits together: never both, and whoever is refused was refused
/// for a reason.
#[test]
fn two_ask_for_the_last_bytes() {
    check(Some(6), || {
        let world = World::new(2, 10);
        let other = Arc::clone(&world);
        let a = thread::spawn(move || other.request(0, 6));
        let b = world.request(1, 6);
        let a = a.join().unwrap();
        let granted = [a, b].iter().filter(|o| o.is_ok()).count();
        assert!(granted <= 1, "{a:?} {b:?}");
    });
}

/// Two that fit together are never refused, however they meet.
#[test]
fn two_that_fit_are_not_refused() {
    check(None, || {
        let world = World::new(2, 10);
        let other = Arc::clone(&world);
        let a = thread::spawn(move || other.request(0, 5));
        let b = world.request(1, 5);
        let a = a.join().unwrap();
        for outcome in [a, b] {
            assert!(!matches!(outcome, Err(MemoryRefusal::OverLimit { .. })), "{a:?} {b:?}");
        }
    });
}

/// One gives back while the other asks: a refusal must rest on an instant, not on a torn sum.
#[test]
fn giving_back_while_another_asks() {
    check(None, || {
        let world = World::new(2, 10);
        ledger::hold(&*world, 0, 6);
        let other = Arc::clone(&world);
        let a = thread::spawn(move || ledger::give_back(&*other, 0, 6));
        let _ = world.request(1, 6);
        a.join().unwrap();
        assert!(world.request(1, 1).is_ok());
    });
}

/// Bytes that wander between two processes while a third sums up are seen twice by a plain sum, and
/// twice in the same way by two of them; a refusal must not rest on that.
#[test]
fn bytes_that_wander_are_not_counted_twice() {
    check(None, || {
        let world = World::new(3, 10);
        ledger::hold(&*world, 0, 6);
        let other = Arc::clone(&world);
        let wanderer = thread::spawn(move || {
            for (from, to) in [(0, 1), (1, 0), (0, 1)] {
                ledger::give_back(&*other, from, 6);
                ledger::hold(&*other, to, 6);
            }
        });
        let outcome = world.admit(2, 4);
        assert!(!matches!(outcome, Err(MemoryRefusal::OverLimit { .. })), "{outcome:?}");
        wanderer.join().unwrap();
    });
}

/// Two threads of one process share its slot; another process asks too.
#[test]
fn two_threads_of_one_process() {
    check(Some(3), || {
        let world = World::new(2, 10);
        let (first, second) = (Arc::clone(&world), Arc::clone(&world));
        let a = thread::spawn(move || {
            if first.request(0, 4).is_ok() {
                ledger::give_back(&*first, 0, 4);
            }
        });
        let b = thread::spawn(move || second.request(0, 4));
        let _ = world.request(1, 4);
        a.join().unwrap();
        let _ = b.join().unwrap();
    });
}

/// Two threads give back more than their process holds: nothing goes below zero.
#[test]
fn giving_back_twice_stops_at_zero() {
    check(None, || {
        let world = World::new(1, 10);
        ledger::hold(&*world, 0, 6);
        let other = Arc::clone(&world);
        let a = thread::spawn(move || ledger::give_back(&*other, 0, 6));
        ledger::give_back(&*world, 0, 6);
        a.join().unwrap();
        assert_eq!(ledger::used_bytes(&*world), 0);
    });
}

/// Three at once.
#[test]
fn three_ask_at_once() {
    check(Some(3), || {
        let world = World::new(3, 10);
        let spawn = |me, bytes| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.request(me, bytes))
        };
        let (a, b) = (spawn(0, 6), spawn(1, 6));
        let _ = world.request(2, 4);
        let _ = a.join().unwrap();
        let _ = b.join().unwrap();
    });
}

/// One dies anywhere inside a request; another reaps it and gets what it held.
#[test]
fn one_dies_at_every_step() {
    for done in 0..4 {
        check(None, move || {
            let world = Arc::new(World { mortal: true, ..World::immortal(2, 10) });
            ledger::hold(&*world, 0, 2);
            let other = Arc::clone(&world);
            let a = thread::spawn(move || {
                // The steps of a granted ask, cut off after `steps` of them.
                let steps: [&dyn Fn(); 3] =
                    [&|| other.add_asking(0, 6), &|| ledger::hold(&*other, 0, 6), &|| {
                        other.add_asking(0, 6_u64.wrapping_neg())
                    }];
                steps.iter().take(done).for_each(|step| step());
                other.dead[0].swap(1, SeqCst);
            });
            let first = world.request(1, 9);
            a.join().unwrap();
            let second = world.request(1, 1);
            assert!(second.is_ok(), "died after {done}: {first:?}, {second:?}");
        });
    }
}
