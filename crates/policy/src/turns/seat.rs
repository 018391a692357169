//! A tenant's gate on the devices where it takes turns, and its turns there so far.
//!
//! ```text
//! Closed --opens--> Open --its turn begins--> Holds --its turn ends--> Open
//!   ^                 |
//!   |              closes
//!   |                 v
//!   +--work ends-- Lingers --opens--> Open
//! ```
//!
//! Promises: a gate that is closed lingers until its work has ended. Does not decide: that is done in `phase`.

use super::tuning;

/// The gate of a seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Closed, and nothing of before is in flight.
    #[default]
    Closed,
    /// Closed while work was in flight, which has not ended.
    Lingers,
    /// Open, beside a holder or where no tenant holds a turn.
    Open,
    /// Open: it has the turn on all its devices.
    Holds,
}

/// A gate, and how the last turn ended. Starts as `default()`: closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Seat {
    state: State,
    /// When its gate was opened, or its turn began in an open gate.
    pub(super) opened_ns: u64,
    pub(super) closed_ns: u64,
    /// End of its last turn: who has waited longest goes first.
    pub(super) served_ns: u64,
    /// Its own cap ended its last turn: it loses nothing by waiting for a full turn of the next.
    pub(super) ended_by_cap: bool,
    /// Turns in a row that did not end in a pause.
    steady_turns: u32,
    /// Fades with each short turn that ended in a pause after one that was long.
    long_turns: u32,
    /// Moving mean of how long its work takes to drain after a turn.
    pub(super) drain_ns: u64,
}

impl Seat {
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::Holds)
    }

    pub(super) fn holds(&self) -> bool {
        self.state == State::Holds
    }

    pub(super) fn lingers(&self) -> bool {
        self.state == State::Lingers
    }

    /// It comes back from a pause with work for long, as it did of late.
    pub(super) fn works_long(&self) -> bool {
        self.long_turns > 0
    }

    pub(super) fn is_steady(&self) -> bool {
        self.steady_turns >= tuning::STEADY_TURNS
    }

    /// It takes turns nowhere.
    pub(super) fn leave(&mut self) {
        self.state = State::Closed;
    }

    /// Opens its gate; true if that was closed.
    pub(super) fn open(&mut self, now_ns: u64) -> bool {
        if self.is_open() {
            return false;
        }
        (self.state, self.opened_ns) = (State::Open, now_ns);
        true
    }

    /// Closes its gate, in which it holds no turn; true if that was open.
    pub(super) fn close(&mut self, now_ns: u64) -> bool {
        if !self.is_open() {
            return false;
        }
        (self.state, self.closed_ns) = (State::Lingers, now_ns);
        true
    }

    /// Its work behind the closed gate has ended, or is not waited for any more.
    pub(super) fn settle(&mut self) {
        if self.lingers() {
            self.state = State::Closed;
        }
    }

    /// Its turn begins; true if it did not have one.
    pub(super) fn begin_turn(&mut self, now_ns: u64) -> bool {
        if self.holds() {
            return false;
        }
        (self.state, self.opened_ns) = (State::Holds, now_ns);
        true
    }

    /// Its turn ends; `paused_work` when because it had no work, `by_cap` when its own cap keeps it from launching.
    pub(super) fn end_turn(&mut self, now_ns: u64, paused_work: bool, by_cap: bool) {
        let was_long = now_ns.saturating_sub(self.opened_ns) >= tuning::MIN_HOLD_NS;
        self.long_turns = match was_long {
            true => tuning::LONG_TURNS,
            false => self.long_turns.saturating_sub(u32::from(paused_work)),
        };
        self.forgo_turn();
        self.served_ns = now_ns;
        self.ended_by_cap = by_cap;
        self.steady_turns = if paused_work { 0 } else { self.steady_turns.saturating_add(1) };
    }

    /// Its turn is over without having ended: there are no turns here any more.
    pub(super) fn forgo_turn(&mut self) {
        if self.holds() {
            self.state = State::Open;
        }
    }
}
