//! The table of unmodified programs, out of what `tests/gpu/run.py` stored.
//!
//! That is a file `programs.json`: a list with one object for each program. Of each program the last
//! file, sorted by path, counts; folders are named by machine and day. A program of which something
//! did not hold is shown with what it was.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::stored::collect;
use crate::workspace::shown;

/// The table, for a page from which `up` leads to the root.
pub(super) fn table(folder: &Path, up: &str) -> Result<String> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.retain(|file| file.file_name().is_some_and(|name| name == "programs.json"));
    files.sort();
    let mut rows: Vec<(Value, String)> = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let list: Vec<Value> =
            serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        for program in list {
            rows.retain(|(known, _)| known.get("name") != program.get("name"));
            rows.push((program, shown(file).to_string()));
        }
    }
    if rows.is_empty() {
        return Ok("No run of unmodified programs is stored yet.\n".to_owned());
    }
    let mut text = String::from(
        "| program | limit, MiB | ledger peak | NVML peak | refusals | holds | peers | stored in |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (program, file) in &rows {
        let name = program.get("name").and_then(Value::as_str).unwrap_or("-");
        let divvy = program.get("divvy");
        let of_divvy = |key: &str| divvy.and_then(|run| run.get(key));
        let folder = Path::new(file).parent().and_then(Path::file_name).unwrap_or_default();
        writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | [{}]({up}{file}) |",
            mebibytes(program.get("limit_bytes")),
            mebibytes(of_divvy("ledger_peak_bytes")),
            mebibytes(of_divvy("nvml_peak_bytes")),
            of_divvy("refusals").map_or_else(|| "-".to_owned(), Value::to_string),
            holds(program),
            peers(program),
            folder.to_string_lossy()
        )?;
    }
    Ok(text)
}

fn mebibytes(bytes: Option<&Value>) -> String {
    match bytes.and_then(Value::as_u64) {
        Some(bytes) => (bytes >> 20).to_string(),
        None => "-".to_owned(),
    }
}

/// `all`, or what did not.
fn holds(program: &Value) -> String {
    let Some(holds) = program.get("holds").and_then(Value::as_object).filter(|h| !h.is_empty())
    else {
        return "**nothing was judged**".to_owned();
    };
    let broken: Vec<&str> = holds
        .iter()
        .filter(|(_, held)| held.as_bool() != Some(true))
        .map(|(what, _)| what.as_str())
        .collect();
    if broken.is_empty() { "all".to_owned() } else { format!("**not: {}**", broken.join(", ")) }
}

/// Whether each peer's output was the native one, under the same limit.
fn peers(program: &Value) -> String {
    let Some(peers) = program.get("peers").and_then(Value::as_object).filter(|p| !p.is_empty())
    else {
        return "-".to_owned();
    };
    let shown: Vec<String> = peers
        .iter()
        .map(|(name, run)| {
            let equal = run.get("output equal").and_then(Value::as_bool) == Some(true);
            format!("{name}: {}", if equal { "output equal" } else { "failed" })
        })
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_hold_is_named() {
        let folder = std::env::temp_dir().join(format!("divvy-programs-{}", std::process::id()));
        fs::create_dir_all(folder.join("h200-2026-01-01")).unwrap();
        let text = r#"[
            {"name": "torch", "limit_bytes": 1073741824,
             "divvy": {"ledger_peak_bytes": 1072693248, "nvml_peak_bytes": 1076887552, "refusals": 1},
             "holds": {"output equal": true, "refused and recovered": true},
             "peers": {"HAMi-core": {"output equal": false}}},
            {"name": "jax", "holds": {"output equal": false}}
        ]"#;
        fs::write(folder.join("h200-2026-01-01/programs.json"), text).unwrap();
        let table = table(&folder, "").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let torch =
            "| torch | 1024 | 1023 | 1027 | 1 | all | HAMi-core: failed | [h200-2026-01-01]";
        assert!(table.contains(torch), "{table}");
        assert!(table.contains("| jax | - | - | - | - | **not: output equal** | - |"), "{table}");
    }
}
