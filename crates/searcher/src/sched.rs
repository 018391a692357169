//! The scheduler: simulated threads, each with a clock of its own, of which the one furthest behind runs.
//!
//! A thread that comes to a [`point`] is charged the site's cost, meets the deviation that the case has planned
//! there, and is left if anything is behind it: another thread, or the card's next event. So the actions of a thread
//! right after a point happen at its time, after all earlier ones.
//!
//! Promises: threads of the same time go on in the order of their numbers. A thread that was killed is
//! never gone on with, and is not unwound before [`end`]; calls during unwinding are neither charged nor
//! seen. A wait has a deadline or a key, and returns which of the two ended it.
//!
//! Does not know the calls behind sites. The world calls [`earliest`] and [`resume`] by turns.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::choice::Choices;
use crate::fiber::{self, Fiber};
use crate::site::{Actor, Costs, Dev, Fault, SITES, Site};

/// Number of a simulated thread.
pub type ThreadId = usize;

/// Time that never comes.
pub const NEVER_NS: u64 = u64::MAX;

/// How often each thread came to each site.
pub type Visits = BTreeMap<(Actor, Site), u32>;

/// End of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Its key was woken.
    ByKey,
    /// Its time came.
    InTime,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    Blocked { key: u64 },
    Ended,
    Killed,
}

struct Thread {
    actor: Actor,
    /// The next thing it does happens then; while it is blocked, its deadline.
    clock_ns: u64,
    /// A stopped process does nothing before.
    stopped_until_ns: u64,
    state: State,
    woken: Woken,
    visits: [u32; SITES],
    /// Its deviations, by site and visit.
    planned: BTreeMap<(Site, u32), Fault>,
    fiber: Option<Fiber>,
    draws: u64,
}

struct Scheduler {
    threads: Vec<Thread>,
    costs: Costs,
    devs: Vec<Dev>,
    choices: Choices,
    running: Option<ThreadId>,
    /// The running thread is left when its clock comes here.
    bound_ns: u64,
    killed: Vec<(Actor, u64)>,
    met: Vec<Dev>,
}

thread_local! {
    static SCHEDULER: RefCell<Option<Scheduler>> = const { RefCell::new(None) };
}

fn with<T>(act: impl FnOnce(&mut Scheduler) -> T) -> T {
    SCHEDULER.with_borrow_mut(|scheduler| act(scheduler.as_mut().expect("a run is under way")))
}

impl Scheduler {
    fn running(&mut self) -> &mut Thread {
        let at = self.running.expect("a thread is running");
        &mut self.threads[at]
    }

    fn others(&self) -> u64 {
        let running = self.running;
        let of = self.threads.iter().enumerate().filter(|(at, _)| Some(*at) != running);
        of.map(|(_, thread)| thread.next_ns()).min().unwrap_or(NEVER_NS)
    }

    fn end(&mut self, process: Actor, state: State) {
        for thread in self.threads.iter_mut().filter(|thread| thread.actor.is_beside(process)) {
            if matches!(thread.state, State::Ready | State::Blocked { .. }) {
                thread.state = state;
            }
        }
    }

    fn stop(&mut self, process: Actor, until_ns: u64) {
        for thread in self.threads.iter_mut().filter(|thread| thread.actor.is_beside(process)) {
            thread.stopped_until_ns = thread.stopped_until_ns.max(until_ns);
        }
    }
}

impl Thread {
    fn next_ns(&self) -> u64 {
        match self.state {
            State::Ready => self.clock_ns.max(self.stopped_until_ns),
            State::Blocked { .. } if self.clock_ns == NEVER_NS => NEVER_NS,
            State::Blocked { .. } => self.clock_ns.max(self.stopped_until_ns),
            State::Ended | State::Killed => NEVER_NS,
        }
    }
}

/// Begins a run on this thread of the host.
///
/// # Panics
/// Where one is under way.
pub fn begin(seed: u64, costs: Costs, devs: &[Dev]) {
    SCHEDULER.with_borrow_mut(|scheduler| {
        assert!(scheduler.is_none(), "one run at a time");
        *scheduler = Some(Scheduler {
            threads: Vec::new(),
            costs,
            devs: devs.to_vec(),
            choices: Choices::new(seed),
            running: None,
            bound_ns: NEVER_NS,
            killed: Vec::new(),
            met: Vec::new(),
        });
    });
}

