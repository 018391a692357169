//! Stored results: where they lie, and what they say of a figure.
//!
//! Does not judge it, nor show it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// The median of one side.
pub(super) fn median(figure: &Value, side: &str) -> Option<f64> {
    figure.get("medians")?.get(side)?.as_f64()
}

/// Every JSON file below `folder`.
pub(super) fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            into.push(path);
        }
    }
    Ok(())
}
