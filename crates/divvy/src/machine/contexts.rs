//! Memory of a context on this user's cards: the figures `divvy doctor` found, kept in a file.
//!
//! `$XDG_CACHE_HOME/divvy/contexts.json`, else `~/.cache/divvy/contexts.json`; one entry per driver
//! version and card. `divvy run` charges contexts by it. Promises: a figure is used only for the
//! driver version it was found with, and only where every card of the machine has one; of several
//! figures the largest counts; a file that is not wholly understood is an error that names it and
//! says what to do, and nothing of it is used. Does not measure; that is `doctor::context`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nvml_wrapper::Nvml;
use serde::{Deserialize, Serialize};

use crate::machine::gpus;

/// The form of the file; another number means another form.
const FORMAT: u32 = 1;

/// Figures outside are no context's: the smallest ever seen is some tens of MiB.
const PLAUSIBLE_BYTES: std::ops::RangeInclusive<u64> = (1 << 20)..=(16 << 30);

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextFigure {
    /// The driver's version, such as `580.159.04`.
    pub(crate) driver: String,
    /// The card it was found on, as `GPU-…`.
    pub(crate) uuid: String,
    /// That card's name; cards of one name cost the same.
    pub(crate) name: String,
    /// NVML's figure for a process with one context and nothing else, in bytes.
    pub(crate) bytes: u64,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Found {
    format: u32,
    contexts: Vec<ContextFigure>,
}

/// The cards of a machine and their driver.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The driver's version.
    pub(crate) driver: String,
    /// UUID and name of each card.
    pub(crate) cards: Vec<(String, String)>,
}

impl Default for Found {
    fn default() -> Self {
        Self { format: FORMAT, contexts: Vec::new() }
    }
}

impl Found {
    /// Reads `file`; a missing one holds no figure.
    ///
    /// # Errors
    /// When any of it is not understood; the words name the file and the fix.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| not_used(file)),
        };
        Self::parse(&text).with_context(|| not_used(file))
    }

    fn parse(text: &str) -> Result<Self> {
        let found: Self = serde_json::from_str(text)?;
        ensure!(found.format == FORMAT, "its format is {}, not {FORMAT}", found.format);
        for ContextFigure { name, bytes, .. } in &found.contexts {
            if !PLAUSIBLE_BYTES.contains(bytes) {
                bail!("a context on {name} cannot take {bytes} bytes");
            }
        }
        Ok(found)
    }

    /// Notes a figure in place of an older one for the same driver and card.
    ///
    /// # Errors
    /// When no context can take so much, or so little.
    pub(crate) fn note(&mut self, entry: ContextFigure) -> Result<()> {
        ensure!(PLAUSIBLE_BYTES.contains(&entry.bytes), "a context cannot take {}", entry.bytes);
        self.contexts.retain(|old| (&old.driver, &old.uuid) != (&entry.driver, &entry.uuid));
        self.contexts.push(entry);
        Ok(())
    }

    /// Writes `file` anew, its directory included; a reader sees the old one or the new one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let what = || format!("{} cannot be written", file.display());
        let directory = file.parent().with_context(what)?;
        std::fs::create_dir_all(directory).with_context(what)?;
        let new = file.with_extension(format!("json.new-{}", std::process::id()));
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(&new, text + "\n").with_context(what)?;
        std::fs::rename(&new, file).with_context(what)
    }

    /// Bytes of a context on one card, if they were found there or on another of its name.
    pub(crate) fn bytes_on(&self, driver: &str, uuid: &str, name: &str) -> Option<u64> {
        let same = |entry: &&ContextFigure| {
            entry.driver == driver && (entry.name == name || entry.uuid.eq_ignore_ascii_case(uuid))
        };
        self.contexts.iter().filter(same).map(|entry| entry.bytes).max()
    }

    /// Charge of a context on any card of `machine`; `None` unless all have a figure, since one
    /// number holds for all of them.
    pub(crate) fn bytes_for(&self, machine: &Machine) -> Option<u64> {
        let on = |(uuid, name): &(String, String)| self.bytes_on(&machine.driver, uuid, name);
        let each = machine.cards.iter().map(on);
        each.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }
}

fn not_used(file: &Path) -> String {
    format!(
        "{} cannot be understood, so contexts are charged by the built-in table; delete it and run \
         divvy doctor on an idle card",
        file.display()
    )
}

/// Where the figures are kept; `None` where the user has no cache directory.
pub(crate) fn file() -> Option<PathBuf> {
    let absolute = |name: &str| {
        // A relative one is to be ignored, says the XDG specification.
        std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("divvy/contexts.json"))
}

