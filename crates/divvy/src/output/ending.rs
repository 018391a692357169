//! How a program of ours ends: what it came to is told, and becomes its exit code.
//!
//! Promises: help goes to standard output, errors to standard error; an error has the exit code that
//! [`failure::code_of`] finds in it.
//!
//! Does not end the process.

use std::process::ExitCode;

use anyhow::Result;

use crate::output::{exit_codes, failure, out};

/// The exit code of what was done; an error is told, where it has anybody to be told to.
pub fn exit_code(done: Result<u8>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let is_quiet = error.downcast_ref::<out::Lost>().is_some_and(out::Lost::is_quiet);
            if !is_quiet {
                out::warn(&format!("{error:#}"));
            }
            ExitCode::from(failure::code_of(&error))
        }
    }
}

/// Prints what clap has to say: help and versions on standard output, errors on standard error.
///
/// # Errors
/// Where standard output cannot be written.
pub fn explain(error: &clap::Error) -> Result<u8> {
    let printed = error.print();
    if error.use_stderr() {
        return Ok(exit_codes::USAGE);
    }
    out::checked(printed)?;
    // Some of it may still be in the buffer.
    out::text("")?;
    Ok(0)
}
