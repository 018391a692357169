//! Programs with a share gate each on one card that slices their contexts.

#[path = "../turns_sim/card.rs"]
#[allow(dead_code, reason = "nobody is killed here")]
mod card;
#[path = "../fake/mod.rs"]
mod fake;
#[path = "../host/mod.rs"]
mod host;

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

use card::Card;
use divvy_abi::config::GateLine;
use divvy_abi::meet::{self, BoardPlace, PLACES};
use divvy_policy::cost::{self, WorkKind};
use divvy_policy::gate::{Meeting, Terms};
use fake::lines::{One, Owner, Table};
use fake::{Gates, Machine, stream, synchronise};
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

#[derive(Debug)]
enum Item {
    Kernel(u64),
    Event(u64),
}

/// What is shared, at the time of the program whose clock is behind all others'.
#[derive(Debug)]
struct Shared {
    clocks: Vec<u64>,
    card: Card,
    queues: Vec<VecDeque<Item>>,
    /// When events completed; 0 while they have not.
    events: Vec<Vec<u64>>,
    ended: Vec<u64>,
    submitted: Vec<u64>,
    /// Kernels run: end and length.
    work: Vec<Vec<(u64, u64)>>,
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
                        self.events[context][event as usize - 1] = next_ns - EVENT_NS / 2;
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
#[derive(Debug)]
struct Node {
    shared: Mutex<Shared>,
    moved: Condvar,
    board: Mutex<meet::Board>,
}

/// One process with one context.
#[derive(Debug)]
struct Process {
    node: &'static Node,
    me: usize,
    program: Program,
    host: Host,
    meeting: Meeting,
}

impl Process {
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

    fn run(&self, gates: &Gates<Tenant>, end_ns: u64) {
        let Program { mode, length_ns, .. } = self.program;
        let key = cost::key(WorkKind::Kernel, [0x5555_0000, 1056, 256]);
        while self.host.now_ns.get() < end_ns {
            let length_ns = length_ns * (950 + self.host.random() % 100) / 1000;
            let admitted = gates.ask(stream(0), key);
            self.submit(length_ns);
            if let Some(admitted) = admitted {
                admitted.launched(true);
            }
            match mode {
                Mode::Sync => synchronise(gates, || self.wait_for(0)),
                Mode::Async => self.wait_for(10 * MS / length_ns + 1),
            }
        }
        self.host.now_ns.set(u64::MAX);
        let mut shared = self.node.shared.lock().expect("no panic");
        shared.clocks[self.me] = u64::MAX;
        self.node.moved.notify_all();
    }
}

/// A tenant's processes, by their slots from 1.
#[derive(Debug)]
struct Tenant(Vec<Process>);

impl Tenant {
    fn of(&self, slot: usize) -> &Process {
        &self.0[slot - 1]
    }
}

/// No owner makes turns.
impl Owner for Tenant {
    fn gate_line(&self, _: usize) -> GateLine {
        GateLine { active: 1, ..GateLine::default() }
    }
    fn wait(&self, slot: usize, _: u32, deadline_ns: u64) {
        self.of(slot).sleep(deadline_ns);
    }
    fn wait_for_turn(&self, slot: usize, is_closed: &dyn Fn() -> bool, deadline_ns: u64) {
        let process = self.of(slot);
        while process.with(|_, now_ns| now_ns < deadline_ns) && is_closed() {
            process.host.spend(20 * US);
        }
        process.host.spend(process.host.late_ns());
    }
}

impl Machine for Tenant {
    fn now_ns(&self, slot: usize) -> u64 {
        self.of(slot).host.spend(25);
        self.of(slot).with(|_, now_ns| now_ns)
    }
    fn sleep_until(&self, slot: usize, deadline_ns: u64) {
        self.of(slot).sleep(deadline_ns);
    }
    fn spin(&self, slot: usize) {
        self.of(slot).host.spend(US);
    }
    fn context(&self, _: usize) -> u64 {
        1
    }
    fn lives(&self, _: usize, _: u64) -> bool {
        true
    }
    fn thread(&self, _: usize) -> usize {
        0
    }
    fn create_event(&self, slot: usize) -> u64 {
        let process = self.of(slot);
        process.with(|shared, _| {
            shared.events[process.me].push(0);
            shared.events[process.me].len() as u64
        })
    }
    fn record(&self, slot: usize, event: u64, _: Option<u64>) -> bool {
        let process = self.of(slot);
        process.host.spend(760);
        process.with(|shared, _| {
            shared.events[process.me][event as usize - 1] = 0;
            shared.queues[process.me].push_back(Item::Event(event));
            shared.card.launch(process.me, EVENT_NS);
        });
        true
    }
    fn is_done(&self, slot: usize, event: u64) -> bool {
        let process = self.of(slot);
        process.host.spend(110);
        process.with(|shared, _| shared.events[process.me][event as usize - 1] != 0)
    }
    fn elapsed_ns(&self, slot: usize, from: u64, to: u64) -> i64 {
        let process = self.of(slot);
        process.host.spend(200);
        process.with(|shared, _| {
            let [from, to] = [from, to].map(|event| shared.events[process.me][event as usize - 1]);
            to.cast_signed() - from.cast_signed()
        })
    }
    fn terms(&self, slot: usize) -> Terms {
        Terms { share_ppm: self.of(slot).program.percent * 10_000, paused: false }
    }
    fn meeting(&self, slot: usize) -> &Meeting {
        &self.of(slot).meeting
    }
    fn board(&self, slot: usize) -> Option<&'static Mutex<meet::Board>> {
        let process = self.of(slot);
        // Two reads and a write.
        process.host.spend(3 * US);
        process.with(|_, _| process.program.meets.then_some(&process.node.board))
    }
}