/// Ends the run: unwinds what was left in the middle. The verdict has been passed by then.
pub fn end() {
    let fibers: Vec<_> = SCHEDULER
        .with_borrow_mut(Option::take)
        .into_iter()
        .flat_map(|scheduler| scheduler.threads)
        .filter_map(|thread| thread.fiber)
        .collect();
    // No run is under way: points met while unwinding are nobody's.
    drop(fibers);
}

/// Adds a thread, which begins at `clock_ns`.
pub fn spawn(actor: Actor, clock_ns: u64, body: impl FnOnce() + 'static) -> ThreadId {
    let fiber = Fiber::new(body);
    with(|scheduler| {
        let of_it = scheduler.devs.iter().filter(|dev| dev.who == actor);
        let planned = of_it.map(|dev| ((dev.site, dev.nth), dev.what)).collect();
        scheduler.threads.push(Thread {
            actor,
            clock_ns,
            stopped_until_ns: 0,
            state: State::Ready,
            woken: Woken::InTime,
            visits: [0; SITES],
            planned,
            fiber: Some(fiber),
            draws: 0,
        });
        // Not before its maker.
        scheduler.bound_ns = scheduler.bound_ns.min(clock_ns);
        scheduler.threads.len() - 1
    })
}

/// Next thread and its time; `None` if no thread will do anything any more.
pub fn earliest() -> Option<(u64, ThreadId)> {
    with(|scheduler| {
        let next = |(at, thread): (usize, &Thread)| (thread.next_ns(), at);
        let first = scheduler.threads.iter().enumerate().map(next).min()?;
        (first.0 != NEVER_NS).then_some(first)
    })
}

/// Lets a thread go on until somebody else is behind, or something else happens at `bound_ns`.
pub fn resume(thread: ThreadId, bound_ns: u64) {
    let fiber = with(|scheduler| {
        let one = &mut scheduler.threads[thread];
        one.clock_ns = one.next_ns();
        if matches!(one.state, State::Blocked { .. }) {
            one.woken = Woken::InTime;
            one.state = State::Ready;
        }
        scheduler.running = Some(thread);
        scheduler.bound_ns = bound_ns.min(scheduler.others());
        scheduler.threads[thread].fiber.take()
    });
    let Some(mut fiber) = fiber else { return };
    let has_ended = fiber.resume();
    with(|scheduler| {
        scheduler.running = None;
        let thread = &mut scheduler.threads[thread];
        if has_ended && thread.state != State::Killed {
            thread.state = State::Ended;
        }
        thread.fiber = (!has_ended).then_some(fiber);
    });
}

/// The running thread is at `site`: charges it, carries out the planned deviation, and returns when the thread is
/// furthest behind. A fault that the site itself must carry out is returned.
pub fn point(site: Site) -> Option<Fault> {
    if !fiber::is_inside() {
        return None;
    }
    let fault = with(|scheduler| {
        let cost_ns = scheduler.costs[site.index()];
        let thread = scheduler.running();
        thread.clock_ns += cost_ns;
        let nth = thread.visits[site.index()];
        thread.visits[site.index()] += 1;
        if thread.planned.is_empty() {
            return None;
        }
        let what = thread.planned.remove(&(site, nth))?;
        if let Fault::Delay(ns) = what {
            thread.clock_ns = thread.clock_ns.saturating_add(ns);
        }
        let who = thread.actor;
        scheduler.met.push(Dev { who, site, nth, what });
        Some(what)
    });
    leave_if_behind();
    // A fault that concerns other threads happens behind all that comes before it.
    match fault? {
        Fault::Delay(_) => None,
        Fault::Stop(ns) => {
            with(|scheduler| {
                let thread = scheduler.running();
                let (actor, until_ns) = (thread.actor, thread.clock_ns.saturating_add(ns));
                scheduler.stop(actor, until_ns);
            });
            // Its clock is what it is when it goes on.
            fiber::suspend();
            None
        }
        Fault::Kill => {
            with(|scheduler| {
                let thread = scheduler.running();
                let (actor, at_ns) = (thread.actor, thread.clock_ns);
                scheduler.end(actor, State::Killed);
                scheduler.killed.push((actor, at_ns));
            });
            fiber::suspend();
            None
        }
        other => Some(other),
    }
}

