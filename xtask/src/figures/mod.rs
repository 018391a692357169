//! `cargo xtask figures`: the README's tables, out of stored results.
//!
//! A result is what `divvy bench` stores: JSON with `benchmark`, `date`, `driver` and `figures`, each
//! with its `name`, `unit`, `goal` and the `medians` of its sides. Other JSON below bench/results is
//! raw data and makes no row. Of each figure, per driver, the newest result counts. Promises: no
//! number reaches the README by hand; a missed goal and a side that failed are shown as such; a test
//! fails when the committed table is not what the files give.

mod programs;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::{root, shown};

/// The tables stand between these lines of the README.
const FIGURES: [&str; 2] =
    ["<!-- figures: made by `cargo xtask figures` from bench/results -->", "<!-- /figures -->"];
const PROGRAMS: [&str; 2] =
    ["<!-- programs: made by `cargo xtask figures` from bench/results -->", "<!-- /programs -->"];

pub(crate) fn chore() -> Result<()> {
    let path = readme();
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    fs::write(&path, renewed(&text)?).with_context(|| path.display().to_string())?;
    println!("{}", shown(&path));
    Ok(())
}

/// The README with its tables made anew.
fn renewed(text: &str) -> Result<String> {
    let results = root().join("bench/results");
    let text = with_table(text, FIGURES, &table(&results)?)?;
    with_table(&text, PROGRAMS, &programs::table(&results)?)
}

fn readme() -> PathBuf {
    root().join("README.md")
}

fn with_table(text: &str, [begin, end]: [&str; 2], table: &str) -> Result<String> {
    let (head, rest) = text.split_once(begin).with_context(|| format!("no line {begin}"))?;
    let (_, tail) = rest.split_once(end).with_context(|| format!("no line {end}"))?;
    Ok(format!("{head}{begin}\n{table}{end}{tail}"))
}

/// A figure of one result.
#[derive(Debug)]
struct Row {
    date: String,
    file: String,
    driver: String,
    figure: Value,
}

fn table(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let mut rows: Vec<Row> = Vec::new();
    for file in files {
        for row in rows_of(&file)? {
            let same = |known: &&mut Row| known.driver == row.driver && name(known) == name(&row);
            match rows.iter_mut().find(same) {
                Some(known) if known.date > row.date => {}
                Some(known) => *known = row,
                None => rows.push(row),
            }
        }
    }
    if rows.is_empty() {
        return Ok(
            "No figure is stored yet: bench/results holds no result of this version.\n".into()
        );
    }
    let mut text = String::from(
        "| figure | unit | native | Divvy | peers | goal | met | driver | stored in |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in &rows {
        let word = |key: &str| row.figure.get(key).and_then(Value::as_str).unwrap_or("-");
        let side = |side: &str| row.figure.get("medians")?.get(side)?.as_f64();
        let (native, divvy) = (side("native"), side("divvy"));
        let (goal, met) = match native_spread(&row.figure) {
            Some(spread) if row.figure.get("goal").and_then(Value::as_str) == Some("spread") => {
                let goal = serde_json::json!({ "added": spread });
                let (words, met) = judged(Some(&goal), native, divvy);
                (format!("{words} (native's own spread)"), met)
            }
            _ => judged(row.figure.get("goal"), native, divvy),
        };
        let file = Path::new(&row.file).file_name().unwrap_or_default().to_string_lossy();
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {goal} | {met} | {} | [{file}]({}) |",
            word("name").replace('|', "/"),
            word("unit"),
            shown_side(&row.figure, "native", native),
            shown_side(&row.figure, "divvy", divvy),
            peers(&row.figure),
            row.driver,
            row.file
        )?;
    }
    Ok(text)
}

fn name(row: &Row) -> Option<&str> {
    row.figure.get("name")?.as_str()
}

/// The figures of `file`; none when it is raw data.
fn rows_of(file: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let result: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let word = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
    let (Some(_), Some(date), Some(driver), Some(figures)) = (
        word("benchmark"),
        word("date"),
        word("driver"),
        result.get("figures").and_then(Value::as_array),
    ) else {
        return Ok(Vec::new());
    };
    let row = |figure: &Value| Row {
        date: date.clone(),
        file: shown(file).to_string(),
        driver: driver.clone(),
        figure: figure.clone(),
    };
    Ok(figures.iter().map(row).collect())
}

/// How far apart native's own samples lie: what a real driver's calls differ by without us.
fn native_spread(figure: &Value) -> Option<f64> {
    let samples = figure.get("samples")?.get("native")?.as_array()?;
    let values = || samples.iter().filter_map(Value::as_f64);
    let most = values().reduce(f64::max)?;
    Some(most - values().reduce(f64::min)?)
}

