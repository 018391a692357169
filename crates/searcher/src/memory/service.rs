//! The library's service in a process: its door, the contexts in which memory moves, and work that must end before.
//!
//! The rules are those of `crates/shim/src/handover`. The door closes once the owner wants memory gone, or calls to wait; work
//! ends by a deadline then, or calls go on for four times as long, and the next deadline is twice as far. A stream that
//! captures keeps it open. It opens again once all is back and calls may go on. Memory leaves in a context that lives: without
//! one it stays. A context ends by a call that goes in by the door, and is made by one that does not.
//!
//! Another device of the process is known by what it does to this one: while its owner wants memory gone, the door is closed
//! for both; while none of its contexts lives, that memory cannot leave, and none comes back here.
//!
//! Promises: with no [`Fault`] the door is open only while nothing is away. Does not move bytes: [`super::process`] does.

use super::fault::Fault;
use crate::MS;

/// How long work is waited for, at first and at last.
const PATIENCE_NS: [u64; 2] = [200 * MS, 2_000 * MS];
/// So many times as long calls go on after that.
const REST: u64 = 4;

/// The door, and the thread that closes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Door {
    /// Calls go in; until then it is not closed.
    Open { rests_until_ns: u64 },
    /// Calls wait, and so does the thread, for work to end by then.
    Closing { until_ns: u64 },
    /// Memory moves, or is away.
    Closed,
    /// The thread has ended, and calls go in: a fault.
    Left,
}

/// Contexts of the process on this card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contexts {
    Live,
    /// A call is to end them, and they are made again so long after.
    End {
        for_ns: u64,
    },
    Gone {
        until_ns: u64,
    },
}

/// Work that ends when the host says so: a thread of the program that has yet to come in by the door for so long.
#[derive(Clone, Copy, Debug)]
struct HostWait {
    left_ns: u64,
    is_green: bool,
    /// By when it ends at the latest.
    due_ns: u64,
}

impl HostWait {
    fn new(left_ns: u64, is_green: bool, now_ns: u64) -> Self {
        // Calls are held back for a fifth of the time, and once for the longest patience more.
        let due_ns = now_ns + left_ns + left_ns / REST + 2 * PATIENCE_NS[1];
        Self { left_ns, is_green, due_ns }
    }
}

/// Another device's memory of this process, which its owner wants gone.
#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    until_ns: u64,
    /// None of its contexts lives there.
    is_bare: bool,
}

/// State of the process at a look of the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// The owner lets calls go on.
    pub(super) runs: bool,
    /// More is there than may be.
    pub(super) is_over: bool,
    /// A stream captures.
    pub(super) captures: bool,
    /// Kernels are under way.
    pub(super) works: bool,
    /// Bytes are away.
    pub(super) is_away: bool,
    /// A piece is on its way.
    pub(super) moves: bool,
}

/// The service.
#[derive(Debug)]
pub(super) struct MemoryService {
    fault: Option<Fault>,
    door: Door,
    patience_ns: u64,
    contexts: Contexts,
    host: Option<HostWait>,
    elsewhere: Option<Elsewhere>,
    looked_ns: u64,
}

