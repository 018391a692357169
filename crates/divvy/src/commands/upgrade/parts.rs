//! Parts of an installation, found beside this command or made by it: programs, the simulated GPU, the
//! demonstration's programs, man pages, completions, the unit.
//!
//! Places below the prefix are those of a release (`xtask/src/release/layout.rs`): the next page of the guide finds all that
//! it needs, whichever way Divvy was installed. Does not know the library, whose name is made of its bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::place::Mode;
use crate::commands::completions;
use crate::machine::install;
use crate::stage::Scratch;

/// The unit of the machine's daemon, as it is for `/usr/local`.
const UNIT: &str = include_str!("../../../../../deploy/divvy.service");
/// The command in [`UNIT`].
const UNIT_COMMAND: &str = "/usr/local/bin/divvy";
/// Where a release has texts for people, seen from its programs.
const TEXTS: &str = "../share/doc/divvy";

/// A file to lay.
#[derive(Debug)]
pub(super) struct Part {
    /// Below the prefix.
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: Mode,
    /// File that it is a copy of.
    pub(super) source: Option<PathBuf>,
}

impl Part {
    fn copy(source: PathBuf, path: impl Into<PathBuf>, mode: Mode) -> Result<Self> {
        let bytes = fs::read(&source).with_context(|| source.display().to_string())?;
        Ok(Self { path: path.into(), bytes, mode, source: Some(source) })
    }

    fn text(text: impl Into<Vec<u8>>, path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), bytes: text.into(), mode: Mode::Text, source: None }
    }
}

/// The programs in the folder of `binary`, which comes last. A program that is missing is left out.
pub(super) fn programs(binary: &Path) -> Result<Vec<Part>> {
    let names = [install::BENCH, install::KUBE].map(|name| (name, binary.with_file_name(name)));
    let all = names.into_iter().chain([("divvy", binary.to_owned())]);
    let there = all.filter(|(_, program)| program.is_file());
    there.map(|(name, program)| Part::copy(program, format!("bin/{name}"), Mode::Program)).collect()
}

/// The simulated GPU and the programs of the demonstration, and a sentence about each that is not beside this command.
pub(super) fn demonstration() -> Result<(Vec<Part>, Vec<String>)> {
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    let scratch = Scratch::make("install")?;
    match install::simulator(&scratch.path().join("sim")) {
        Ok(simulator) => {
            let place = |name: &str| format!("lib/divvy/sim/{name}");
            for name in install::SIM_NAMES {
                let library = simulator.libraries.join(name).canonicalize()?;
                parts.push(Part::copy(library, place(name), Mode::Program)?);
            }
            parts.push(Part::copy(simulator.daemon, place("simgpud"), Mode::Program)?);
        }
        Err(error) => missing.push(format!("--sim will not work from there: {error:#}")),
    }
    let mut first_missing = None;
    for name in install::CLIENTS {
        match install::client(name) {
            Ok(client) => {
                let place = format!("lib/divvy/clients/{name}");
                parts.push(Part::copy(client, place, Mode::Program)?);
            }
            Err(error) => drop(first_missing.get_or_insert(error)),
        }
    }
    let words = |error| format!("demonstration and benchmarks may not work from there: {error:#}");
    missing.extend(first_missing.map(words));
    Ok((parts, missing))
}

/// Pages, completions, the unit and texts for people, for an installation below `prefix`.
pub(super) fn texts(binary: &Path, prefix: &Path, parser: clap::Command) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let scratch = Scratch::make("pages")?;
    for (name, page) in completions::pages(parser.clone(), scratch.path())? {
        parts.push(Part::text(page, format!("share/man/man1/{name}")));
    }
    for (place, script) in completions::scripts(&parser)? {
        parts.push(Part::text(script, place));
    }
    let command = prefix.join("bin/divvy").display().to_string();
    let unit = UNIT.replace(UNIT_COMMAND, &command);
    parts.push(Part::text(unit, "lib/systemd/system/divvy.service"));
    for name in ["LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"] {
        let places = [TEXTS, ".."].map(|place| binary.with_file_name(place).join(name));
        if let Some(text) = places.into_iter().find(|path| path.is_file()) {
            parts.push(Part::copy(text, format!("share/doc/divvy/{name}"), Mode::Text)?);
        }
    }
    Ok(parts)
}
