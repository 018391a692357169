//! The shipped gates in a simulated process: `divvy_policy`'s, over the simulated driver and files.
//!
//! The order that the preloaded library's hooks add stands here once more, and only that: the gates' calls
//! around the driver's. A launch of a kernel or graph asks; a copy, a wait of a stream and a
//! host function end the span; a synchronisation shows work that has ended.
//!
//! Does not decide: that is `divvy_policy::gate`.

use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use divvy_abi::config::GateLine;
use divvy_policy::cost::{self, WorkKind};
use divvy_policy::gate::{self, Gates, Meeting, Terms};

use crate::site::Actor;
use crate::world::words::{SimBoard, SimDevice, SimHome, SimWords};
use crate::world::{self, Code, LaunchStream, Other, Shim, SimDriver, SimWait};

impl gate::Driver for SimDriver {
    type Device = SimDevice;
    type Home = SimHome;

    fn now_ns(&self) -> u64 {
        self.now_ns()
    }
    fn sleep_until(&self, deadline_ns: u64) {
        self.sleep_until(deadline_ns);
    }
    fn spin(&self) {
        self.spin();
    }
    fn context(&self) -> u64 {
        // Handles below are the gates' own marks of their places.
        match self.context() {
            0 => 0,
            handle => handle + FIRST_HANDLE,
        }
    }
    fn context_id(&self) -> u64 {
        self.context_id()
    }
    fn device(&self) -> Option<SimDevice> {
        self.device()
    }
    fn thread(&self) -> u32 {
        self.thread()
    }
    fn stripe(&self) -> usize {
        self.stripe()
    }
    fn create_event(&self) -> u64 {
        self.create_event()
    }
    fn record(&self, event: u64, stream: LaunchStream) -> bool {
        self.record(event, stream)
    }
    fn record_context(&self, context: u64, event: u64) -> bool {
        self.record_context(context - FIRST_HANDLE.min(context), event)
    }
    fn is_done(&self, event: u64) -> bool {
        self.is_done(event)
    }
    fn elapsed_ns(&self, from: u64, to: u64) -> Option<i64> {
        self.elapsed_ns(from, to)
    }
    fn is_captured(&self, stream: LaunchStream) -> bool {
        self.is_captured(stream)
    }
    fn relaxed<T>(&self, act: impl FnOnce() -> T) -> T {
        self.relaxed(act)
    }
}

/// Real handles are addresses; those of the simulated world count from 1.
const FIRST_HANDLE: u64 = 0x1000;

impl gate::Home for SimHome {
    type Device = SimDevice;
    const NONE: Self = Self::NONE;

    fn get(&self) -> Option<SimDevice> {
        self.get()
    }
    fn set(&self, device: SimDevice) {
        self.set(device);
    }
}

impl gate::Device for SimDevice {
    type Words = SimWords;
    type Board = SimBoard;

    fn terms(&self) -> Terms {
        self.terms()
    }
    fn state(&self) -> u32 {
        self.state()
    }
    fn meeting(&self) -> &Meeting {
        self.meeting()
    }
    fn words(&self) -> Option<SimWords> {
        self.words()
    }
    fn board(&self) -> Option<SimBoard> {
        self.board()
    }
    fn is(&self, other: Self) -> bool {
        self.is(other)
    }
}

impl gate::Words for SimWords {
    fn slot(&self) -> usize {
        self.slot()
    }
    fn slots_high(&self) -> usize {
        self.slots_high()
    }
    fn word(&self, slot: usize, word: usize) -> &'static AtomicU64 {
        self.word(slot, word)
    }
    fn gate_line(&self) -> GateLine {
        self.gate_line()
    }
    fn wait(&self, state: u32, deadline_ns: u64) {
        self.wait(state, deadline_ns);
    }
    fn wait_for_turn(&self, turn: u64, deadline_ns: u64) {
        self.wait_for_turn(turn, deadline_ns);
    }
    fn wake_for_turn(&self, slot: usize) {
        self.wake_for_turn(slot);
    }
    fn beside(&self, nth: usize) -> Option<Self> {
        self.beside(nth)
    }
}

/// A process with the library in it.
struct Gated {
    gates: Gates<SimDriver>,
    tenant: u32,
}

impl Gated {
    /// Whether launches look at their gates: the one word that an ungated launch loads.
    fn is_gated(&self) -> bool {
        crate::fiber::is_inside()
            && world::with(|world| world.tenant(self.tenant).is_some_and(|one| one.any_gate))
    }

    fn submit(&self, stream: LaunchStream, key: u64, call: &mut dyn FnMut() -> bool) -> bool {
        let admitted = if self.is_gated() { self.gates.ask(stream, key) } else { None };
        let is_taken = call();
        if let Some(admitted) = admitted {
            admitted.launched(is_taken);
        }
        is_taken
    }
}

impl Shim for Gated {
    fn launch(&self, stream: LaunchStream, key: u64, call: &mut dyn FnMut() -> bool) -> bool {
        self.submit(stream, cost::key(WorkKind::Kernel, [key, 1, 1]), call)
    }
    fn graph(&self, stream: LaunchStream, key: u64, call: &mut dyn FnMut() -> bool) -> bool {
        self.submit(stream, cost::key(WorkKind::Graph, [key, 0, 0]), call)
    }
    fn synchronise(&self, waited: SimWait, call: &mut dyn FnMut()) {
        let waited = match waited {
            SimWait::Context => gate::Waited::Current,
            SimWait::Stream(stream) => gate::Waited::Stream(stream),
            SimWait::Event => gate::Waited::Event,
        };
        let waiting = if self.is_gated() { self.gates.begin_wait(&waited) } else { None };
        call();
        if let Some(waiting) = waiting {
            self.gates.end_wait(&waiting, &waited);
        }
    }
    fn other(&self, what: Other, call: &mut dyn FnMut()) {
        match what {
            Other::Copy | Other::BlockingCopy => {
                let _sleeper = if self.is_gated() { self.gates.sleep() } else { None };
                call();
            }
            Other::HostFunction => {
                if self.is_gated() {
                    self.gates.break_span();
                }
                call();
            }
            Other::StreamWait => {
                if self.is_gated() {
                    self.gates.wait_for_event();
                }
                call();
            }
            Other::Record => call(),
        }
    }
    fn begin_capture(&self, _: LaunchStream, call: &mut dyn FnMut() -> bool) -> bool {
        self.gates.capture_begins();
        let has_begun = call();
        self.gates.capture_begun(has_begun);
        has_begun
    }
    fn end_capture(&self, _: LaunchStream, call: &mut dyn FnMut() -> bool) {
        if call() {
            self.gates.captures_ended(1);
        }
    }
    fn destroy_context(&self, context: u64, call: &mut dyn FnMut() -> Option<u32>) {
        let retiring = self.gates.retire(&|retired| retired == context + FIRST_HANDLE);
        if let Some(captures) = call() {
            retiring.gone();
            self.gates.captures_ended(captures);
        }
    }
}

/// The shipped code: the gates of each process, and the daemon's steps.
pub fn shipped() -> Code {
    let gated = |actor: Actor, driver: SimDriver| -> Rc<dyn Shim> {
        Rc::new(Gated { gates: Gates::new(driver), tenant: actor.tenant })
    };
    Code { shims: Rc::new(gated), daemon: Some(Rc::new(crate::daemon::run)) }
}
