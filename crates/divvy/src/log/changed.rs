//! Changes of a tenant's limits: this command makes one, and writes it down.
//!
//! Promises: a change that is written down was made; a change that cannot be made leaves no line.
//!
//! Does not say what a change means: [`crate::tenants::change`] does.

use std::path::Path;

use anyhow::Result;

use super::change::lines_of;
use super::line::ChangeAuthor;
use super::record;
use crate::machine::cards::Card;
use crate::tenants::change::{self, Made};
use crate::wire::LimitChange;

/// Changes the limits of the tenant in `directory`, and writes the change down.
///
/// # Errors
/// Usage errors for words that are not understood; else what is wrong with the tenant's files.
pub fn make(directory: &Path, change: &LimitChange) -> Result<Made> {
    make_among(directory, change, &[])
}

/// Does so where a limit may also speak of the `known` devices, beside those of the tenant and the kernel.
pub(crate) fn make_among(directory: &Path, change: &LimitChange, known: &[Card]) -> Result<Made> {
    let made = change::make(directory, change, known)?;
    record(&lines_of(directory, &made, &ChangeAuthor::here()));
    Ok(made)
}
