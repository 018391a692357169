//! The driver as programs call it, between the hooks.
//!
//! A launch call takes its time first and submits at its end, and waits where the stream's queue is full;
//! a synchronisation returns some time after what it waited for. See [`super::driver`] for what holds for
//! every call.

use divvy_policy::gate::LaunchStream;

use super::driver::{here, is_refused};
use super::life::{exit_key, spawn};
use super::sim_driver::SimDriver;
use super::state::{Capture, Context, OfContext, Waiter, Which, World, with};
use crate::card::{FULL_PPM, Position, What};
use crate::fiber;
use crate::program::Ops;
use crate::sched::{self, NEVER_NS, ThreadId, point};
use crate::site::{Actor, Fault, Site};

/// Time that a thread without a context spends on a launch that fails: few try again at once.
const FAILED_NS: u64 = 20_000;

/// Waits until what `of` names has been completed; true if anything had to be waited for.
fn wait_for(of: impl Fn(&World, ThreadId) -> (usize, Vec<Position>)) -> bool {
    let mut waited = false;
    loop {
        let key = here(|world, thread| {
            let (device, positions) = of(world, thread);
            let card = world.cards.get(device)?;
            let positions: Vec<_> = positions.into_iter().filter(|at| !card.is_done(*at)).collect();
            if positions.is_empty() {
                return None;
            }
            let key = world.new_key();
            world.waiters.push(Waiter { thread, key, device, positions });
            Some(key)
        });
        let Some(key) = key else { return waited };
        waited = true;
        sched::block(key, NEVER_NS);
    }
}

impl SimDriver {
    /// A kernel, or a graph as one; `call_ns` is how long the call takes, where that is known.
    pub fn launch(&self, stream: LaunchStream, length_ns: u64, width_ppm: u32) -> bool {
        self.launch_kernel(stream, length_ns, width_ppm, None)
    }

    /// A kernel that gets on while those of all ranks have begun.
    pub(super) fn launch_collective(
        &self,
        stream: LaunchStream,
        length_ns: u64,
        which: Which,
    ) -> bool {
        self.launch_kernel(stream, length_ns, FULL_PPM, Some(which))
    }

    fn launch_kernel(
        &self,
        stream: LaunchStream,
        length_ns: u64,
        width_ppm: u32,
        which: Option<Which>,
    ) -> bool {
        let call_ns = here(|world, thread| {
            let now_ns = sched::now_ns();
            let place = world.place(thread, stream)?;
            let one = world.thread(thread)?;
            let idle_ns = now_ns - one.last_call_ns.min(now_ns);
            let card = world.cards.get(place.device)?;
            let context = world.contexts.get(place.context)?.id;
            let is_drained = card.is_drained(context, place.stream);
            let model = card.model();
            let drained_ns = model.launch_drained_call_ns;
            let [least, most] = if is_drained { drained_ns } else { model.launch_call_ns };
            Some(sched::choice().between(least, most) + model.idle_call_ns(idle_ns))
        });
        let call_ns = call_ns.unwrap_or(FAILED_NS);
        self.launched(Site::Launch, stream, (length_ns, width_ppm), call_ns, which)
    }

    /// A graph.
    pub fn launch_graph(&self, stream: LaunchStream, length_ns: u64, call_ns: Option<u64>) -> bool {
        let usual_ns = here(|world, thread| {
            let place = world.place(thread, stream)?;
            let card = world.cards.get(place.device)?;
            let context = world.contexts.get(place.context)?.id;
            let is_drained = card.is_drained(context, place.stream);
            let model = card.model();
            let begins_ns = model.graph_begins_ns;
            let drained_ns = model.graph_drained_call_ns;
            let usual_ns = if is_drained { drained_ns } else { model.graph_busy_call_ns };
            // The device begins before a longer call has ended.
            Some((call_ns.unwrap_or(usual_ns), begins_ns))
        });
        let (call_ns, begins_ns) = usual_ns.unwrap_or((FAILED_NS, FAILED_NS));
        let before_ns = if call_ns > 2 * begins_ns { begins_ns } else { call_ns };
        let is_launched =
            self.launched(Site::Graph, stream, (length_ns, FULL_PPM), before_ns, None);
        sched::spend(call_ns - before_ns);
        point(Site::LaunchBack);
        is_launched
    }

