//! Streams with what waits in them, the events marked in them, and the captures they take part in.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_char;
use std::sync::Arc;
use std::thread::ThreadId;

use super::task::{Stamp, Task};
use crate::calibration::MULTIPROCESSORS;
use crate::driver::machine::Lane;

const NON_BLOCKING: u32 = 1;

/// Ends of completed operations a stream remembers.
const ENDS: usize = 64;

/// A (stream, sequence) that must have completed.
pub(crate) type Point = (u64, u64);

/// Work that was submitted to a stream and has not begun.
pub(crate) struct Operation {
    pub(crate) sequence: u64,
    pub(crate) after: Vec<Point>,
    pub(crate) task: Task,
    /// Its place among host functions that were ready when queued.
    pub(crate) ticket: Option<u64>,
    /// When it was submitted, in device time.
    pub(crate) submitted_ns: u64,
    /// How many of its pieces the device has.
    pub(crate) ahead: usize,
}

/// A stream.
pub(crate) struct Stream {
    pub(crate) context: u64,
    pub(crate) device: i32,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) id: u64,
    pub(crate) is_legacy: bool,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) queue: VecDeque<Operation>,
    /// Whether a thread runs its next operation.
    pub(crate) is_running: bool,
    /// All up to this one have gone ahead to the device, or have completed.
    pub(crate) fed: u64,
    /// When the last of them could begin, in device time.
    pub(crate) from_ns: u64,
    /// When the latest completed ones ended, in device time.
    ends: VecDeque<(u64, u64)>,
    pub(crate) has_engine: bool,
    pub(crate) lane: Option<Arc<dyn Lane>>,
    pub(crate) doomed: bool,
    /// The capture it takes part in, or 0.
    pub(crate) capture: u64,
    pub(crate) green: u64,
    pub(crate) multiprocessors: u32,
    pub(crate) attributes: Vec<(u32, [c_char; 64])>,
}

impl Stream {
    pub(crate) fn created(context: u64, device: i32, flags: u32, priority: i32, id: u64) -> Self {
        Self {
            context,
            device,
            flags,
            priority: priority.clamp(-5, 0),
            id,
            is_legacy: false,
            submitted: 0,
            completed: 0,
            queue: VecDeque::new(),
            is_running: false,
            fed: 0,
            from_ns: 0,
            ends: VecDeque::new(),
            has_engine: false,
            lane: None,
            doomed: false,
            capture: 0,
            green: 0,
            multiprocessors: MULTIPROCESSORS,
            attributes: Vec::new(),
        }
    }

    pub(crate) fn legacy(context: u64, device: i32) -> Self {
        Self { is_legacy: true, ..Self::created(context, device, 0, 0, 1) }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.completed == self.submitted
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// Whether its engine thread has anything to look at.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.doomed || !self.queue.is_empty()
    }

    /// When an operation ended, or the oldest behind it that is remembered; 0 if none is.
    pub(crate) fn ended_ns(&self, sequence: u64) -> u64 {
        let known = self.ends.iter().find(|(at, _)| *at >= sequence);
        known.or(self.ends.back()).map_or(0, |(_, ended_ns)| *ended_ns)
    }

    pub(crate) fn complete(&mut self, sequence: u64, ended_ns: u64) {
        self.completed = sequence;
        if self.ends.len() == ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back((sequence, ended_ns));
    }
}

/// An event.
pub(crate) struct Event {
    pub(crate) context: u64,
    pub(crate) flags: u32,
    /// The last mark: where, and when it was reached.
    pub(crate) mark: Option<(Point, Arc<Stamp>)>,
    /// Time that is read for a while after it was reached, if its own cannot be read at once.
    pub(crate) before_ns: Option<u64>,
    /// The capture in which it was last recorded and the nodes it stands for.
    pub(crate) captured: Option<(u64, Vec<u64>)>,
}

/// A capture in progress.
pub(crate) struct Capture {
    pub(crate) graph: u64,
    pub(crate) origin: u64,
    pub(crate) mode: u32,
    pub(crate) thread: ThreadId,
    pub(crate) is_invalid: bool,
    pub(crate) owns_graph: bool,
    /// For each stream in it, the nodes its next node depends on.
    pub(crate) streams: HashMap<u64, Vec<u64>>,
}
