//! The world of one run: devices, processes and threads, and the loop that lets time pass.
//!
//! Everything that can happen next is a thread's next step or a device's next event; the earliest of them
//! happens. Of the same time the device goes first, then threads by their numbers.
//!
//! Promises: the same case and the same hooks give the same [`Report`], hash and all. A process that is
//! killed leaves what the driver would clear, cleared, and everything else as it was.
//!
//! The world lies in a word of the host's thread: what is called inside a fiber finds it there by
//! [`with`], and nobody may be left while it is held.

mod calls;
mod change;
mod collective;
pub mod driver;
mod message;
mod play;
mod report;
pub mod shim;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub use divvy_policy::gate::Stream;
pub use driver::SimDriver;
pub use report::{End, Report, Violation};
pub use shim::{Code, Daemon, Native, Other, Shim, Shims, Waited, native};

use divvy_policy::gate::Meeting;

use crate::card::{Card, ContextId, Done, Position, StreamId};
use crate::case::{Case, ProcessPlan, TenantPlan};
use crate::choice::mix;
use crate::program::{self, Ops};
use crate::sched::{self, NEVER_NS, ThreadId};
use crate::site::{Actor, Fault, Site};
use crate::trace::{Event, Trace};
use crate::words::{self, Files};

/// A context as processes name it.
#[derive(Debug)]
struct Context {
    process: Actor,
    device: usize,
    id: ContextId,
    /// Streams by handle and, for a thread's own, the thread.
    streams: BTreeMap<(u64, Option<ThreadId>), StreamId>,
    /// The last launch on the legacy stream, which all others wait for.
    legacy: Option<Position>,
    /// Where events behind the whole context stand.
    marks: StreamId,
    /// It is being destroyed.
    is_going: bool,
}

#[derive(Debug)]
struct Process {
    actor: Actor,
    start_ns: u64,
    device: usize,
    is_blocking: bool,
    is_alive: bool,
    /// Handles, the first one first.
    contexts: Vec<u64>,
    threads: u32,
    captures: Vec<Capture>,
}

#[derive(Debug)]
struct Capture {
    context: u64,
    stream: (u64, Option<ThreadId>),
    is_global: bool,
}

#[derive(Debug, Default)]
struct Thread {
    process: usize,
    context: u64,
    relaxed: u32,
    last_call_ns: u64,
    /// Within a launch.
    is_launching: bool,
}

#[derive(Debug)]
struct Waiter {
    thread: ThreadId,
    key: u64,
    device: usize,
    positions: Vec<Position>,
}

/// A tenant while the case runs.
#[derive(Debug)]
pub struct Tenant {
    /// As the case has it, with what was changed since.
    pub plan: TenantPlan,
    /// Nothing may be submitted.
    pub paused: bool,
    /// Launches look at their gates.
    pub any_gate: bool,
    /// How often its limits were changed.
    pub changes: u64,
    /// Its words.
    pub files: &'static Files,
    processes: u32,
}

/// Everything there is in a run.
pub struct World {
    cards: Vec<Card>,
    contexts: Vec<Context>,
    events: Vec<driver::OfContext>,
    processes: Vec<Process>,
    threads: BTreeMap<ThreadId, Thread>,
    tenants: Vec<Tenant>,
    boards: Vec<divvy_abi::meet::Board>,
    /// Of each process and device; as long as the host's thread, since gates keep them.
    meetings: BTreeMap<(usize, usize), &'static Meeting>,
    has_board: bool,
    waiters: Vec<Waiter>,
    keys: u64,
    trace: Trace,
    violations: Vec<Violation>,
    messages: message::Boxes,
    collectives: Vec<collective::Collective>,
    /// Calls by which programs broke captures of their own.
    faults: u64,
    shims: Shims,
}

impl std::fmt::Debug for World {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("World").field("cards", &self.cards).finish_non_exhaustive()
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// The world of the run under way. Nothing in `act` may leave the fiber.
///
/// # Panics
/// Where no run is under way.
pub fn with<T>(act: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| act(world.as_mut().expect("a run is under way")))
}