    fn launched(
        &self,
        site: Site,
        stream: LaunchStream,
        (length_ns, width_ppm): (u64, u32),
        call_ns: u64,
        which: Option<Which>,
    ) -> bool {
        let fault = point(site);
        let set = |is_launching| {
            here(|world, thread| {
                world.thread(thread)?.is_launching = is_launching;
                Some(())
            })
        };
        set(true);
        sched::spend(call_ns);
        point(Site::LaunchBack);
        set(false);
        if is_refused(fault) {
            return false;
        }
        let length_ns = match fault {
            Some(Fault::Longer(ppm)) => {
                let longer = u128::from(length_ns) * u128::from(ppm) / 1_000_000;
                u64::try_from(longer).unwrap_or(length_ns)
            }
            _ => length_ns,
        };
        if here(|world, thread| Some(world.is_capturing(thread, stream))) == Some(true) {
            return true;
        }
        // No room in the queue: the call waits for the oldest.
        wait_for(|world, thread| {
            let Some(one) = world.threads.get(&thread) else { return (0, Vec::new()) };
            let Some(context) = world.context(one.context) else { return (0, Vec::new()) };
            let key = World::stream_key(thread, stream);
            let Some(stream) = context.streams.get(&key) else { return (0, Vec::new()) };
            let card = &world.cards[context.device];
            let queued = card.queued(context.id, *stream);
            let room = card.model().queue.max(1);
            let tail = card.tail(context.id, *stream);
            let over = queued.saturating_sub(room - 1);
            let waited = tail.filter(|_| over != 0);
            let waited = waited.map(|tail| Position { seq: tail.seq + over - queued, ..tail });
            (context.device, waited.into_iter().collect())
        });
        here(|world, thread| {
            let place = world.place(thread, stream)?;
            let (what, now_ns) =
                (What::Kernel { length_ns: length_ns.max(1), width_ppm }, sched::now_ns());
            let position = world.submit(&place, what, now_ns, Vec::new());
            if let Some(which) = which {
                world.join(which, place.device, position, now_ns);
            }
            world.thread(thread)?.last_call_ns = sched::now_ns();
            Some(())
        })
        .is_some()
    }

    /// A copy, a host function, or a stream's wait for what `after` names.
    pub fn submit(&self, site: Site, stream: LaunchStream, what: What, after: Option<u64>) {
        let [least, most] = self.model(|model| model.launch_call_ns);
        if site == Site::Copy && fiber::is_inside() {
            sched::spend(sched::choice().between(least, most));
        }
        point(site);
        here(|world, thread| {
            if world.is_capturing(thread, stream) {
                return Some(());
            }
            let after = after.and_then(|event| {
                let at = usize::try_from(event.checked_sub(1)?).ok()?;
                let OfContext { device, event, .. } = *world.events.get(at)?;
                world.cards.get(device)?.recorded(event)
            });
            let place = world.place(thread, stream)?;
            world.submit(&place, what, sched::now_ns(), after.into_iter().collect());
            Some(())
        });
    }

    /// Records an event of the program's, without timing.
    pub fn record_plain(&self, event: u64, stream: LaunchStream) -> bool {
        self.recorded(Site::StreamWait, event, stream, false)
    }

    /// Waits for all of the current context.
    pub fn synchronise(&self) {
        self.wait(|world, thread| {
            let context = world.threads.get(&thread).and_then(|one| world.context(one.context));
            let of = |one: &Context| (one.device, world.cards[one.device].tails(one.id));
            context.map(of).unwrap_or_default()
        });
    }

    /// Waits for a stream.
    pub fn synchronise_stream(&self, stream: LaunchStream) {
        let place = here(|world, thread| world.place(thread, stream));
        self.wait(move |world, _| {
            let Some(place) = &place else { return (0, Vec::new()) };
            let Some(context) = world.contexts.get(place.context) else { return (0, Vec::new()) };
            let tail = world.cards[place.device].tail(context.id, place.stream);
            (place.device, tail.into_iter().collect())
        });
    }

