//! `cargo xtask figures`: docs/figures.md's tables, the README's eight figures and those of docs/guide/costs.md, out of
//! stored results.
//!
//! A result is what `divvy bench` stores: JSON with `benchmark`, `date`, `driver` and `figures`, each
//! with its `name`, `unit`, `goal` and the `medians` of its sides. Other JSON below bench/results is
//! raw data and makes no row. Of each figure, per driver, the newest result counts. Promises: no
//! number reaches the README by hand; a missed goal and a side that failed are shown as such; a test
//! fails when the committed table is not what the files give.

mod goals;
mod headlines;
mod number;
mod programs;
mod stored;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use number::number;
use stored::{Row, all_rows, median, shown_side};

use crate::workspace::{root, shown};

/// The tables stand between these lines.
const SUMMARY: [&str; 2] =
    ["<!-- summary: made by `cargo xtask figures` from bench/results -->", "<!-- /summary -->"];
const COSTS: [&str; 2] =
    ["<!-- costs: made by `cargo xtask figures` from bench/results -->", "<!-- /costs -->"];
const MISSED: [&str; 2] =
    ["<!-- missed: made by `cargo xtask figures` from bench/results -->", "<!-- /missed -->"];
const FIGURES: [&str; 2] =
    ["<!-- figures: made by `cargo xtask figures` from bench/results -->", "<!-- /figures -->"];
const SHARES: [&str; 2] =
    ["<!-- shares: made by `cargo xtask figures` from bench/results -->", "<!-- /shares -->"];
const MOVEMENT: [&str; 2] =
    ["<!-- movement: made by `cargo xtask figures` from bench/results -->", "<!-- /movement -->"];
const STEPS: [&str; 2] =
    ["<!-- steps: made by `cargo xtask figures` from bench/results -->", "<!-- /steps -->"];
const PROGRAMS: [&str; 2] =
    ["<!-- programs: made by `cargo xtask figures` from bench/results -->", "<!-- /programs -->"];

/// Benchmarks of device time, which have a table of their own.
const OF_TIME: [&str; 3] = ["share", "fairness", "latency"];
/// Benchmarks of memory that leaves a card, alike.
const OF_MOVEMENT: [&str; 2] = ["oversubscribe", "handover"];
/// Results of `tests/gpu/share.py`: time as unmodified programs have it, by their steps.
const OF_STEPS: &str = "share-programs";
/// A figure of this ending is shown with the one it ends.
const WORST: &str = ", worst 1 s window off by";

pub(crate) fn chore() -> Result<()> {
    for page in Page::ALL {
        let path = page.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let text = page.renewed(&text)?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("{}", shown(&path));
    }
    Ok(())
}

/// A page with tables.
#[derive(Clone, Copy, Debug)]
enum Page {
    Readme,
    Figures,
    Costs,
}

impl Page {
    const ALL: [Self; 3] = [Self::Readme, Self::Figures, Self::Costs];

    fn path(self) -> PathBuf {
        root().join(match self {
            Self::Readme => "README.md",
            Self::Figures => "docs/figures.md",
            Self::Costs => "docs/guide/costs.md",
        })
    }

    /// The page with its tables made anew.
    fn renewed(self, text: &str) -> Result<String> {
        let results = root().join("bench/results");
        match self {
            Self::Readme => return with_table(text, SUMMARY, &summary(&results)?),
            Self::Costs => return with_table(text, COSTS, &headlines::costs(&results, "../../")?),
            Self::Figures => {}
        }
        let up = "../";
        let of_time = |row: &Row| OF_TIME.contains(&&*row.benchmark);
        let of_movement = |row: &Row| OF_MOVEMENT.contains(&&*row.benchmark);
        let of_steps = |row: &Row| row.benchmark == OF_STEPS;
        let of_calls = |row: &Row| !(of_time(row) || of_movement(row) || of_steps(row));
        let text = with_table(text, MISSED, &table(&results, is_missed, up)?)?;
        let text = with_table(&text, FIGURES, &table(&results, of_calls, up)?)?;
        let text = with_table(&text, SHARES, &table(&results, of_time, up)?)?;
        let text = with_table(&text, MOVEMENT, &table(&results, of_movement, up)?)?;
        let text = with_table(&text, STEPS, &table(&results, of_steps, up)?)?;
        with_table(&text, PROGRAMS, &programs::table(&results, up)?)
    }
}

fn is_missed(row: &Row) -> bool {
    goals::judged(&row.figure).1 == "**no**"
}

