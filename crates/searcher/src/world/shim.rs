//! The layer between a simulated program and the driver.
//!
//! The shipped gate is hung in here, one a process, as the preloaded library's hooks are around the
//! driver's calls: each method gets the call itself and makes it. Programs of strangers, and native runs,
//! have [`Native`], which adds nothing.

use std::rc::Rc;

use divvy_policy::gate::LaunchStream;

use super::sim_driver::SimDriver;
use crate::site::Actor;

/// Object that a synchronisation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimWait {
    /// All of the current context.
    Context,
    /// One stream.
    Stream(LaunchStream),
    /// One event of the program's.
    Event,
}

/// Effect of a call on the span that is measured, if it is neither a launch nor a synchronisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// A copy whose call returns at once.
    Copy,
    /// A copy that the thread waits for.
    BlockingCopy,
    /// A host function.
    HostFunction,
    /// A stream waits for an event.
    StreamWait,
    /// An event of the program's is recorded.
    Record,
}

/// The hooks of one process. All are called inside a fiber.
pub trait Shim {
    /// A launch of a kernel; the call says whether the driver took it.
    fn launch(&self, _stream: LaunchStream, _key: u64, call: &mut dyn FnMut() -> bool) -> bool {
        call()
    }
    /// The launch of a graph.
    fn graph(&self, _stream: LaunchStream, _key: u64, call: &mut dyn FnMut() -> bool) -> bool {
        call()
    }
    /// A synchronisation.
    fn synchronise(&self, _waited: SimWait, call: &mut dyn FnMut()) {
        call();
    }
    /// A question whether a stream is done.
    fn query(&self, _stream: LaunchStream, call: &mut dyn FnMut() -> bool) -> bool {
        call()
    }
    /// Anything else that a stream may hold.
    fn other(&self, _what: Other, call: &mut dyn FnMut()) {
        call();
    }
    /// A capture begins; the call says whether it does.
    fn begin_capture(&self, _stream: LaunchStream, call: &mut dyn FnMut() -> bool) -> bool {
        call()
    }
    /// A capture ends; the call says whether there was one.
    fn end_capture(&self, _stream: LaunchStream, call: &mut dyn FnMut() -> bool) {
        call();
    }
    /// A context is destroyed; the call says how many captures end with it, or that there is none to destroy.
    fn destroy_context(&self, _context: u64, call: &mut dyn FnMut() -> Option<u32>) {
        call();
    }
    /// The process ends of itself.
    fn exit(&self) {}
}

/// Nothing between a program and the driver.
#[derive(Clone, Copy, Default, Debug)]
pub struct Native;

impl Shim for Native {}

/// Maker of a process's hooks, inside its first thread's fiber.
pub type Shims = Rc<dyn Fn(Actor, SimDriver) -> Rc<dyn Shim>>;

/// The daemon's only thread, from its beginning on, inside a fiber.
pub type Daemon = Rc<dyn Fn(SimDriver)>;

/// The code that a run tries.
#[derive(Clone)]
pub struct Code {
    /// Around the drivers of all processes but strangers'.
    pub shims: Shims,
    /// The daemon of cases that have one.
    pub daemon: Option<Daemon>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let daemon = if self.daemon.is_some() { "with" } else { "without" };
        write!(to, "Code {{ {daemon} a daemon }}")
    }
}

/// Native programs.
pub fn native() -> Code {
    Code { shims: Rc::new(|_, _| Rc::new(Native)), daemon: None }
}
