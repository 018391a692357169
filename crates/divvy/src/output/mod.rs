//! What commands say and how they end: texts, tables, JSON, errors, exit codes, reason codes.
//!
//! Does not decide what is said.

pub mod ending;
pub mod exit_codes;
pub mod failure;
pub mod json;
pub mod out;
pub(crate) mod plain;
pub(crate) mod reason;
pub(crate) mod sizes;
pub mod table;
