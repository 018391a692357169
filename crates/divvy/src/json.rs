//! One way to print JSON: indented, one object, to standard output.

use crate::out;

/// Prints `value`.
///
/// # Errors
/// [`out::Lost`] when standard output cannot be written.
pub(crate) fn print(value: &impl serde::Serialize) -> anyhow::Result<()> {
    out::text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
