//! Pure decisions: the ledger protocol; the limit and share grammars, how a change of limits adds up and
//! which variables hold them; what a block is charged, what a query is answered; what a launch costs, when
//! it may go, which tenant has its turn, and whose memory is on the device.
//!
//! Promises: no I/O, no clock, no allocation, no unsafe, no panic; time, bytes and slots come in as
//! arguments, so that the same code runs over a mapped file in production and over a model checker
//! in tests.

#![cfg_attr(not(any(test, shuttle)), no_std)]
#![forbid(unsafe_code)]

pub mod answer;
mod atomic;
pub mod change;
pub mod charge;
pub mod cost;
pub mod gate;
pub mod ledger;
pub mod limit;
pub mod pace;
pub mod residence;
mod scaled;
pub mod share;
pub mod size;
pub mod slab;
pub mod turns;
pub mod variables;
