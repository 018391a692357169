//! One device as the driver runs it, in virtual time.
//!
//! A context has streams; what is in a stream runs in order, streams of one context overlap. One context
//! has the device at a time, for a slice while others have work, and each change costs idle time. A kernel
//! says which part of the device it fills: small ones run side by side, full ones take turns, but for the
//! ends of those of several streams. Copies have engines of their own, host functions and waits need no
//! device.
//!
//! Promises: what each context had the device for is exact, in integer nanoseconds, as the union of the
//! times in which any of its kernels was resident and not switched out; busy, events, switches and idleness
//! add up to the time that passed ([`Books`]). An error of a context that is gone counts as done.
//!
//! Does not model memory bandwidth, caches, clocks and power: kernels side by side do not slow each other.

mod books;
mod engine;
mod model;

use std::cell::Cell;
use std::collections::VecDeque;

pub use books::{Books, Had};
pub use model::CardModel;

/// All of a device, in the unit of a kernel's width.
pub const FULL_PPM: u32 = 1_000_000;

/// Number of a context of the card; never given twice.
pub type ContextId = usize;
/// Number of a stream in its context.
pub type StreamId = usize;
/// Number of an event of the card.
pub type EventId = usize;

/// A place in a stream: what was submitted there as the how many-th.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// Of which context.
    pub context: ContextId,
    /// Of which stream.
    pub stream: StreamId,
    /// From 0.
    pub seq: u64,
}

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Direction {
    /// From the host to the device.
    In,
    /// From the device to the host.
    Out,
}

/// An item of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A kernel, or a graph as one.
    Kernel {
        /// Time alone on the device.
        length_ns: u64,
        /// Part of the device that it fills, at most [`FULL_PPM`].
        width_ppm: u32,
    },
    /// An event.
    Event {
        /// Which.
        event: EventId,
        /// It notes the time.
        is_timed: bool,
        /// It is behind all of a context.
        is_whole: bool,
    },
    /// A copy between host and device.
    Copy {
        /// Which way.
        direction: Direction,
        /// How much.
        bytes: u64,
    },
    /// A function on the host.
    HostFunction {
        /// How long.
        length_ns: u64,
    },
    /// Nothing but what it comes after.
    Join,
}

/// A completed item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// When.
    pub at_ns: u64,
    /// Its position.
    pub position: Position,
    /// Its kind.
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    Waits,
    /// On the device; the time it still needs there.
    Runs {
        left_ns: u64,
    },
    /// Elsewhere.
    Ends {
        at_ns: u64,
    },
}

#[derive(Debug)]
struct Item {
    what: What,
    ready_ns: u64,
    order: u64,
    after: Vec<Position>,
    progress: Progress,
    /// It keeps the device without getting on, as a kernel does that waits for another device's.
    is_held: bool,
}

#[derive(Default, Debug)]
struct Stream {
    items: VecDeque<Item>,
    /// Number of completed items, hence the number of the first that is left.
    done: u64,
}

impl Stream {
    fn next(&self) -> u64 {
        self.done + self.items.len() as u64
    }
}

#[derive(Debug)]
struct Context {
    streams: Vec<Stream>,
    had: Had,
    is_alive: bool,
}

#[derive(Default, Debug)]
struct Event {
    recorded: Option<Position>,
    done_ns: Option<u64>,
    /// A kernel was before it in its stream.
    is_behind: bool,
    /// Lateness of its own time behind its completion.
    late_ns: u64,
    /// Time after that until its own can be read; until then the time of its last recording is read, 0 for none.
    unread_ns: u64,
    before_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Switch {
    to: ContextId,
    until_ns: u64,
}

/// The device.
#[derive(Debug)]
pub struct Card {
    model: CardModel,
    now_ns: u64,
    contexts: Vec<Context>,
    events: Vec<Event>,
    /// Context that has the device, or had it last.
    resident: Option<ContextId>,
    slice_end_ns: u64,
    /// Another context wanted the device at the last look.
    is_contended: bool,
    switch: Option<Switch>,
    copying: [Option<Position>; 2],
    orders: u64,
    done: Vec<Done>,
    books: Books,
    /// When something changes next, where nothing has changed since that was looked up.
    next_ns: Cell<Option<u64>>,
}

impl Card {
    /// An idle one.
    pub fn new(model: CardModel) -> Self {
        Self {
            model,
            now_ns: 0,
            contexts: Vec::new(),
            events: Vec::new(),
            resident: None,
            slice_end_ns: 0,
            is_contended: false,
            switch: None,
            copying: [None; 2],
            orders: 0,
            done: Vec::new(),
            books: Books::default(),
            next_ns: Cell::new(None),
        }
    }

    /// Its figures.
    pub fn model(&self) -> &CardModel {
        &self.model
    }

    /// How far it has come.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A context with one stream.
    pub fn create_context(&mut self) -> ContextId {
        let streams = vec![Stream::default()];
        self.contexts.push(Context { streams, had: Had::default(), is_alive: true });
        self.contexts.len() - 1
    }

    /// Another stream.
    pub fn create_stream(&mut self, context: ContextId) -> StreamId {
        let streams = &mut self.contexts[context].streams;
        streams.push(Stream::default());
        streams.len() - 1
    }

    /// An event that was never recorded.
    pub fn create_event(&mut self) -> EventId {
        self.events.push(Event::default());
        self.events.len() - 1
    }

    /// Drops a context, with what it has queued and what runs.
    pub fn drop_context(&mut self, context: ContextId) {
        for copying in &mut self.copying {
            *copying = copying.filter(|position| position.context != context);
        }
        let one = &mut self.contexts[context];
        one.is_alive = false;
        for stream in &mut one.streams {
            stream.done = stream.next();
            stream.items.clear();
        }
        self.settle();
    }

