//! Errors that carry an exit code.
//!
//! Promises: an error's code is kept through all context that is added to it.
//!
//! Does not say which codes there are: that is [`crate::output::exit_codes`].

use crate::output::exit_codes::{DIVVY, USAGE};
use crate::output::out::Lost;

/// An error with an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Failure {
    code: u8,
    words: String,
}

/// An error that ends the command with `code`.
pub(crate) fn with_code(code: u8, words: impl Into<String>) -> anyhow::Error {
    Failure { code, words: words.into() }.into()
}

/// Error for words of the user that cannot be understood.
pub fn usage(words: impl Into<String>) -> anyhow::Error {
    with_code(USAGE, words)
}

/// The exit code of an error: its own, or [`DIVVY`].
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    match (error.downcast_ref::<Failure>(), error.downcast_ref::<Lost>()) {
        (Some(failure), _) => failure.code,
        (None, Some(lost)) => lost.code(),
        (None, None) => DIVVY,
    }
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
