//! The share grammar: how a cap on device time, a weight, a priority and a class are written.
//!
//! ```text
//! share    = "0" | number "%"          0, and 100% or more: no cap
//! number   = digits without a leading zero, optionally "." and 1 to 4 digits
//! weight   = 1 to 10000
//! priority = "high" | "normal" | "low"
//! class    = "latency" | "normal"
//! ```
//!
//! A rule is `[selector "="] share`, as for memory. HAMi-core's variables are read too:
//! `CUDA_DEVICE_SM_LIMIT` and `CUDA_DEVICE_SM_LIMIT_<i>` (percent, `%` optional),
//! `GPU_CORE_UTILIZATION_POLICY` (`disable` lifts those caps, `default` and `force` keep them) and
//! `CUDA_TASK_PRIORITY` (0 high, larger low). Where a `DIVVY_` variable of the same meaning is set,
//! the peer's is read and then ignored.
//!
//! Promises: what is not in the grammar is an error that names the text, so a typing error is never
//! "no cap"; a rule that no version of this code would write is an error when it is resolved. No
//! allocation, no panic.
//!
//! Does not: read any environment itself, nor decide how a cap and a weight work together.

mod environment;
mod grammar;
mod rules;

pub use environment::Environment;
pub use grammar::{
    MAX_WEIGHT, class_word, parse, parse_class, parse_priority, parse_weight, priority_word,
};
pub use rules::{needs_gate, parse_into, parse_steps, resolve};

pub use crate::limit::{ShareError, ShareReason};

#[cfg(test)]
mod tests;
