//! The loop that lets time pass.
//!
//! Everything that can happen next is a thread's next step or a device's next event; the earliest of them
//! happens. Of the same time the device goes first, then threads by their numbers.
//!
//! Promises: the world is taken down at the end, also behind a panic.

use std::rc::Rc;

use super::life::spawn;
use super::report::{End, Report};
use super::shim::Code;
use super::sim_driver::SimDriver;
use super::state::{self, World, with};
use crate::card::Card;
use crate::case::Case;
use crate::files;
use crate::sched::{self, NEVER_NS};
use crate::site::{Actor, Site};

impl World {
    /// Lets all devices come to a time.
    fn advance(&mut self, to_ns: u64) {
        for device in 0..self.cards.len() {
            self.cards[device].advance(to_ns);
            self.look(device);
        }
        self.meet(to_ns);
    }
}

/// Runs a case. `each` is shown the world whenever the devices have got on.
///
/// # Panics
/// As a fiber's body panics.
pub fn run_with(case: &Case, code: &Code, mut each: impl FnMut(&mut World, u64)) -> Report {
    let _ended = Ended;
    sched::begin(case.knobs.seed, Site::costs(&case.knobs.card), &case.devs);
    state::put(World::new(case, Rc::clone(&code.shims)));
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
            longest_call_ns: world.tenants.iter().map(|one| one.longest_call_ns).collect(),
            trials: world.trials,
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
        for tenant in state::take().into_iter().flat_map(|world| world.tenants) {
            files::give_back_files(tenant.files);
        }
    }
}
