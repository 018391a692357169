//! Asks the installed driver, in a process of its own, whether the rule still holds on which hooking by
//! address rests: what `cuGetProcAddress` answers is always the address of an exported symbol.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use divvy_driver_api::DRIVER;

use super::client;
use super::finding::Finding;
use crate::machine::loader::find_library;
use crate::output::reason::Reason;

/// Output of the client.
#[derive(Debug, serde::Deserialize)]
struct Answer {
    version: u32,
    has_v2: u32,
    names: u64,
    answers: u64,
    unknown: u64,
    example: String,
}

/// The finding, or none where there is no driver to ask.
pub(super) fn look() -> Option<Finding> {
    find_library("libcuda.so.1")?;
    Some(match ask() {
        Ok(answer) => judge(&answer),
        Err(error) => {
            Finding::note(Reason::Addresses, format!("the driver was not asked: {error:#}"))
        }
    })
}

fn judge(answer: &Answer) -> Finding {
    let Answer { version, names, answers, unknown, example, .. } = answer;
    let driver = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    if answer.has_v2 == 0 {
        return Finding::note(
            Reason::Addresses,
            format!("{driver}: the driver has no cuGetProcAddress_v2; programs find it by symbol"),
        );
    }
    if *unknown > 0 {
        return Finding::bad(
            Reason::Addresses,
            format!(
                "{driver}: {unknown} of {answers} answers are no exported symbol, such as {example}"
            ),
            "use divvy run --strict and report this driver: what is found so is not limited",
        );
    }
    Finding::ok(
        Reason::Addresses,
        format!("{driver}: {answers} answers to {names} names are all exported symbols"),
    )
}

/// The names programs ask for: without version and stream suffixes.
fn names() -> BTreeSet<&'static str> {
    DRIVER
        .iter()
        .map(|entry| {
            let (head, tail) = entry.base.rsplit_once("_v").unwrap_or((entry.base, ""));
            let is_version = !tail.is_empty() && tail.bytes().all(|byte| byte.is_ascii_digit());
            if is_version { head } else { entry.base }
        })
        .collect()
}

fn ask() -> Result<Answer> {
    let mut child = client::start("probe", &[])?;
    let mut input = child.stdin.take().context("the probe has no input")?;
    for name in names() {
        // It may have ended early; its answer says why.
        if writeln!(input, "{name}").is_err() {
            break;
        }
    }
    drop(input);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}", said.lines().next().unwrap_or("the probe failed"));
    serde_json::from_slice(&output.stdout).context("the probe's answer cannot be read")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn names_are_asked_for_without_their_suffixes() {
        let names = names();
        assert!(names.contains("cuMemAlloc") && names.contains("cuGetProcAddress"));
        assert!(!names.iter().any(|name| name.ends_with("_v2") || name.ends_with("_ptsz")));
    }

    #[test]
    fn an_address_that_is_no_symbol_is_bad() {
        let answer = |unknown, has_v2| Answer {
            version: 13000,
            has_v2,
            names: 479,
            answers: 21_051,
            unknown,
            example: "cuInit".to_owned(),
        };
        assert_eq!(judge(&answer(0, 1)).level, Level::Ok);
        assert_eq!(judge(&answer(2, 1)).level, Level::Bad);
        assert_eq!(judge(&answer(0, 0)).level, Level::Note);
    }
}
