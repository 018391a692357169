//! Programs with a share gate each on one card that slices their contexts.

#[path = "../turns_sim/card.rs"]
#[allow(dead_code, reason = "nobody is killed here")]
mod card;
#[path = "../host/mod.rs"]
mod host;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};

use card::Card;
use divvy_abi::config::GateLine;
use divvy_abi::meet::{self, BoardPlace, PLACES};
use divvy_policy::cost::{self, Costs, WorkKind};
use divvy_policy::gate::{
    Access, Behind, Board, CHUNK_NS, EVENTS, Lane, Marks, Meeting, Paid, Published,
    SHARED_CHUNK_NS, Terms, Time,
};
use divvy_policy::pace::Clock;
use host::Host;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const START_NS: u64 = 77_000_000_000;
const EVENT_NS: u64 = 1_980;

/// How a program submits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Sync,
    Async,
}

/// A program, all of whose kernels are alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) tenant: usize,
    /// Cap; 0 for none.
    pub(crate) percent: u64,
    pub(crate) mode: Mode,
    pub(crate) length_ns: u64,
    /// There is a board.
    pub(crate) meets: bool,
}

#[derive(Default)]
struct Words([AtomicU64; 4]);

fn replace(word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    word.compare_exchange(old, new, Relaxed, Relaxed).map(|_| ())
}

impl Clock for Words {
    fn paid_at_ns(&self) -> u64 {
        self.0[0].load(Relaxed)
    }
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64> {
        replace(&self.0[0], old, new)
    }
    fn share_ppm(&self) -> u64 {
        self.0[1].load(Relaxed)
    }
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64> {
        replace(&self.0[1], old, new)
    }
    fn closed_until_ns(&self) -> u64 {
        self.0[2].load(Relaxed)
    }
    fn set_closed_until_ns(&self, until_ns: u64) {
        self.0[2].store(until_ns, Relaxed);
    }
    fn saves(&self) -> u64 {
        self.0[3].load(Relaxed)
    }
    fn set_saves(&self, word: u64) {
        self.0[3].store(word, Relaxed);
    }
}

enum Item {
    Kernel(u64),
    Event(u32),
}

/// What is shared, at the time of the program whose clock is behind all others'.
struct Shared {
    clocks: Vec<u64>,
    card: Card,
    queues: Vec<VecDeque<Item>>,
    /// When events completed; 0 while they have not.
    events: Vec<[u64; EVENTS as usize]>,
    ended: Vec<u64>,
    submitted: Vec<u64>,
    /// Kernels run: end and length.
    work: Vec<Vec<(u64, u64)>>,
    busy_until_ns: Vec<u64>,
    board: meet::Board,
}

impl Shared {
    fn advance(&mut self, to_ns: u64) {
        loop {
            let next_ns = self.card.next_ns();
            let ended = self.card.advance(next_ns.min(to_ns));
            if let Some(context) = ended {
                match self.queues[context].pop_front().expect("it was queued") {
                    Item::Kernel(length_ns) => {
                        self.work[context].push((next_ns, length_ns));
                        self.ended[context] += 1;
                    }
                    Item::Event(event) => {
                        self.events[context][event as usize] = next_ns - EVENT_NS / 2;
                    }
                }
            }
            if next_ns > to_ns {
                return;
            }
        }
    }
}

/// The machine.
struct Node {
    shared: Mutex<Shared>,
    moved: Condvar,
    words: [Words; 2],
    /// The tenant of each program.
    tenants: Vec<usize>,
}

/// One process with one context.
struct Process<'a> {
    node: &'a Node,
    me: usize,
    program: Program,
    host: Host,
    meeting: Meeting,
}

