//! Simulated programs, as data.
//!
//! A program is a list of operations, some of which hold lists themselves. Cases hold programs, the shrinker
//! makes them smaller and failures print them, so they are plain data with a JSON form, and any list of
//! operations is a program: one that makes no sense (a stream that was never made, an event that was never
//! recorded) has the effect that a driver would give it, or none.
//!
//! Does not run: that is [`crate::world`]'s.

pub mod named;

use serde::{Deserialize, Serialize};

use crate::card::{Direction, FULL_PPM};
use crate::choice::Choices;

/// A list of operations.
pub type Ops = Vec<Op>;

/// How long a kernel takes alone on the device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Length {
    /// Always so long.
    Fixed(u64),
    /// One after the other, from the beginning again at the end.
    List(Vec<u64>),
    /// Anything from one to the other.
    Uniform(u64, u64),
    /// From one to the other, each doubling as probable as the next.
    Spread(u64, u64),
    /// The second one so many times in a million, else the first.
    Rare(u64, u64, u64),
    /// From the first to the second while so much time passes, evenly in doublings; then the second.
    Grow(u64, u64, u64),
}

impl Length {
    /// Of the `nth` launch of its key, at a time since the program began.
    pub fn ns(&self, nth: u64, since_ns: u64, choices: Choices) -> u64 {
        match self {
            Self::Fixed(ns) => *ns,
            Self::List(all) => {
                let at = nth.checked_rem(all.len() as u64).unwrap_or(0);
                usize::try_from(at).ok().and_then(|at| all.get(at)).copied().unwrap_or(1)
            }
            Self::Uniform(least, most) => choices.between(*least, *most),
            Self::Spread(least, most) => choices.spread(*least, *most),
            Self::Rare(usual, rare, ppm) => *if choices.is(*ppm) { rare } else { usual },
            Self::Grow(from, to, over) => grown(*from, *to, since_ns.min(*over), (*over).max(1)),
        }
        .max(1)
    }

    /// The longest and the shortest it can be.
    pub fn range_ns(&self) -> (u64, u64) {
        match self {
            Self::Fixed(ns) => (*ns, *ns),
            Self::List(all) => {
                (all.iter().min().copied().unwrap_or(1), all.iter().max().copied().unwrap_or(1))
            }
            Self::Uniform(a, b)
            | Self::Spread(a, b)
            | Self::Rare(a, b, _)
            | Self::Grow(a, b, _) => (*a.min(b), *a.max(b)),
        }
    }
}

/// From `from` to `to`, evenly in doublings, with a straight line within each: integers only.
fn grown(from: u64, to: u64, part: u64, whole: u64) -> u64 {
    let from = from.max(1);
    if to <= from || part >= whole {
        return to.max(1);
    }
    let doublings = u128::from((to / from).max(2).ilog2());
    let at = u128::from(part) * doublings * 1_024 / u128::from(whole);
    let (doubled, rest) = (at / 1_024, at % 1_024);
    let low = u128::from(from) << doubled;
    let ns = low + low * rest / 1_024;
    u64::try_from(ns).unwrap_or(to).min(to)
}

/// A change of a tenant's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// The higher one goes first.
    Priority(i32),
    /// Share of contended time against others'.
    Weight(u32),
    /// Cap in millionths; 0 for none.
    Cap(u64),
    /// Nothing may be submitted, or all again.
    Pause(bool),
}

