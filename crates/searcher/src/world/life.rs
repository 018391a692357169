//! How processes and threads begin and end.
//!
//! Promises: the death of a process clears all that the driver would clear, and leaves everything else as
//! it was.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::play;
use super::shim::Shim;
use super::state::{Context, Process, Thread, World, with};
use crate::choice::mix;
use crate::program::Ops;
use crate::sched::{self, ThreadId};
use crate::site::Actor;

impl World {
    /// Begins a process; its first thread does `ops`, with a context.
    pub(super) fn begin_process(&mut self, tenant: u32, device: usize, is_blocking: bool) -> usize {
        let one = &mut self.tenants[tenant as usize];
        let actor = Actor { tenant, process: one.processes, thread: 0 };
        one.processes += 1;
        let files = (!one.plan.is_stranger).then_some(one.files);
        if let Some(files) = files {
            let lives = |process| self.numbered(tenant, process).is_some_and(|one| one.is_alive);
            files.take_slot(actor.process, lives, sched::now_ns());
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
    pub(super) fn create_context(&mut self, process: usize) -> u64 {
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

    /// Clears what the driver clears of a process that is no more.
    pub(super) fn bury(&mut self, actor: Actor, at_ns: u64) {
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

/// Key by which the end of a process is waited for.
pub(super) fn exit_key(actor: Actor) -> u64 {
    mix(Actor { thread: 0, ..actor }.word() ^ 0x6578_6974)
}

/// Adds a thread to a process, which begins at a time.
pub(super) fn spawn(
    process: usize,
    ops: Rc<Ops>,
    at_ns: u64,
    shim: Option<Rc<dyn Shim>>,
) -> ThreadId {
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
