//! One thing that `divvy doctor` found: its code, how it is to be taken, and what to do about it.
//!
//! Does not look for anything, nor say how findings are shown.

use crate::output::reason::Reason;

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Something is not limited or will not work.
    Bad,
}

/// One thing found.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Finding {
    pub(super) code: Reason,
    pub(super) level: Level,
    /// The finding, with its value.
    pub(super) found: String,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(code: Reason, found: impl Into<String>) -> Self {
        Self { code, level: Level::Ok, found: found.into(), fix: None }
    }

    pub(super) fn note(code: Reason, found: impl Into<String>) -> Self {
        Self { code, level: Level::Note, found: found.into(), fix: None }
    }

    pub(super) fn bad(code: Reason, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { code, level: Level::Bad, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
