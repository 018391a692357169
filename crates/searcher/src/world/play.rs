//! How a simulated thread does what its program says, through its process's hooks.

use std::collections::BTreeMap;
use std::rc::Rc;

use divvy_policy::gate::LaunchStream;

use super::message;
use super::shim::{Native, Other, Shim, SimWait};
use super::sim_driver::SimDriver;
use super::state::{Which, with};
use crate::card::What;
use crate::program::{Op, Ops};
use crate::sched::{self, point};
use crate::site::Site;

/// Time of a turn of a loop that would take none.
const TURN_NS: u64 = 100;

/// The longest pause between two questions whether a stream is done.
const MOST_PAUSE_NS: u64 = 5_000;

/// Whether the thread goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Exit,
}

struct Player {
    driver: SimDriver,
    shim: Rc<dyn Shim>,
    start_ns: u64,
    tenant: u32,
    /// Launches of each key.
    launches: BTreeMap<u64, u64>,
    /// Collectives of each group.
    collectives: BTreeMap<u32, u64>,
    /// The program's own events.
    events: BTreeMap<u32, u64>,
}

/// A thread's whole life. The first thread of a process ends with the process.
pub(super) fn body(ops: &Rc<Ops>, process: usize, shim: Option<Rc<dyn Shim>>) {
    point(Site::Begin);
    let driver = SimDriver;
    let (actor, shims, is_stranger) = with(|world| {
        let actor = world.processes[process].actor;
        let tenant = world.tenant(actor.tenant);
        let is_stranger = tenant.is_some_and(|tenant| tenant.plan.is_stranger);
        (actor, Rc::clone(&world.shims), is_stranger)
    });
    let is_first = shim.is_none();
    let shim = shim.unwrap_or_else(|| match is_stranger {
        true => Rc::new(Native),
        false => shims(actor, driver),
    });
    let start_ns = driver.start_ns();
    let events = BTreeMap::new();
    let (tenant, launches, collectives) = (actor.tenant, BTreeMap::new(), BTreeMap::new());
    let mut player = Player { driver, shim, start_ns, tenant, launches, collectives, events };
    let flow = player.play(ops);
    if is_first || flow == Flow::Exit {
        player.shim.exit();
        driver.exit();
    }
}

/// Handles of streams that are made are addresses; small ones are the driver's names of default streams.
const FIRST_STREAM: u64 = 0x1000;

fn stream(number: u32) -> LaunchStream {
    let handle = if number == 0 { 0 } else { FIRST_STREAM + u64::from(number) };
    LaunchStream { handle, per_thread: false }
}

impl Player {
    fn play(&mut self, ops: &Ops) -> Flow {
        for op in ops {
            if self.step(op) == Flow::Exit {
                return Flow::Exit;
            }
        }
        Flow::On
    }

    /// Does a list once; a turn that took no time takes a little.
    fn turn(&mut self, ops: &Ops) -> Flow {
        let before_ns = sched::now_ns();
        let flow = self.play(ops);
        if flow == Flow::On && sched::now_ns() == before_ns {
            sched::spend(TURN_NS);
            point(Site::Begin);
        }
        flow
    }

    fn length_ns(&mut self, key: u64, length: &crate::program::Length) -> u64 {
        let nth = self.launches.entry(key).or_default();
        *nth += 1;
        let since_ns = sched::now_ns() - self.start_ns.min(sched::now_ns());
        length.ns(*nth - 1, since_ns, sched::choice())
    }

    fn event(&mut self, event: u32) -> u64 {
        if let Some(handle) = self.events.get(&event) {
            return *handle;
        }
        let handle = self.driver.create_event();
        self.events.insert(event, handle);
        handle
    }

