//! Exit codes, and errors that carry one.
//!
//! The codes are part of the command line's contract and are listed in its long help.

use std::fmt;

/// Something checked or measured was not as it should be.
pub(crate) const NOT_AS_EXPECTED: u8 = 1;
/// The command line or a limit cannot be understood.
pub(crate) const USAGE: u8 = 2;
/// Divvy failed before the program was started.
pub(crate) const DIVVY: u8 = 125;
/// The program cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// An error with an exit code of its own.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    words: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Failure {}

/// An error that ends the command with `code`.
pub(crate) fn with_code(code: u8, words: impl Into<String>) -> anyhow::Error {
    Failure { code, words: words.into() }.into()
}

/// What the user wrote cannot be understood.
pub(crate) fn usage(words: impl Into<String>) -> anyhow::Error {
    with_code(USAGE, words)
}

/// The exit code of an error: its own, or [`DIVVY`].
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<Failure>().map_or(DIVVY, |failure| failure.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_code_through_context() {
        assert_eq!(code_of(&usage("no").context("while reading")), USAGE);
        assert_eq!(code_of(&anyhow::anyhow!("no")), DIVVY);
    }
}
