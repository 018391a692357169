//! Tasks of a stream: copies, fills, kernels, host functions, marks and waits.
//!
//! Promises: a task can be run any number of times (graphs do). Does not run anything: see
//! [`crate::driver::worker`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::advice::Location;
use super::condition::{Choice, Condition};
use super::launch::Launch;
use crate::clock::now_ns;
use crate::driver::machine::{Block, Lane, Load, Place};
use crate::sys::driver_functions::{HostFunction, StreamFunction};

/// One end of a copy: rows of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) at: u64,
    pub(crate) pitch: u64,
    pub(crate) slice: u64,
}

/// A copy of `depth` × `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyShape {
    pub(crate) to: Rows,
    pub(crate) from: Rows,
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
}

/// Rows filled with a value of 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillShape {
    pub(crate) at: u64,
    pub(crate) pitch: u64,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl FillShape {
    pub(crate) fn bytes(&self) -> u64 {
        self.width.saturating_mul(u64::from(self.element_bytes)).saturating_mul(self.height)
    }

    /// Bytes from its first to its last.
    pub(crate) fn extent(&self) -> u64 {
        let width = self.width.saturating_mul(u64::from(self.element_bytes));
        self.pitch.saturating_mul(self.height.saturating_sub(1)).saturating_add(width)
    }
}

/// Managed memory and where it is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchShape {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) to: Location,
}

/// When an event happened, in nanoseconds of the machine's clock; 0: not yet.
#[derive(Debug, Default)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    pub(crate) fn at(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|at| *at != 0)
    }

    pub(crate) fn mark_at(&self, at_ns: u64) {
        self.0.store(at_ns.max(1), Ordering::Release);
    }
}

/// A value compared with or written to memory by a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryValue {
    pub(crate) at: u64,
    pub(crate) value: u64,
    pub(crate) bytes: u64,
    /// 0: ≥ (cyclic), 1: equal, 2: and, 3: nor.
    pub(crate) comparison: u32,
}

/// Says whether any of these addresses, each with a length, is memory that may have to come to the device first.
pub(crate) type IsManaged<'a> = &'a dyn Fn(&[(u64, u64)]) -> bool;

/// A unit of work.
#[derive(Clone)]
pub(crate) enum Task {
    Empty,
    Copy(CopyShape),
    Fill(FillShape),
    Prefetch(PrefetchShape),
    Kernel(Arc<Launch>),
    Host(HostFunction),
    Callback(StreamFunction, u64),
    Mark(Arc<Stamp>),
    /// A mark that nothing stands before.
    LoneMark(Arc<Stamp>),
    WaitValue(MemoryValue),
    WriteValue(MemoryValue),
    /// Marks an event from inside a graph.
    MarkEvent(u64),
    /// Waits for the mark an event has when a graph reaches it.
    AwaitEvent(u64),
    /// Gives graph allocations back, by address.
    Release(Arc<Vec<u64>>),
    /// Nothing, but memory is there until it has run.
    #[expect(dead_code, reason = "it is held, not read")]
    Hold(Arc<Vec<Arc<dyn Block>>>),
    Series(Arc<Vec<Task>>),
    /// A launch of a graph begins: conditions have their defaults.
    Assign(Arc<Vec<Arc<Condition>>>),
    Branches(Arc<Branches>),
}

impl Task {
    /// A copy of `bytes` bytes.
    pub(crate) fn copy(to: u64, from: u64, bytes: u64) -> Self {
        let rows = |at| Rows { at, pitch: bytes, slice: bytes };
        Self::Copy(CopyShape { to: rows(to), from: rows(from), width: bytes, height: 1, depth: 1 })
    }

    /// Whether it calls a function of the program's.
    pub(crate) fn is_host_function(&self) -> bool {
        matches!(self, Self::Host(..) | Self::Callback(..))
    }

    /// Whether the null machine completes it at submission.
    pub(crate) fn is_instant(&self) -> bool {
        match self {
            Self::Host(..) | Self::Callback(..) => false,
            Self::Series(tasks) => tasks.iter().all(Self::is_instant),
            _ => true,
        }
    }

    /// Marks that must be set even if the context broke before the task ran.
    pub(crate) fn finish(&self) {
        match self {
            Self::Mark(stamp) | Self::LoneMark(stamp) if stamp.at().is_none() => {
                stamp.mark_at(now_ns());
            }
            _ => {}
        }
    }

    /// Callbacks are told of a broken context and memory is given back; nothing else happens in it.
    pub(crate) fn runs_in_a_broken_context(&self) -> bool {
        matches!(self, Self::Callback(..) | Self::Release(_))
    }

    /// Whether all it asks of the device is known before it runs, so that it can be handed in while
    /// the work before it is still under way.
    pub(crate) fn can_go_ahead(&self, is_managed: IsManaged<'_>) -> bool {
        match self {
            // How long managed memory takes to come depends on where it is when work touches it.
            Self::Kernel(launch) => !is_managed(&launch.touched()),
            Self::Fill(shape) => !is_managed(&[(shape.at, shape.extent())]),
            Self::Empty
            | Self::Mark(_)
            | Self::LoneMark(_)
            | Self::WriteValue(_)
            | Self::MarkEvent(_)
            | Self::Release(_)
            | Self::Assign(_)
            | Self::Hold(_) => true,
            // A copy's engine depends on where its addresses lie when it runs; which body is to run, on what
            // ran before.
            Self::Copy(_)
            | Self::Prefetch(_)
            | Self::Branches(_)
            | Self::Host(..)
            | Self::Callback(..)
            | Self::WaitValue(_)
            | Self::AwaitEvent(_) => false,
            Self::Series(tasks) => tasks.iter().all(|task| task.can_go_ahead(is_managed)),
        }
    }

    /// Hands in what it asks of the device; answers how many pieces that were, also when the machine
    /// would not take the rest: running the task then meets the same refusal.
    pub(crate) fn go_ahead(&self, lane: &dyn Lane, place: Place, ready_ns: u64) -> usize {
        let asked = match self {
            Self::Kernel(launch) => Some(launch.load()),
            Self::LoneMark(_) => Some((Load::Touch, 0)),
            Self::Fill(shape) => Some((Load::Fill, shape.bytes())).filter(|(_, bytes)| *bytes > 0),
            Self::Series(tasks) => {
                return tasks.iter().map(|task| task.go_ahead(lane, place, ready_ns)).sum();
            }
            _ => None,
        };
        asked.map_or(0, |(load, amount)| {
            usize::from(lane.submit(place, load, amount, ready_ns).unwrap_or(false))
        })
    }
}

/// A conditional node, ready to run.
pub(crate) struct Branches {
    pub(crate) condition: Arc<Condition>,
    pub(crate) choice: Choice,
    pub(crate) bodies: Vec<Vec<Task>>,
}
