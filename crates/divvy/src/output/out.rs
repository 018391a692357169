//! Standard output and standard error: every command writes them through here.
//!
//! Promises: a write to standard output that fails ends the command with an exit code of its own and
//! never with a panic or a success. Where its reader has closed the pipe that code is
//! [`exit_codes::CLOSED_PIPE`] and there are no words, since the reader has what it wanted; any other
//! failure, such as a full disk, is named with the system's error. A command that has changed something
//! before it reports wraps its report in [`after`]: the change is then named on standard error even
//! where the pipe is closed. Lines for standard error are written where that is possible; a command
//! whose errors nobody can read still ends with their exit code.
//!
//! Does not decide what is printed. Colours nothing but the name that begins such a line.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};

use anyhow::Result;

use crate::output::options::{self, Meaning, Stream};
use crate::output::{exit_codes, plain};

/// Standard output that could not be written.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Work that had been done before, in a clause.
    done: Option<String>,
    error: io::Error,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(done) = &self.done {
            write!(f, "{done}, but ")?;
        }
        write!(f, "standard output cannot be written: {}", self.error)
    }
}

impl std::error::Error for Lost {}

impl Lost {
    fn new(error: io::Error) -> Self {
        Self { done: None, error }
    }

    /// Whether there is nothing to say: the reader has gone and nothing was changed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.done.is_none() && self.error.kind() == ErrorKind::BrokenPipe
    }

    /// The exit code of a command that ends so.
    pub(crate) fn code(&self) -> u8 {
        match self.error.kind() {
            ErrorKind::BrokenPipe => exit_codes::CLOSED_PIPE,
            _ => exit_codes::DIVVY,
        }
    }
}

/// Writes `text` to standard output.
///
/// # Errors
/// [`Lost`].
pub fn text(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    checked(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn checked(written: io::Result<()>) -> Result<()> {
    Ok(written.map_err(Lost::new)?)
}

/// Writes a report of `done`, a clause such as "the limits were changed".
///
/// # Errors
/// As `write`; [`Lost`] names `done`.
pub fn after(done: &str, write: impl FnOnce() -> Result<()>) -> Result<()> {
    write().map_err(|error| match error.downcast::<Lost>() {
        Ok(lost) => Lost { done: Some(done.to_owned()), ..lost }.into(),
        Err(other) => other,
    })
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Writes a line `divvy: text` to standard error; what it tells of elsewhere is made fit for a terminal.
pub fn warn(text: &str) {
    said(Meaning::Noted, text);
}

/// The same of what ends the command.
pub(crate) fn error(text: &str) {
    said(Meaning::Bad, text);
}

/// The same of what is worth knowing; left out where the user wants results and errors only.
pub(crate) fn note(text: &str) {
    if !options::is_quiet() {
        said(Meaning::Noted, &format!("note: {text}"));
    }
}

/// The same of what is done, for users who want to know.
pub(crate) fn tell(text: &str) {
    if options::is_verbose() {
        said(Meaning::Head, text);
    }
}

fn said(meaning: Meaning, text: &str) {
    let name = options::paint(Stream::Err, meaning, "divvy:");
    error_text(&format!("{name} {}\n", plain::lines(text)));
}

/// Writes `text` to standard error.
pub(crate) fn error_text(text: &str) {
    // A user that cannot be told why a command fails sees its exit code.
    let _ = error_report(text);
}

/// Writes what somebody has asked for to standard error, where it has a reader.
///
/// # Errors
/// As the system gives them.
pub(crate) fn error_report(text: &str) -> io::Result<()> {
    io::stderr().write_all(text.as_bytes())
}

#[allow(clippy::disallowed_methods, reason = "the one place that the rule leads to")]
fn stdout() -> io::Stdout {
    io::stdout()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::failure;

    fn lost(kind: ErrorKind) -> Result<()> {
        checked(Err(kind.into()))
    }

    #[test]
    fn a_closed_pipe_is_quiet_until_something_was_done() {
        let error = lost(ErrorKind::BrokenPipe).unwrap_err();
        assert_eq!(failure::code_of(&error), 141);
        assert!(error.downcast_ref::<Lost>().unwrap().is_quiet());
        let error = after("it was changed", || lost(ErrorKind::BrokenPipe)).unwrap_err();
        assert!(!error.downcast_ref::<Lost>().unwrap().is_quiet());
        assert!(error.to_string().starts_with("it was changed, but standard output"), "{error}");
        assert_eq!(failure::code_of(&error.context("more")), 141);
    }

    #[test]
    fn any_other_failure_is_named() {
        let error = lost(ErrorKind::StorageFull).unwrap_err();
        assert_eq!(failure::code_of(&error), 125);
        assert!(!error.downcast_ref::<Lost>().unwrap().is_quiet());
        let other = after("x", || anyhow::bail!("no")).unwrap_err();
        assert_eq!(other.to_string(), "no");
    }
}
