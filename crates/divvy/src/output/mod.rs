//! What commands say and how they end: texts, tables, JSON, errors, exit codes, reason codes.
//!
//! Does not decide what is said.

pub(crate) mod exit_codes;
pub(crate) mod failure;
pub(crate) mod json;
pub(crate) mod out;
pub(crate) mod plain;
pub(crate) mod reason;
pub(crate) mod sizes;
pub(crate) mod table;
