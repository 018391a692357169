//! The lane under two and three threads, by a scheduler that tries interleavings: the shipped code over
//! shuttle's atomics, some tens of thousands of schedules each, by chance and by priorities that change.
//!
//! Run by `RUSTFLAGS="--cfg shuttle" cargo test -p divvy-policy --release --test lane_model`.
//!
//! The driver is a table of events that says what must never be asked of it: two threads at the events
//! of one lane at once, an event of a context that is gone, an event behind a whole context while a
//! stream captures. A schedule in which a thread never ends is cut off and fails.
//!
//! Does not model weak memory: shuttle's atomics are sequentially consistent.
#![cfg(shuttle)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Ghost, Ordering::SeqCst};

use divvy_abi::config::{GateLine, gate};
use divvy_policy::cost::{Costs, WorkKind, key};
use divvy_policy::gate::{
    Access, Behind, CHUNK_NS, Captures, EVENTS, Lane, Marks, Paid, Published, Terms, Time,
};
use divvy_policy::pace::{Cap, CapState, Clock};
use shuttle::rand::Rng;
use shuttle::sync::atomic::AtomicU64;
use shuttle::{Config, MaxSteps, Runner, thread};

const SCHEDULES: usize = 20_000;
const US: u64 = 1_000;

/// Runs a model under both schedulers.
fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    let mut config = Config::new();
    // A drain that nobody settles is looked at for 50 ms of the model's time: 25,000 steps at most were seen.
    config.max_steps = MaxSteps::FailAfter(60_000);
    config.stack_size = 1 << 18;
    let random = shuttle::scheduler::RandomScheduler::new_from_seed(7, SCHEDULES);
    Runner::new(random, config.clone()).run(model.clone());
    let priorities = shuttle::scheduler::PctScheduler::new_from_seed(11, 3, SCHEDULES);
    Runner::new(priorities, config).run(model);
}

/// One context, the driver below it, and what the checker knows.
struct Context {
    lane: Lane,
    costs: Costs,
    captures: Captures,
    now_ns: AtomicU64,
    paid_at: AtomicU64,
    share: AtomicU64,
    closed: AtomicU64,
    saves: AtomicU64,
    used_ns: Ghost,
    launches: Ghost,
    /// Threads that are at the lane's events.
    at_events: Ghost,
    /// The context that has the lane, and those that are gone.
    context: AtomicU64,
    gone: AtomicU64,
    /// The context each event is of, one more than its number, and the thread that recorded it last.
    events: [Ghost; EVENTS as usize],
    recorders: [Ghost; EVENTS as usize],
    /// 1 for each that was recorded behind the whole context last.
    wholes: [Ghost; EVENTS as usize],
    capturing: Ghost,
}

impl Context {
    fn new() -> Self {
        Self {
            lane: Lane::new(),
            costs: Costs::new(),
            captures: Captures::new(),
            now_ns: AtomicU64::new(77_000_000_000),
            paid_at: AtomicU64::new(0),
            share: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            used_ns: Ghost::new(0),
            launches: Ghost::new(0),
            at_events: Ghost::new(0),
            context: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            events: core::array::from_fn(|_| Ghost::new(0)),
            recorders: core::array::from_fn(|_| Ghost::new(0)),
            wholes: core::array::from_fn(|_| Ghost::new(0)),
            capturing: Ghost::new(0),
        }
    }
}

impl Clock for Context {
    fn paid_at_ns(&self) -> u64 {
        self.paid_at.load(SeqCst)
    }
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64> {
        self.paid_at.compare_exchange(old, new, SeqCst, SeqCst).map(|_| ())
    }
    fn share_ppm(&self) -> u64 {
        self.share.load(SeqCst)
    }
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64> {
        self.share.compare_exchange(old, new, SeqCst, SeqCst).map(|_| ())
    }
    fn closed_until_ns(&self) -> u64 {
        self.closed.load(SeqCst)
    }
    fn set_closed_until_ns(&self, until_ns: u64) {
        self.closed.store(until_ns, SeqCst);
    }
    fn saves(&self) -> u64 {
        self.saves.load(SeqCst)
    }
    fn set_saves(&self, word: u64) {
        self.saves.store(word, SeqCst);
    }
}

/// A thread of the program, with the context it found.
struct Thread {
    of: Arc<Context>,
    number: usize,
    life: u64,
    context: u64,
}

impl Thread {
    fn of(context: &Arc<Context>, number: usize) -> Self {
        let life = context.lane.life();
        Self { of: Arc::clone(context), number, life, context: context.context.load(SeqCst) }
    }

    /// One call about an event: nobody else is at one, and its context lives.
    fn at_event(&self, event: u32, make: bool) {
        assert_eq!(self.of.at_events.fetch_add(1, SeqCst), 0, "two threads at the events");
        thread::yield_now();
        assert!(self.of.gone.load(SeqCst) <= self.context, "an event of a context that is gone");
        let place = &self.of.events[event as usize];
        if make {
            self.of.recorders[event as usize].store(self.number as u64, SeqCst);
            let _ = place.compare_exchange(0, self.context + 1, SeqCst, SeqCst);
        }
        let owner = place.load(SeqCst);
        assert!(owner == self.context + 1, "event {event} of {owner}, used for {}", self.context);
        self.of.at_events.fetch_sub(1, SeqCst);
    }

