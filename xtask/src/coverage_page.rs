//! `cargo xtask docs`: writes docs/coverage.md from the table.
//!
//! Promises: the page says of each entry point what the table says and no more; a test fails when
//! the committed page is not what the table gives. The column of hooks comes from the shim's
//! sources, read by the rule its build script has, and from the effects for which the build script makes
//! a hook itself; a test fails when one of the table has neither. The column of tests comes from
//! `tests/e2e/coverage.rs`. Whether each test really depends on its hook is what `cargo xtask unhook`
//! finds out.

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

/// Meaning of each effect, for readers.
const MEANINGS: [(Effect, &str); Effect::ALL.len()] = [
    (Effect::Account, "takes or returns device memory: charged to the tenant"),
    (Effect::Answer, "its answer becomes the tenant's instead of the card's"),
    (Effect::Observe, "forwarded, and our state follows it"),
    (Effect::Refuse, "cannot be made safe under a limit: a documented CUDA error"),
    (
        Effect::Gate,
        "submits GPU work: under a cap or in turns its time is measured, and it waits until it may go",
    ),
    (
        Effect::Span,
        "copies between host and device, or makes a stream wait: ends the span of work that is measured",
    ),
    (
        Effect::Touch,
        "may touch device memory: it waits while that is away from the card; a call of no other effect is about managed memory, and is not intercepted",
    ),
];

/// The hook that the shim's build script makes for an entry point without one of its own.
fn general_hook(entries: &[&Entry]) -> Option<&'static str> {
    let has = |effect| entries.iter().any(|entry| entry.effects.has(effect));
    (has(Effect::Gate) || has(Effect::Span)).then_some("general")
}

/// Sources of a base symbol beside its row: the file of its hook and the test that proves it.
#[derive(Debug)]
struct Notes {
    hooks: BTreeMap<String, String>,
    tests: BTreeMap<String, String>,
}

fn page() -> Result<String> {
    let notes = Notes { hooks: hooks()?, tests: tests()? };
    let mut text = String::from(
        "<!-- Made by `cargo xtask docs` from crates/driver-api; do not edit. -->\n\
         # Coverage\n\n\
         What Divvy does with each entry point of the NVIDIA driver and of NVML. The table covers every\n\
         prototype of cuda.h 11.8 to 13.5 and of nvml.h; `cargo xtask regen` fails for one that is not\n\
         classified. The library exports the intercepted names and no others (`cargo xtask budget`), so a\n\
         program that asks for any other holds the driver's own address.\n\n",
    );
    writeln!(text, "| effect | meaning | driver | NVML |\n|---|---|---|---|")?;
    for (effect, meaning) in MEANINGS {
        let count = |table: &[Entry]| table.iter().filter(|e| e.effects.has(effect)).count();
        writeln!(
            text,
            "| `{}` | {meaning} | {} | {} |",
            effect.word(),
            count(DRIVER),
            count(NVML)
        )?;
    }
    let passed = |table: &[Entry]| table.iter().filter(|e| e.effects.is_pass()).count();
    writeln!(text, "| none | never ours | {} | {} |", passed(DRIVER), passed(NVML))?;
    writeln!(text, "| all | | {} | {} |\n", DRIVER.len(), NVML.len())?;
    let wanted = unhook::hooked();
    let own = wanted.iter().filter(|name| notes.hooks.contains_key(**name)).count();
    let tested = wanted
        .iter()
        .filter(|name| notes.tests.get(**name).is_some_and(|test| unhook::is_test(test)))
        .count();
    writeln!(
        text,
        "Counts are of exported symbols: every version (`_v2` …) and default-stream variant (`_ptds`,\n\
         `_ptsz`) is one. Below, variants stand with their base, which has one hook for all of them.\n\n\
         {} base symbols are intercepted: {own} by a hook of their own, {} by the general one, which does what\n\
         their effects say around the driver's call. {tested} of them have a named end-to-end test, which must fail\n\
         when the hook is taken out (`cargo xtask unhook`); for the others the reason stands in its place.\n\n\
         In a process without a limit and without a tenant nothing is intercepted: it is given the driver's own\n\
         addresses.",
        wanted.len(),
        wanted.len() - own
    )?;
    section(&mut text, "Driver", DRIVER, &notes)?;
    section(&mut text, "NVML", NVML, &notes)?;
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

fn section(text: &mut String, title: &str, table: &[Entry], notes: &Notes) -> Result<()> {
    let mut bases: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in table {
        bases.entry(entry.base).or_default().push(entry);
    }
    let (hooked, rest): (Vec<_>, Vec<_>) =
        bases.into_iter().partition(|(_, entries)| entries.iter().any(|e| e.effects.needs_hook()));
    let (later, pass): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|(_, entries)| entries.iter().any(|e| !e.effects.is_pass()));

    writeln!(
        text,
        "\n## {title}: intercepted\n\n| entry point | headers | effects | hook | test |\n|---|---|---|---|---|"
    )?;
    for (base, entries) in &hooked {
        let own = notes.hooks.get(*base).map(|file| format!("`{file}`"));
        let hook = own.or_else(|| general_hook(entries).map(str::to_owned));
        let hook = hook.unwrap_or_else(|| "-".to_owned());
        let test = match notes.tests.get(*base) {
            Some(test) if unhook::is_test(test) => format!("`{test}`"),
            Some(reason) => format!("none: {reason}"),
            None => "-".to_owned(),
        };
        let (name, headers, effects) = (names(base, entries), headers(entries), effects(entries));
        writeln!(text, "| {name} | {headers} | {effects} | {hook} | {test} |")?;
    }
    if !later.is_empty() {
        writeln!(
            text,
            "\n## {title}: forwarded, and may touch device memory\n\n| entry point | headers | effects |\n|---|---|---|"
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

/// The hooks of one expression.
const ROWS: &str = "around.txt";

/// Base symbol to the file of its hook: every `pub(crate) fn <symbol>(` of the shim's hooks, and every symbol of a row
/// of [`ROWS`].
fn hooks() -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let folder = root().join("crates/shim/src/hooks");
    for file in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = file?.path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for line in text.lines() {
            let name = line.strip_prefix("pub(crate) fn ").and_then(|rest| rest.split('(').next());
            if let Some(name) = name.filter(|name| unhook::hooked().contains(*name)) {
                found.insert(name.to_owned(), file.clone());
            }
        }
    }
    let path = folder.join(ROWS);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let symbols = rows.filter_map(|row| row.split_once(": ")).flat_map(|row| row.0.split(' '));
    found.extend(symbols.map(|name| (name.to_owned(), ROWS.to_owned())));
    Ok(found)
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
    fn every_entry_point_to_intercept_has_a_hook() {
        let own = hooks().unwrap();
        for base in unhook::hooked() {
            let entries: Vec<&Entry> =
                DRIVER.iter().chain(NVML).filter(|entry| entry.base == base).collect();
            assert!(own.contains_key(base) || general_hook(&entries).is_some(), "{base}");
        }
    }

    #[test]
    fn every_effect_is_explained() {
        for effect in Effect::ALL {
            assert!(MEANINGS.iter().any(|(known, _)| *known == effect), "{effect:?}");
        }
    }

    #[test]
    fn every_entry_point_is_on_the_page() {
        let page = page().unwrap();
        for entry in DRIVER.iter().chain(NVML) {
            assert!(page.contains(&format!("`{}`", entry.base)), "{}", entry.name);
        }
    }
}
