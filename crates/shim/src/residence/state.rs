//! The state of this process, none before its first block that may leave, and the way in for calls.

use core::sync::atomic::AtomicU32;

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::CUresult;
use zerocopy::FromZeros;

use super::chunks::Chunks;
use super::door::{Door, Inside};
use super::slabs::Slabs;
use crate::sys::wiped::Wiped;

/// The state of this process.
#[derive(FromZeros)]
pub(crate) struct State {
    pub(crate) door: Door,
    pub(crate) chunks: Chunks,
    pub(super) slabs: Slabs,
    /// Not 0 while a thread asks the owner for managed memory.
    pub(crate) asker: AtomicU32,
    /// The backing that was chosen for each device.
    pub(super) backings: [AtomicU32; MAX_DEVICES],
    /// Not 0 once the service thread was started.
    pub(crate) service: AtomicU32,
    /// Whether a thread hands out descriptors of memory that was exported: of [`crate::handover::server`].
    pub(crate) server: AtomicU32,
}

static STATE: Wiped<State> = Wiped::new();

/// The state, where any memory of this process may leave the card.
#[inline(always)]
pub(crate) fn get() -> Option<&'static State> {
    STATE.get()
}

/// The state, made if there is none; `None` without memory for it.
pub(super) fn make() -> Option<&'static State> {
    STATE.make()
}

/// Goes in, for a call that may touch memory or change what there is; waits while memory is away.
#[inline(always)]
pub(crate) fn enter() -> Inside {
    match get() {
        None => Inside::OUTSIDE,
        Some(state) => state.door.pass(),
    }
}

/// Makes `call` from inside.
pub(crate) fn inside(call: impl FnOnce() -> CUresult) -> CUresult {
    let _inside = enter();
    call()
}

/// Goes in; none where no memory may leave.
#[inline]
pub(crate) fn enter_if_any() -> Option<Inside> {
    get().map(|state| state.door.pass())
}
