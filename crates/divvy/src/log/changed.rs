//! A change of a tenant's limits that is made by this command and written down.
//!
//! Promises: what is written down was made; a change that cannot be made leaves no line.
//!
//! Does not say what a change means: that is [`crate::tenants::change`]'s.

use std::path::Path;

use anyhow::Result;

use super::change::lines_of;
use super::line::ChangeAuthor;
use super::record;
use crate::machine::cards::Card;
use crate::tenants::change::{self, Made};
use crate::wire::LimitChange;

/// Changes the limits of the tenant in `directory`, and writes it down.
///
/// # Errors
/// Usage errors for words that are not understood; else what is wrong with the tenant's files.
pub fn make(directory: &Path, change: &LimitChange) -> Result<Made> {
    make_among(directory, change, &[])
}

/// The same where `known` are devices that a limit may speak of, beside those of the tenant and the kernel.
pub(crate) fn make_among(directory: &Path, change: &LimitChange, known: &[Card]) -> Result<Made> {
    let made = change::make(directory, change, known)?;
    record(&lines_of(directory, &made, &ChangeAuthor::here()));
    Ok(made)
}
