//! The gates of a process under two and three threads, by a scheduler that tries interleavings: the shipped code over
//! shuttle's atomics, some tens of thousands of schedules each, by chance and by priorities that change.
//!
//! Run by `RUSTFLAGS="--cfg shuttle" cargo test -p divvy-policy --release --test lane_model`.
//!
//! The driver is a table of events that says what must never be asked of it: two threads at the events
//! of one context at once, an event of a context that is gone, an event that another thread measures from, an event behind
//! a whole context while a stream captures. A schedule in which a thread never ends is cut off and fails.
//!
//! Does not model weak memory: shuttle's atomics are sequentially consistent. Nor contexts that end unseen, or whose
//! handles are given again: the driver tells the number of a context that was destroyed.
#![cfg(shuttle)]

mod fake;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64 as Ghost, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use divvy_abi::config::{GateLine, gate};
use divvy_abi::meet;
use divvy_abi::usage::gate as word;
use divvy_policy::cost::{WorkKind, key};
use divvy_policy::gate::{Meeting, Terms, Words};
use divvy_policy::pace::{Cap, CapState, Clock};
use fake::lines::{One, Owner, Table};
use fake::{Gates, Machine, stream, synchronise};
use shuttle::rand::Rng;
use shuttle::sync::atomic::AtomicU64;
use shuttle::{Config, MaxSteps, Runner, thread};

const SCHEDULES: usize = 20_000;
const US: u64 = 1_000;
const START_NS: u64 = 77_000_000_000;

/// Runs a model under both schedulers.
fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    let mut config = Config::new();
    // A drain that nobody settles is looked at for 50 ms of the model's time: 25,000 steps at most were seen.
    config.max_steps = MaxSteps::FailAfter(60_000);
    config.stack_size = 1 << 20;
    let random = shuttle::scheduler::RandomScheduler::new_from_seed(7, SCHEDULES);
    Runner::new(random, config.clone()).run(model.clone());
    let priorities = shuttle::scheduler::PctScheduler::new_from_seed(11, 3, SCHEDULES);
    Runner::new(priorities, config).run(model);
}

shuttle::thread_local! {
    /// The number of the calling thread, from 0, and its context's.
    static ME: Cell<(usize, u64)> = Cell::new((0, 1));
}

/// What the checker knows of an event.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// The context that it is of.
    context: u64,
    /// The thread whose launch is measured from it, until that has ended.
    measures: Option<usize>,
}

/// One context at a time, the driver below it, and what the checker knows.
#[derive(Debug)]
struct Context {
    now_ns: AtomicU64,
    /// How much later than they are to sleepers wake.
    late_ns: Ghost,
    /// The newest context that was destroyed; and the newest whose events must not be used.
    destroyed: AtomicU64,
    gone: AtomicU64,
    /// Threads that are at the events of the first and the second context.
    at_events: [Ghost; 2],
    events: Mutex<Vec<Event>>,
    /// Events that were recorded.
    records: Ghost,
    capturing: Ghost,
    meeting: Meeting,
}

impl Context {
    fn new() -> Self {
        Self {
            now_ns: AtomicU64::new(START_NS),
            late_ns: Ghost::new(0),
            destroyed: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            at_events: [Ghost::new(0), Ghost::new(0)],
            events: Mutex::default(),
            records: Ghost::new(0),
            capturing: Ghost::new(0),
            meeting: Meeting::new(),
        }
    }

    /// One call about an event: nobody else is at one, and its context lives.
    fn at_event(&self, event: u64, change: impl FnOnce(&mut Event)) {
        let context = self.events.lock().expect("no panic")[event as usize - 1].context;
        let at_events = &self.at_events[context as usize - 1];
        assert_eq!(at_events.fetch_add(1, SeqCst), 0, "two threads at the events");
        thread::yield_now();
        assert!(self.gone.load(SeqCst) < context, "an event of a context that is gone");
        change(&mut self.events.lock().expect("no panic")[event as usize - 1]);
        at_events.fetch_sub(1, SeqCst);
    }
}

impl Owner for Context {
    fn gate_line(&self, _: usize) -> GateLine {
        GateLine { gate: gate::TIMED, lease_ns: u64::MAX, active: 1, ..GateLine::default() }
    }
    fn wait(&self, slot: usize, _: u32, deadline_ns: u64) {
        self.sleep_until(slot, deadline_ns);
    }
    fn wait_for_turn(&self, _: usize, _: &dyn Fn() -> bool, _: u64) {
        unreachable!("the process is alone in its tenant");
    }
}

