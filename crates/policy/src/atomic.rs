//! The atomic types of this crate: core's, or under `cfg(shuttle)` those of a scheduler that tries
//! interleavings.
//!
//! State that several threads of a process change is built of these types, so that `tests/lane_model.rs` runs the
//! shipped code. Holds no code of its own.

#[cfg(not(shuttle))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
