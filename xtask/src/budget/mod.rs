//! `cargo xtask budget`: what the shipped library may weigh and ask of the program it enters.
//!
//! A preloaded library that cannot be loaded kills every process it is preloaded into, and what it
//! exports can shadow the program's own names. So these are checked on the built file, not hoped for.

mod elf;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use divvy_driver_api::{DRIVER, NVML};

use crate::aarch64;
use crate::command::run;
use crate::stage;
use crate::workspace::target;
use elf::Library;

/// Most bytes of the stripped file. At the least size of all (`opt-level = "z"`) the shim took 391,512, but a launch then
/// took 44 ns where it took 26, and 118 under a cap where it took 57 (`bench/results/h200-x2-2026-11-30/least-size.txt`).
/// Functions that a program calls seldom are found by a call instead (`bench/results/size-2026-12-01.txt`).
const SIZE_BYTES: u64 = 400_000;
/// Newest glibc symbol version it may ask for on x86-64.
const GLIBC: (u32, u32) = (2, 17);
/// Exported beside the hooked entry points.
const LOADER: [&str; 4] = ["dlmopen", "dlopen", "dlsym", "dlvsym"];
/// The same of the arm64 file, whose instructions are all four bytes long.
const ARM64_BYTES: u64 = 420_000;
/// Most pointers the loader must move at each start. A table of hooks would have hundreds, so it holds
/// offsets; what remains are the few tables of `core::fmt`, and those of the calls that the share gate
/// is handed.
const MOVED_POINTERS: usize = 48;
/// Most pages of the file that loading writes to: each is a fault and a copy at the start of every
/// program. One, because the library has no initialised data beside those pointers.
const WRITTEN_PAGES: u64 = 1;
/// Sections in which such a pointer is the loader's own: its arrays, the linker's tables of addresses.
const LOADER_SECTIONS: [&str; 5] = [".init_array", ".fini_array", ".got", ".got.plt", ".dynamic"];
/// All that the library takes from the program's process by name: data, since a program may define any function and look the
/// C library's up by `dlsym`, which is ours.
const IMPORTS: [&str; 3] = ["__environ", "_dl_debug_addr", "_r_debug"];

/// One budget and whether it holds.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Name of the check.
    pub(crate) what: &'static str,
    /// Its result.
    pub(crate) found: String,
    /// Whether it is within the budget.
    pub(crate) holds: bool,
}

pub(crate) fn chore() -> Result<()> {
    let mut findings = check(&stage::build_shim()?)?;
    findings.extend(check_aarch64()?);
    let broken = report(&findings);
    if broken > 0 {
        bail!("{broken} of {} budgets are broken", findings.len());
    }
    Ok(())
}

/// Prints one line a finding; returns how many are broken.
pub(crate) fn report(findings: &[Finding]) -> usize {
    for finding in findings {
        let verdict = if finding.holds { "ok" } else { "BROKEN" };
        println!("{verdict:6} {}: {}", finding.what, finding.found);
    }
    findings.iter().filter(|finding| !finding.holds).count()
}

/// Checks the library at `path`.
pub(crate) fn check(path: &Path) -> Result<Vec<Finding>> {
    let library = elf::read(path)?;
    Ok(vec![
        size(path)?,
        needed(&library),
        versions(&library),
        exports(&library),
        imports(&library),
        pointers(&library),
        written_pages(&library),
        panics(&library),
        thread_local(&library),
        stays(&library),
    ])
}

/// Names that the library for arm64 may take from the C library, given the x86-64 one at `path`.
#[cfg(feature = "release")]
pub(crate) fn libc_names_for_aarch64(path: &Path) -> Result<BTreeSet<String>> {
    Ok(aarch64::libc_names(&elf::read(path)?.imports))
}

/// Builds the library for arm64 and checks of it what a file linked with a stand-in for the C library
/// can show: all but symbol versions.
pub(crate) fn check_aarch64() -> Result<Vec<Finding>> {
    aarch64::needs_target()?;
    let allowed = aarch64::libc_names(&elf::read(&stage::build_shim()?)?.imports);
    let library = elf::read(&aarch64::build(&allowed)?)?;
    let beyond: Vec<_> = library.imports.difference(&allowed).map(String::as_str).collect();
    Ok(vec![
        Finding {
            what: "arm64: machine",
            found: format!("ELF machine {}", library.machine),
            holds: library.machine == object::elf::EM_AARCH64.0,
        },
        Finding {
            what: "arm64: loaded part of the file (420 kB at most)",
            found: format!("{} bytes", library.loaded_bytes),
            holds: library.loaded_bytes <= ARM64_BYTES,
        },
        needed(&library).of("arm64: libraries needed (libc.so.6, ld-linux)"),
        exports(&library).of("arm64: exports (the hooked entries, dlmopen, dlopen, dlsym, dlvsym)"),
        Finding {
            what: "arm64: imports beyond those of x86-64 and getauxval (none)",
            found: some(&beyond),
            holds: beyond.is_empty(),
        },
        pointers(&library).of("arm64: pointers the loader must move (48 at most)"),
        panics(&library).of("arm64: panic machinery linked in (none)"),
        thread_local(&library).of("arm64: thread-local bytes added to every thread (0)"),
        stays(&library).of("arm64: stays mapped when the program closes it"),
    ])
}

