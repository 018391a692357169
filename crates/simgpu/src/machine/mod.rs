//! The simulated machine: what it is made of, what it remembers, and the daemon that plays it.

pub mod description;
