//! Slices: the node's pool of devices, as the API server is to have it.
//!
//! [`pool`] says what is wanted, [`same`] whether a slice is so, [`decide`] what is to be written, and [`store`] keeps what the
//! API server has told. All of it is pure; [`super::run`] asks and writes.

pub(super) mod decide;
pub(super) mod pool;
pub(super) mod same;
pub(super) mod store;
#[cfg(test)]
mod tests;