    /// Waits for an event.
    pub fn synchronise_event(&self, event: u64) {
        self.wait(move |world, _| {
            let at = event.checked_sub(1).and_then(|at| usize::try_from(at).ok());
            let Some(OfContext { device, event, .. }) = at.and_then(|at| world.events.get(at))
            else {
                return (0, Vec::new());
            };
            (*device, world.cards[*device].recorded(*event).into_iter().collect())
        });
    }

    fn wait(&self, of: impl Fn(&World, ThreadId) -> (usize, Vec<Position>)) {
        point(Site::Synchronise);
        let called_ns = sched::now_ns();
        here(|world, thread| {
            world.unsafe_call(thread, "a synchronisation", false);
            Some(())
        });
        let waited = wait_for(of);
        let back = here(|world, thread| {
            let now_ns = sched::now_ns();
            let process = world.process_of(thread)?;
            let (is_blocking, device) = (process.is_blocking, process.device);
            let model = world.cards.get(device)?.model();
            let [least, most] = model.blocking_return_ns;
            let choice = sched::choice();
            let spread_ns = choice.below(model.return_spread_ns);
            let woken_ns = if is_blocking { choice.of(1).between(least, most) } else { 0 };
            let return_ns = if waited { model.return_ns + spread_ns + woken_ns } else { 0 };
            let least_ns = called_ns + model.synchronise_call_ns;
            world.thread(thread)?.last_call_ns = now_ns;
            Some((now_ns + return_ns).max(least_ns) - now_ns)
        });
        sched::spend(back.unwrap_or(0));
        point(Site::SynchroniseBack);
        let who = if fiber::is_inside() { sched::actor().word() } else { 0 };
        here(|world, _| {
            world.note(sched::now_ns(), "synchronised", who, 0);
            Some(())
        });
    }

    /// Whether a stream is done.
    pub fn is_stream_done(&self, stream: LaunchStream) -> bool {
        if point(Site::Query) == Some(Fault::Busy) {
            return false;
        }
        here(|world, thread| {
            world.unsafe_call(thread, "a query", false);
            let place = world.place(thread, stream)?;
            let context = world.contexts.get(place.context)?.id;
            Some(world.cards[place.device].tail(context, place.stream).is_none())
        })
        .unwrap_or(true)
    }

    /// Begins a capture.
    ///
    /// False where it captures already.
    pub fn begin_capture(&self, stream: LaunchStream, is_global: bool) -> bool {
        point(Site::Capture);
        here(|world, thread| {
            let context = world.threads.get(&thread)?.context;
            let stream = World::stream_key(thread, stream);
            let captures = &mut world.process_of(thread)?.captures;
            let is_free = captures.iter().all(|capture| capture.stream != stream);
            is_free.then(|| captures.push(Capture { context, stream, is_global }))
        })
        .is_some()
    }

    /// Ends it.
    ///
    /// False where there was none.
    pub fn end_capture(&self, stream: LaunchStream) -> bool {
        point(Site::Capture);
        here(|world, thread| {
            let stream = World::stream_key(thread, stream);
            let captures = &mut world.process_of(thread)?.captures;
            let before = captures.len();
            captures.retain(|capture| capture.stream != stream);
            (captures.len() != before).then_some(())
        })
        .is_some()
    }

    /// Makes a context current, a new one.
    pub fn create_context(&self) -> u64 {
        point(Site::CreateContext);
        here(|world, thread| {
            let process = world.threads.get(&thread)?.process;
            let context = world.create_context(process);
            // So do the threads whose context was destroyed.
            let of_it = world.threads.values_mut().filter(|one| one.process == process);
            of_it.filter(|one| one.context == 0).for_each(|one| one.context = context);
            world.thread(thread)?.context = context;
            Some(context)
        })
        .unwrap_or(0)
    }

