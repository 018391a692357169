//! The simulated machine's daemon.
fn main() {}
