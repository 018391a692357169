//! The trace of a run: one hash over everything that happened, in order.
//!
//! Two runs of a case have the same hash or something of chance has leaked into them. The last events
//! are kept as text, for whoever looks at a failure.
//!
//! Does not keep all of them.

use std::collections::VecDeque;

use crate::choice::mix;

/// Events that are kept.
const KEPT: usize = 256;

/// An event and its subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Virtual time.
    pub at_ns: u64,
    /// The event.
    pub what: &'static str,
    /// Of whom: a thread's or a context's number.
    pub who: u64,
    /// How much, how long or which.
    pub value: u64,
}

/// The hash so far.
#[derive(Clone, Default, Debug)]
pub struct Trace {
    hash: u64,
    events: u64,
    last: VecDeque<Event>,
}

impl Trace {
    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        // The name counts by its text: an address would differ from run to run.
        let what = event
            .what
            .bytes()
            .fold(0, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        for word in [event.at_ns, what, event.who, event.value] {
            self.hash = mix(self.hash ^ word);
        }
        self.events += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    /// The hash of all of them.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last ones, oldest first.
    pub fn last(&self) -> impl Iterator<Item = &Event> {
        self.last.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_names_and_values_count() {
        let event = |at_ns, what, value| Event { at_ns, what, who: 1, value };
        let hash = |events: &[Event]| {
            let mut trace = Trace::default();
            events.iter().for_each(|event| trace.add(*event));
            trace.hash()
        };
        let (a, b) = (event(1, "launch", 2), event(1, "end", 2));
        assert_eq!(hash(&[a, b]), hash(&[a, b]));
        assert_ne!(hash(&[a, b]), hash(&[b, a]));
        assert_ne!(hash(&[a]), hash(&[event(1, "launch", 3)]));
        assert_ne!(hash(&[a]), hash(&[a, a]));
    }
}
