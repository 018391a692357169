//! One device for the time of a step: what the parts of the decision share.
//!
//! Promises: plain values, each set once in a step before it is used. Does not decide anything; the other modules do, as
//! methods of [`Step`].

use super::holder::HolderState;
use super::sample::DeviceRoom;
use super::state::ResidenceState;
use super::tuning::ResidenceTuning;

/// Unit of weights in virtual time.
pub(super) const WEIGHT_UNIT: u64 = 1024;

/// Weights of the tenants that compete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contest {
    pub(super) tenants: u64,
    pub(super) weights: u64,
    pub(super) least_weight: u64,
    /// So many of them run at any time, whichever they are: the largest fit together.
    pub(super) lanes: u64,
}

/// One device for the time of a step.
pub(super) struct Step<'a> {
    pub(super) tuning: &'a ResidenceTuning,
    pub(super) now_ns: u64,
    pub(super) room: DeviceRoom,
    /// Capacity that pinned bytes leave.
    pub(super) left_bytes: u64,
    /// The queue goes by age.
    pub(super) by_age: bool,
    /// All tenants fit.
    pub(super) fits: bool,
    /// Bytes that each tenant may have beyond its size, so that it need not ask for all it makes: where all fit.
    pub(super) headroom_bytes: u64,
    pub(super) contest: Contest,
    /// Virtual times this close to each other are the same.
    pub(super) grain_ns: u64,
    pub(super) rows: &'a mut [HolderState],
    pub(super) state: &'a mut ResidenceState,
}