    /// Destroys a context, for all threads; the process's last other one is current then where it was.
    /// How many captures ended with it; none where another thread's call destroys it, or has.
    pub fn destroy_context(&self, handle: u64) -> Option<u32> {
        let is_ours = here(|world, _| {
            let at = usize::try_from(handle.checked_sub(1)?).ok()?;
            let context = world.contexts.get_mut(at)?;
            Some(!std::mem::replace(&mut context.is_going, true))
        });
        if is_ours != Some(true) {
            return None;
        }
        point(Site::DestroyContext);
        here(|world, thread| {
            let (device, id) = world.context(handle).map(|one| (one.device, one.id))?;
            let process = world.process_of(thread)?;
            process.contexts.retain(|one| *one != handle);
            let captures = process.captures.len();
            process.captures.retain(|capture| capture.context != handle);
            let ended = u32::try_from(captures - process.captures.len()).unwrap_or(0);
            let next = process.contexts.last().copied().unwrap_or(0);
            for one in world.threads.values_mut().filter(|one| one.context == handle) {
                one.context = next;
            }
            world.cards[device].advance(sched::now_ns());
            world.cards[device].drop_context(id);
            world.note(sched::now_ns(), "destroyed", handle, 0);
            world.look(device);
            // Threads that waited for it wait for nothing now.
            let cards = &world.cards;
            world.waiters.retain(|one| {
                let card = &cards[one.device];
                let is_over = one.positions.iter().all(|at| card.is_done(*at));
                if is_over {
                    sched::wake(one.thread, one.key, sched::now_ns());
                }
                !is_over
            });
            Some(ended)
        })
    }

    /// Another thread of the process.
    pub fn spawn_thread(&self, ops: &Ops, shim: std::rc::Rc<dyn super::shim::Shim>) {
        point(Site::Fork);
        let process = here(|world, thread| Some(world.thread(thread)?.process));
        let context = self.current();
        if let Some(process) = process {
            let thread = spawn(process, ops.clone().into(), sched::now_ns(), Some(shim));
            with(|world| {
                if let Some(one) = world.thread(thread) {
                    one.context = context;
                }
            });
        }
    }

    fn current(&self) -> u64 {
        here(|world, thread| Some(world.thread(thread)?.context)).unwrap_or(0)
    }

    /// Another process of the tenant, which takes its time to begin; waits for its end where that is said.
    pub fn spawn_process(&self, ops: &Ops, is_waited: bool) {
        point(Site::Fork);
        let made = here(|world, thread| {
            let one = world.process_of(thread)?;
            let (tenant, device, is_blocking) = (one.actor.tenant, one.device, one.is_blocking);
            let process = world.begin_process(tenant, device, is_blocking);
            world.create_context(process);
            Some((process, world.processes[process].actor))
        });
        let Some((process, actor)) = made else { return };
        let begins_ns = sched::now_ns() + self.model(|model| model.process_start_ns);
        spawn(process, ops.clone().into(), begins_ns, None);
        while is_waited
            && here(|world, _| Some(world.processes.get(process)?.is_alive)) == Some(true)
        {
            sched::block(exit_key(actor), NEVER_NS);
        }
    }

    /// Ends the process. Does not return inside a fiber.
    pub fn exit(&self) {
        point(Site::Exit);
        if !fiber::is_inside() {
            return;
        }
        let (actor, now_ns): (Actor, u64) = (sched::actor(), sched::now_ns());
        sched::end_process(actor);
        with(|world| world.bury(actor, now_ns));
        sched::leave();
    }

    /// The process's beginning.
    pub fn start_ns(&self) -> u64 {
        here(|world, thread| Some(world.process_of(thread)?.start_ns)).unwrap_or(0)
    }

    /// A figure of the card's.
    pub fn model<T: Default>(&self, of: impl FnOnce(&crate::card::CardModel) -> T) -> T {
        here(|world, _| world.cards.first().map(|card| of(card.model()))).unwrap_or_default()
    }

    /// How late the calling thread is this time.
    pub fn late_ns(&self, of: impl FnOnce(&crate::card::CardModel) -> [u64; 2]) -> u64 {
        let [least, most] = self.model(of);
        if fiber::is_inside() { sched::choice().between(least, most) } else { 0 }
    }
}
