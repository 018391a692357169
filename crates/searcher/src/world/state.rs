//! The state of a run: devices, contexts, processes, threads, tenants; and the word of the host's thread in which it
//! lies.
//!
//! Code inside a fiber finds it there by [`with`], and may not leave the fiber while it holds it.
//!
//! Does not let time pass: that is `run`'s.

use std::cell::RefCell;
use std::collections::BTreeMap;

use divvy_policy::gate::Meeting;

use super::report::Violation;
use super::shim::Shims;
use crate::card::{Card, ContextId, Done, EventId, Position, StreamId};
use crate::case::{Case, ProcessPlan, TenantPlan};
use crate::choice::mix;
use crate::files::{self, SimFiles};
use crate::program;
use crate::sched::{self, NEVER_NS, ThreadId};
use crate::site::Actor;
use crate::trace::{Event, Trace};

/// A context as processes name it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) process: Actor,
    pub(super) device: usize,
    pub(super) id: ContextId,
    /// Streams by handle and, for a thread's own, the thread.
    pub(super) streams: BTreeMap<(u64, Option<ThreadId>), StreamId>,
    /// The last launch on the legacy stream, which all others wait for.
    pub(super) legacy: Option<Position>,
    /// Where events behind the whole context stand.
    pub(super) marks: StreamId,
    /// It is being destroyed.
    pub(super) is_going: bool,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) actor: Actor,
    pub(super) start_ns: u64,
    pub(super) device: usize,
    pub(super) is_blocking: bool,
    pub(super) is_alive: bool,
    /// Handles, the first one first.
    pub(super) contexts: Vec<u64>,
    pub(super) threads: u32,
    pub(super) captures: Vec<Capture>,
}

#[derive(Debug)]
pub(super) struct Capture {
    pub(super) context: u64,
    pub(super) stream: (u64, Option<ThreadId>),
    pub(super) is_global: bool,
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) process: usize,
    pub(super) context: u64,
    pub(super) relaxed: u32,
    pub(super) last_call_ns: u64,
    /// Within a launch.
    pub(super) is_launching: bool,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) thread: ThreadId,
    pub(super) key: u64,
    pub(super) device: usize,
    pub(super) positions: Vec<Position>,
}

/// An event, and the context that it was made in.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfContext {
    pub(super) device: usize,
    pub(super) event: EventId,
    pub(super) context: u64,
}

/// One of a group's collectives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Which {
    pub(super) tenant: u32,
    pub(super) group: u32,
    /// The how many-th, by each rank's own count.
    pub(super) nth: u64,
    pub(super) ranks: u32,
}

/// One that not all ranks have begun.
#[derive(Debug)]
pub(super) struct Collective {
    pub(super) which: Which,
    /// The kernels that were launched for it, with their devices.
    pub(super) joined: Vec<(usize, Position)>,
}

/// Messages that nobody has taken, by tenant and box.
pub(super) type Boxes = BTreeMap<(u32, u32), u64>;

/// A tenant while the case runs.
#[derive(Debug)]
pub struct SimTenant {
    /// As the case has it, with what was changed since.
    pub plan: TenantPlan,
    /// Nothing may be submitted.
    pub paused: bool,
    /// Launches look at their gates.
    pub any_gate: bool,
    /// How often its limits were changed.
    pub changes: u64,
    /// Its words.
    pub files: &'static SimFiles,
    pub(super) processes: u32,
    /// The longest that a launch of it took to return.
    pub(super) longest_call_ns: u64,
}