/// The figures to look at first, and how many goals are met.
fn summary(results: &Path) -> Result<String> {
    let all = rows(results)?;
    let judged = all.iter().filter(|row| goals::judged(&row.figure).1 != "-").count();
    let missed = all.iter().filter(|row| is_missed(row)).count();
    Ok(format!(
        "{}\n{} of {judged} figures with a goal meet it: [all of them](docs/figures.md), and [those that do \
         not](docs/figures.md#goals-that-are-missed).\n",
        headlines::table(results)?,
        judged.saturating_sub(missed)
    ))
}

fn with_table(text: &str, [begin, end]: [&str; 2], table: &str) -> Result<String> {
    let (head, rest) = text.split_once(begin).with_context(|| format!("no line {begin}"))?;
    let (_, tail) = rest.split_once(end).with_context(|| format!("no line {end}"))?;
    Ok(format!("{head}{begin}\n{table}{end}{tail}"))
}

/// Of each figure and driver the newest result.
fn rows(folder: &Path) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for row in all_rows(folder)? {
        let same =
            |known: &&mut Row| known.driver == row.driver && row_name(known) == row_name(&row);
        match rows.iter_mut().find(same) {
            Some(known) if known.date > row.date => {}
            Some(known) => *known = row,
            None => rows.push(row),
        }
    }
    Ok(rows)
}

/// The table of the rows that `wanted` says yes to, for a page from which `up` leads to the root.
fn table(folder: &Path, wanted: impl Fn(&Row) -> bool, up: &str) -> Result<String> {
    let mut rows = rows(folder)?;
    rows.retain(|row| wanted(row));
    if rows.is_empty() {
        return Ok(
            "No figure is stored yet: bench/results holds no result of this version.\n".into()
        );
    }
    let mut text = String::from(
        "| figure | unit | native | Divvy | peers | goal | met | driver | stored in |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows.iter().filter(|row| !row_name(row).ends_with(WORST)) {
        let word = |key: &str| row.figure.get(key).and_then(Value::as_str).unwrap_or("-");
        let (goal, met) = goals::judged(&row.figure);
        let note = row.figure.get("note").and_then(Value::as_str);
        let note = note.map(|note| format!(", {note}")).unwrap_or_default();
        let id = row.figure.get("id").and_then(Value::as_str);
        let id = id.map(|id| format!(" ({id})")).unwrap_or_default();
        let worst = row_name(row) + WORST;
        let worst = rows.iter().find(|one| one.file == row.file && row_name(one) == worst);
        let shown = |side: &str| {
            let off = worst.and_then(|row| median(&row.figure, side));
            let off = off.map(|off| format!(" (1 s: {} off)", number(off))).unwrap_or_default();
            shown_side(&row.figure, side) + &off + &spread(&row.figure, side)
        };
        let file = Path::new(&row.file).file_name().unwrap_or_default().to_string_lossy();
        writeln!(
            text,
            "| {}{id} | {} | {} | {} | {} | {goal} | {met}{note} | {} | [{file}]({up}{}) |",
            row_name(row).replace('|', "/"),
            word("unit"),
            shown("native"),
            shown("divvy"),
            peers(&row.figure),
            row.driver,
            row.file
        )?;
    }
    Ok(text)
}

/// How far apart a side's samples lie, where the result says so.
fn spread(figure: &Value, side: &str) -> String {
    let spread = figure.get("spreads_percent").and_then(|spreads| spreads.get(side)?.as_f64());
    spread.map(|spread| format!(" (spread {} %)", number(spread))).unwrap_or_default()
}

