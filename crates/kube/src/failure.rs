//! Failure of a program that serves, and how it is made of another's.

/// Failure of the agent, the device plugin or the controller.
#[derive(Debug)]
pub(crate) enum ServeFailure {
    /// The command line, or what is around it.
    Usage(String),
    /// Anything else.
    Failed(String),
}

/// A failure in these words.
pub(crate) fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> ServeFailure {
    move |error| ServeFailure::Failed(format!("{what}: {error}"))
}