impl Finding {
    fn of(self, what: &'static str) -> Self {
        Self { what, ..self }
    }
}

fn thread_local(library: &Library) -> Finding {
    Finding {
        what: "thread-local bytes added to every thread (0)",
        found: library.thread_local_bytes.to_string(),
        holds: library.thread_local_bytes == 0,
    }
}

fn stays(library: &Library) -> Finding {
    Finding {
        what: "stays mapped when the program closes it",
        found: library.stays.to_string(),
        holds: library.stays,
    }
}

fn size(path: &Path) -> Result<Finding> {
    let stripped = target().join("libdivvy.stripped.so");
    run(Command::new("strip").arg("--strip-all").arg("-o").arg(&stripped).arg(path))?;
    let bytes = std::fs::metadata(&stripped).with_context(|| stripped.display().to_string())?.len();
    Ok(Finding {
        what: "size, stripped (400 kB at most)",
        found: format!("{bytes} bytes"),
        holds: bytes <= SIZE_BYTES,
    })
}

fn needed(library: &Library) -> Finding {
    let holds = !library.needed.is_empty()
        && library.needed.iter().all(|name| name == "libc.so.6" || name.starts_with("ld-linux"));
    Finding {
        what: "libraries needed (libc.so.6, ld-linux)",
        found: library.needed.join(" "),
        holds,
    }
}

fn versions(library: &Library) -> Finding {
    let holds = library.versions.iter().all(|version| {
        let name = version.split(' ').nth(1).unwrap_or_default();
        glibc(name).is_some_and(|version| version <= GLIBC)
    });
    Finding {
        what: "symbol versions (GLIBC_2.17 at most)",
        found: library.versions.iter().cloned().collect::<Vec<_>>().join(", "),
        holds,
    }
}

/// `GLIBC_2.2.5` is (2, 2).
fn glibc(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn exports(library: &Library) -> Finding {
    let wanted: BTreeSet<&str> = DRIVER
        .iter()
        .chain(NVML)
        .filter(|entry| entry.effects.needs_hook())
        .map(|entry| entry.name)
        .chain(LOADER)
        .collect();
    let found: BTreeSet<&str> = library.exports.iter().map(String::as_str).collect();
    let surplus: Vec<_> = found.difference(&wanted).copied().collect();
    let missing: Vec<_> = wanted.difference(&found).copied().collect();
    Finding {
        what: "exports (the hooked entries, dlmopen, dlopen, dlsym, dlvsym)",
        found: format!(
            "{} of {}; surplus: {}; missing: {}",
            found.intersection(&wanted).count(),
            wanted.len(),
            some(&surplus),
            some(&missing)
        ),
        holds: surplus.is_empty() && missing.is_empty(),
    }
}

fn imports(library: &Library) -> Finding {
    let surplus: Vec<_> =
        library.imports.iter().map(String::as_str).filter(|name| !IMPORTS.contains(name)).collect();
    Finding {
        what: "imports (the environment, the dynamic linker's words for debuggers)",
        found: format!(
            "{} of {}; surplus: {}",
            library.imports.len() - surplus.len(),
            IMPORTS.len(),
            some(&surplus)
        ),
        holds: surplus.is_empty(),
    }
}

fn pointers(library: &Library) -> Finding {
    let elsewhere: Vec<&str> = library
        .moved_pointers
        .iter()
        .map(String::as_str)
        .filter(|section| !LOADER_SECTIONS.contains(section))
        .collect();
    let sections: BTreeSet<&str> = elsewhere.iter().copied().collect();
    Finding {
        what: "pointers the loader must move, outside its own tables (48 at most)",
        found: format!(
            "{} of {} in all; in {}",
            elsewhere.len(),
            library.moved_pointers.len(),
            some(&sections.into_iter().collect::<Vec<_>>())
        ),
        holds: elsewhere.len() <= MOVED_POINTERS,
    }
}

fn written_pages(library: &Library) -> Finding {
    Finding {
        what: "pages of the file written to by loading it (1 at most)",
        found: library.written_pages.to_string(),
        holds: library.written_pages <= WRITTEN_PAGES,
    }
}

fn panics(library: &Library) -> Finding {
    let names: Vec<_> = library.panics.iter().map(String::as_str).collect();
    Finding {
        what: "panic machinery linked in (none)",
        found: if library.has_symbol_table {
            some(&names)
        } else {
            "the symbol table is stripped, so this cannot be seen".to_owned()
        },
        holds: library.has_symbol_table && names.is_empty(),
    }
}

/// A list for a message: all of a short one, the start of a long one.
fn some(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        _ if names.len() <= 12 => names.join(" "),
        _ => format!("{} and {} more", names[..12].join(" "), names.len() - 12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(glibc("GLIBC_2.2.5"), Some((2, 2)));
        assert!(glibc("GLIBC_2.4") < Some(GLIBC));
        assert!(glibc("GLIBC_2.34") > Some(GLIBC));
        assert_eq!(glibc("GLIBC_PRIVATE"), None);
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        assert_eq!(some(&[]), "none");
        assert_eq!(some(&["a", "b"]), "a b");
        assert!(some(&["x"; 14]).ends_with(" and 2 more"));
    }
}
