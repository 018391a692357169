//! The README's eight figures, and the eight of `docs/guide/costs.md`, in words that need no other page.
//!
//! Promises: each is of one run, whose file is named: the newest, in the README the newest in which the peer was measured
//! beside, if there is one.
//! A figure that no result holds is shown as such.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::goals;
use super::stored::{Row, all_rows, median, shown_side};

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

/// Figures of costs, then of gains.
const COSTS: [Headline; 8] = [
    Headline("Costs: a kernel launch takes", "cuLaunchKernel", CARD),
    Headline(
        "Costs: a training by CUDA graphs, without a cap, does",
        "PyTorch, GPT-2-like training by CUDA graphs, no cap",
        CARD,
    ),
    Headline(
        "Costs: to start a program that uses no GPU takes",
        "exec of a program without GPU",
        CARD,
    ),
    Headline(
        "Costs: while eight tenants take turns, the daemon takes of a processor",
        "daemon with 8 busy tenants, of a processor",
        CARD,
    ),
    Headline(
        "Gives: of a share of 30 %, a program that waits for each of its kernels of 100 us has",
        "share, 100 us sync at 30 %",
        CARD,
    ),
    Headline(
        "Gives: two programs that wait for each kernel of 20 us do together, of what one does alone",
        "2 equal tenants, 20 us sync, sum of one alone",
        CARD,
    ),
    Headline(
        "Gives: 99 of 100 requests of 10 ms beside a flood of kernels of 100 us are answered within",
        "request beside a flood of 100 us, 99th percentile",
        CARD,
    ),
    Headline(
        "Gives: 12 GiB of one tenant leave the card and 12 GiB of another come back in",
        "12 GiB, out and in",
        CARD,
    ),
];

/// The README's table.
pub(super) fn table(results: &Path) -> Result<String> {
    let rows = all_rows(results)?;
    let mut text =
        String::from("| | bare driver | Divvy | HAMi-core | measured |\n|---|---|---|---|---|\n");
    for headline in &HEADLINES {
        match newest(&rows, headline, |row| median(&row.figure, PEER).is_some()) {
            Some(row) => {
                let [native, divvy, peer] = ["native", "divvy", PEER].map(|side| cell(row, side));
                let link = link(row, "");
                writeln!(text, "| {} | {native} | {divvy} | {peer} | {link} |", headline.0)?;
            }
            None => writeln!(text, "| {} | - | - | - | no result is stored |", headline.0)?,
        }
    }
    Ok(text)
}

/// The table of costs, for a page from which `up` leads to the root.
pub(super) fn costs(results: &Path, up: &str) -> Result<String> {
    let rows = all_rows(results)?;
    let mut text = String::from(
        "| | bare driver | Divvy | goal | met | measured |\n|---|---|---|---|---|---|\n",
    );
    for headline in &COSTS {
        match newest(&rows, headline, |_| true) {
            Some(row) => {
                let [native, divvy] = ["native", "divvy"].map(|side| cell(row, side));
                let (goal, met) = goals::judged(&row.figure);
                let link = link(row, up);
                writeln!(
                    text,
                    "| {} | {native} | {divvy} | {goal} | {met} | {link} |",
                    headline.0
                )?;
            }
            None => writeln!(text, "| {} | - | - | - | - | no result is stored |", headline.0)?,
        }
    }
    Ok(text)
}

/// The newest row of a headline among those that are preferred, if any are.
fn newest<'r>(
    rows: &'r [Row],
    Headline(_, name, driver): &Headline,
    is_preferred: impl Fn(&Row) -> bool,
) -> Option<&'r Row> {
    let of_it = rows.iter().filter(|row| {
        row.figure.get("name").and_then(Value::as_str) == Some(name)
            && row.driver.starts_with(driver)
    });
    of_it.max_by_key(|row| (is_preferred(row), &row.date))
}

/// A side's median with its unit, or what became of it.
fn cell(row: &Row, side: &str) -> String {
    let unit = row.figure.get("unit").and_then(Value::as_str).unwrap_or_default();
    let shown = shown_side(&row.figure, side);
    if median(&row.figure, side).is_some() { format!("{shown} {unit}") } else { shown }
}

fn link(row: &Row, up: &str) -> String {
    let folder = Path::new(&row.file).parent().and_then(Path::file_name);
    let folder = folder.unwrap_or_default().to_string_lossy();
    format!("[{folder}]({up}{})", row.file)
}