impl World {
    fn new(case: &Case, shims: Shims) -> Self {
        let knobs = &case.knobs;
        let devices = knobs.devices.max(1) as usize;
        let tenant = |plan: &TenantPlan| Tenant {
            plan: plan.clone(),
            paused: false,
            any_gate: plan.share_ppm != 0,
            changes: 0,
            files: words::take_files(devices),
            processes: 0,
        };
        Self {
            cards: (0..devices).map(|_| Card::new(knobs.card.clone())).collect(),
            contexts: Vec::new(),
            events: Vec::new(),
            processes: Vec::new(),
            threads: BTreeMap::new(),
            tenants: case.tenants.iter().map(tenant).collect(),
            boards: vec![[divvy_abi::meet::Place::default(); divvy_abi::meet::PLACES]; devices],
            meetings: BTreeMap::new(),
            has_board: knobs.has_board,
            waiters: Vec::new(),
            keys: 0,
            trace: Trace::default(),
            violations: Vec::new(),
            messages: message::Boxes::default(),
            collectives: Vec::new(),
            faults: 0,
            shims,
        }
    }

    /// A tenant.
    pub fn tenant(&mut self, tenant: u32) -> Option<&mut Tenant> {
        self.tenants.get_mut(tenant as usize)
    }

    /// The board of a device, where there is one.
    pub fn board(&mut self, device: usize) -> Option<&mut divvy_abi::meet::Board> {
        self.boards.get_mut(device).filter(|_| self.has_board)
    }

