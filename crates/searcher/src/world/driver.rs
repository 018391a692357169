//! The driver as the gate finds it on a simulated thread.
//!
//! Names and forms are those of the gate's own traits, so that [`SimDriver`] can be made to implement
//! them. Each call is a site: it is charged, may meet what the case has planned, and happens at the
//! thread's time. Programs' calls lie in `calls`.
//!
//! Promises: calls while a fiber is unwound change nothing.

use divvy_policy::gate::LaunchStream;

use super::sim_driver::{BOOT_NS, SimDriver, in_run_ns};
use super::state::{OfContext, Process, Thread, World, with};
use crate::card::{Card, EventId, Position, StreamId, What};
use crate::choice::Choices;
use crate::sched::{self, ThreadId, point};
use crate::site::{Fault, Site};
use crate::world::words::SimDevice;
use crate::{US, fiber};

/// Other threads of which on the time of an event may not be there yet.
const SLEEPERS: u64 = 2;

/// A key that nobody wakes.
const NO_KEY: u64 = 0;

/// Whether a fault at a site has the call refused.
pub(super) fn is_refused(fault: Option<Fault>) -> bool {
    fault == Some(Fault::Refuse)
}

/// Place of a stream on its device, for a thread that works with it.
pub(super) struct Place {
    pub(super) device: usize,
    pub(super) context: usize,
    pub(super) stream: StreamId,
}

/// The calling thread's part of the world. `None` while it is unwound, or without a context.
pub(super) fn here<T>(act: impl FnOnce(&mut World, ThreadId) -> Option<T>) -> Option<T> {
    fiber::is_inside().then(sched::thread).and_then(|thread| with(|world| act(world, thread)))
}

impl World {
    /// The time of an event behind all of a context that the thread has just recorded cannot be read as soon as it is
    /// complete, at times, where others sleep in the driver.
    fn keep_from_reading(&mut self, thread: ThreadId, device: usize, event: EventId) {
        let context = self.thread(thread).map(|one| one.context);
        let of_it = self.threads.values().filter(|one| Some(one.context) == context);
        let others = of_it.count().saturating_sub(1) as u64;
        let is_asleep = self.process_of(thread).is_some_and(|process| process.is_blocking);
        let Some(card) = self.cards.get_mut(device).filter(|_| is_asleep && others >= SLEEPERS)
        else {
            return;
        };
        // Of its own: a draw of the thread's would shift those that follow.
        let choice = Choices::new(sched::now_ns()).of(event as u64);
        if choice.is(card.model().unread_ppm) {
            let most_ns = others * card.model().unread_beside_ns;
            card.keep_from_reading(event, choice.of(1).spread(US, most_ns));
        }
    }

    pub(super) fn thread(&mut self, thread: ThreadId) -> Option<&mut Thread> {
        self.threads.get_mut(&thread)
    }

    pub(super) fn process_of(&mut self, thread: ThreadId) -> Option<&mut Process> {
        let process = self.threads.get(&thread)?.process;
        self.processes.get_mut(process)
    }

    /// Where a stream is, which is made when it is first named.
    pub(super) fn place(&mut self, thread: ThreadId, stream: LaunchStream) -> Option<Place> {
        let handle = self.threads.get(&thread)?.context;
        let at = usize::try_from(handle.checked_sub(1)?).ok()?;
        let context = self.contexts.get_mut(at)?;
        let card = self.cards.get_mut(context.device)?;
        let key = (stream.handle, stream.per_thread.then_some(thread));
        let id = context.id;
        let stream = *context.streams.entry(key).or_insert_with(|| card.create_stream(id));
        Some(Place { device: context.device, context: at, stream })
    }

    pub(super) fn stream_key(thread: ThreadId, stream: LaunchStream) -> (u64, Option<ThreadId>) {
        (stream.handle, stream.per_thread.then_some(thread))
    }

    pub(super) fn is_capturing(&mut self, thread: ThreadId, stream: LaunchStream) -> bool {
        let key = Self::stream_key(thread, stream);
        let process = self.process_of(thread);
        process.is_some_and(|one| one.captures.iter().any(|capture| capture.stream == key))
    }