impl MemoryService {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            door: Door::Open { rests_until_ns: 0 },
            patience_ns: PATIENCE_NS[0],
            contexts: Contexts::Live,
            host: None,
            elsewhere: None,
            looked_ns: 0,
        }
    }

    /// Calls go in.
    pub(super) fn lets_in(&self) -> bool {
        matches!(self.door, Door::Open { .. } | Door::Left)
    }

    /// Calls find what is away: the thread no longer keeps them from it.
    pub(super) fn has_left(&self) -> bool {
        self.door == Door::Left
    }

    /// No context lives on this card.
    pub(super) fn is_bare(&self) -> bool {
        matches!(self.contexts, Contexts::Gone { .. })
    }

    /// It says what is free of the card: a context lives in which the driver is asked, and it does not wait for work to end.
    pub(super) fn tells(&self) -> bool {
        !self.is_bare() && matches!(self.door, Door::Open { .. } | Door::Closed)
    }

    /// A call that ends the contexts wants in.
    pub(super) fn wants_to_end(&self) -> bool {
        matches!(self.contexts, Contexts::End { .. })
    }

    /// Work is under way whose end the host decides.
    pub(super) fn waits_for_host(&self) -> bool {
        self.host.is_some()
    }

    /// Something holds it up for which others have to wait, and that is to end by itself.
    pub(super) fn is_held_up(&self, now_ns: u64) -> bool {
        let waits = self.host.is_some_and(|host| now_ns < host.due_ns);
        waits || self.is_bare() || self.elsewhere.is_some()
    }

    /// Memory may leave: its work has ended, and a context lives.
    pub(super) fn may_leave(&self) -> bool {
        self.door == Door::Closed && !self.is_bare()
    }

    /// Memory may come back: without a context of the program's by the primary one. Not while some of another device is to
    /// leave and cannot.
    pub(super) fn may_come(&self) -> bool {
        self.door == Door::Closed && !self.is_stuck_elsewhere()
    }

    fn is_stuck_elsewhere(&self) -> bool {
        self.elsewhere.is_some_and(|elsewhere| elsewhere.is_bare)
    }

    /// The contexts are to end, and others are made so long after.
    pub(super) fn end_contexts(&mut self, for_ns: u64) {
        if self.contexts == Contexts::Live {
            self.contexts = Contexts::End { for_ns };
        }
    }

    /// Work begins that waits for the host, where calls go in.
    pub(super) fn wait_for_host(&mut self, left_ns: u64, is_green: bool, now_ns: u64) {
        if self.lets_in() && !self.is_bare() {
            self.host = Some(HostWait::new(left_ns, is_green, now_ns));
        }
    }

    /// Another device's owner wants its memory gone for so long.
    pub(super) fn leave_elsewhere(&mut self, for_ns: u64, is_bare: bool, now_ns: u64) {
        self.elsewhere = Some(Elsewhere { until_ns: now_ns + for_ns, is_bare });
    }

    /// The process goes on after a stop.
    pub(super) fn go_on(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
        if let Some(HostWait { left_ns, is_green, .. }) = self.host {
            self.host = Some(HostWait::new(left_ns, is_green, now_ns));
        }
    }

    /// Time goes on for the program; true where its contexts end, and its work with them.
    pub(super) fn pass(&mut self, now_ns: u64) -> bool {
        let passed_ns = now_ns - std::mem::replace(&mut self.looked_ns, now_ns).min(now_ns);
        self.elsewhere = self.elsewhere.filter(|elsewhere| now_ns < elsewhere.until_ns);
        match self.contexts {
            Contexts::End { for_ns } if self.lets_in() => {
                self.contexts = Contexts::Gone { until_ns: now_ns + for_ns };
                self.host = None;
                return true;
            }
            Contexts::Gone { until_ns } if now_ns >= until_ns => self.contexts = Contexts::Live,
            _ => {}
        }
        if self.lets_in()
            && let Some(host) = &mut self.host
        {
            host.left_ns = host.left_ns.saturating_sub(passed_ns);
        }
        self.host = self.host.filter(|host| host.left_ns > 0);
        false
    }

    /// One look at what is wanted, and what follows for the door.
    pub(super) fn step(&mut self, now_ns: u64, look: &Look) {
        let is_aim_open = look.runs && !look.is_over && self.elsewhere.is_none();
        match self.door {
            Door::Left => {}
            Door::Open { .. } if is_aim_open => {
                self.patience_ns = PATIENCE_NS[0];
                self.door = Door::Open { rests_until_ns: 0 };
            }
            Door::Open { rests_until_ns } => {
                if now_ns >= rests_until_ns && !look.captures {
                    self.door = Door::Closing { until_ns: now_ns + self.patience_ns };
                    self.wait_for_work(now_ns, look);
                }
            }
            Door::Closing { .. } => self.wait_for_work(now_ns, look),
            Door::Closed => self.step_closed(look, is_aim_open),
        }
    }

    /// Work of all contexts and devices, those of green ones too.
    fn wait_for_work(&mut self, now_ns: u64, look: &Look) {
        let Door::Closing { until_ns } = self.door else { return };
        let is_green = self.host.is_some_and(|host| host.is_green);
        if !look.works && self.host.is_none() {
            (self.door, self.patience_ns) = (Door::Closed, PATIENCE_NS[0]);
        } else if now_ns >= until_ns && !(is_green && self.fault == Some(Fault::WaitsWithoutEnd)) {
            self.door = Door::Open { rests_until_ns: now_ns + REST * self.patience_ns };
            self.patience_ns = (2 * self.patience_ns).min(PATIENCE_NS[1]);
        }
    }

    fn step_closed(&mut self, look: &Look, is_aim_open: bool) {
        let meets_no_context = look.is_over && self.is_bare() || self.is_stuck_elsewhere();
        let gives_up = match self.fault {
            Some(Fault::OpensOverAway) => look.is_away,
            Some(Fault::EndsWithContext) => !look.is_away,
            _ => false,
        };
        if meets_no_context && gives_up {
            self.door = Door::Left;
        } else if is_aim_open && !look.is_away && !look.moves {
            self.door = Door::Open { rests_until_ns: 0 };
        }
    }
}