/// Charge of each context on this machine, in bytes; 0 leaves it to the built-in table.
///
/// Costs a look at one file; where that holds figures and there is no `/proc/driver/nvidia` (WSL),
/// NVML is asked which cards there are.
///
/// # Errors
/// As of [`Found::read`].
pub(crate) fn bytes_here() -> Result<u64> {
    let Some(file) = file() else { return Ok(0) };
    let found = Found::read(&file)?;
    if found.is_empty() {
        return Ok(0);
    }
    let machine = kernels_machine().or_else(nvmls_machine);
    Ok(machine.and_then(|machine| found.bytes_for(&machine)).unwrap_or(0))
}

fn kernels_machine() -> Option<Machine> {
    let root = Path::new(gpus::PROC);
    let cards: Vec<_> = gpus::list(root).into_iter().map(|gpu| (gpu.uuid, gpu.name)).collect();
    let driver = gpus::module_version(root)?;
    (!cards.is_empty()).then_some(Machine { driver, cards })
}

fn nvmls_machine() -> Option<Machine> {
    let nvml = Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().ok()?;
    let driver = nvml.sys_driver_version().ok()?;
    let card = |index| {
        let device = nvml.device_by_index(index).ok()?;
        Some((device.uuid().ok()?, device.name().ok()?))
    };
    let cards = (0..nvml.device_count().ok()?).map(card).collect::<Option<Vec<_>>>()?;
    (!cards.is_empty()).then_some(Machine { driver, cards })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn entry(driver: &str, name: &str, mib: u64) -> ContextFigure {
        let uuid = format!("GPU-{name}");
        ContextFigure { driver: driver.to_owned(), uuid, name: name.to_owned(), bytes: mib * MIB }
    }

    fn found(entries: &[ContextFigure]) -> Found {
        let mut found = Found::default();
        entries.iter().for_each(|entry| found.note(entry.clone()).unwrap());
        found
    }

    fn machine(driver: &str, names: &[&str]) -> Machine {
        let cards = names.iter().map(|name| (String::new(), (*name).to_owned())).collect();
        Machine { driver: driver.to_owned(), cards }
    }

    #[test]
    fn a_figure_counts_for_its_driver_and_cards_of_its_name_only() {
        let found = found(&[entry("580.1", "H200", 518), entry("580.1", "T4", 300)]);
        assert_eq!(found.bytes_for(&machine("580.1", &["H200", "H200"])), Some(518 * MIB));
        assert_eq!(found.bytes_for(&machine("580.1", &["T4"])), Some(300 * MIB));
        assert_eq!(found.bytes_for(&machine("580.1", &["T4", "H200"])), Some(518 * MIB));
        assert_eq!(found.bytes_for(&machine("580.1", &["T4", "A100"])), None);
        assert_eq!(found.bytes_for(&machine("590.1", &["T4"])), None);
        assert_eq!(found.bytes_for(&machine("580.1", &[])), None);
        assert_eq!(found.bytes_on("580.1", "gpu-t4", "Tesla T4"), Some(300 * MIB));
    }

    #[test]
    fn a_new_figure_replaces_the_cards_old_one() {
        let found = found(&[entry("1.1", "T4", 300), entry("1.1", "T4", 310)]);
        assert_eq!(found.contexts, [entry("1.1", "T4", 310)]);
        assert!(Found::default().note(entry("1.1", "T4", 0)).is_err());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let base = std::env::temp_dir().join(format!("divvy-contexts-{}", std::process::id()));
        let file = base.join("divvy/contexts.json");
        assert_eq!(Found::read(&file).unwrap(), Found::default());
        let written = found(&[entry("1.1", "T4", 300)]);
        written.write(&file).unwrap();
        assert_eq!(Found::read(&file).unwrap(), written);
        let beside = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "nothing but the file is left");
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_file_that_is_not_understood_names_itself_and_the_fix() {
        let base = std::env::temp_dir().join(format!("divvy-contexts-bad-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let file = base.join("contexts.json");
        let card = r#""driver":"1","uuid":"GPU-1","name":"T4""#;
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"format":2,"contexts":[]}"#,
            r#"{"format":1,"contexts":[],"more":1}"#,
            &format!(r#"{{"format":1,"contexts":[{{{card},"bytes":1}}]}}"#),
            &format!(r#"{{"format":1,"contexts":[{{{card},"bytes":-5}}]}}"#),
            &format!(r#"{{"format":1,"contexts":[{{{card},"bytes":99999999999999}}]}}"#),
            &format!(r#"{{"format":1,"contexts":[{{{card}}}]}}"#),
        ] {
            std::fs::write(&file, bad).unwrap();
            let words = format!("{:#}", Found::read(&file).unwrap_err());
            assert!(words.contains(file.to_str().unwrap()), "{bad}: {words}");
            assert!(words.contains("delete it"), "{bad}: {words}");
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
