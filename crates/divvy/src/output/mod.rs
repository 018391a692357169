//! Output and end of commands: texts, tables, JSON, errors, exit codes, reason codes.
//!
//! Does not decide the contents.

pub mod ending;
pub mod exit_codes;
pub mod failure;
pub mod json;
pub mod options;
pub mod out;
pub(crate) mod plain;
pub mod progress;
pub(crate) mod reason;
pub(crate) mod report_file;
pub mod sizes;
pub mod table;
