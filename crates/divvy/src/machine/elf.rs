//! Facts of a program or library from its file: its linkage and its exports.
//!
//! Reads 64-bit little-endian ELF by offset, never runs it, trusts no number in it: every table is
//! bounded, and whatever does not fit is an error.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::output::reason::Reason;

/// The machine this binary is for, as ELF numbers it.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Most headers, and most bytes of one table, that are read.
const MOST_HEADERS: u64 = 512;
const MOST_BYTES: u64 = 64 << 20;

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const SHT_DYNSYM: u32 = 11;
const SHT_GNU_VERNEED: u32 = 0x6fff_fffe;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// One file's facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// Its machine is ours.
    pub(crate) is_native: bool,
    /// It names a program interpreter.
    pub(crate) interpreter: Option<String>,
    /// It has a dynamic section.
    pub(crate) is_dynamic: bool,
    /// The libraries it asks for.
    pub(crate) needed: Vec<String>,
}

impl Elf {
    /// Why libdivvy.so would not be loaded into this program, if so.
    pub(crate) fn why_not_preloaded(&self, path: &Path) -> Option<Reason> {
        if !self.is_native {
            return Some(Reason::ForeignMachine);
        }
        let Some(interpreter) = &self.interpreter else { return Some(Reason::StaticProgram) };
        if interpreter.contains("musl") || self.needed.iter().any(|name| name.contains("musl")) {
            return Some(Reason::MuslProgram);
        }
        let mode = std::fs::metadata(path).map_or(0, |status| status.mode());
        // Root's set-user-id program run by root is not a privileged execution, but it is by others.
        let changes_user = mode & 0o4000 != 0 || (mode & 0o2000 != 0 && mode & 0o010 != 0);
        changes_user.then_some(Reason::SetUserId)
    }
}

/// Reads a program's facts.
///
/// # Errors
/// When the file cannot be read or is no 64-bit ELF.
pub(crate) fn read(path: &Path) -> Result<Elf> {
    let image = Image::open(path)?;
    let segments = image.table(0x20, 0x36, 0x38, 56)?;
    let mut elf = Elf { is_native: image.machine == MACHINE, ..Elf::default() };
    let segment = |kind| segments.chunks_exact(56).find(|bytes| u32_at(bytes, 0) == kind);
    if let Some(bytes) = segment(PT_INTERP) {
        let text = image.bytes(u64_at(bytes, 8), u64_at(bytes, 32))?;
        elf.interpreter = Some(c_text(&text, 0));
    }
    if let Some(bytes) = segment(PT_DYNAMIC) {
        elf.is_dynamic = elf.interpreter.is_some();
        let dynamic = image.bytes(u64_at(bytes, 8), u64_at(bytes, 32))?;
        let entries: Vec<(u64, u64)> =
            dynamic.chunks_exact(16).map(|e| (u64_at(e, 0), u64_at(e, 8))).collect();
        let strings = entries.iter().find(|(tag, _)| *tag == DT_STRTAB).map(|(_, at)| *at);
        if let Some(strings) = strings.and_then(|at| file_offset(&segments, at)) {
            for (_, at) in entries.iter().filter(|(tag, _)| *tag == DT_NEEDED) {
                elf.needed.push(image.text(strings.saturating_add(*at))?);
            }
        }
    }
    Ok(elf)
}

/// The names a library defines for others.
pub(crate) fn exports(path: &Path) -> Result<BTreeSet<String>> {
    let image = Image::open(path)?;
    let sections = image.sections()?;
    let Some(symbols) = sections.iter().find(|section| section.kind == SHT_DYNSYM) else {
        bail!("{} has no dynamic symbol table", path.display());
    };
    let strings = image.strings_of(&sections, symbols)?;
    let table = image.bytes(symbols.offset, symbols.size)?;
    // A symbol of section 0 is an import.
    let defined = table.chunks_exact(24).filter(|symbol| u16_at(symbol, 6) != 0);
    Ok(defined.map(|symbol| c_text(&strings, u32_at(symbol, 0) as usize)).collect())
}

/// The versions a library demands of others, such as `GLIBC_2.17`.
pub(crate) fn demanded_versions(path: &Path) -> Result<BTreeSet<String>> {
    let image = Image::open(path)?;
    let sections = image.sections()?;
    let Some(section) = sections.iter().find(|section| section.kind == SHT_GNU_VERNEED) else {
        return Ok(BTreeSet::new());
    };
    let strings = image.strings_of(&sections, section)?;
    let table = image.bytes(section.offset, section.size)?;
    let mut versions = BTreeSet::new();
    let mut at = 0;
    for _ in 0..MOST_HEADERS {
        let Some(file) = table.get(at..at + 16) else { break };
        let mut inner = at + u32_at(file, 8) as usize;
        for _ in 0..u16_at(file, 2) {
            let Some(one) = table.get(inner..inner + 16) else { break };
            versions.insert(c_text(&strings, u32_at(one, 8) as usize));
            inner += u32_at(one, 12) as usize;
        }
        match u32_at(file, 12) {
            0 => break,
            next => at += next as usize,
        }
    }
    Ok(versions)
}

struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
}

struct Image {
    file: File,
    head: [u8; 64],
    machine: u16,
}

impl Image {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("{}", path.display()))?;
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0)
            .with_context(|| format!("{} is no ELF file", path.display()))?;
        ensure!(head.starts_with(b"\x7fELF"), "{} is no ELF file", path.display());
        ensure!(
            head.get(4..6) == Some(&[2, 1]),
            "{} is no 64-bit little-endian ELF file",
            path.display()
        );
        let machine = u16_at(&head, 18);
        Ok(Self { file, head, machine })
    }

    fn bytes(&self, offset: u64, size: u64) -> Result<Vec<u8>> {
        ensure!(size <= MOST_BYTES, "an ELF table of {size} bytes");
        let mut bytes = vec![0; usize::try_from(size)?];
        self.file.read_exact_at(&mut bytes, offset).context("an ELF table beyond the file")?;
        Ok(bytes)
    }

    /// A table of the head: where its offset, entry size and count are, and what the size must be.
    fn table(&self, offset: usize, size: usize, count: usize, expected: u64) -> Result<Vec<u8>> {
        let count = u64::from(u16_at(&self.head, count));
        if count == 0 {
            return Ok(Vec::new());
        }
        ensure!(
            u64::from(u16_at(&self.head, size)) == expected && count <= MOST_HEADERS,
            "an ELF header table of unknown form"
        );
        self.bytes(u64_at(&self.head, offset), count * expected)
    }

    fn sections(&self) -> Result<Vec<Section>> {
        let table = self.table(0x28, 0x3a, 0x3c, 64)?;
        let section = |bytes: &[u8]| Section {
            kind: u32_at(bytes, 4),
            offset: u64_at(bytes, 24),
            size: u64_at(bytes, 32),
            link: u32_at(bytes, 40),
        };
        Ok(table.chunks_exact(64).map(section).collect())
    }

    fn strings_of(&self, sections: &[Section], of: &Section) -> Result<Vec<u8>> {
        let strings = sections.get(of.link as usize).context("an ELF table without its strings")?;
        self.bytes(strings.offset, strings.size)
    }

    /// A text of at most 255 bytes at `offset`.
    fn text(&self, offset: u64) -> Result<String> {
        let mut bytes = [0; 256];
        let got = self.file.read_at(&mut bytes, offset)?;
        Ok(c_text(bytes.get(..got).unwrap_or_default(), 0))
    }
}

/// Where in the file the address `at` lies, by the loadable segments.
fn file_offset(segments: &[u8], at: u64) -> Option<u64> {
    segments.chunks_exact(56).filter(|bytes| u32_at(bytes, 0) == 1).find_map(|bytes| {
        let inside = at.checked_sub(u64_at(bytes, 16))?;
        (inside < u64_at(bytes, 32)).then(|| u64_at(bytes, 8).saturating_add(inside))
    })
}

fn c_text(bytes: &[u8], at: usize) -> String {
    let rest = bytes.get(at..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_is_dynamic_and_native() {
        let path = std::env::current_exe().unwrap();
        let elf = read(&path).unwrap();
        assert!(elf.is_native && elf.is_dynamic, "{elf:?}");
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{elf:?}");
        assert_eq!(elf.why_not_preloaded(&path), None);
        assert!(demanded_versions(&path).unwrap().iter().any(|v| v.starts_with("GLIBC_2.")));
    }

    #[test]
    fn programs_that_cannot_be_preloaded_are_told() {
        let nowhere = Path::new("/nonexistent");
        let elf = |interpreter: Option<&str>| Elf {
            is_native: true,
            interpreter: interpreter.map(str::to_owned),
            is_dynamic: interpreter.is_some(),
            needed: Vec::new(),
        };
        assert_eq!(elf(None).why_not_preloaded(nowhere), Some(Reason::StaticProgram));
        let musl = elf(Some("/lib/ld-musl-x86_64.so.1"));
        assert_eq!(musl.why_not_preloaded(nowhere), Some(Reason::MuslProgram));
        let other = Elf { is_native: false, ..Elf::default() };
        assert_eq!(other.why_not_preloaded(nowhere), Some(Reason::ForeignMachine));
    }

    #[test]
    fn what_is_no_elf_is_an_error_that_names_the_file() {
        let error = read(Path::new("/proc/self/status")).unwrap_err().to_string();
        assert!(error.contains("/proc/self/status"), "{error}");
    }

    #[test]
    fn garbled_heads_are_errors_not_panics() {
        let path = std::env::temp_dir().join(format!("divvy-elf-{}", std::process::id()));
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        bytes.truncate(4096);
        for at in 16..64 {
            for value in [0, 0x7f, 0xff] {
                let mut broken = bytes.clone();
                broken[at] = value;
                std::fs::write(&path, &broken).unwrap();
                let _ = (read(&path), exports(&path), demanded_versions(&path));
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