    /// Whether a context is there.
    pub fn is_alive(&self, context: ContextId) -> bool {
        self.contexts.get(context).is_some_and(|context| context.is_alive)
    }

    /// Submits at the card's time what may begin at `ready_ns`, behind what is in its stream and `after`.
    pub fn submit(
        &mut self,
        context: ContextId,
        stream: StreamId,
        what: What,
        ready_ns: u64,
        after: Vec<Position>,
    ) -> Position {
        self.orders += 1;
        let order = self.orders;
        let is_behind = !self.is_drained(context, stream);
        let waits = after.iter().any(|position| !self.is_done(*position));
        let queue = &mut self.contexts[context].streams[stream];
        let position = Position { context, stream, seq: queue.next() };
        let (progress, is_held) = (Progress::Waits, false);
        let is_front = queue.items.is_empty();
        queue.items.push_back(Item { what, ready_ns, order, after, progress, is_held });
        if let What::Event { event, is_whole, .. } = what
            && let Some(event) = self.events.get_mut(event)
        {
            let late_ns = if is_whole && waits { self.model.context_event_late_ns } else { 0 };
            let before_ns = event.done_ns.unwrap_or(event.before_ns);
            let (recorded, done_ns, unread_ns) = (Some(position), None, 0);
            *event = Event { recorded, done_ns, is_behind, late_ns, unread_ns, before_ns };
        }
        // Behind another it changes nothing yet.
        if is_front {
            self.settle();
        }
        position
    }

    /// Has what was submitted there get on, once it has begun, or wait on the device.
    pub fn hold(&mut self, position: Position, is_held: bool) {
        self.next_ns.set(None);
        if let Some(item) = self.item_mut(position) {
            item.is_held = is_held;
        }
    }

    /// Whether what was submitted there has begun, and has not been completed.
    pub fn has_begun(&mut self, position: Position) -> bool {
        self.item_mut(position).is_some_and(|item| matches!(item.progress, Progress::Runs { .. }))
    }

    fn item_mut(&mut self, position: Position) -> Option<&mut Item> {
        let context = self.contexts.get_mut(position.context)?;
        let stream = context.streams.get_mut(position.stream)?;
        let at = usize::try_from(position.seq.checked_sub(stream.done)?).ok()?;
        stream.items.get_mut(at)
    }

    /// Whether what was submitted there has been completed.
    pub fn is_done(&self, position: Position) -> bool {
        let stream = self.contexts.get(position.context).map(|one| &one.streams[position.stream]);
        stream.is_none_or(|stream| stream.done > position.seq)
    }

    /// When an event was completed that was recorded last; 0 where it never was.
    pub fn event_done_ns(&self, event: EventId) -> Option<u64> {
        match self.events.get(event)? {
            Event { recorded: None, .. } => Some(0),
            Event { done_ns: Some(ns), .. } => Some(*ns),
            // Dropped with its context.
            Event { recorded: Some(at), .. } => self.is_done(*at).then_some(0),
        }
    }

    /// The time of an event, once it is complete, cannot be read for so long.
    pub fn keep_from_reading(&mut self, event: EventId, for_ns: u64) {
        if let Some(event) = self.events.get_mut(event) {
            event.unread_ns = for_ns;
        }
    }

    /// Time that is read then of an event that is complete.
    pub fn event_time_ns(&self, event: EventId, now_ns: u64) -> Option<u64> {
        let done_ns = self.event_done_ns(event).filter(|ns| *ns != 0)?;
        let event = self.events.get(event)?;
        let is_read = done_ns + event.unread_ns <= now_ns;
        Some(if is_read { done_ns } else { event.before_ns })
    }

    /// Whether a query says then that an event is done.
    pub fn is_seen_done(&self, event: EventId, now_ns: u64) -> bool {
        let Some(done_ns) = self.event_done_ns(event) else { return false };
        let is_behind = self.events.get(event).is_some_and(|event| event.is_behind);
        let model = &self.model;
        let visible_ns = if is_behind { model.visible_behind_ns } else { model.visible_ns };
        done_ns == 0 || done_ns + visible_ns <= now_ns
    }

    /// Where an event was recorded last.
    pub fn recorded(&self, event: EventId) -> Option<Position> {
        self.events.get(event)?.recorded
    }

    /// The last thing in a stream, where it has not been completed.
    pub fn tail(&self, context: ContextId, stream: StreamId) -> Option<Position> {
        let queue = self.contexts.get(context)?.streams.get(stream)?;
        let seq = queue.next().checked_sub(1)?;
        (seq >= queue.done).then_some(Position { context, stream, seq })
    }

    /// The same of all of a context's streams.
    pub fn tails(&self, context: ContextId) -> Vec<Position> {
        let streams = self.contexts.get(context).map_or(0, |context| context.streams.len());
        (0..streams).filter_map(|stream| self.tail(context, stream)).collect()
    }

    /// How much a stream holds.
    pub fn queued(&self, context: ContextId, stream: StreamId) -> u64 {
        self.contexts[context].streams[stream].items.len() as u64
    }

    /// Whether a stream holds no kernel that has not been completed.
    pub fn is_drained(&self, context: ContextId, stream: StreamId) -> bool {
        let mut items = self.contexts[context].streams[stream].items.iter();
        !items.any(|item| matches!(item.what, What::Kernel { .. }))
    }

    /// Items completed since the last call, in order.
    pub fn take_done(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.done)
    }

    /// The books up to now.
    pub fn books(&self) -> Books {
        self.books
    }

    /// Device time of a context so far.
    pub fn had(&self, context: ContextId) -> Had {
        self.contexts.get(context).map(|context| context.had).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
