//! The README's eight figures, in words that need no other page.
//!
//! Promises: each is of one run, whose file is named: the newest in which the peer was measured beside, else the newest.
//! A figure that no result holds is shown as such.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::{Row, all_rows, median, shown_side};

/// The peer beside which they are shown, as results name it.
const PEER: &str = "hami";

/// One of them: what it says, the figure's name, and what the driver's begins with.
struct Headline(&'static str, &'static str, &'static str);

const CARD: &str = "NVIDIA";

const HEADLINES: [Headline; 8] = [
    Headline(
        "Of a share of 30 %, a program that waits for each of its kernels of 100 us gets",
        "share, 100 us sync at 30 %",
        CARD,
    ),
    Headline("one with kernels of 5 ms in a queue", "share, 5 ms async at 30 %", CARD),
    Headline("one that launches CUDA graphs of 5 ms", "share, 5 ms graph at 30 %", CARD),
    Headline(
        "Two programs that wait for each kernel of 20 us do together, of what one does alone",
        "2 equal tenants, 20 us sync, sum of one alone",
        CARD,
    ),
    Headline("A kernel launch takes", "cuLaunchKernel", CARD),
    Headline("An allocation beyond the limit is refused in", "refused allocation", CARD),
    Headline(
        "To allocate and free a block beside 20,000 others takes, on a driver that takes nothing itself",
        "alloc+free, 20,000 live blocks",
        "simulated",
    ),
    Headline("To start a program without a GPU takes", "exec of a program without GPU", CARD),
];

/// Their table, for the README.
pub(super) fn table(results: &Path) -> Result<String> {
    let rows = all_rows(results)?;
    let mut text =
        String::from("| | bare driver | Divvy | HAMi-core | measured |\n|---|---|---|---|---|\n");
    for Headline(words, name, driver) in HEADLINES {
        let of_it = rows.iter().filter(|row| {
            row.figure.get("name").and_then(Value::as_str) == Some(name)
                && row.driver.starts_with(driver)
        });
        let newest = of_it.max_by_key(|row| (median(&row.figure, PEER).is_some(), &row.date));
        match newest {
            Some(row) => writeln!(text, "| {words} | {} |", cells(row))?,
            None => writeln!(text, "| {words} | - | - | - | no result is stored |")?,
        }
    }
    Ok(text)
}

fn cells(row: &Row) -> String {
    let unit = row.figure.get("unit").and_then(Value::as_str).unwrap_or_default();
    let [native, divvy, peer] = ["native", "divvy", PEER].map(|side| {
        let shown = shown_side(&row.figure, side);
        if median(&row.figure, side).is_some() { format!("{shown} {unit}") } else { shown }
    });
    let folder = Path::new(&row.file).parent().and_then(Path::file_name);
    let folder = folder.unwrap_or_default().to_string_lossy();
    format!("{native} | {divvy} | {peer} | [{folder}]({})", row.file)
}