impl Process<'_> {
    fn with<R>(&self, act: impl FnOnce(&mut Shared, u64) -> R) -> R {
        let now_ns = self.host.now_ns.get();
        let mut shared = self.node.shared.lock().expect("no panic");
        shared.clocks[self.me] = now_ns;
        self.node.moved.notify_all();
        let is_behind = |shared: &mut Shared| {
            let first = shared.clocks.iter().enumerate().min_by_key(|(at, ns)| (**ns, *at));
            first.is_some_and(|(at, _)| at != self.me)
        };
        shared = self.node.moved.wait_while(shared, is_behind).expect("no panic");
        shared.advance(now_ns);
        act(&mut shared, now_ns)
    }

    fn sleep(&self, until_ns: u64) {
        let late_ns = self.host.late_ns();
        self.host.now_ns.set(self.host.now_ns.get().max(until_ns) + late_ns);
    }

    fn submit(&self, length_ns: u64) {
        self.host.launch();
        self.with(|shared, _| {
            shared.queues[self.me].push_back(Item::Kernel(length_ns));
            shared.submitted[self.me] += 1;
            shared.card.launch(self.me, length_ns);
        });
    }

    /// Waits until at most `left` kernels are in flight.
    fn wait_for(&self, left: u64) {
        loop {
            let next_ns = self.with(|shared, _| {
                let in_flight = shared.submitted[self.me] - shared.ended[self.me];
                (in_flight > left).then(|| shared.card.next_ns())
            });
            match next_ns {
                None => return self.host.spend(4 * US + self.host.random() % US),
                Some(next_ns) => self.host.go_to(next_ns),
            }
        }
    }

    /// Other processes of the tenant are seen; other tenants' only on the board.
    fn others_since(&self, since_ns: u64) -> usize {
        self.with(|shared, _| {
            let is_at_work = |at: usize| at != self.me && shared.busy_until_ns[at] > since_ns;
            let of_tenant = self.node.tenants.iter().enumerate();
            let of_tenant = of_tenant.filter(|(_, tenant)| **tenant == self.program.tenant);
            of_tenant.filter(|(at, _)| is_at_work(*at)).count()
        })
    }

    fn run(&self, end_ns: u64) {
        let (lane, costs) = (Lane::new(), Costs::new());
        let Program { mode, length_ns, .. } = self.program;
        let key = cost::key(WorkKind::Kernel, [0x5555_0000, 1056, 256]);
        while self.host.now_ns.get() < end_ns {
            let length_ns = length_ns * (950 + self.host.random() % 100) / 1000;
            if lane.take(&costs, key, 0) != Paid::Not {
                self.submit(length_ns);
            } else {
                let ticket = lane.admit(self, &costs, key);
                self.submit(length_ns);
                lane.launched(self, ticket, true);
            }
            match mode {
                Mode::Sync => {
                    let begun = lane.begin_wait(self.host.now_ns.get());
                    self.wait_for(0);
                    lane.drained(self, &costs, begun);
                }
                Mode::Async => self.wait_for(10 * MS / length_ns + 1),
            }
        }
        self.host.now_ns.set(u64::MAX);
        let mut shared = self.node.shared.lock().expect("no panic");
        shared.clocks[self.me] = u64::MAX;
        self.node.moved.notify_all();
    }
}

struct At<'a>(&'a Process<'a>);

impl Board for At<'_> {
    fn process(&self) -> u32 {
        7
    }
    fn read(&self, into: &mut meet::Board) -> bool {
        self.0.host.spend(US);
        *into = self.0.with(|shared, _| shared.board);
        true
    }
    fn write(&self, at: usize, place: &BoardPlace) -> bool {
        self.0.host.spend(US);
        self.0.with(|shared, _| shared.board[at] = *place);
        true
    }
}

impl Time for Process<'_> {
    fn now_ns(&self) -> u64 {
        self.host.spend(25);
        self.with(|_, now_ns| now_ns)
    }
    fn sleep_until(&self, deadline_ns: u64) {
        self.sleep(deadline_ns);
    }
    fn spin_until(&self, deadline_ns: u64) {
        self.host.go_to(deadline_ns);
    }
    fn spin(&self) {
        self.host.spend(40);
    }
}