/// Runs programs side by side; the percent of the device's time that each got but in the first quarter.
pub(crate) fn run(programs: &[Program], wall_ns: u64) -> Vec<f64> {
    let count = programs.len();
    let mut card = Card::new(count);
    card.advance(0);
    let node: &Node = Box::leak(Box::new(Node {
        shared: Mutex::new(Shared {
            clocks: vec![START_NS; count],
            card,
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            events: vec![Vec::new(); count],
            ended: vec![0; count],
            submitted: vec![0; count],
            work: vec![Vec::new(); count],
        }),
        moved: Condvar::new(),
        board: Mutex::new([BoardPlace::default(); PLACES]),
    }));
    let process = |(me, program): (usize, &Program)| Process {
        node,
        me,
        program: *program,
        host: Host::new(START_NS + 300 * me as u64, 0x1234_5678_9abc_def1 + 977 * me as u64),
        meeting: Meeting::new(),
    };
    let tenants = programs.iter().map(|program| program.tenant).max().map_or(0, |most| most + 1);
    let tenants = (0..tenants).map(|tenant| {
        let of = programs.iter().enumerate().filter(|(_, program)| program.tenant == tenant);
        let processes: Vec<_> = of.map(process).collect();
        Table::new(processes.len(), Tenant(processes))
    });
    let tenants: Vec<_> = tenants.collect();
    let end_ns = START_NS + wall_ns;
    std::thread::scope(|scope| {
        for table in tenants {
            for slot in 1..table.lines.len() {
                scope.spawn(move || {
                    let gates = Box::new(Gates::new(One(table, slot)));
                    table.beside.of(slot).run(&gates, end_ns);
                });
            }
        }
    });
    let from_ns = START_NS + wall_ns / 4;
    let inside = |(end, length): &(u64, u64)| {
        if (from_ns..end_ns).contains(end) { *length } else { 0 }
    };
    let share = |work: &Vec<(u64, u64)>| {
        100.0 * work.iter().map(inside).sum::<u64>() as f64 / (end_ns - from_ns) as f64
    };
    // The machine is never freed.
    let work = std::mem::take(&mut node.shared.lock().expect("no panic").work);
    work.iter().map(share).collect()
}
