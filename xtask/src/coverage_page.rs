//! `cargo xtask docs`: writes docs/coverage.md from the table.
//!
//! Promises: the page says of each entry point what the table says and no more; a test fails when
//! the committed page is not what the table gives. The column of tests comes from
//! `tests/e2e/coverage.rs`; whether each of them really depends on its hook is what
//! `cargo xtask unhook` finds out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use divvy_driver_api::{DRIVER, Effect, Entry, NVML, UNDOCUMENTED};

use crate::unhook;
use crate::workspace::{root, shown};

pub(crate) fn chore() -> Result<()> {
    let path = path();
    let text = page()?;
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("{}", shown(&path));
    Ok(())
}

fn path() -> PathBuf {
    root().join("docs/coverage.md")
}

/// What each effect means to a reader, and whether this version acts on it.
const MEANINGS: [(Effect, &str, bool); 6] = [
    (Effect::Account, "takes or returns device memory; charged to the tenant", true),
    (Effect::Answer, "its answer is the tenant's, not the card's", true),
    (Effect::Observe, "forwarded; our state follows it", true),
    (Effect::Refuse, "refused under a limit with a documented CUDA error", true),
    (Effect::Gate, "submits GPU work; hooked once there is a compute share", false),
    (Effect::Touch, "may touch device memory; hooked once memory is handed over", false),
];

fn page() -> Result<String> {
    let tests = tests()?;
    let mut text = String::from(
        "<!-- Made by `cargo xtask docs` from crates/driver-api; do not edit. -->\n\
         # Coverage\n\n\
         What Divvy does with each entry point of the NVIDIA driver and of NVML. The table covers every\n\
         prototype of cuda.h 11.8 to 13.5 and of nvml.h; `cargo xtask regen` fails for one that is not\n\
         classified. A call without an effect is not intercepted at all: the program holds the driver's own\n\
         address.\n\n",
    );
    writeln!(text, "| effect | meaning | acted on now | driver | NVML |\n|---|---|---|---|---|")?;
    for (effect, meaning, now) in MEANINGS {
        let count = |table: &[Entry]| table.iter().filter(|e| e.effects.has(effect)).count();
        let now = if now { "yes" } else { "not yet" };
        let (driver, nvml) = (count(DRIVER), count(NVML));
        writeln!(text, "| `{}` | {meaning} | {now} | {driver} | {nvml} |", effect.word())?;
    }
    let passed = |table: &[Entry]| table.iter().filter(|e| e.effects.is_pass()).count();
    writeln!(
        text,
        "| none | forwarded by the loader itself | | {} | {} |",
        passed(DRIVER),
        passed(NVML)
    )?;
    writeln!(text, "| all | | | {} | {} |\n", DRIVER.len(), NVML.len())?;
    text.push_str(
        "Counts are of exported symbols: every version (`_v2` …) and default-stream variant (`_ptds`,\n\
         `_ptsz`) is one. Below, variants stand with their base. A test that is named is an end-to-end test\n\
         that must fail when the hook is taken out (`cargo xtask unhook`); a dash means that none is named.\n",
    );
    section(&mut text, "Driver", DRIVER, &tests)?;
    section(&mut text, "NVML", NVML, &tests)?;
    writeln!(
        text,
        "\n## Names without a public prototype\n\n\
         Driver 580 exports {} names that no header declares. They are known, forwarded and never\n\
         called by Divvy; what a program does through them is not limited.\n",
        UNDOCUMENTED.len()
    )?;
    list(&mut text, UNDOCUMENTED.iter().copied())?;
    Ok(text)
}

fn section(
    text: &mut String,
    title: &str,
    table: &[Entry],
    tests: &BTreeMap<String, String>,
) -> Result<()> {
    let mut bases: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in table {
        bases.entry(entry.base).or_default().push(entry);
    }
    let (hooked, rest): (Vec<_>, Vec<_>) = bases
        .into_iter()
        .partition(|(_, entries)| entries.iter().any(|e| e.effects.needs_memory_hook()));
    let (later, pass): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|(_, entries)| entries.iter().any(|e| !e.effects.is_pass()));

    writeln!(
        text,
        "\n## {title}: intercepted\n\n| entry point | headers | effects | test |\n|---|---|---|---|"
    )?;
    for (base, entries) in &hooked {
        let test = tests.get(*base).map_or_else(|| "-".to_owned(), |test| format!("`{test}`"));
        let (name, headers, effects) = (names(base, entries), headers(entries), effects(entries));
        writeln!(text, "| {name} | {headers} | {effects} | {test} |")?;
    }
    if !later.is_empty() {
        writeln!(
            text,
            "\n## {title}: forwarded now, intercepted later\n\n| entry point | headers | effects |\n|---|---|---|"
        )?;
        for (base, entries) in &later {
            let (name, headers, effects) =
                (names(base, entries), headers(entries), effects(entries));
            writeln!(text, "| {name} | {headers} | {effects} |")?;
        }
    }
    if !pass.is_empty() {
        writeln!(text, "\n## {title}: forwarded\n")?;
        list(text, pass.iter().map(|(base, _)| *base))?;
    }
    Ok(())
}

/// Names in a paragraph, wrapped.
fn list<'a>(text: &mut String, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut width = 0;
    for (index, name) in names.enumerate() {
        let separator = match index {
            0 => "",
            _ if width + name.len() > 96 => ",\n",
            _ => ", ",
        };
        width = if separator == ", " { width + name.len() + 4 } else { name.len() + 2 };
        write!(text, "{separator}`{name}`")?;
    }
    text.push('\n');
    Ok(())
}

/// The base and the suffixes of its variants.
fn names(base: &str, entries: &[&Entry]) -> String {
    let mut text = format!("`{base}`");
    for entry in entries {
        if let Some(suffix) = entry.name.strip_prefix(base).filter(|suffix| !suffix.is_empty()) {
            let _ = write!(text, " `{suffix}`");
        }
    }
    text
}

/// The headers that declare it: the oldest and the newest read.
fn headers(entries: &[&Entry]) -> String {
    let since = entries.iter().map(|e| e.since).min().unwrap_or_default();
    let until = entries.iter().map(|e| e.until).max().unwrap_or_default();
    let shown = |version: u32| format!("{}.{}", version / 1000, version % 1000 / 10);
    format!("{}–{}", shown(since), shown(until))
}

fn effects(entries: &[&Entry]) -> String {
    Effect::ALL
        .into_iter()
        .filter(|effect| entries.iter().any(|entry| entry.effects.has(*effect)))
        .map(Effect::word)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Base symbol to test, as the end-to-end tests name them.
fn tests() -> Result<BTreeMap<String, String>> {
    let path = root().join("tests/e2e/coverage.rs");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(unhook::pairs(&text).into_iter().collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_table_gives() {
        let committed = std::fs::read_to_string(path()).unwrap_or_default();
        assert!(
            committed == page().unwrap(),
            "docs/coverage.md is not what the table gives: run `cargo xtask docs`"
        );
    }

    #[test]
    fn every_entry_point_is_on_the_page() {
        let page = page().unwrap();
        for entry in DRIVER.iter().chain(NVML) {
            assert!(page.contains(&format!("`{}`", entry.base)), "{}", entry.name);
        }
    }
}