impl Access for Process<'_> {
    fn is_alone_since(&self, since_ns: u64) -> bool {
        self.meeting.is_alone(self.host.now_ns.get()) && self.others_since(since_ns) == 0
    }
    fn terms(&self) -> Terms {
        Terms { share_ppm: self.program.percent * 10_000, paused: false }
    }
    fn line(&self) -> GateLine {
        let now_ns = self.host.now_ns.get();
        let others = u32::try_from(self.others_since(now_ns)).expect("few");
        let quantum_ns = if self.meeting.is_alone(now_ns) { 0 } else { 20 * MS };
        let active = 1 + others.max(self.meeting.others());
        GateLine { active, quantum_ns, ..GateLine::default() }
    }
    fn wait(&self, _: u32, deadline_ns: u64) {
        self.sleep(deadline_ns);
    }
    fn ask_device(&self, now_ns: u64, next_ns: u64) -> u64 {
        if !self.program.meets {
            return 0;
        }
        let busy_until_ns = self.with(|shared, _| shared.busy_until_ns[self.me]);
        self.meeting.ask(now_ns, busy_until_ns, next_ns, || Some(At(self)))
    }
    fn chunk_ns(&self, now_ns: u64) -> u64 {
        if self.meeting.is_alone(now_ns) { CHUNK_NS } else { SHARED_CHUNK_NS }
    }
    fn leave_device(&self) {
        let busy_until_ns = self.with(|shared, _| shared.busy_until_ns[self.me]);
        self.meeting.leave(busy_until_ns, || Some(At(self)));
    }
}

impl Marks for Process<'_> {
    fn life(&self) -> u64 {
        0
    }
    fn stripe(&self) -> usize {
        0
    }
    fn stream(&self) -> u64 {
        1
    }
    fn record(&self, event: u32, _: bool) -> Option<Behind> {
        self.host.spend(760);
        self.with(|shared, _| {
            shared.events[self.me][event as usize] = 0;
            shared.queues[self.me].push_back(Item::Event(event));
            shared.card.launch(self.me, EVENT_NS);
        });
        Some(Behind::Stream)
    }
    fn is_done(&self, event: u32) -> bool {
        self.host.spend(110);
        self.with(|shared, _| shared.events[self.me][event as usize] != 0)
    }
    fn elapsed_ns(&self, from: u32, to: u32) -> Option<i64> {
        self.host.spend(200);
        let events = self.with(|shared, _| shared.events[self.me]);
        Some(events[to as usize].cast_signed() - events[from as usize].cast_signed())
    }
}

impl Published for Process<'_> {
    type Clock = Words;
    fn clock(&self) -> &Words {
        &self.node.words[self.program.tenant]
    }
    fn set_busy_until_ns(&self, until_ns: u64) {
        self.with(|shared, _| shared.busy_until_ns[self.me] = until_ns);
    }
    fn note_want(&self, _: u64) {}
    fn note_launch(&self, _: u64) {}
    fn add_used(&self, _: i64) {}
    fn count_launches(&self, _: u64) {}
    fn note_length(&self, _: u64) {}
    fn add_throttled(&self, _: u64) {}
    fn add_waited(&self, _: u64) {}
    fn count_drain_given_up(&self, _is_stuck: bool) {}
}

/// Runs programs side by side; the percent of the device's time that each got but in the first quarter.
pub(crate) fn run(programs: &[Program], wall_ns: u64) -> Vec<f64> {
    let count = programs.len();
    let mut card = Card::new(count);
    card.advance(0);
    let node = Node {
        shared: Mutex::new(Shared {
            clocks: vec![START_NS; count],
            card,
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            events: vec![[0; EVENTS as usize]; count],
            ended: vec![0; count],
            submitted: vec![0; count],
            work: vec![Vec::new(); count],
            busy_until_ns: vec![0; count],
            board: [BoardPlace::default(); PLACES],
        }),
        moved: Condvar::new(),
        words: Default::default(),
        tenants: programs.iter().map(|program| program.tenant).collect(),
    };
    let end_ns = START_NS + wall_ns;
    std::thread::scope(|scope| {
        for (me, program) in programs.iter().enumerate() {
            let node = &node;
            scope.spawn(move || {
                let seed = 0x1234_5678_9abc_def1 + 977 * me as u64;
                Process {
                    node,
                    me,
                    program: *program,
                    host: Host::new(START_NS + 300 * me as u64, seed),
                    meeting: Meeting::new(),
                }
                .run(end_ns);
            });
        }
    });
    let from_ns = START_NS + wall_ns / 4;
    let shared = node.shared.into_inner().expect("no panic");
    let inside = |(end, length): &(u64, u64)| {
        if (from_ns..end_ns).contains(end) { *length } else { 0 }
    };
    let share = |work: &Vec<(u64, u64)>| {
        100.0 * work.iter().map(inside).sum::<u64>() as f64 / (end_ns - from_ns) as f64
    };
    shared.work.iter().map(share).collect()
}
