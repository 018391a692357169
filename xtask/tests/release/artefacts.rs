//! The folder of artefacts, and their sums.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder; none after a skip was said.
pub(crate) fn folder(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DIVVY_RELEASE").map(PathBuf::from);
    if named.is_none() {
        println!(
            "SKIPPED {test}: DIVVY_RELEASE names no artefacts; cargo xtask test release makes them"
        );
    }
    named
}

/// The one artefact whose name begins and ends so.
pub(crate) fn named(folder: &Path, begin: &str, end: &str) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("the artefacts' folder");
    let mut fitting: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(begin) && name.ends_with(end)
        })
        .collect();
    assert_eq!(fitting.len(), 1, "{begin}…{end}: {fitting:?}");
    fitting.remove(0)
}

/// Whether a program is there; a skip is said where it is not.
pub(crate) fn has_tool(test: &str, tool: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    if !is_there {
        println!("SKIPPED {test}: there is no {tool}; Debian's package {package} has it");
    }
    is_there
}

/// Standard output of a command, which must succeed.
pub(crate) fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let (out, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}\n{error}");
    out.into_owned()
}

/// A directory that goes at the end of a test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("divvy-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn all_artefacts_have_the_sums_that_are_listed() {
    let Some(folder) = folder("sums") else { return };
    let said = said(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&folder));
    let there = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(said.lines().count() + 1, there, "{said}");
}

#[test]
fn the_list_of_parts_names_crates_with_sums_and_licences() {
    let Some(folder) = folder("list of parts") else { return };
    let text = std::fs::read(named(&folder, "divvy-", ".cdx.json")).expect("the list");
    let list: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let parts = list["components"].as_array().expect("components");
    let part = |name: &str| parts.iter().find(|part| part["name"] == name);
    for name in ["divvy-shim", "libc", "nvml-wrapper", "clap"] {
        assert!(part(name).is_some(), "{name} is linked and not listed");
    }
    for name in ["proptest", "bindgen", "serde_derive", "xtask", "rpm"] {
        assert!(part(name).is_none(), "{name} is in no file and listed");
    }
    assert!(parts.iter().all(|part| part["licenses"].is_array()), "a part has no licence");
    assert_eq!(
        part("libc").and_then(|part| part["hashes"][0]["content"].as_str()).map(str::len),
        Some(64)
    );
}
