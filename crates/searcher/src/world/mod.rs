//! The world of one run: devices, processes and threads (`state`), and the loop that lets time pass (`run`).
//!
//! Promises: the same case and the same hooks give the same [`Report`], hash and all. A process that is
//! killed leaves what the driver would clear, cleared, and everything else as it was.

mod calls;
mod change;
mod collective;
mod driver;
mod life;
mod message;
mod play;
mod report;
mod run;
pub mod shim;
pub(crate) mod sim_driver;
pub(crate) mod state;
mod truth;
pub mod words;

pub use divvy_policy::gate::LaunchStream;
pub use report::{End, Report, Violation};
pub use run::{run, run_with};
pub use shim::{Code, Daemon, Native, Other, Shim, Shims, SimWait, native};
pub use sim_driver::SimDriver;
pub use state::{SimTenant, World, with};

#[cfg(test)]
mod tests;
