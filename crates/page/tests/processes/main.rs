//! A tenant of several processes: deaths, forks, namespaces, files gone wrong, nothing left.
//!
//! Each test starts this very binary again as an actor (see `actor`), so that processes are real and
//! can be killed, and talks to it by lines.
#![allow(
    unsafe_code,
    clippy::multiple_unsafe_ops_per_block,
    reason = "fork, close_range and rlimits have no safe form here"
)]

mod actor;
mod deaths;
mod files;
mod limits;
mod namespaces;
mod naps;
#[path = "../scratch/mod.rs"]
mod scratch;
mod versions;