impl Machine for Context {
    fn now_ns(&self, _: usize) -> u64 {
        self.now_ns.fetch_add(3 * US, SeqCst)
    }
    fn sleep_until(&self, _: usize, deadline_ns: u64) {
        self.now_ns.fetch_max(deadline_ns + self.late_ns.load(SeqCst), SeqCst);
        thread::yield_now();
    }
    fn spin(&self, _: usize) {
        self.now_ns.fetch_add(20 * US, SeqCst);
        thread::yield_now();
    }
    fn context(&self, _: usize) -> u64 {
        ME.with(|me| me.get().1)
    }
    fn lives(&self, _: usize, context: u64) -> bool {
        self.destroyed.load(SeqCst) < context
    }
    fn thread(&self, _: usize) -> usize {
        ME.with(|me| me.get().0)
    }
    fn create_event(&self, slot: usize) -> u64 {
        let context = self.context(slot);
        if !self.lives(slot, context) {
            return 0;
        }
        let mut events = self.events.lock().expect("no panic");
        events.push(Event { context, measures: None });
        events.len() as u64
    }
    fn record(&self, slot: usize, event: u64, stream: Option<u64>) -> bool {
        let me = self.thread(slot);
        self.at_event(event, |event| {
            // A probe is measured from its first event when its launch has gone. A burst of several streams may be
            // measured by another thread than began it.
            let by = event.measures.filter(|by| *by != me);
            assert_eq!(by, None, "thread {me} records what another measures from");
            event.measures = stream.map(|_| me);
        });
        let beside = self.capturing.load(SeqCst);
        assert!(stream.is_some() || beside == 0, "an event behind a context that captures");
        self.records.fetch_add(1, SeqCst);
        true
    }
    fn is_done(&self, _: usize, event: u64) -> bool {
        self.at_event(event, |_| {});
        shuttle::rand::thread_rng().gen_bool(0.6)
    }
    fn elapsed_ns(&self, _: usize, from: u64, to: u64) -> i64 {
        self.at_event(from, |_| {});
        self.at_event(to, |_| {});
        // Now and then the later one does not hold its time yet.
        if shuttle::rand::thread_rng().gen_range(0..8) == 0 { -50_000 } else { 1_000 }
    }
    fn terms(&self, _: usize) -> Terms {
        Terms { share_ppm: 500_000, paused: false }
    }
    fn meeting(&self, _: usize) -> &Meeting {
        &self.meeting
    }
    fn board(&self, _: usize) -> Option<&'static Mutex<meet::Board>> {
        None
    }
}

/// A process of the program's threads.
struct Process {
    gates: Gates<Context>,
    words: One<Context>,
}

/// Tables that no schedule uses: they are never freed.
static UNUSED: Mutex<Vec<&'static Table<Context>>> = Mutex::new(Vec::new());

impl Process {
    fn new() -> Arc<Self> {
        let unused = UNUSED.lock().expect("no panic").pop();
        let table = unused.unwrap_or_else(|| Table::new(1, Context::new()));
        let words = One(table, 1);
        let process = Arc::new(Self { gates: Gates::new(words), words });
        process.enter(0, 1);
        process
    }

    /// Has the calling thread be in a context from here on. Two threads that are the first in one at once would have a
    /// lane each.
    fn enter(&self, number: usize, context: u64) {
        ME.with(|me| me.set((number, context)));
        self.gates.break_span();
    }

    fn context(&self) -> &'static Context {
        &self.words.0.beside
    }

    fn launch(&self, key: u64) {
        let (context, (me, own)) = (self.context(), ME.with(Cell::get));
        let admitted = self.gates.ask(stream(me as u64), key);
        // The driver has it, or refuses it because the context is gone.
        thread::yield_now();
        let taken = context.gone.load(SeqCst) < own;
        if let Some(admitted) = admitted {
            admitted.launched(taken);
        }
        for event in context.events.lock().expect("no panic").iter_mut() {
            event.measures = event.measures.filter(|by| *by != me);
        }
    }

    /// Ends a schedule: a thread that comes now finds its context's lane open, and has its launch measured.
    fn end(&self) {
        let before = self.context().records.load(SeqCst);
        self.launch(kernel(7));
        assert!(self.context().records.load(SeqCst) > before, "the lane is closed, or claimed");
        let Context { now_ns, late_ns, destroyed, gone, events, .. } = self.context();
        now_ns.store(START_NS, SeqCst);
        [destroyed, gone].iter().for_each(|word| word.store(0, SeqCst));
        late_ns.store(0, SeqCst);
        *events.lock().expect("no panic") = Vec::new();
        self.words.0.lines.iter().flatten().for_each(|word| word.store(0, SeqCst));
        UNUSED.lock().expect("no panic").push(self.words.0);
    }
}