/// One thing a program does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Op {
    /// Launches a kernel. `key` is what the gate may tell it by: function, grid and block.
    Launch {
        /// Function and grid.
        key: u64,
        /// How long it takes.
        length: Length,
        /// On which stream: 0 is the legacy one, others are made when they are first named.
        #[serde(default)]
        stream: u32,
        /// Part of the device that it fills.
        #[serde(default = "full")]
        width_ppm: u32,
    },
    /// Launches a graph, as one kernel that fills the device.
    Graph {
        /// Which graph.
        key: u64,
        /// How long it takes.
        length: Length,
        /// On which stream.
        #[serde(default)]
        stream: u32,
        /// How long the call takes, where that is not the card's usual time.
        #[serde(default)]
        call_ns: Option<u64>,
    },
    /// Launches a kernel that gets on only while one of each of the other processes of its group has begun as
    /// well: the sum that all devices of a job have a part in. It fills the device, also while it waits.
    Collective {
        /// Function and grid.
        key: u64,
        /// How long it takes once all have begun.
        length_ns: u64,
        /// Which group of the tenant's.
        group: u32,
        /// Of how many processes.
        ranks: u32,
        /// On which stream.
        #[serde(default)]
        stream: u32,
    },
    /// Waits for all of the context's work.
    Sync,
    /// Waits for a stream.
    StreamSync {
        /// Which.
        stream: u32,
    },
    /// Asks a stream until it is done, without waiting in the driver.
    Poll {
        /// Which.
        stream: u32,
    },
    /// Records an event of the program's own, without timing.
    Record {
        /// Which.
        event: u32,
        /// On which stream.
        stream: u32,
    },
    /// Waits for an event.
    EventSync {
        /// Which.
        event: u32,
    },
    /// A stream waits for an event.
    StreamWait {
        /// Which stream.
        stream: u32,
        /// The event.
        event: u32,
    },
    /// Copies between host and device.
    Copy {
        /// How much.
        bytes: u64,
        /// Which way.
        direction: Direction,
        /// On which stream.
        #[serde(default)]
        stream: u32,
        /// The call returns when it is done.
        #[serde(default)]
        is_blocking: bool,
    },
    /// Has the host run a function in the stream's order.
    HostFunction {
        /// How long it takes.
        length_ns: u64,
        /// On which stream.
        #[serde(default)]
        stream: u32,
    },
    /// Sleeps.
    Pause {
        /// How long.
        ns: u64,
    },
    /// Sleeps until the next multiple of a period since the program began.
    PauseUntil {
        /// The period.
        period_ns: u64,
    },
    /// Computes on the host.
    Compute {
        /// How long.
        ns: u64,
    },
    /// Goes on at the next multiple of a period since the program began, awake.
    Pace {
        /// The period.
        ns: u64,
    },
    /// Captures launches into a graph that is thrown away.
    Capture {
        /// On which stream.
        stream: u32,
        /// How many launches.
        launches: u32,
        /// No thread may make unsafe calls meanwhile.
        is_global: bool,
    },
    /// Does a list again and again.
    Repeat {
        /// How often; 0 is without end.
        times: u32,
        /// Its operations.
        ops: Ops,
    },
    /// Does a list again and again until so much time has passed.
    For {
        /// How long.
        ns: u64,
        /// Its operations.
        ops: Ops,
    },
    /// Another thread of the process does a list.
    Thread {
        /// Its operations.
        ops: Ops,
    },
    /// Another process of the tenant does a list, and is waited for or not.
    Process {
        /// Its operations.
        ops: Ops,
        /// The thread goes on when it has ended.
        is_waited: bool,
    },
    /// The process's current context is another, new one.
    NewContext,
    /// The current context is destroyed; the one before it is current again, or a new one.
    DestroyContext,
    /// Changes a tenant's limits, as its operator does.
    Set {
        /// The tenant that is changed.
        tenant: u32,
        /// The new limit.
        change: Change,
    },
    /// Tells the tenant's other processes something, by way of a pipe.
    Tell {
        /// Which.
        number: u32,
    },
    /// Waits until one of them has told something.
    Hear {
        /// By way of which pipe.
        number: u32,
    },
    /// The process ends.
    Exit,
}

fn full() -> u32 {
    FULL_PPM
}

impl Op {
    /// The list it holds.
    pub fn inner(&self) -> Option<&Ops> {
        match self {
            Self::Repeat { ops, .. }
            | Self::For { ops, .. }
            | Self::Thread { ops }
            | Self::Process { ops, .. } => Some(ops),
            _ => None,
        }
    }

    /// The same, to change.
    pub fn inner_mut(&mut self) -> Option<&mut Ops> {
        match self {
            Self::Repeat { ops, .. }
            | Self::For { ops, .. }
            | Self::Thread { ops }
            | Self::Process { ops, .. } => Some(ops),
            _ => None,
        }
    }

    /// Whether doing it takes any time, so that a list without end of such operations gets on.
    pub fn takes_time(&self) -> bool {
        match self {
            Self::Repeat { ops, .. } => ops.iter().any(Self::takes_time),
            Self::For { .. } => true,
            Self::Thread { .. } | Self::Exit | Self::DestroyContext => false,
            Self::Process { is_waited, .. } => *is_waited,
            Self::Pause { ns } | Self::Compute { ns } | Self::Pace { ns } => *ns != 0,
            Self::PauseUntil { period_ns } => *period_ns != 0,
            _ => true,
        }
    }
}