/// Everything there is in a run.
pub struct World {
    pub(super) cards: Vec<Card>,
    pub(super) contexts: Vec<Context>,
    pub(super) events: Vec<OfContext>,
    pub(super) processes: Vec<Process>,
    pub(super) threads: BTreeMap<ThreadId, Thread>,
    pub(super) tenants: Vec<SimTenant>,
    pub(super) boards: Vec<divvy_abi::meet::Board>,
    /// Of each process and device; as long as the host's thread, since gates keep them.
    pub(super) meetings: BTreeMap<(usize, usize), &'static Meeting>,
    pub(super) has_board: bool,
    /// How long strangers are there before a daemon knows.
    pub(crate) unnoticed_ns: u64,
    pub(crate) floor_ppm: u64,
    /// Trials of everybody open that the daemon has begun.
    pub(crate) trials: u64,
    pub(super) waiters: Vec<Waiter>,
    pub(super) keys: u64,
    pub(super) trace: Trace,
    pub(super) violations: Vec<Violation>,
    pub(super) messages: Boxes,
    pub(super) collectives: Vec<Collective>,
    /// Calls by which programs broke captures of their own.
    pub(super) faults: u64,
    pub(super) shims: Shims,
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

/// Begins a run in a world.
pub(super) fn put(world: World) {
    WORLD.set(Some(world));
}

/// Ends it.
pub(super) fn take() -> Option<World> {
    WORLD.take()
}

impl World {
    pub(super) fn new(case: &Case, shims: Shims) -> Self {
        let knobs = &case.knobs;
        let devices = knobs.devices.max(1) as usize;
        let tenant = |plan: &TenantPlan| SimTenant {
            plan: plan.clone(),
            paused: false,
            any_gate: plan.share_ppm != 0,
            changes: 0,
            files: files::take_files(devices),
            processes: 0,
            longest_call_ns: 0,
        };
        Self {
            cards: (0..devices).map(|_| Card::new(knobs.card.clone())).collect(),
            contexts: Vec::new(),
            events: Vec::new(),
            processes: Vec::new(),
            threads: BTreeMap::new(),
            tenants: case.tenants.iter().map(tenant).collect(),
            boards: vec![
                [divvy_abi::meet::BoardPlace::default(); divvy_abi::meet::PLACES];
                devices
            ],
            meetings: BTreeMap::new(),
            has_board: knobs.has_board,
            unnoticed_ns: knobs.unnoticed_ns,
            trials: 0,
            floor_ppm: knobs.floor_ppm,
            waiters: Vec::new(),
            keys: 0,
            trace: Trace::default(),
            violations: Vec::new(),
            messages: Boxes::default(),
            collectives: Vec::new(),
            faults: 0,
            shims,
        }
    }

    /// A tenant.
    pub fn tenant(&mut self, tenant: u32) -> Option<&mut SimTenant> {
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
    pub fn served(&self) -> Vec<Option<(u32, &'static SimFiles)>> {
        let all = self.tenants.iter().zip(0..);
        all.map(|(one, number)| (!one.plan.is_stranger).then_some((number, one.files))).collect()
    }

    /// Has a tenant's launches look at their gates, or pass.
    pub fn set_any_gate(&mut self, tenant: u32, any_gate: bool) {
        if let Some(one) = self.tenant(tenant) {
            one.any_gate = any_gate;
        }
    }

    /// The slots of a tenant that are somebody's, and whether their processes live.
    pub fn slots(&self, tenant: u32) -> Vec<(usize, bool)> {
        let Some(files) = self.tenants.get(tenant as usize).map(|one| one.files) else {
            return Vec::new();
        };
        let of = |slot| {
            let process = files.owner(slot)?;
            Some((slot, self.numbered(tenant, process)?.is_alive))
        };
        (1..files.slots_high()).filter_map(of).collect()
    }

    pub(super) fn numbered(&self, tenant: u32, process: u32) -> Option<&Process> {
        let is_it = |one: &&Process| one.actor.tenant == tenant && one.actor.process == process;
        self.processes.iter().find(is_it)
    }

    /// Whether the process of a slot has a context on a device.
    pub fn has_context(&self, tenant: u32, slot: usize, device: usize) -> bool {
        let now_ns = sched::now_ns();
        let files = self.tenants.get(tenant as usize).map(|one| one.files);
        let process = files.and_then(|files| self.numbered(tenant, files.owner(slot)?));
        let live = |handle: &u64| self.context(*handle).is_some_and(|one| one.device == device);
        process.is_some_and(|one| {
            one.is_alive && one.start_ns <= now_ns && one.contexts.iter().any(live)
        })
    }

    /// Living processes of no tenant that have a context on a device at a time, as NVML tells.
    pub fn strangers(&self, device: usize, now_ns: u64) -> u32 {
        let is_one = |one: &&Process| {
            let of = self.tenants.get(one.actor.tenant as usize).filter(|of| of.plan.is_stranger);
            // A process that launches nothing makes no context: an operator.
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

    pub(super) fn new_key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    pub(super) fn next_card_ns(&self) -> u64 {
        self.cards.iter().map(Card::next_ns).min().unwrap_or(NEVER_NS)
    }

    /// Wakes who waited for what a device has completed, and lets the running thread be left where the
    /// device's next event comes.
    pub(super) fn look(&mut self, device: usize) {
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

    pub(super) fn context(&self, handle: u64) -> Option<&Context> {
        self.contexts.get(usize::try_from(handle.checked_sub(1)?).ok()?)
    }

    /// Adds an event to the trace.
    pub fn note(&mut self, at_ns: u64, what: &'static str, who: u64, value: u64) {
        self.trace.add(Event { at_ns, what, who, value });
    }

    /// Something was seen that must not be.
    pub fn violated(&mut self, who: Actor, at_ns: u64, what: impl Into<String>) {
        self.note(at_ns, "violation", who.word(), 0);
        self.violations.push(Violation { at_ns, who, what: what.into() });
    }
}
