//! Expectations of the demonstration.

/// One thing expected, and whether it happened.
#[derive(Debug, serde::Serialize)]
pub(super) struct Check {
    pub(super) expected: String,
    pub(super) happened: bool,
}