/// Calls `act` with every operation, those of inner lists among them.
pub fn each<'a>(ops: &'a [Op], act: &mut impl FnMut(&'a Op)) {
    for op in ops {
        act(op);
        if let Some(inner) = op.inner() {
            each(inner, act);
        }
    }
}

/// The longest kernel or graph.
pub fn longest_ns(ops: &[Op]) -> u64 {
    let mut longest_ns = 0;
    each(ops, &mut |op| {
        longest_ns = longest_ns.max(match op {
            Op::Launch { length, .. } | Op::Graph { length, .. } => length.range_ns().1,
            Op::Collective { length_ns, .. } => *length_ns,
            _ => 0,
        });
    });
    longest_ns
}

/// The device time that a program submits at most before it waits for any of it: that of one round of what it repeats
/// without end. Longest lengths; what threads and processes of its own submit is theirs.
pub fn unit_ns(ops: &[Op]) -> u64 {
    let each = ops.iter().map(|op| match op {
        Op::Launch { length, .. } | Op::Graph { length, .. } => length.range_ns().1,
        Op::Collective { length_ns, .. } => *length_ns,
        Op::Repeat { times, ops } => unit_ns(ops).saturating_mul(u64::from(*times).max(1)),
        Op::For { ops, .. } => unit_ns(ops),
        _ => 0,
    });
    each.fold(0, u64::saturating_add)
}

/// Whether all kernels and graphs are launched on one stream, by one thread.
pub fn has_one_stream(ops: &[Op]) -> bool {
    let (mut streams, mut threads) = (std::collections::BTreeSet::new(), 1);
    each(ops, &mut |op| {
        threads += usize::from(matches!(op, Op::Thread { .. }));
        let (Op::Launch { stream, .. } | Op::Graph { stream, .. } | Op::Collective { stream, .. }) =
            op
        else {
            return;
        };
        streams.insert(*stream);
    });
    streams.len() <= 1 && threads == 1
}

/// Whether a process that does them may end.
pub fn ends(ops: &[Op]) -> bool {
    let mut ends = false;
    each(ops, &mut |op| ends |= matches!(op, Op::Exit));
    ends
}

/// How many operations there are, those of inner lists among them.
pub fn count(ops: &[Op]) -> usize {
    ops.iter().map(|op| 1 + op.inner().map_or(0, |inner| count(inner))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_within_their_range() {
        let lengths = [
            Length::Fixed(5),
            Length::List(vec![1, 7, 3]),
            Length::Uniform(10, 20),
            Length::Spread(100, 100_000),
            Length::Rare(5, 500, 100_000),
            Length::Grow(20_000, 2_000_000, 1_000_000),
        ];
        for length in lengths {
            let (least, most) = length.range_ns();
            let all = (0..2_000).map(|n| length.ns(n, n * 1_000, Choices::new(n)));
            let all: Vec<_> = all.collect();
            assert!(all.iter().all(|ns| (least..=most).contains(ns)), "{length:?}");
            assert!(all.contains(&most) || matches!(length, Length::Spread(..)), "{length:?}");
        }
        let list = Length::List(vec![1, 7, 3]);
        let of = |n| list.ns(n, 0, Choices::new(0));
        assert_eq!([of(0), of(1), of(2), of(3)], [1, 7, 3, 1]);
        assert_eq!(Length::List(Vec::new()).ns(4, 0, Choices::new(0)), 1);
    }

    #[test]
    fn growth_never_falls() {
        let ns = |part| grown(20_000, 2_000_000, part, 1_000_000);
        let all: Vec<_> = (0..=1_000).map(|n| ns(n * 1_000)).collect();
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!((all[0], all[1_000]), (20_000, 2_000_000));
        assert!((150_000..250_000).contains(&all[500]), "{}", all[500]);
    }

    #[test]
    fn a_program_is_data() {
        let program = vec![
            Op::Repeat { times: 0, ops: vec![named::launch(1, 5_000), Op::Sync] },
            Op::Copy { bytes: 1, direction: Direction::In, stream: 0, is_blocking: true },
        ];
        let text = serde_json::to_string(&program).expect("plain data");
        assert_eq!(serde_json::from_str::<Ops>(&text).expect("its own"), program);
        assert_eq!(count(&program), 4);
        let short = r#"[{"Launch": {"key": 3, "length": {"Fixed": 7}}}, "Sync"]"#;
        let short: Ops = serde_json::from_str(short).expect("the rest is usual");
        assert!(matches!(short[0], Op::Launch { width_ppm: FULL_PPM, stream: 0, .. }));
    }
}