fn kernel(number: u64) -> u64 {
    key(WorkKind::Kernel, [0x5555_0000 + 64 * number, 1056, 256])
}

fn launches(process: &Arc<Process>, threads: usize, each: u64) -> Vec<thread::JoinHandle<()>> {
    let (_, context) = ME.with(Cell::get);
    let start = |number| {
        let process = Arc::clone(process);
        thread::spawn(move || {
            ME.with(|me| me.set((number, context)));
            (0..each).for_each(|n| process.launch(kernel(n % 2)));
        })
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
        let process = Process::new();
        join(launches(&process, threads, each));
        for n in 0..20 {
            ME.with(|me| me.set((n % threads, 1)));
            synchronise(&process.gates, || {});
        }
        let launched = process.words.own(word::LAUNCHES).load(SeqCst);
        assert_eq!(launched, threads as u64 * each, "launches counted twice or never");
        let now_ns = process.context().now_ns.load(SeqCst);
        let left_ns = process.words.busy_until_ns().load(SeqCst).saturating_sub(now_ns);
        assert_eq!(left_ns, 0, "nothing is in flight");
        process.end();
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
/// the claim as long as it is `patient`; another context takes its place.
fn destroyed_under(launching: usize, patient: bool) {
    explore(move || {
        let process = Process::new();
        let threads = launches(&process, launching, 3);
        let destroyer = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                let context = process.context();
                // Its patience ends with its first look.
                let late_ns = if patient { 0 } else { 1_000_000_000 };
                context.late_ns.store(late_ns, SeqCst);
                let retiring = process.gates.retire(&|_| true);
                context.late_ns.store(0, SeqCst);
                context.destroyed.store(1, SeqCst);
                // Without patience one call may meet the end; the driver has locks for that.
                context.gone.store(u64::from(patient), SeqCst);
                retiring.gone();
                process.enter(0, 2);
                join(launches(&process, 1, 2));
            })
        };
        join(threads);
        destroyer.join().expect("it ends");
        process.enter(0, 2);
        process.end();
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
        let process = Process::new();
        let mut threads = launches(&process, 1, 3);
        for number in 1..3 {
            let process = Arc::clone(&process);
            threads.push(thread::spawn(move || {
                ME.with(|me| me.set((number, 1)));
                let retiring = process.gates.retire(&|_| true);
                thread::yield_now();
                drop(retiring);
            }));
        }
        join(threads);
        join(launches(&process, 1, 2));
        process.end();
    });
}

/// A capture begins while threads mark behind the whole context: it meets no such mark.
#[test]
fn captures_begin_beside_marks() {
    explore(|| {
        let process = Process::new();
        let mut threads = launches(&process, 2, 3);
        let captured = Arc::clone(&process);
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                captured.gates.capture_begins();
                captured.context().capturing.store(1, SeqCst);
                captured.gates.capture_begun(true);
                thread::yield_now();
                captured.context().capturing.store(0, SeqCst);
                captured.gates.captures_ended(1);
            }
        }));
        join(threads);
        assert!(!process.gates.captures());
        process.end();
    });
}

/// Threads that charge one cap at once: nothing is lost, whoever is first.
#[test]
fn charges_of_two_threads_add_up() {
    explore(|| {
        let process = Process::new();
        let words = process.words;
        let cap = Cap { share_ppm: 250_000, quantum_ns: 4_000_000, unsettled_since_ns: u64::MAX };
        assert_eq!(cap.admit(&words, START_NS), CapState::Open);
        cap.charge(&words, START_NS, 4_000_000);
        let begun_ns = words.paid_at_ns();
        let charge = |amounts: [i64; 3]| {
            thread::spawn(move || {
                amounts.iter().for_each(|ns| cap.charge(&words, START_NS, *ns));
            })
        };
        join(vec![charge([700_000, 90_000, -40_000]), charge([300_000, -10_000, 5_000])]);
        assert_eq!(words.paid_at_ns() - begun_ns, 4 * 1_045_000);
        process.end();
    });
}
