//! `cargo xtask figures`: the README's table, out of stored results.
//!
//! A result file is any JSON below bench/results whose top level has `"divvy_figures": 1`, a `date`,
//! a `machine`, a `driver` and `figures`: objects with `figure`, `unit`, `goal`, `divvy`, and
//! optionally `native`, `hami_core` and `note`. Of each figure, per driver, the newest file counts. Promises: no number reaches
//! the README by hand; a test fails when the committed table is not what the files give.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::{root, shown};

/// The table stands between these lines of the README.
const BEGIN: &str = "<!-- figures: made by `cargo xtask figures` from bench/results -->";
const END: &str = "<!-- /figures -->";

pub(crate) fn chore() -> Result<()> {
    let path = readme();
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let new = with_table(&text, &table(&root().join("bench/results"))?)?;
    fs::write(&path, new).with_context(|| path.display().to_string())?;
    println!("{}", shown(&path));
    Ok(())
}

fn readme() -> PathBuf {
    root().join("README.md")
}

fn with_table(text: &str, table: &str) -> Result<String> {
    let (head, rest) = text.split_once(BEGIN).with_context(|| format!("no line {BEGIN}"))?;
    let (_, tail) = rest.split_once(END).with_context(|| format!("no line {END}"))?;
    Ok(format!("{head}{BEGIN}\n{table}{END}{tail}"))
}

/// One figure of one file.
#[derive(Debug)]
struct Row {
    date: String,
    file: String,
    driver: String,
    value: Value,
}

fn table(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    let mut order: Vec<(String, String)> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let result: Value =
            serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        if result.get("divvy_figures").and_then(Value::as_u64) != Some(1) {
            continue;
        }
        let word = |key: &str| {
            let value = result.get(key).and_then(Value::as_str);
            value.map(str::to_owned).with_context(|| format!("{} has no {key}", file.display()))
        };
        let (date, driver) = (word("date")?, word("driver")?);
        let figures = result.get("figures").and_then(Value::as_array);
        for value in figures.with_context(|| format!("{} has no figures", file.display()))? {
            let name = cell(value.get("figure"));
            let key = (name, driver.clone());
            let row = Row {
                date: date.clone(),
                file: shown(&file).to_string(),
                driver: driver.clone(),
                value: value.clone(),
            };
            if !order.contains(&key) {
                order.push(key.clone());
            }
            match rows.get(&key) {
                Some(known) if known.date > row.date => {}
                _ => {
                    rows.insert(key, row);
                }
            }
        }
    }
    if order.is_empty() {
        return Ok(
            "No figure is stored yet: bench/results holds no result of this version.\n".into()
        );
    }
    let mut text = String::from(
        "| figure | unit | goal | Divvy | native | HAMi-core | driver | stored in |\n|---|---|---|---|---|---|---|---|\n",
    );
    for key in order {
        let Some(row) = rows.get(&key) else { continue };
        let part = |name: &str| cell(row.value.get(name));
        let name = Path::new(&row.file).file_name().map(|name| name.to_string_lossy().into_owned());
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | [{}]({}) |",
            part("figure"),
            part("unit"),
            part("goal"),
            part("divvy"),
            part("native"),
            part("hami_core"),
            row.driver,
            name.unwrap_or_default(),
            row.file
        )?;
    }
    Ok(text)
}

/// Every JSON file below `folder`.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
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

/// A value as a table shows it.
fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.replace('|', "/"),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_table_is_what_the_stored_results_give() {
        let text = fs::read_to_string(readme()).unwrap();
        let table = table(&root().join("bench/results")).unwrap();
        assert!(
            text == with_table(&text, &table).unwrap(),
            "README.md does not show the stored results: run `cargo xtask figures`"
        );
    }

    #[test]
    fn the_newest_file_of_a_driver_counts() {
        let folder = std::env::temp_dir().join(format!("divvy-figures-{}", std::process::id()));
        fs::create_dir_all(folder.join("deeper")).unwrap();
        let file = |name: &str, date: &str, value: f64| {
            let text = format!(
                r#"{{"divvy_figures": 1, "date": "{date}", "driver": "simulated",
                    "figures": [{{"figure": "a launch", "unit": "ns", "goal": "<= 10", "divvy": {value}}}]}}"#
            );
            fs::write(folder.join(name), text).unwrap();
        };
        file("z-old.json", "2026-01-01", 9.5);
        file("deeper/new.json", "2026-02-01", 3.5);
        fs::write(folder.join("other.json"), r#"{"raw": []}"#).unwrap();
        let table = table(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(table.contains("| a launch | ns | <= 10 | 3.5 | - | - | simulated |"), "{table}");
        assert!(!table.contains("9.5"));
    }

    #[test]
    fn without_results_the_readme_says_so() {
        assert!(table(Path::new("/nonexistent")).unwrap().contains("No figure is stored"));
    }
}
