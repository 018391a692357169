//! Libraries that the loader preloads into a program started here, and whether the environment's limits reach it by them.
//!
//! An entry is judged as the loader takes it: a path with a slash is opened as it stands, a name without one is searched for, and
//! what cannot be loaded is left out with a warning. Limits in variables limit nothing where Divvy's library is not among the rest.

use std::path::{Path, PathBuf};

use super::environment;
use super::environment::Variables;
use super::finding::Finding;
use crate::machine::loader::find_library;
use crate::machine::{elf, install};
use crate::output::reason::Reason;

/// An entry as the loader takes it.
enum PreloadEntry {
    /// Divvy's library, at its path.
    Ours(PathBuf),
    /// Another project's that hooks the driver.
    Stranger(&'static str),
    /// Any other library.
    Other,
    /// Left out: why, and the fix.
    LeftOut(String, &'static str),
}

/// Whether Divvy's library is preloaded here, and by which of the two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Preloaded {
    pub(super) by_variable: bool,
    pub(super) by_file: bool,
}

/// State of what is preloaded here, and the findings.
pub(super) fn look(variables: &Variables) -> (Preloaded, Vec<Finding>) {
    let file = std::fs::read_to_string("/etc/ld.so.preload").unwrap_or_default();
    let variable = environment::value_of(variables, "LD_PRELOAD").unwrap_or_default();
    let (preloaded, mut findings) = judge(variable, &file);
    findings.extend(reach(variables, preloaded));
    (preloaded, findings)
}

fn judge(variable: &str, file: &str) -> (Preloaded, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut preloaded = Preloaded::default();
    for (place, entry) in install::preload_entries(variable, file) {
        findings.push(match entry_of(entry) {
            PreloadEntry::Ours(path) => {
                match place {
                    "LD_PRELOAD" => preloaded.by_variable = true,
                    _ => preloaded.by_file = true,
                }
                match path.is_absolute() {
                    true => Finding::ok(Reason::Preload, format!("{place} has {entry}")),
                    false => Finding::bad(
                        Reason::Preload,
                        format!(
                            "{place} names {entry}, which is found from this directory alone; programs that \
                             start elsewhere run without it"
                        ),
                        "write its path from the root",
                    ),
                }
            }
            PreloadEntry::Stranger(project) => Finding::bad(
                Reason::OtherSharer,
                format!("{place} has {entry} of {project}; two libraries would answer each call"),
                format!("take it out of {place}, or replace the file by libdivvy.so"),
            ),
            PreloadEntry::Other => Finding::note(Reason::Preload, format!("{place} also has {entry}")),
            PreloadEntry::LeftOut(why, fix) => Finding::bad(
                Reason::Preload,
                format!("{place} names {entry}, which {why}; programs run without it"),
                fix,
            ),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::ok(Reason::Preload, "nothing else is preloaded"));
    }
    (preloaded, findings)
}

/// Limits that hold for no program started here, since the library is not preloaded.
fn reach(variables: &Variables, preloaded: Preloaded) -> Option<Finding> {
    let asked = environment::asked(variables);
    if asked.is_empty() || preloaded.by_variable || preloaded.by_file {
        return None;
    }
    let library =
        install::library().map_or_else(|_| "libdivvy.so".into(), |path| path.display().to_string());
    Some(Finding::bad(
        Reason::Preload,
        format!("{} limits nothing: libdivvy.so is not preloaded here", asked.join(" ")),
        format!("start programs by divvy run, or export LD_PRELOAD={library}"),
    ))
}

fn entry_of(entry: &str) -> PreloadEntry {
    let path = match entry.contains('/') {
        true => expanded(entry),
        false => find_library(entry).unwrap_or_else(|| PathBuf::from(entry)),
    };
    let is_ours = install::is_ours(&path) == Some(true);
    if let Some(project) = other_sharer(entry).filter(|_| !is_ours) {
        return PreloadEntry::Stranger(project);
    }
    if !path.exists() {
        let (why, fix) = match entry.contains('/') {
            true => ("does not exist", "correct the path"),
            false => ("the loader finds nowhere", "write its path from the root"),
        };
        return PreloadEntry::LeftOut(why.to_owned(), fix);
    }
    match elf::read(&path) {
        Err(error) => {
            PreloadEntry::LeftOut(format!("cannot be loaded: {error:#}"), "correct the path")
        }
        Ok(elf) if !elf.is_native => {
            PreloadEntry::LeftOut("is for another processor".to_owned(), "name this machine's")
        }
        Ok(_) if is_ours => PreloadEntry::Ours(path),
        Ok(_) => PreloadEntry::Other,
    }
}

/// A path with the loader's own names in it, as far as it leads to a file.
fn expanded(entry: &str) -> PathBuf {
    let libraries = ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib"];
    let replaced = |library: &str| {
        let path = entry.replace("${LIB}", library).replace("$LIB", library);
        PathBuf::from(path)
    };
    let found = libraries.iter().map(|library| replaced(library)).find(|path| path.exists());
    found.unwrap_or_else(|| PathBuf::from(entry))
}

/// Whether a preloaded path belongs to another project that hooks the driver.
fn other_sharer(path: &str) -> Option<&'static str> {
    let name = Path::new(path).file_name()?.to_str()?;
    match name {
        "libvgpu.so" => Some("HAMi-core"),
        "libnvshare.so" => Some("nvshare"),
        "libgemhook.so.1" | "libgemhook.so" => Some("Gemini"),
        "libcuda-control.so" => Some("vcuda"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn levels(variable: &str) -> Vec<(Reason, Level)> {
        judge(variable, "").1.iter().map(|finding| (finding.code, finding.level)).collect()
    }

    /// A library of this machine whose bytes say that it is ours.
    fn library(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("divvy-preload-{}-{name}", std::process::id()));
        let mut bytes = std::fs::read(find_library("libm.so.6").unwrap()).unwrap();
        bytes.extend_from_slice(b"\0DIVVY_MEMORY\0");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn an_entry_is_judged_as_the_loader_takes_it() {
        assert_eq!(levels(""), [(Reason::Preload, Level::Ok)]);
        assert_eq!(levels("libm.so.6"), [(Reason::Preload, Level::Note)]);
        assert_eq!(levels("libnvshare.so"), [(Reason::OtherSharer, Level::Bad)]);
        for absent in ["/nonexistent/x.so", "lib/libdivvy.so", "libdivvy.so", "/etc/passwd", "/"] {
            assert_eq!(levels(absent), [(Reason::Preload, Level::Bad)], "{absent}");
        }
        let from_file = judge("", "# comment\n/nonexistent/y.so\n").1;
        assert_eq!(from_file.len(), 1);
        assert!(from_file[0].found.contains("/etc/ld.so.preload"));
    }

    #[test]
    fn limits_without_the_library_limit_nothing() {
        let library = library("ours.so");
        let path = library.display().to_string();
        let told = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let findings = look(&pairs).1;
            let bad = findings.into_iter().find(|finding| finding.level == Level::Bad);
            bad.map(|finding| finding.found)
        };
        for limit in [
            ("DIVVY_MEMORY", "8GiB"),
            ("DIVVY_MEMORY_0", "8GiB"),
            ("CUDA_DEVICE_MEMORY_LIMIT_1", "100m"),
            ("DIVVY_COMPUTE", "30%"),
            ("CUDA_DEVICE_SM_LIMIT", "30"),
            ("DIVVY_TENANT", "/run/x"),
        ] {
            assert!(
                told(&[limit]).is_some_and(|found| found.contains("limits nothing")),
                "{limit:?}"
            );
            let missing = told(&[limit, ("LD_PRELOAD", "/nonexistent/libdivvy.so")]);
            assert!(missing.is_some_and(|found| found.contains("does not exist")), "{limit:?}");
            assert!(told(&[limit, ("LD_PRELOAD", "libm.so.6")]).is_some(), "{limit:?}");
            assert_eq!(told(&[limit, ("LD_PRELOAD", &path)]), None, "{limit:?}");
        }
        for none in [("DIVVY_LOG", "warn"), ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "")] {
            assert_eq!(told(&[none]), None, "{none:?}");
        }
        std::fs::remove_file(library).unwrap();
    }
}
