//! Residence: which tenants' memory is on the device now, when several want more than it has.
//!
//! The planner of the hand-over as pure logic. It is told the time, the bytes of the device and one [`Holder`] for each
//! tenant; it answers with one [`HolderOrder`] for each, a ceiling of its resident bytes and whether its gate may be open, and
//! with the time at which it wants to be called again. It is level-based: an order says what shall be, not what to do,
//! so that a lost message, another daemon or a death at any step only means that the next step decides again.
//!
//! A tenant's ceiling is divided among its processes by [`divide()`]; how much managed memory each process may have, wherever
//! it is, is [`divide_managed`]'s.
//!
//! Promises: no clock, no allocation, no panic, whatever the samples say. Where all tenants fit, all run and nothing
//! moves, and what is left of the device is headroom of all. The sum of what tenants may have resident never exceeds the device, bytes that were released a moment ago
//! included; a ceiling rises only into room that is there. Only the bytes that are short are taken, from the tenant whose
//! next turn is furthest. No turn ends without a waiter. A tenant that wants and fits is resident and runs within the
//! turns of the others, each of which is long enough to pay for its movement and short enough for
//! [`ResidenceTuning::max_wait_ns`]. A tenant that does not answer costs the others [`ResidenceTuning::patience_ns`] and
//! the bytes it keeps. Claims that the orders did not allow are not believed. A tenant that waits has its turn, or is told
//! that it can have none ([`LockedOut`]), in a time that does not depend on what others do.
//!
//! A process that needs memory of several devices asks for them in one order ([`DeviceSpan`]).
//!
//! Does not: move bytes, choose blocks within a tenant, divide device time among tenants that run together (the turns
//! do), or count memory that cannot move (its caller takes that off the capacity).

mod ceilings;
mod divide;
mod holder;
mod locked_out;
mod managed;
mod member;
mod order;
mod promise;
mod quantum;
mod queue;
mod released;
mod running;
mod sample;
mod span;
mod state;
mod step;
mod tuning;
mod view;

pub use self::divide::{ProcessCeiling, ProcessMemory, divide};
pub use self::holder::HolderState;
pub use self::managed::{ManagedCeiling, ManagedUse, divide_managed};
pub use self::order::{
    HolderOrder, HolderStatus, KEPT_BEYOND_BYTES, LOCKED_OUT_NS, LockedOut, ORDER_LEASE_NS,
    PINNED_OUT_NS,
};
pub use self::promise::{HostClaim, HostPlace, HostPromise, HostShortage, MAX_PLACES};
pub use self::sample::{DeviceRoom, Freeze, Holder};
pub use self::span::DeviceSpan;
pub use self::state::{ResidenceCounters, ResidenceState};
pub use self::step::ResidencePlanner;
pub use self::tuning::ResidenceTuning;