    fn launch(&self, key: u64) {
        let lane = &self.of.lane;
        self.of.launches.fetch_add(1, SeqCst);
        match lane.take(&self.of.costs, key, self.stripe()) {
            Paid::Not => {}
            Paid::First => return self.count_launches(1),
            Paid::Next => return,
        }
        let ticket = lane.admit(self, &self.of.costs, key);
        // The driver has it, or refuses it because the context is gone.
        thread::yield_now();
        let taken = self.of.gone.load(SeqCst) <= self.context;
        if !taken {
            self.of.launches.fetch_sub(1, SeqCst);
        }
        lane.launched(self, ticket, taken);
    }
}

impl Time for Thread {
    fn now_ns(&self) -> u64 {
        self.of.now_ns.fetch_add(3 * US, SeqCst)
    }
    fn sleep_until(&self, deadline_ns: u64) {
        self.of.now_ns.fetch_max(deadline_ns, SeqCst);
        thread::yield_now();
    }
    fn spin_until(&self, deadline_ns: u64) {
        self.sleep_until(deadline_ns);
    }
    fn spin(&self) {
        thread::yield_now();
    }
}

impl Access for Thread {
    fn is_alone_since(&self, _: u64) -> bool {
        true
    }
    fn terms(&self) -> Terms {
        Terms { share_ppm: 500_000, paused: false }
    }
    fn line(&self) -> GateLine {
        GateLine { gate: gate::TIMED, lease_ns: u64::MAX, active: 1, ..GateLine::default() }
    }
    fn wait(&self, _: u32, deadline_ns: u64) {
        self.sleep_until(deadline_ns);
    }
    fn ask_device(&self, _: u64, _: u64) -> u64 {
        0
    }
    fn chunk_ns(&self, _: u64) -> u64 {
        CHUNK_NS
    }
    fn leave_device(&self) {}
}

impl Marks for Thread {
    fn life(&self) -> u64 {
        self.life
    }
    fn stripe(&self) -> usize {
        // More threads than stripes.
        self.number / 2
    }
    fn stream(&self) -> u64 {
        // No stream has the word 0.
        self.number as u64 + 1
    }
    fn record(&self, event: u32, whole: bool) -> Option<Behind> {
        if whole {
            let _undisturbed = self.of.captures.keep_out()?;
            self.at_event(event, true);
            self.of.wholes[event as usize].store(1, SeqCst);
            assert_eq!(
                self.of.capturing.load(SeqCst),
                0,
                "an event behind a context that captures"
            );
            return Some(Behind::Context);
        }
        self.at_event(event, true);
        self.of.wholes[event as usize].store(0, SeqCst);
        Some(Behind::Stream)
    }
    fn is_done(&self, event: u32) -> bool {
        self.at_event(event, false);
        // Asked of a probe's first event by the thread that marks behind its launch; of one behind the whole context,
        // which several streams' burst began with, by whoever marks first.
        let recorder = self.of.recorders[event as usize].load(SeqCst);
        let is_all = self.of.wholes[event as usize].load(SeqCst) != 0;
        let is_ours = event < EVENTS / 2 || is_all || recorder == self.number as u64;
        assert!(is_ours, "thread {} measures from what {recorder} recorded", self.number);
        shuttle::rand::thread_rng().gen_bool(0.6)
    }
    fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64> {
        self.at_event(from, false);
        self.at_event(to, false);
        // Now and then the later one does not hold its time yet.
        Some(if shuttle::rand::thread_rng().gen_range(0..8) == 0 { -50_000 } else { 1_000 })
    }
}

impl Published for Thread {
    type Clock = Context;
    fn clock(&self) -> &Context {
        &self.of
    }
    fn set_busy_until_ns(&self, _: u64) {}
    fn note_want(&self, _: u64) {}
    fn note_launch(&self, _: u64) {}
    fn add_used(&self, ns: i64) {
        self.of.used_ns.fetch_add(ns.cast_unsigned(), SeqCst);
    }
    fn count_launches(&self, launches: u64) {
        self.of.launches.fetch_sub(launches, SeqCst);
    }
    fn note_length(&self, _: u64) {}
    fn add_throttled(&self, _: u64) {}
    fn add_waited(&self, _: u64) {}
    fn count_drain_given_up(&self, _is_stuck: bool) {}
}

fn kernel(number: u64) -> u64 {
    key(WorkKind::Kernel, [0x5555_0000 + 64 * number, 1056, 256])
}