    /// A process's part in a device's meetings.
    pub(crate) fn meeting(&mut self, actor: Actor, device: usize) -> Option<&'static Meeting> {
        let process = self.processes.iter().position(|one| one.actor.is_beside(actor))?;
        let meeting = self.meetings.entry((process, device));
        Some(meeting.or_insert_with(|| Box::leak(Box::new(Meeting::new()))))
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.cards.len()
    }

    /// The tenants that a daemon has, by their numbers; none for a stranger's.
    pub fn served(&self) -> Vec<Option<(u32, &'static Files)>> {
        let all = self.tenants.iter().zip(0..);
        all.map(|(one, number)| (!one.plan.is_stranger).then_some((number, one.files))).collect()
    }

    /// Has a tenant's launches look at their gates, or pass.
    pub fn set_any_gate(&mut self, tenant: u32, any_gate: bool) {
        if let Some(one) = self.tenant(tenant) {
            one.any_gate = any_gate;
        }
    }

    /// The slots of a tenant that were ever taken, and whether their processes live.
    pub fn slots(&self, tenant: u32) -> Vec<(usize, bool)> {
        let high = self.tenants.get(tenant as usize).map_or(1, |one| one.files.slots_high());
        let of_it = self.processes.iter().filter(|one| one.actor.tenant == tenant);
        let slots = of_it.map(|one| (one.actor.process as usize + 1, one.is_alive));
        slots.filter(|(slot, _)| *slot < high).collect()
    }

    /// Whether the process of a slot has a context on a device.
    pub fn has_context(&self, tenant: u32, slot: usize, device: usize) -> bool {
        let now_ns = sched::now_ns();
        let of = |one: &Process| {
            let is_it = one.actor.tenant == tenant && one.actor.process as usize + 1 == slot;
            is_it && one.is_alive && one.start_ns <= now_ns
        };
        let live = |handle: &u64| self.context(*handle).is_some_and(|one| one.device == device);
        self.processes.iter().any(|one| of(one) && one.contexts.iter().any(live))
    }

    /// Living processes of no tenant that have a context on a device at a time, as NVML tells.
    pub fn strangers(&self, device: usize, now_ns: u64) -> u32 {
        let is_one = |one: &&Process| {
            let of = self.tenants.get(one.actor.tenant as usize).filter(|of| of.plan.is_stranger);
            // Who launches nothing makes no context: an operator.
            let works = |plan: &ProcessPlan| program::longest_ns(&plan.ops) != 0;
            of.is_some_and(|of| of.plan.processes.iter().any(works))
                && one.is_alive
                && one.start_ns <= now_ns
        };
        let there = self.processes.iter().filter(is_one).filter(|one| one.device == device);
        u32::try_from(there.count()).unwrap_or(u32::MAX)
    }

    /// A device, to look at.
    pub fn card(&self, device: usize) -> Option<&Card> {
        self.cards.get(device)
    }

    fn new_key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    fn next_card_ns(&self) -> u64 {
        self.cards.iter().map(Card::next_ns).min().unwrap_or(NEVER_NS)
    }

    /// Lets all devices come to a time.
    fn advance(&mut self, to_ns: u64) {
        for device in 0..self.cards.len() {
            self.cards[device].advance(to_ns);
            self.look(device);
        }
        self.meet(to_ns);
    }

    /// Wakes who waited for what a device has completed, and lets the running thread be left where the
    /// device's next event comes.
    fn look(&mut self, device: usize) {
        for done in self.cards[device].take_done() {
            let Done { at_ns, position, .. } = done;
            let who = mix(position.context as u64) ^ position.stream as u64;
            self.trace.add(Event { at_ns, what: "done", who, value: position.seq });
            let card = &self.cards[device];
            let is_over = |waiter: &Waiter| {
                waiter.device == device && waiter.positions.iter().all(|at| card.is_done(*at))
            };
            self.waiters.retain(|waiter| {
                let is_over = is_over(waiter);
                if is_over {
                    sched::wake(waiter.thread, waiter.key, at_ns);
                }
                !is_over
            });
        }
        sched::bound(self.cards[device].next_ns());
    }

    /// Begins a process; its first thread does `ops`, with a context.
    fn begin_process(&mut self, tenant: u32, device: usize, is_blocking: bool) -> usize {
        let one = &mut self.tenants[tenant as usize];
        let actor = Actor { tenant, process: one.processes, thread: 0 };
        one.processes += 1;
        if !one.plan.is_stranger {
            one.files.take_slot(actor.process);
        }
        self.processes.push(Process {
            actor,
            start_ns: 0,
            device: device % self.cards.len(),
            is_blocking,
            is_alive: true,
            contexts: Vec::new(),
            threads: 0,
            captures: Vec::new(),
        });
        self.processes.len() - 1
    }

    /// Makes a context and says its handle.
    fn create_context(&mut self, process: usize) -> u64 {
        let one = &self.processes[process];
        let (actor, device) = (one.actor, one.device);
        let card = &mut self.cards[device];
        let id = card.create_context();
        let marks = card.create_stream(id);
        let streams = BTreeMap::from([((0, None), 0)]);
        let context =
            Context { process: actor, device, id, streams, legacy: None, marks, is_going: false };
        self.contexts.push(context);
        let handle = self.contexts.len() as u64;
        self.processes[process].contexts.push(handle);
        handle
    }

    fn context(&self, handle: u64) -> Option<&Context> {
        self.contexts.get(usize::try_from(handle.checked_sub(1)?).ok()?)
    }

    /// Clears what the driver clears of a process that is no more.
    fn bury(&mut self, actor: Actor, at_ns: u64) {
        self.note(at_ns, "gone", actor.word(), 0);
        for process in self.processes.iter_mut().filter(|one| one.actor.is_beside(actor)) {
            process.is_alive = false;
        }
        for at in 0..self.contexts.len() {
            let context = &self.contexts[at];
            if context.process.is_beside(actor) {
                let (device, id) = (context.device, context.id);
                self.cards[device].advance(at_ns);
                self.cards[device].drop_context(id);
                self.look(device);
            }
        }
        let gone: Vec<_> =
            self.threads.iter().filter(|(thread, _)| !sched::lives(**thread)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(thread, _)| *thread).collect();
        self.waiters.retain(|waiter| !gone.contains(&waiter.thread));
        // A parent may wait for it.
        for thread in sched::waiting(exit_key(actor)) {
            sched::wake(thread, exit_key(actor), at_ns);
        }
    }
}

fn exit_key(actor: Actor) -> u64 {
    mix(Actor { thread: 0, ..actor }.word() ^ 0x6578_6974)
}