/// Name of a row; a comparison with nvshare, on which a goal may rest, is a row of its own.
fn row_name(row: &Row) -> String {
    let name = row.figure.get("name").and_then(Value::as_str).unwrap_or("-");
    let compared = median(&row.figure, "nvshare").is_some();
    format!("{name}{}", if compared { ", beside nvshare" } else { "" })
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
    let shown: Vec<_> =
        names.iter().map(|name| format!("{name}: {}", shown_side(figure, name))).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_tables_are_what_the_stored_results_give() {
        for page in Page::ALL {
            let text = fs::read_to_string(page.path()).unwrap();
            assert!(
                text == page.renewed(&text).unwrap(),
                "{page:?} does not show the stored results: run `cargo xtask figures`"
            );
        }
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
        let table = table(&folder.0, |_| true, "").unwrap();
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
        let table = table(&folder.0, |_| true, "").unwrap();
        assert!(table.contains("| x | ms | 1234 | failed | - | - | - | simulated |"), "{table}");
    }

    #[test]
    fn shares_have_a_table_of_their_own_with_their_worst_windows() {
        let folder = Folder::new("shares");
        let figures = r#"{"name": "share, 5 us", "id": "IS-003", "unit": "%", "goal": {"within": [30.0, 1.0]},
                          "medians": {"native": 99.0, "divvy": 30.5},
                          "failures": {"hami": "no answer within 60 s"}},
                         {"name": "share, 5 us, worst 1 s window off by", "unit": "points",
                          "goal": {"at_most": 3.0}, "medians": {"divvy": 1.25}}"#;
        folder.store("a.json", "2026-01-01", "simulated", figures);
        let text = fs::read_to_string(folder.0.join("a.json")).unwrap();
        fs::write(folder.0.join("a.json"), text.replace("overhead", "share")).unwrap();
        let shares = table(&folder.0, |row| row.benchmark == "share", "").unwrap();
        let row = "| share, 5 us (IS-003) | % | 99 | 30.5 (1 s: 1.25 off) | hami: > 60 s | 30 ± 1 | yes |";
        assert!(shares.contains(row), "{shares}");
        assert_eq!(shares.lines().count(), 3, "{shares}");
        assert!(
            table(&folder.0, |row| row.benchmark == "overhead", "").unwrap().contains("No figure")
        );
    }

    #[test]
    fn steps_have_a_table_of_their_own_with_spreads_and_notes() {
        let folder = Folder::new("steps");
        let figures = r#"{"name": "training, no cap", "unit": "steps/s", "goal": "none",
                          "medians": {"native": 21.5, "divvy": 21.4},
                          "spreads_percent": {"native": 0.52, "divvy": 0.1}},
                         {"name": "training, slower", "unit": "%", "goal": {"at_most": 0.3},
                          "medians": {"divvy": 0.4}, "note": "native's own runs lie apart"},
                         {"name": "training, cap of 50 %", "unit": "%", "goal": {"within": [50, 1]},
                          "medians": {}, "failures": {"divvy": "void: native went away"}}"#;
        folder.store("a.json", "2026-01-01", "580", figures);
        let text = fs::read_to_string(folder.0.join("a.json")).unwrap();
        fs::write(folder.0.join("a.json"), text.replace("overhead", OF_STEPS)).unwrap();
        let steps = table(&folder.0, |row| row.benchmark == OF_STEPS, "").unwrap();
        for row in [
            "| training, no cap | steps/s | 21.5 (spread 0.52 %) | 21.4 (spread 0.1 %) | - | - | - |",
            "| training, slower | % | - | 0.4 | - | ≤ 0.3 | **no**, native's own runs lie apart |",
            "| training, cap of 50 % | % | - | void | - | 50 ± 1 | - |",
        ] {
            assert!(steps.contains(row), "{steps}");
        }
    }

    #[test]
    fn a_headline_is_of_the_newest_run_with_the_peer_beside() {
        let folder = Folder::new("headlines");
        let launch = |divvy: &str, peer: &str| {
            format!(
                r#"{{"name": "cuLaunchKernel", "unit": "ns", "medians": {{"native": 3.0, "divvy": {divvy}{peer}}}}}"#
            )
        };
        folder.store("a.json", "2026-01-01", "NVIDIA 580", &launch("4.0", r#", "hami": 8.0"#));
        folder.store("b.json", "2026-02-01", "NVIDIA 580", &launch("5.0", r#", "hami": 9.0"#));
        folder.store("c.json", "2026-03-01", "NVIDIA 580", &launch("6.0", ""));
        folder.store("d.json", "2026-04-01", "simulated", &launch("7.0", r#", "hami": 9.5"#));
        let table = headlines::table(&folder.0).unwrap();
        assert!(table.contains("| A kernel launch takes | 3 ns | 5 ns | 9 ns | ["), "{table}");
        assert_eq!(table.matches("no result is stored").count(), 7, "{table}");
        let costs = headlines::costs(&folder.0, "../").unwrap();
        assert!(costs.contains("a kernel launch takes | 3 ns | 6 ns | - | - | ["), "{costs}");
        assert_eq!(costs.lines().count(), 10, "{costs}");
    }

    #[test]
    fn without_results_the_pages_say_so() {
        assert!(
            table(Path::new("/nonexistent"), |_| true, "").unwrap().contains("No figure is stored")
        );
        let readme = summary(Path::new("/nonexistent")).unwrap();
        assert!(readme.contains("0 of 0") && readme.contains("no result is stored"), "{readme}");
    }
}