fn launches(context: &Arc<Context>, threads: usize, each: u64) -> Vec<thread::JoinHandle<()>> {
    let start = |number| {
        let thread = Thread::of(context, number);
        thread::spawn(move || (0..each).for_each(|n| thread.launch(kernel(n % 2))))
    };
    (0..threads).map(start).collect()
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// Threads at one context: one at a time at its events, every launch counted once, and when all has
/// ended every mark is settled and all that was submitted is known to have ended.
fn threads_launch(threads: usize, each: u64) {
    explore(move || {
        let context = Arc::new(Context::new());
        join(launches(&context, threads, each));
        let last = Thread::of(&context, 0);
        for _ in 0..200 {
            context.lane.settle(&last, &context.costs, &last.line());
        }
        let begun = context.lane.begin_wait(context.now_ns.load(SeqCst));
        context.lane.drained(&last, &context.costs, begun);
        assert!(!context.lane.is_claimed());
        (0..threads).for_each(|n| last.count_launches(context.lane.take_launches(n)));
        assert_eq!(context.launches.load(SeqCst), 0, "launches counted twice or never");
        let left_ns = context.lane.busy_until_ns().saturating_sub(context.now_ns.load(SeqCst));
        assert_eq!(left_ns, 0, "nothing is in flight");
    });
}

#[test]
fn two_threads_launch() {
    threads_launch(2, 4);
}

#[test]
fn three_threads_launch() {
    threads_launch(3, 3);
}

/// A context is destroyed while others launch in it, as the library does it, which waits for who has
/// the claim as long as it is `patient`; another context takes its lane.
fn destroyed_under(launching: usize, patient: bool) {
    explore(move || {
        let context = Arc::new(Context::new());
        let threads = launches(&context, launching, 3);
        let destroyer = {
            let context = Arc::clone(&context);
            thread::spawn(move || {
                let life = context.lane.close();
                while patient && context.lane.is_claimed() {
                    thread::yield_now();
                }
                // Without patience one call may meet the end; the driver has locks for that.
                context.gone.store(u64::from(patient), SeqCst);
                if !context.lane.end_life(life) {
                    while context.lane.life() == life {
                        thread::yield_now();
                    }
                }
                context.events.iter().for_each(|event| event.store(0, SeqCst));
                context.context.store(1, SeqCst);
                join(launches(&context, 1, 2));
            })
        };
        join(threads);
        destroyer.join().expect("it ends");
        assert_eq!(context.lane.life(), 1);
        assert!(!context.lane.is_claimed());
    });
}

#[test]
fn a_context_is_destroyed_under_one_thread() {
    destroyed_under(1, true);
}

#[test]
fn a_context_is_destroyed_under_two_threads() {
    destroyed_under(2, true);
}

#[test]
fn a_context_is_destroyed_under_a_claim() {
    destroyed_under(2, false);
}

/// The driver refuses to destroy it for one of two threads that try: its marks go on.
#[test]
fn a_context_that_is_not_destroyed_goes_on() {
    explore(|| {
        let context = Arc::new(Context::new());
        let mut threads = launches(&context, 1, 3);
        for _ in 0..2 {
            let context = Arc::clone(&context);
            threads.push(thread::spawn(move || {
                let life = context.lane.close();
                thread::yield_now();
                context.lane.reopen(life);
            }));
        }
        join(threads);
        join(launches(&context, 1, 2));
        assert!(!context.lane.is_claimed() && context.lane.life() == 0);
    });
}

/// A capture begins while threads mark behind the whole context: it meets no such mark.
#[test]
fn captures_begin_beside_marks() {
    explore(|| {
        let context = Arc::new(Context::new());
        let mut threads = launches(&context, 2, 3);
        let captured = Arc::clone(&context);
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                captured.captures.begin();
                while !captured.captures.quiet() {
                    thread::yield_now();
                }
                captured.capturing.store(1, SeqCst);
                captured.captures.begun(true);
                thread::yield_now();
                captured.capturing.store(0, SeqCst);
                captured.captures.end(1);
            }
        }));
        join(threads);
        assert!(!context.captures.any());
    });
}

/// Threads that charge one cap at once: nothing is lost, whoever is first.
#[test]
fn charges_of_two_threads_add_up() {
    explore(|| {
        let context = Arc::new(Context::new());
        let cap = Cap { share_ppm: 250_000, quantum_ns: 4_000_000, unsettled_since_ns: u64::MAX };
        let now_ns = context.now_ns.load(SeqCst);
        assert_eq!(cap.admit(&*context, now_ns), CapState::Open);
        cap.charge(&*context, now_ns, 4_000_000);
        let begun_ns = context.paid_at_ns();
        let charge = |amounts: [i64; 3]| {
            let context = Arc::clone(&context);
            thread::spawn(move || {
                amounts.iter().for_each(|ns| cap.charge(&*context, now_ns, *ns));
            })
        };
        join(vec![charge([700_000, 90_000, -40_000]), charge([300_000, -10_000, 5_000])]);
        assert_eq!(context.paid_at_ns() - begun_ns, 4 * 1_045_000);
    });
}
