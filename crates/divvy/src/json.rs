//! One way to print JSON: indented, one object, to standard output.

use std::io::Write;

/// Prints `value`; a closed pipe is not an error, the reader has seen enough.
pub(crate) fn print(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
