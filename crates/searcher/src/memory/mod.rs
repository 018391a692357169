//! Tenants' memory under the planner of residence: what is on the card, what is on the host, and who may work.
//!
//! Cases are data ([`case`]), drawn from a seed or kept in a file. A run ([`run`]) in a [`world`] has processes that follow orders as the
//! library does ([`process`], and in it `service.rs`) on a card with a link ([`card`]), and an owner that steps as the daemon does ([`owner`]): with the shipped
//! planner, promise of host memory and division among processes. What is judged is bytes, turns and waits ([`oracle`]);
//! a case that fails is made [`smaller`]. A rule can be left out ([`fault`]), to see that it is found.
//!
//! Promises: the same case gives the same run. Virtual time in ticks; a tick is what a process may need to see another's
//! write. Does not model device time: all that may work do so beside each other.

pub mod card;
pub mod case;
pub mod fault;
pub mod oracle;
pub mod owner;
pub mod process;
pub mod run;
mod service;
pub mod smaller;
pub mod world;

pub use case::MemoryCase;
pub use fault::Fault;

use crate::verdict::Verdict;

/// A case's verdict: held, or what broke.
pub fn verdict(seed: u64, case: &MemoryCase) -> Verdict {
    let report = run::run(case);
    let off = if report.broken.is_empty() { 0.0 } else { f64::INFINITY };
    let text = report.broken.join("; ");
    Verdict { seed, off, points: 0.0, is_one_stream: true, text }
}

/// The verdict of the case that a seed draws.
pub fn drawn(seed: u64) -> Verdict {
    verdict(seed, &case::draw(seed))
}
