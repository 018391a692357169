//! The share gate of one context: it decides when a launch may go, and measures what it was really worth.
//!
//! A launch takes its expected cost ([`crate::cost`]) from a chunk of credit, and nothing more is done while
//! the chunk lasts ([`Lane::take`]). When it is spent ([`Lane::admit`]) the slow path looks at the owner's
//! gate, at the cap ([`crate::pace`]) and at how much work is still in flight, waits where it must,
//! takes the next chunk, and may ask for *marks*: timing events behind the launch, and for a *probe*
//! one before it as well. When marks complete ([`Lane::settle`]) the charges are put right.
//!
//! Measurement. A mark is *linked* if an earlier one was still incomplete when it was recorded:
//! then the device was busy from that one's end to this one's, on whatever streams, and the time
//! between their ends replaces the estimates. Spans that a copy, a wait or a host function breaks, or
//! that begin on a drained device, are not linked: waiting is never charged as work. There the
//! estimates stand, which probes put right: a probe's two events enclose one launch, drawn by chance, which
//! stands for those since the last one (`sample`). Kernels whose lengths differ by much are measured launch by
//! launch, and a synchronisation that blocks for longer than was charged shows what no estimate knew (`drain`).
//! Several streams are measured together, some launches in a row (`among`, `window`).
//!
//! Promises: a launch returns only when it may go, and never fails because of the gate; every wait has
//! an absolute deadline after which the gate is looked at again; work that does not drain (kernels that
//! wait for others) is given up after 50 ms, counted, and charged; no thread ever waits for a lock: one
//! that meets another at the marks leaves them to it.
//!
//! While others' work may run at once (`active` above 1) the driver gives each context its slice in
//! turn: a linked span is worth its part of the time, and no less than the estimates, which are charged
//! elsewhere. They do not grow then: the shortest measurement is the kernel's own. Where strangers
//! are among them, whose work is unknown, the estimates of kernels stand (`beside`).
//! Tenants without a daemon that makes turns take the device burst by burst (`meet`).
//!
//! A lane decides for one context. Above it, generic over the driver, stands what every process does
//! ([`Gates`]): the context and device that a thread is at, the words it publishes, the steps around a
//! call. The preloaded library adds the entry points and the driver; nothing of the share is decided
//! there.
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
mod ticket;
mod times;
mod turn;
mod wait;
mod window;
mod world;

pub use captures::{Captures, Undisturbed};
pub use credit::{Paid, stripe_of};
pub use drain::Begun;
pub use driver::{Device, Driver, Home, LaunchStream, Sleeper, Words};
pub use elsewhere::Elsewhere;
pub use inside::{Inside, TURN_NS};
pub use lane::Lane;
pub use launch::{Admitted, Waited, Waiting};
pub use lives::NO_LIFE;
pub use marks::{EVENTS, Mark};
pub use meet::{Board, Meeting};
pub use process::{Gates, Retiring};
pub use ticket::Ticket;
pub use times::{
    CHUNK_NS, DRAIN_PATIENCE_NS, HORIZON_NS, LONG_NS, QUANTUM_NS, SHARED_CHUNK_NS, UNKNOWN_NS,
    WANT_EVERY_NS,
};
pub use turn::{Had, Patience, Queued, Turned};
pub use world::{Access, Behind, Marks, Published, Terms, Time, World};
