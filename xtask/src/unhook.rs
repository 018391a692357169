//! `cargo xtask unhook`: proves that each hook has a test.
//!
//! For every pair of `tests/e2e/coverage.rs` the named test must pass with the whole library and
//! fail with one that forwards that symbol. Where the list holds a reason instead of a test, the hook
//! is counted as unproved for that reason; a symbol that the table says is hooked and the list does not
//! name is an error. Promises: no hook is called proved unless its test was seen both to
//! pass and to fail in this run.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use divvy_driver_api::{DRIVER, NVML};

use crate::clients;
use crate::command::{lines, output};
use crate::stage::{self, Stage};
use crate::workspace::{cargo, root};

pub(crate) fn chore(only: &[String]) -> Result<()> {
    let pairs: Vec<(String, String)> = pairs(&coverage()?)
        .into_iter()
        .filter(|(symbol, _)| only.is_empty() || only.contains(symbol))
        .collect();
    if let Some(unknown) = only.iter().find(|name| !pairs.iter().any(|pair| pair.0 == **name)) {
        bail!("{unknown} is not in tests/e2e/coverage.rs; name a symbol that is, or add it there");
    }
    let whole = stage::build(clients::ALL)?;
    let binary = test_binary()?;
    let tests: BTreeSet<&String> =
        pairs.iter().map(|pair| &pair.1).filter(|test| is_test(test)).collect();
    let sound: BTreeMap<&String, bool> = tests
        .into_iter()
        .map(|test| Ok((test, passes(&binary, test, &whole)?)))
        .collect::<Result<_>>()?;
    let (mut bad, mut argued) = (0_usize, 0_usize);
    for (symbol, test) in &pairs {
        if !is_test(test) {
            println!("{symbol:48} no test: {test}");
            argued += 1;
            continue;
        }
        let verdict = if !sound.get(test).copied().unwrap_or(false) {
            "NO PROOF: the test does not pass with the hook in place"
        } else if passes(&binary, test, &stage::build_without(&whole, symbol)?)? {
            "NOT PROVED: the test passes without the hook"
        } else {
            "proved"
        };
        bad += usize::from(verdict != "proved");
        println!("{symbol:48} {test:56} {verdict}");
    }
    let named: BTreeSet<&str> = pairs.iter().map(|pair| pair.0.as_str()).collect();
    let missing: Vec<&str> = if only.is_empty() {
        hooked().into_iter().filter(|symbol| !named.contains(symbol)).collect()
    } else {
        Vec::new()
    };
    for symbol in &missing {
        println!("{symbol:48} {:56} NOT PROVED: no test is named", "-");
    }
    let proved = pairs.len() - bad - argued;
    println!(
        "{proved} hooks proved, {bad} not proved, {argued} with a reason for having no test, {} with \
         neither",
        missing.len()
    );
    if bad + missing.len() > 0 {
        bail!("not every hook is proved");
    }
    Ok(())
}

/// The base symbols that the table wants hooked.
pub(crate) fn hooked() -> BTreeSet<&'static str> {
    DRIVER
        .iter()
        .chain(NVML)
        .filter(|entry| entry.effects.needs_hook())
        .map(|entry| entry.base)
        .collect()
}

/// Whether the list names a test; else it says why there is none.
pub(crate) fn is_test(name: &str) -> bool {
    name.contains("::") && !name.contains(' ')
}

fn coverage() -> Result<String> {
    let path = root().join("tests/e2e/coverage.rs");
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Every `("symbol", "test")` of the list.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join(" ");
    code.split('(')
        .filter_map(|rest| {
            let pair = rest.split(')').next()?;
            let mut words = pair.split('"');
            let (_, symbol, between, test) =
                (words.next()?, words.next()?, words.next()?, words.next()?);
            let is_symbol = symbol.starts_with("cu") || symbol.starts_with("nvml");
            (is_symbol && between.trim() == ",").then(|| (symbol.to_owned(), test.to_owned()))
        })
        .collect()
}

/// Builds the end-to-end tests and returns their executable.
fn test_binary() -> Result<String> {
    let text = output(cargo().args([
        "test",
        "--quiet",
        "--no-run",
        "--package",
        "divvy-tests",
        "--test",
        "e2e",
        "--message-format=json",
    ]))?;
    text.lines()
        .filter_map(|line| line.split("\"executable\":\"").nth(1))
        .filter_map(|rest| rest.split('"').next())
        .next_back()
        .map(str::to_owned)
        .context("cargo named no end-to-end test binary")
}

fn passes(binary: &str, test: &str, stage: &Stage) -> Result<bool> {
    let mut ran = false;
    let status = lines(
        Command::new("timeout")
            .args(["-k", "5", "120", binary, "--exact", test])
            .env("DIVVY_STAGE", stage.path())
            .current_dir(root())
            .stderr(Stdio::null()),
        |line| ran |= line.starts_with("running 1 test"),
    )?;
    if !ran {
        bail!("there is no end-to-end test named {test}; correct tests/e2e/coverage.rs");
    }
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_they_are_written() {
        let text = "pub const COVERAGE: &[(&str, &str)] = &[\n    // (\"cuA\", \"x\")\n    (\"cuMemAlloc_v2\", \
                    \"memory::a\"),\n    (\n        \"nvmlInit_v2\",\n        \"nvml::b\",\n    ),\n];";
        let read = pairs(text);
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], ("cuMemAlloc_v2".to_owned(), "memory::a".to_owned()));
        assert_eq!(read[1], ("nvmlInit_v2".to_owned(), "nvml::b".to_owned()));
    }
}
