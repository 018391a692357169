//! Memory that may leave the card: blocks of a tenant that oversubscribes, which keep their addresses.
//!
//! Such a block lies at addresses that this library has reserved, and the memory behind them is taken from the driver by
//! handles ([`chunks`]): large blocks have handles of their own, small ones share [`slabs`]. Who moves a chunk out
//! or in is [`crate::handover`], while no call of the program that could touch it is under way ([`door`]).
//! [`backed`] makes and frees blocks and says what lies at an address ([`addresses`]). Memory that the driver manages may stand in
//! the place of handles ([`backing`]). What a program shares by legacy IPC other processes of the tenant find in [`exports`],
//! and have in [`imports`].
//!
//! Promises: nothing of this exists in a process whose tenant does not oversubscribe; a forked child begins with none.
//! Charging is [`crate::account`]'s, by the blocks a program has: the room that a slab keeps beside them is on
//! the card, and counted as resident, but not charged.

pub(crate) mod addresses;
pub(crate) mod backed;
pub(crate) mod backing;
mod chunk;
pub(crate) mod chunks;
pub(crate) mod door;
pub(crate) mod exports;
pub(crate) mod imports;
mod managed;
pub(crate) mod peer_access;
mod peers;
mod slabs;
pub(crate) mod state;
mod sums;
pub(crate) mod work;