/// The goal in words, and whether Divvy's median reached it.
fn judged(goal: Option<&Value>, native: Option<f64>, divvy: Option<f64>) -> (String, &'static str) {
    let Some((kind, bound)) = goal.and_then(Value::as_object).and_then(|goal| {
        let (kind, bound) = goal.iter().next()?;
        Some((kind.as_str(), bound.as_f64()?))
    }) else {
        return ("-".to_owned(), "-");
    };
    let added = || Some(divvy? - native?);
    let (words, met) = match kind {
        "added" => (format!("added ≤ {}", number(bound)), added().map(|added| added <= bound)),
        "at_most" => (format!("≤ {}", number(bound)), divvy.map(|divvy| divvy <= bound)),
        "at_least" => (format!("≥ {}", number(bound)), divvy.map(|divvy| divvy >= bound)),
        "ratio" => {
            let met = divvy.zip(native).map(|(divvy, native)| divvy <= bound * native);
            (format!("≤ {} × native", number(bound)), met)
        }
        other => (format!("{other} {}", number(bound)), None),
    };
    (
        words,
        match met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "-",
        },
    )
}

fn shown_side(figure: &Value, side: &str, median: Option<f64>) -> String {
    let failed = figure.get("failures").and_then(|failures| failures.get(side)).is_some();
    match median {
        Some(median) => number(median),
        None if failed => "failed".to_owned(),
        None => "-".to_owned(),
    }
}

/// Every side that is neither native nor ours.
fn peers(figure: &Value) -> String {
    let sides = |key: &str| {
        let sides = figure.get(key).and_then(Value::as_object);
        sides.into_iter().flat_map(|sides| sides.keys().cloned()).collect::<Vec<_>>()
    };
    let mut names = [sides("medians"), sides("failures")].concat();
    names.retain(|name| name != "native" && name != "divvy");
    names.sort();
    names.dedup();
    let shown: Vec<_> = names
        .iter()
        .map(|name| {
            let median = figure.get("medians").and_then(|medians| medians.get(name)?.as_f64());
            format!("{name}: {}", shown_side(figure, name, median))
        })
        .collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join(", ") }
}

/// Three digits that matter, and no more than two behind the point.
fn number(value: f64) -> String {
    let text = if value.abs() < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_tables_are_what_the_stored_results_give() {
        let text = fs::read_to_string(readme()).unwrap();
        assert!(
            text == renewed(&text).unwrap(),
            "README.md does not show the stored results: run `cargo xtask figures`"
        );
    }

    /// A folder of results that goes when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("divvy-{test}-{}", std::process::id()));
            fs::create_dir_all(path.join("deeper")).unwrap();
            Self(path)
        }

        fn store(&self, name: &str, date: &str, driver: &str, figure: &str) {
            let text = format!(
                r#"{{"benchmark": "overhead", "date": "{date}", "driver": "{driver}", "figures": [{figure}]}}"#
            );
            fs::write(self.0.join(name), text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_newest_result_of_a_driver_counts() {
        let folder = Folder::new("newest");
        let launch = |divvy: &str| {
            format!(
                r#"{{"name": "a launch", "unit": "ns", "goal": {{"added": 10.0}},
                    "medians": {{"native": 3.0, "divvy": {divvy}, "HAMi-core": 33.25}}}}"#
            )
        };
        folder.store("z-old.json", "2026-01-01", "simulated", &launch("99.0"));
        folder.store("deeper/new.json", "2026-02-01", "simulated", &launch("4.5"));
        folder.store("card.json", "2026-01-01", "580", &launch("13.5"));
        fs::write(folder.0.join("raw.json"), r#"{"raw": []}"#).unwrap();
        let table = table(&folder.0).unwrap();
        let row = "| a launch | ns | 3 | 4.5 | HAMi-core: 33.25 | added ≤ 10 | yes | simulated |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("| 3 | 13.5 | HAMi-core: 33.25 | added ≤ 10 | **no** | 580 |"));
        assert!(!table.contains("| 99 |"), "{table}");
    }

    #[test]
    fn what_failed_or_has_no_goal_is_shown_so() {
        let folder = Folder::new("failed");
        let figure = r#"{"name": "x", "unit": "ms", "goal": "none", "medians": {"native": 1234.5},
                         "failures": {"divvy": "no answer"}}"#;
        folder.store("a.json", "2026-01-01", "simulated", figure);
        let table = table(&folder.0).unwrap();
        assert!(table.contains("| x | ms | 1234 | failed | - | - | - | simulated |"), "{table}");
    }

    #[test]
    fn without_results_the_readme_says_so() {
        assert!(table(Path::new("/nonexistent")).unwrap().contains("No figure is stored"));
    }
}
