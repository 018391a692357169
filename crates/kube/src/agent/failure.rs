//! Failure of who sells a node's cards, and how it is made of another's.

/// Failure of the agent, or of the device plugin.
#[derive(Debug)]
pub(crate) enum AgentFailure {
    /// The command line, or what is around it.
    Usage(String),
    /// Anything else.
    Failed(String),
}

/// A failure in these words.
pub(crate) fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> AgentFailure {
    move |error| AgentFailure::Failed(format!("{what}: {error}"))
}
