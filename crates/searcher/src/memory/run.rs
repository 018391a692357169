//! A run of a case: the world goes on, and the oracle looks at it.
//!
//! Promises: it ends with the case, or once something breaks. Does not judge itself.

use super::case::MemoryCase;
use super::fault::Fault;
use super::oracle::MemoryJudge;
use super::process::MemoryProcess;
use super::world::{BEGIN_NS, MemoryWorld};
use crate::MS;

/// Result of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryReport {
    /// Faults that were seen.
    pub broken: Vec<String>,
    /// Bytes that left, and that came back.
    pub moved_bytes: [u64; 2],
    /// Turns given to another tenant.
    pub hand_overs: u64,
    /// Blocks refused.
    pub refused: u64,
    /// The most that was away beyond what did not fit the card.
    pub most_beyond_bytes: u64,
}

/// Runs a case to its end, or until something breaks.
pub fn run(case: &MemoryCase) -> MemoryReport {
    run_with(case, None)
}

/// Runs a case with a rule left out.
pub fn run_with(case: &MemoryCase, fault: Option<Fault>) -> MemoryReport {
    let mut world = MemoryWorld::new(case, fault);
    let mut judge = MemoryJudge::new(case);
    let end_ns = BEGIN_NS + case.run_ms * MS;
    let mut events = case.events.iter().peekable();
    while world.now_ns < end_ns && judge.broken.is_empty() {
        while let Some(event) = events.next_if(|e| BEGIN_NS + e.at_ms * MS <= world.now_ns) {
            world.happens(event);
        }
        world.start();
        if world.step() {
            judge.see_orders(&world);
        }
        world.tick();
        judge.see(&world);
    }
    judge.end(&world);
    let of_all = |part: fn(&MemoryProcess) -> u64| -> u64 {
        world.places.iter().filter_map(|place| place.process.as_ref()).map(part).sum()
    };
    MemoryReport {
        broken: judge.broken,
        moved_bytes: [of_all(|p| p.moved_bytes[0]), of_all(|p| p.moved_bytes[1])],
        hand_overs: world.owner.state.counters().hand_overs,
        refused: of_all(|p| p.refused),
        most_beyond_bytes: judge.most_beyond_bytes,
    }
}
