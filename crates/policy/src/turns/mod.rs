//! Turns: which tenant may submit work to which device now, when several want it.
//!
//! The scheduler of the daemon as pure logic. It is told the time and one [`Sample`] for each tenant
//! and device, answers with one [`Gate`] for each, and with the time at which it wants to be called
//! again. Tenants that share a device take exclusive turns by weight (start-time fair queueing on the
//! wall time they hold the device), because the driver's own slicing loses up to half of the device.
//!
//! Promises: no clock, no allocation, no panic, whatever the samples say. A tenant alone on a device
//! is not gated. No tenant is closed while no other uses the device, except by `paused`. A tenant of
//! higher priority is closed for one of lower priority no longer than for a piece of the [floor](tuning::FLOOR_PPM),
//! and never waits for its work to drain.
//! A tenant on several devices takes its turn on all of them at once. A drain lasts at most
//! [`tuning::DRAIN_TIMEOUT_NS`]; a tenant that overruns is charged for it. Claims in a sample (used time, busy
//! until) change only the claimant's own treatment, but for what it says it uses beside work that outlasts another's
//! turn (`charge`): turns are charged by wall time, and a shared mode is entered only if no tenant loses by it.
//!
//! Around it, as pure, the step of the thread that calls it: [`Round`], over tenants ([`Served`]) whose
//! files are a trait ([`Files`]).
//!
//! Does not: enforce caps (a tenant closed by its own cap merely does not want), open files, find
//! tenants.

mod along;
mod charge;
mod device_set;
mod divide;
mod domain;
mod entry;
mod files;
mod floor;
mod gate;
mod in_use;
mod line;
mod mean;
mod observed;
mod parts;
mod phase;
mod pick;
mod piece;
mod place;
mod round;
mod sample;
mod scheduler;
mod seat;
mod served;
mod stepping;
mod steps;
mod tenant;
mod together;
pub mod tuning;
mod wake;
mod work;
mod workers;

pub use self::domain::{Counters, DeviceState, TurnMode};
pub use self::entry::{CapEntry, GateEntry, LINE_WORDS};
pub use self::files::Files;
pub use self::gate::{Gate, GateState};
pub use self::line::DeviceLine;
pub use self::round::{Round, Seated, Tenants};
pub use self::sample::Sample;
pub use self::scheduler::Turns;
pub use self::served::Served;
pub use self::tenant::TenantState;
pub use self::tuning::{REST_NS, WANT_NS};