fn leave_if_behind() {
    let is_behind = with(|scheduler| {
        let bound_ns = scheduler.bound_ns;
        scheduler.running().next_ns() >= bound_ns
    });
    if is_behind {
        fiber::suspend();
    }
}

/// The running thread's clock; 0 outside a thread.
pub fn now_ns() -> u64 {
    if fiber::is_inside() { with(|scheduler| scheduler.running().clock_ns) } else { 0 }
}

/// The running thread.
pub fn thread() -> ThreadId {
    with(|scheduler| scheduler.running.expect("a thread is running"))
}

/// Actor of the running thread.
pub fn actor() -> Actor {
    with(|scheduler| scheduler.running().actor)
}

/// Charges the running thread. Its next action must be behind a [`point`].
pub fn spend(ns: u64) {
    if fiber::is_inside() {
        with(|scheduler| {
            let thread = scheduler.running();
            thread.clock_ns = thread.clock_ns.saturating_add(ns);
        });
    }
}

/// The running thread's next choice. Its own count, so that nobody else's choices move it.
pub fn choice() -> Choices {
    with(|scheduler| {
        let choices = scheduler.choices;
        let thread = scheduler.running();
        thread.draws += 1;
        choices.of(thread.actor.word()).of(thread.draws)
    })
}

/// The running thread waits until its key is woken, at most until `until_ns`.
pub fn block(key: u64, until_ns: u64) -> Woken {
    if !fiber::is_inside() {
        return Woken::InTime;
    }
    with(|scheduler| {
        let thread = scheduler.running();
        thread.state = State::Blocked { key };
        thread.clock_ns = until_ns.max(thread.clock_ns);
    });
    fiber::suspend();
    with(|scheduler| scheduler.running().woken)
}

/// Wakes a thread that waits for its key: it goes on at `at_ns`, or at its deadline where that is sooner.
pub fn wake(thread: ThreadId, key: u64, at_ns: u64) -> bool {
    with(|scheduler| {
        let Some(one) = scheduler.threads.get_mut(thread) else { return false };
        if one.state != (State::Blocked { key }) {
            return false;
        }
        if at_ns <= one.clock_ns {
            one.clock_ns = at_ns;
            one.woken = Woken::ByKey;
            one.state = State::Ready;
            let next_ns = one.next_ns();
            scheduler.bound_ns = scheduler.bound_ns.min(next_ns);
        }
        true
    })
}

/// The threads that wait for a key, in the order of their numbers.
pub fn waiting(key: u64) -> Vec<ThreadId> {
    with(|scheduler| {
        let all = scheduler.threads.iter().enumerate();
        all.filter(|(_, one)| one.state == State::Blocked { key }).map(|(at, _)| at).collect()
    })
}

/// Something else happens at `at_ns`: the running thread is left there.
pub fn bound(at_ns: u64) {
    if fiber::is_inside() {
        with(|scheduler| scheduler.bound_ns = scheduler.bound_ns.min(at_ns));
    }
}

/// Ends all threads of a process. The running one, where it is of it, goes on to [`leave`].
pub fn end_process(process: Actor) {
    with(|scheduler| scheduler.end(process, State::Killed));
}

/// Ends the running thread in the middle of its body, as [`end_process`] and a kill do.
pub fn leave() {
    with(|scheduler| scheduler.running().state = State::Killed);
    fiber::suspend();
}

/// Processes that a deviation has killed since this was asked last, each named by the thread it hit, and
/// when.
pub fn take_killed() -> Vec<(Actor, u64)> {
    with(|scheduler| std::mem::take(&mut scheduler.killed))
}

/// The deviations that were met so far.
pub fn met() -> Vec<Dev> {
    with(|scheduler| scheduler.met.clone())
}

/// Whether a thread is neither ended nor killed.
pub fn lives(thread: ThreadId) -> bool {
    with(|scheduler| {
        let state = scheduler.threads.get(thread).map(|thread| thread.state);
        matches!(state, Some(State::Ready | State::Blocked { .. }))
    })
}

/// How often whom came where.
pub fn visits() -> Visits {
    with(|scheduler| {
        let mut visits = Visits::new();
        for thread in &scheduler.threads {
            for site in Site::ALL.iter().filter(|site| thread.visits[site.index()] != 0) {
                *visits.entry((thread.actor, *site)).or_default() += thread.visits[site.index()];
            }
        }
        visits
    })
}

#[cfg(test)]
mod tests;