/// Adds a thread to a process, which begins at a time.
fn spawn(process: usize, ops: Rc<Ops>, at_ns: u64, shim: Option<Rc<dyn Shim>>) -> ThreadId {
    let actor = with(|world| {
        let one = &mut world.processes[process];
        let thread = one.threads;
        one.threads += 1;
        Actor { thread, ..one.actor }
    });
    let thread = sched::spawn(actor, at_ns, move || play::body(&ops, process, shim));
    with(|world| {
        let process_of = &mut world.processes[process];
        if process_of.threads == 1 {
            process_of.start_ns = at_ns;
        }
        let context = process_of.contexts.first().copied().unwrap_or(0);
        let of_it =
            Thread { process, context, relaxed: 0, last_call_ns: at_ns, is_launching: false };
        world.threads.insert(thread, of_it);
    });
    thread
}

/// Runs a case. `each` is shown the world whenever the devices have got on, and says what it finds wrong.
///
/// # Panics
/// What a fiber's body panics with.
pub fn run_with(case: &Case, code: &Code, mut each: impl FnMut(&mut World, u64)) -> Report {
    let _ended = Ended;
    sched::begin(case.knobs.seed, Site::costs(&case.knobs.card), &case.devs);
    WORLD.with_borrow_mut(|world| *world = Some(World::new(case, Rc::clone(&code.shims))));
    for (tenant, plan) in case.tenants.iter().enumerate() {
        for one in &plan.processes {
            let process = with(|world| {
                let tenant = u32::try_from(tenant).unwrap_or(u32::MAX);
                let process = world.begin_process(tenant, one.device as usize, one.is_blocking);
                world.create_context(process);
                process
            });
            spawn(process, Rc::new(one.ops.clone()), one.start_ns, None);
        }
    }
    if let Some(daemon) = code.daemon.clone().filter(|_| case.knobs.has_daemon) {
        sched::spawn(Actor::DAEMON, 0, move || daemon(SimDriver));
    }
    let run_ns = case.knobs.run_ns;
    let mut now_ns = 0;
    let end = loop {
        for (actor, at_ns) in sched::take_killed() {
            with(|world| world.bury(actor, at_ns));
        }
        let card_ns = with(|world| world.next_card_ns());
        let thread = sched::earliest();
        let thread_ns = thread.map_or(NEVER_NS, |(at_ns, _)| at_ns);
        let next_ns = card_ns.min(thread_ns);
        if next_ns == NEVER_NS {
            let left = with(|world| world.threads.keys().any(|thread| sched::lives(*thread)));
            break if left { End::Deadlock } else { End::AllEnded };
        }
        if next_ns > run_ns {
            break End::InTime;
        }
        now_ns = next_ns;
        match thread {
            Some((_, thread)) if thread_ns < card_ns => {
                // Nothing happens behind the run's end.
                sched::resume(thread, card_ns.min(run_ns.saturating_add(1)));
            }
            _ => with(|world| {
                world.advance(card_ns);
                each(world, card_ns);
            }),
        }
    };
    // The last thread may have gone on for a while behind the last look.
    let last_ns = with(|world| world.cards.iter().map(Card::now_ns).max().unwrap_or(0));
    let wall_ns = if end == End::InTime { run_ns } else { now_ns.max(last_ns) };
    with(|world| {
        world.advance(wall_ns);
        each(world, wall_ns);
        let devices = world.cards.len();
        let tenants = 0..u32::try_from(world.tenants.len()).unwrap_or(0);
        let of = |tenant| (0..devices).map(|device| world.had(tenant, device)).collect();
        Report {
            end,
            wall_ns,
            hash: world.trace.hash(),
            events: world.trace.events(),
            last: world.trace.last().copied().collect(),
            books: world.cards.iter().map(Card::books).collect(),
            had: tenants.map(of).collect(),
            violations: world.violations.clone(),
            faults: world.faults,
            visits: sched::visits(),
            met: sched::met(),
        }
    })
}

/// Runs a case.
pub fn run(case: &Case, code: &Code) -> Report {
    run_with(case, code, |_, _| {})
}

/// Takes the world down, also behind a panic.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        sched::end();
        let world = WORLD.with_borrow_mut(Option::take);
        for tenant in world.into_iter().flat_map(|world| world.tenants) {
            words::give_back_files(tenant.files);
        }
    }
}

/// Whether a fault at a site has the call refused.
fn is_refused(fault: Option<Fault>) -> bool {
    fault == Some(Fault::Refuse)
}

#[cfg(test)]
mod tests;
