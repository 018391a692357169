//! The share gate of one context: when a launch may go, and how much device time it has taken.
//!
//! A launch takes its expected cost ([`crate::cost`]) from a chunk of credit; nothing else happens while the chunk
//! lasts (`Lane::take`). When it is spent, the slow path (`Lane::admit`) looks at the owner's gate, at the cap
//! ([`crate::pace`]) and at the work in flight, waits where it must, takes the next chunk, and may ask for *marks*:
//! timing events behind the launch, and for a *probe* one before it as well. Completed marks (`Lane::settle`) correct
//! the charges.
//!
//! Measurement. A mark is *linked* if an earlier one was still incomplete when it was recorded: the device was busy
//! from that one's end to this one's, on any stream, so the time between their ends replaces the estimates. Spans that
//! a copy, a wait or a host function breaks, or that begin on a drained device, are not linked: waiting is never
//! charged as work. Estimates stand there, corrected by probes: a probe's two events enclose one launch, drawn by
//! chance, which stands for those since the last draw (`sample`). Kernels whose lengths differ by much are measured
//! launch by launch, and a synchronisation that blocks for longer than was charged reveals work that the estimates
//! missed (`drain`). Several streams are measured together, some launches in a row (`among`, `window`).
//!
//! Promises: a launch returns only when it may go, and never fails because of the gate; every wait has an absolute
//! deadline after which the gate is looked at again; work that does not drain (kernels that wait for others) is given
//! up after 50 ms, counted, and charged; no thread ever waits for a lock: one that finds another at the marks leaves
//! them to it.
//!
//! While others' work may run at once (`active` above 1) the driver gives each context its slice in turn: a linked span
//! is worth its part of the time, and no less than the estimates, which are charged elsewhere. Estimates do not grow
//! then, since the shortest measurement is the kernel's own length. Strangers do an unknown amount of work, so beside
//! them the known lengths of kernels stand (`beside`). An owner that makes no turns leaves them to its tenants: these
//! take the device burst by burst (`meet`).
//!
//! A lane decides for one context. Above it, generic over the driver, stands the part common to all processes
//! ([`Gates`]): the context and device of a thread, the state that the process publishes, the steps around a call. The
//! preloaded library adds the entry points and the driver; nothing of the share is decided there.
//!
//! Does not call a driver or read a clock: that is its [`Driver`]'s.

mod admit;
mod ahead;
mod among;
mod begun;
mod beside;
mod captures;
mod charge;
mod claim;
mod completed;
mod credit;
mod doubt;
mod drain;
mod driver;
mod elsewhere;
mod here;
mod inside;
mod lane;
mod launch;
mod linked;
mod lives;
mod marks;
mod measure;
mod meet;
mod oldest;
mod process;
mod rivals;
mod sample;
mod settle;
mod shown;
mod slices;
mod streams;
mod ticket;
mod tuning;
mod turn;
mod turn_word;
mod wait;
mod window;

pub use captures::Undisturbed;
pub use credit::stripe_of;
pub use driver::{Device, Driver, Home, LaunchStream, Sleeper, Terms, Words};
pub use inside::Inside;
pub use launch::{Admitted, Waited, Waiting};
pub use meet::{Board, Meeting};
pub use process::{Gates, Retiring};
pub use tuning::{HORIZON_NS, QUANTUM_NS, TURN_NS};
pub use turn::{Had, Patience, Queued, Turned};
