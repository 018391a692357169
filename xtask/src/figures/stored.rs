//! Stored results: where they lie, and what they say of a figure.
//!
//! Does not judge it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::number::number;
use crate::workspace::shown;

/// Sums over the cells of a run, each with the number of cells that make it count: a run of some of them proves nothing
/// of the others.
const OF_ALL_CELLS: [&str; 3] = [
    "share, mean error of all cells",
    "share, largest error of a cell",
    "share, worst 1 s window, up to 5 ms",
];
const MOST_CELLS: usize = 30;

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

/// A figure of one result.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) date: String,
    pub(super) file: String,
    pub(super) driver: String,
    pub(super) benchmark: String,
    pub(super) figure: Value,
}

/// All figures of all results, file by file.
pub(super) fn all_rows(folder: &Path) -> Result<Vec<Row>> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let rows = files.iter().map(|file| rows_of(file)).collect::<Result<Vec<_>>>()?;
    Ok(rows.into_iter().flatten().collect())
}

/// The figures of `file`; none when it is raw data.
fn rows_of(file: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let result: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let word = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
    let (Some(benchmark), Some(date), Some(driver), Some(figures)) = (
        word("benchmark"),
        word("date"),
        word("driver"),
        result.get("figures").and_then(Value::as_array),
    ) else {
        return Ok(Vec::new());
    };
    let is_cell = |figure: &&Value| figure["id"] == "IS-003" && benchmark == "share";
    let are_few = figures.iter().filter(is_cell).count() < MOST_CELLS;
    let figures = figures.iter().filter(|figure| {
        let name = figure.get("name").and_then(Value::as_str).unwrap_or_default();
        !(are_few && OF_ALL_CELLS.contains(&name))
    });
    let row = |figure: &Value| Row {
        date: date.clone(),
        file: shown(file).to_string(),
        driver: driver.clone(),
        benchmark: benchmark.clone(),
        figure: figure.clone(),
    };
    Ok(figures.map(row).collect())
}

/// A side's median, or what became of it.
pub(super) fn shown_side(figure: &Value, side: &str) -> String {
    let why = figure.get("failures").and_then(|failures| failures.get(side)?.as_str());
    match (median(figure, side), why) {
        (Some(median), _) => number(median),
        (None, Some(why)) => match why.strip_prefix("no answer within ") {
            Some(time) => format!("> {time}"),
            None if why.starts_with("void: ") => "void".to_owned(),
            None => "failed".to_owned(),
        },
        (None, None) => "-".to_owned(),
    }
}
