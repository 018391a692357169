//! How a program of ours ends: what it came to is told, and becomes its exit code.
//!
//! Promises: help goes to standard output, errors to standard error; an error has the exit code that
//! [`failure::code_of`] finds in it.
//!
//! Does not end the process.

use std::process::ExitCode;

use anyhow::Result;

use crate::output::options::{self, Stream};
use crate::output::{exit_codes, failure, out};

/// The exit code of what was done; an error is told, where it has anybody to be told to.
pub fn exit_code(done: Result<u8>) -> ExitCode {
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let is_quiet = error.downcast_ref::<out::Lost>().is_some_and(out::Lost::is_quiet);
            if !is_quiet {
                out::error(&format!("{error:#}"));
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
    let stream = if error.use_stderr() { Stream::Err } else { Stream::Out };
    let styled = error.render();
    let words = match options::has_color(stream) {
        true => styled.ansi().to_string(),
        false => styled.to_string(),
    };
    match stream {
        Stream::Err => out::error_text(&words),
        Stream::Out => out::text(&words)?,
    }
    Ok(if stream == Stream::Err { exit_codes::USAGE } else { 0 })
}