    #[expect(clippy::too_many_lines, reason = "a table: one arm for each operation")]
    fn step(&mut self, op: &Op) -> Flow {
        let (driver, shim) = (self.driver, Rc::clone(&self.shim));
        match op {
            Op::Launch { key, length, stream: on, width_ppm } => {
                let length_ns = self.length_ns(*key, length);
                let on = stream(*on);
                let begun_ns = sched::now_ns();
                shim.launch(on, *key, &mut || driver.launch(on, length_ns, *width_ppm));
                let took_ns = sched::now_ns() - begun_ns;
                with(|world| {
                    let Some(tenant) = world.tenant(self.tenant) else { return };
                    tenant.longest_call_ns = tenant.longest_call_ns.max(took_ns);
                });
            }
            Op::Graph { key, length, stream: on, call_ns } => {
                let length_ns = self.length_ns(*key, length);
                let on = stream(*on);
                shim.graph(on, *key, &mut || driver.launch_graph(on, length_ns, *call_ns));
            }
            Op::Collective { key, length_ns, group, ranks, stream: on } => {
                let nth = self.collectives.entry(*group).or_default();
                *nth += 1;
                let which = Which { tenant: self.tenant, group: *group, nth: *nth, ranks: *ranks };
                let on = stream(*on);
                shim.launch(on, *key, &mut || driver.launch_collective(on, *length_ns, which));
            }
            Op::Sync => shim.synchronise(SimWait::Context, &mut || driver.synchronise()),
            Op::StreamSync { stream: on } => {
                let on = stream(*on);
                shim.synchronise(SimWait::Stream(on), &mut || driver.synchronise_stream(on));
            }
            Op::Poll { stream: on } => {
                let on = stream(*on);
                let mut pause_ns = TURN_NS;
                while !shim.query(on, &mut || driver.is_stream_done(on)) {
                    sched::spend(pause_ns);
                    pause_ns = (2 * pause_ns).min(MOST_PAUSE_NS);
                    driver.spin();
                }
            }
            Op::Record { event, stream: on } => {
                let (event, on) = (self.event(*event), stream(*on));
                shim.other(Other::Record, &mut || {
                    driver.record_plain(event, on);
                });
            }
            Op::EventSync { event } => {
                let event = self.event(*event);
                shim.synchronise(SimWait::Event, &mut || driver.synchronise_event(event));
            }
            Op::StreamWait { stream: on, event } => {
                let (event, on) = (self.event(*event), stream(*on));
                let mut call = || driver.submit(Site::StreamWait, on, What::Join, Some(event));
                shim.other(Other::StreamWait, &mut call);
            }
            Op::Copy { bytes, direction, stream: on, is_blocking } => {
                let (on, is_blocking) = (stream(*on), *is_blocking);
                let what = What::Copy { direction: *direction, bytes: *bytes };
                let other = if is_blocking { Other::BlockingCopy } else { Other::Copy };
                shim.other(other, &mut || {
                    driver.submit(Site::Copy, on, what, None);
                    if is_blocking {
                        driver.synchronise_stream(on);
                    }
                });
            }
            Op::HostFunction { length_ns, stream: on } => {
                let (on, what) = (stream(*on), What::HostFunction { length_ns: *length_ns });
                let mut call = || driver.submit(Site::HostFunction, on, what, None);
                shim.other(Other::HostFunction, &mut call);
            }
            Op::Capture { stream: on, launches, is_global } => {
                self.capture(stream(*on), *launches, *is_global);
            }
            Op::Pause { ns } => driver.sleep_in_run(sched::now_ns().saturating_add(*ns)),
            Op::PauseUntil { period_ns } => driver.sleep_in_run(self.next_ns(*period_ns)),
            Op::Compute { ns } => self.compute_until(sched::now_ns().saturating_add(*ns)),
            Op::Pace { ns } => self.compute_until(self.next_ns(*ns)),
            Op::Repeat { times, ops } => {
                let mut left = *times;
                loop {
                    if self.turn(ops) == Flow::Exit {
                        return Flow::Exit;
                    }
                    left = if *times == 0 { 1 } else { left - 1 };
                    if left == 0 {
                        break;
                    }
                }
            }
            Op::For { ns, ops } => {
                let until_ns = sched::now_ns().saturating_add(*ns);
                while sched::now_ns() < until_ns {
                    if self.turn(ops) == Flow::Exit {
                        return Flow::Exit;
                    }
                }
            }
            Op::Thread { ops } => driver.spawn_thread(ops, shim),
            Op::Process { ops, is_waited } => driver.spawn_process(ops, *is_waited),
            Op::NewContext => {
                driver.create_context();
            }
            Op::DestroyContext => {
                let context = driver.context();
                shim.destroy_context(context, &mut || driver.destroy_context(context));
                if driver.context() == 0 {
                    driver.create_context();
                }
            }
            Op::Set { tenant, change } => {
                point(Site::DaemonWrite);
                let at_ns = sched::now_ns();
                with(|world| world.set(*tenant, *change, at_ns));
            }
            Op::Tell { number } => message::tell(self.tenant, *number),
            Op::Hear { number } => message::hear(self.tenant, *number),
            Op::Exit => return Flow::Exit,
        }
        Flow::On
    }

    fn capture(&mut self, on: LaunchStream, launches: u32, is_global: bool) {
        let (driver, shim) = (self.driver, Rc::clone(&self.shim));
        if !shim.begin_capture(on, &mut || driver.begin_capture(on, is_global)) {
            return;
        }
        for key in 0..launches {
            shim.launch(on, u64::from(key), &mut || driver.launch(on, 1, 1));
        }
        shim.end_capture(on, &mut || driver.end_capture(on));
    }

    /// The next multiple of a period since the program began.
    fn next_ns(&self, period_ns: u64) -> u64 {
        let since_ns = sched::now_ns() - self.start_ns.min(sched::now_ns());
        let period_ns = period_ns.max(1);
        self.start_ns + (since_ns / period_ns + 1) * period_ns
    }

    fn compute_until(&self, until_ns: u64) {
        sched::spend(until_ns.saturating_sub(sched::now_ns()));
        point(Site::Begin);
    }
}
