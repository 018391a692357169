//! The scheduler's answer to one tenant about one device.
//!
//! Promises: plain data; a closed gate holds no field that changes all the time, since each change is a write. Does not
//! write: that is done in `line`.

/// State of one gate; the values are those of `divvy_abi`'s gate line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum GateState {
    /// Nothing is counted.
    #[default]
    Free = 0,
    /// Open; work is counted and bounded in flight.
    Timed = 1,
    /// Nothing may be submitted.
    Closed = 2,
    /// As [`GateState::Timed`], and the tenant's processes take turns among themselves.
    Turns = 3,
    /// As [`GateState::Turns`], and others go beside one of them that uses little of its turn.
    SharedTurns = 4,
}

/// The answer to one tenant about one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Whether it may submit.
    pub state: GateState,
    /// Tenants whose work may run on the device at once; above 1 measured times are stretched.
    pub active: u32,
    /// Contexts of no tenant beside it.
    pub strangers: u32,
    /// Number of the running turn.
    pub turn: u64,
    /// Planned end of the tenant's turn; 0 when none is planned.
    pub turn_end_ns: u64,
    /// Length of the tenant's full turn; of a closed gate no less, and rarely another.
    pub quantum_ns: u64,
    /// Time in flight the tenant may have; 0 while the gate is closed.
    pub horizon_ns: u64,
    /// When a closed gate is expected to open; 0 when unknown.
    pub t_open_ns: u64,
    /// The next step needs a fresh sample of this tenant and device.
    pub watch: bool,
}

impl Gate {
    /// Without what nobody goes by while it is closed.
    pub(super) fn settled(self) -> Self {
        match self.state {
            GateState::Closed => {
                let quantum_ns = self
                    .quantum_ns
                    .div_ceil(tuning::CLOSED_QUANTUM_NS)
                    .saturating_mul(tuning::CLOSED_QUANTUM_NS);
                Self { quantum_ns, horizon_ns: 0, ..self }
            }
            GateState::Free | GateState::Timed | GateState::Turns | GateState::SharedTurns => self,
        }
    }
}
use super::tuning;