    /// Submits at `now_ns`, in the order that the legacy stream makes.
    pub(super) fn submit(
        &mut self,
        place: &Place,
        what: What,
        now_ns: u64,
        after: Vec<Position>,
    ) -> Position {
        let context = &mut self.contexts[place.context];
        let card = &mut self.cards[place.device];
        card.advance(now_ns);
        let model = card.model();
        let is_event = matches!(what, What::Event { .. });
        let ready_ns = now_ns + if is_event { model.event_start_ns } else { model.start_ns };
        let mut after = after;
        let is_legacy = place.stream == 0;
        if is_legacy {
            let marks = context.marks;
            after.extend(card.tails(context.id).into_iter().filter(|at| at.stream != marks));
        } else if let Some(legacy) = context.legacy.filter(|at| !card.is_done(*at)) {
            after.push(legacy);
        }
        let position = card.submit(context.id, place.stream, what, ready_ns, after);
        if is_legacy {
            context.legacy = Some(position);
        }
        let who = sched::actor().word();
        let (name, value) = match what {
            What::Kernel { length_ns, .. } => ("kernel", length_ns),
            What::Event { event, .. } => ("event", event as u64),
            What::Copy { bytes, .. } => ("copy", bytes),
            What::HostFunction { length_ns } => ("function", length_ns),
            What::Join => ("join", 0),
        };
        self.note(now_ns, name, who, value);
        self.look(place.device);
        position
    }

    /// Notes a call that no thread may make while a capture in the global mode is under way. A program may break its
    /// own captures, the gates may break none.
    pub(super) fn unsafe_call(&mut self, thread: ThreadId, what: &str, is_gates: bool) {
        let is_relaxed = self.threads.get(&thread).is_some_and(|one| one.relaxed != 0);
        let Some(process) = self.process_of(thread) else { return };
        let is_global = process.captures.iter().any(|capture| capture.is_global);
        if is_global && !is_relaxed {
            match is_gates {
                true => self.violated(
                    sched::actor(),
                    sched::now_ns(),
                    format!("{what} broke a capture"),
                ),
                false => self.faults += 1,
            }
        }
    }
}

/// A thread that launched within this time counts as launching still.
const LATELY_NS: u64 = 100_000;

impl World {
    /// An event by its handle. It ends with its context: that the gates use it then is what a real driver may end the
    /// program for. One that was made while another thread was destroying the context is of none: known, the gates go
    /// on with it where they met the context within that call.
    fn event(&mut self, handle: u64, is_gates: bool) -> Option<OfContext> {
        let one = *self.events.get(usize::try_from(handle.checked_sub(1)?).ok()?)?;
        let context = self.context(one.context).map(|context| (context.device, context.id));
        let is_alive = |(device, id): (usize, _)| {
            self.cards.get(device).is_some_and(|card: &Card| card.is_alive(id))
        };
        if is_gates && one.context != 0 && !context.is_some_and(is_alive) {
            let what = "an event of a context that is gone";
            self.violated(sched::actor(), sched::now_ns(), what);
        }
        Some(one)
    }
}

impl SimDriver {
    /// CLOCK_MONOTONIC.
    pub fn now_ns(&self) -> u64 {
        point(Site::Now);
        sched::now_ns() + BOOT_NS
    }

    /// Sleeps until a time of [`SimDriver::now_ns`], and is late.
    pub fn sleep_until(&self, deadline_ns: u64) {
        self.sleep_in_run(in_run_ns(deadline_ns));
    }

    /// The same until so long after the run's beginning.
    pub(super) fn sleep_in_run(&self, until_ns: u64) {
        point(Site::SleepUntil);
        if !fiber::is_inside() || until_ns <= sched::now_ns() {
            return;
        }
        let late_ns = self.late_ns(|model| model.sleep_late_ns);
        sched::block(NO_KEY, until_ns.saturating_add(late_ns));
    }

    /// One turn of a loop that waits awake.
    pub fn spin(&self) {
        point(Site::Spin);
    }

    /// The current context's handle; 0 for none.
    pub fn context(&self) -> u64 {
        point(Site::Context);
        here(|world, thread| Some(world.thread(thread)?.context)).unwrap_or(0)
    }

    /// Its number, never given twice.
    pub fn context_id(&self) -> u64 {
        point(Site::ContextId);
        // Handles of this world are never given twice either.
        here(|world, thread| Some(world.thread(thread)?.context)).unwrap_or(0)
    }

    /// The current context's device, where it is counted.
    pub fn device(&self) -> Option<SimDevice> {
        point(Site::Device);
        here(|world, thread| {
            let process = world.process_of(thread)?;
            let (actor, device) = (process.actor, process.device);
            SimDevice::of(world, actor, device)
        })
    }

    /// The calling thread's number.
    pub fn thread(&self) -> u32 {
        if fiber::is_inside() { u32::try_from(sched::thread() + 1).unwrap_or(u32::MAX) } else { 0 }
    }

    /// The calling thread's stripe of credit.
    pub fn stripe(&self) -> usize {
        if fiber::is_inside() { sched::actor().thread as usize } else { 0 }
    }

    /// Makes a timing event.
    pub fn create_event(&self) -> u64 {
        if is_refused(point(Site::CreateEvent)) {
            return 0;
        }
        here(|world, thread| {
            let device = world.process_of(thread)?.device;
            let context = world.thread(thread)?.context;
            let context =
                if world.context(context).is_some_and(|one| one.is_going) { 0 } else { context };
            let event = world.cards.get_mut(device)?.create_event();
            world.events.push(OfContext { device, event, context });
            Some(world.events.len() as u64)
        })
        .unwrap_or(0)
    }

    /// Records an event behind what is in a stream.
    pub fn record(&self, event: u64, stream: LaunchStream) -> bool {
        self.recorded(Site::Record, event, stream, true)
    }

    pub(super) fn recorded(
        &self,
        site: Site,
        event: u64,
        stream: LaunchStream,
        is_timed: bool,
    ) -> bool {
        let fault = point(site);
        if is_refused(fault) {
            return false;
        }
        here(|world, thread| {
            if world.is_capturing(thread, stream) {
                if !is_timed {
                    return Some(());
                }
                // It would be a part of the graph, and never be complete.
                world.violated(sched::actor(), sched::now_ns(), "an event on a capturing stream");
                return None;
            }
            let OfContext { event, .. } = world.event(event, is_timed)?;
            let place = world.place(thread, stream)?;
            let what = What::Event { event, is_timed, is_whole: false };
            world.submit(&place, what, sched::now_ns(), Vec::new());
            Some(())
        })
        .is_some()
    }

    /// Records an event behind all of a context's work.
    pub fn record_context(&self, context: u64, event: u64) -> bool {
        let others_ns = here(|world, thread| {
            let since_ns = sched::now_ns().saturating_sub(LATELY_NS);
            let of_it = |(other, one): &(&ThreadId, &Thread)| {
                let launches = one.is_launching || one.last_call_ns > since_ns;
                **other != thread && one.context == context && launches
            };
            let others = world.threads.iter().filter(of_it).count() as u64;
            let model = world.cards.first()?.model();
            Some(others * model.record_context_beside_ns)
        });
        sched::spend(others_ns.unwrap_or(0));
        if is_refused(point(Site::RecordContext)) {
            return false;
        }
        here(|world, thread| {
            if world.process_of(thread).is_some_and(|process| !process.captures.is_empty()) {
                let what = "an event behind a context broke a capture";
                world.violated(sched::actor(), sched::now_ns(), what);
            }
            let at = usize::try_from(context.checked_sub(1)?).ok()?;
            let OfContext { event, .. } = world.event(event, true)?;
            let one = world.contexts.get(at)?;
            let (device, stream) = (one.device, one.marks);
            let card = world.cards.get(device).filter(|card| card.is_alive(one.id))?;
            let after = card.tails(one.id);
            let place = Place { device, context: at, stream };
            let what = What::Event { event, is_timed: true, is_whole: true };
            world.submit(&place, what, sched::now_ns(), after);
            world.keep_from_reading(thread, device, event);
            Some(())
        })
        .is_some()
    }

    /// Whether an event has been completed. An error counts as done.
    pub fn is_done(&self, event: u64) -> bool {
        if point(Site::IsDone) == Some(Fault::Busy) {
            return false;
        }
        here(|world, thread| {
            world.unsafe_call(thread, "a query", true);
            let OfContext { device, event, .. } = world.event(event, true)?;
            let card = world.cards.get(device)?;
            Some(card.is_seen_done(event, sched::now_ns()))
        })
        .unwrap_or(true)
    }

    /// Device time between two completed events.
    pub fn elapsed_ns(&self, from: u64, to: u64) -> Option<i64> {
        if is_refused(point(Site::Elapsed)) {
            return None;
        }
        here(|world, _| {
            let mut at_ns = |event: u64| {
                let OfContext { device, event, .. } = world.event(event, true)?;
                let card = world.cards.get(device)?;
                let tick_ns = card.model().event_tick_ns.max(1);
                let time_ns = card.event_time_ns(event, sched::now_ns())?;
                i64::try_from(time_ns / tick_ns * tick_ns).ok()
            };
            Some(at_ns(to)? - at_ns(from)?)
        })
    }

    /// Whether a stream is being captured.
    pub fn is_captured(&self, stream: LaunchStream) -> bool {
        point(Site::IsCaptured);
        here(|world, thread| Some(world.is_capturing(thread, stream))).unwrap_or(false)
    }

    /// Does something with the thread's mode of captures relaxed.
    pub fn relaxed<T>(&self, act: impl FnOnce() -> T) -> T {
        let change = |by: i32| {
            here(|world, thread| {
                let one = world.thread(thread)?;
                one.relaxed = one.relaxed.saturating_add_signed(by);
                Some(())
            })
        };
        point(Site::Relaxed);
        change(1);
        let answer = act();
        change(-1);
        answer
    }
}
