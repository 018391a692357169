//! Facts of a program or library from its file: its linkage and its exports.
//!
//! Promises: reads the tables it needs and nothing else of a file, however large; never runs it, and trusts no number in
//! it: whatever does not fit is an error, and of too many libraries the first count. Does not parse ELF itself: that is
//! the crate `object`'s.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use nix::libc::O_NONBLOCK;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::read::{ReadCache, ReadRef, StringTable};
use object::{LittleEndian, SectionIndex};

use crate::output::reason::Reason;

/// The machine this binary is for.
const MACHINE: elf::Machine =
    if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };

/// Most bytes of one table that are read: a sparse file may claim any number.
const MOST_BYTES: u64 = 64 << 20;

/// Most libraries that a program is heard to ask for; some of the largest ask for a hundred.
const MOST_NEEDED: usize = 4096;

type Header = FileHeader64<LittleEndian>;

/// A file, of which no table is read that claims more than [`MOST_BYTES`].
#[derive(Clone, Copy)]
struct Tables<'a>(&'a ReadCache<File>);

impl<'a> ReadRef<'a> for Tables<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > MOST_BYTES { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

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

    /// The library that ends a program if another library is loaded first: AddressSanitizer's, of gcc or of clang.
    pub(crate) fn wants_first(&self) -> Option<&str> {
        let is_one =
            |name: &&String| name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
        self.needed.iter().find(is_one).map(String::as_str)
    }
}

/// With this variable and option AddressSanitizer's runtime does not check whether it comes first.
pub(crate) const ORDER_VARIABLE: &str = "ASAN_OPTIONS";
pub(crate) const ORDER_OPTION: &str = "verify_asan_link_order=0";

/// `options` of the sanitizer with that one.
pub(crate) fn with_order_option(options: &str) -> String {
    if options.is_empty() { ORDER_OPTION.to_owned() } else { format!("{options}:{ORDER_OPTION}") }
}

/// Reads a program's facts.
///
/// # Errors
/// When the file cannot be read or is no 64-bit ELF.
pub(crate) fn read(path: &Path) -> Result<Elf> {
    let file = open(path)?;
    let file = Tables(&file);
    let header = header(path, file)?;
    let segments = header.program_headers(LittleEndian, file)?;
    let mut elf = Elf { is_native: header.e_machine(LittleEndian) == MACHINE, ..Elf::default() };
    // The first of a kind counts, as it does for the kernel, and no other is read.
    let first = |kind| segments.iter().find(|one| one.p_type(LittleEndian) == kind);
    if let Some(segment) = first(elf::PT_INTERP) {
        elf.interpreter = segment.interpreter(LittleEndian, file)?.map(text);
    }
    let Some(segment) = first(elf::PT_DYNAMIC) else { return Ok(elf) };
    let dynamic = segment.dynamic(LittleEndian, file)?.unwrap_or_default();
    elf.is_dynamic = elf.interpreter.is_some();
    let value = |tag| {
        let entry = dynamic.iter().find(|entry| entry.d_tag(LittleEndian) == tag);
        entry.map(|entry| entry.d_val(LittleEndian))
    };
    // By segments: a program may have lost its sections.
    let start = value(elf::DT_STRTAB).and_then(|at| file_offset(segments, at));
    let (Some(start), Some(size)) = (start, value(elf::DT_STRSZ)) else { return Ok(elf) };
    let strings = StringTable::new(file, start, start.saturating_add(size));
    let needed = dynamic.iter().filter(|entry| entry.d_tag(LittleEndian) == elf::DT_NEEDED);
    for entry in needed.take(MOST_NEEDED) {
        let at = u32::try_from(entry.d_val(LittleEndian))?;
        let name = strings.get(at).ok().context("a library's name beyond the ELF file")?;
        elf.needed.push(text(name));
    }
    Ok(elf)
}

/// The names a library defines for others.
pub(crate) fn exports(path: &Path) -> Result<BTreeSet<String>> {
    let file = open(path)?;
    let file = Tables(&file);
    let sections = sections(path, file)?;
    let symbols = sections.symbols(LittleEndian, file, elf::SHT_DYNSYM)?;
    ensure!(symbols.section() != SectionIndex(0), "{} has no dynamic symbol table", path.display());
    // All names at once: each by itself would be a read of the file.
    let names = sections.section(symbols.string_section())?.data(LittleEndian, file)?;
    let strings = StringTable::new(names, 0, names.len() as u64);
    let defined = symbols.iter().filter(|symbol| !symbol.is_undefined(LittleEndian));
    // Names may lie within one another, so that together they are longer than their table.
    let mut room = MOST_BYTES as usize;
    let name_of = |symbol: &elf::Sym64<LittleEndian>| {
        let name = symbol.name(LittleEndian, strings)?;
        room = room.checked_sub(name.len()).context("names longer than any library's")?;
        Ok(text(name))
    };
    defined.map(name_of).collect()
}

/// The versions a library demands of others, such as `GLIBC_2.17`.
pub(crate) fn demanded_versions(path: &Path) -> Result<BTreeSet<String>> {
    let file = open(path)?;
    let file = Tables(&file);
    let sections = sections(path, file)?;
    let mut versions = BTreeSet::new();
    let Some((mut needs, link)) = sections.gnu_verneed(LittleEndian, file)? else {
        return Ok(versions);
    };
    let strings = sections.strings(LittleEndian, file, link)?;
    while let Some((_, mut of_library)) = needs.next()? {
        while let Some(version) = of_library.next()? {
            versions.insert(text(version.name(LittleEndian, strings)?));
        }
    }
    Ok(versions)
}

fn open(path: &Path) -> Result<ReadCache<File>> {
    // A pipe without a writer is opened at once, and is no ELF file.
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path);
    let file = file.with_context(|| format!("{}", path.display()))?;
    Ok(ReadCache::new(file))
}

/// The header of what the kernel takes for a program. `Header::parse` wants a version in its first bytes as well, at
/// which the kernel does not look.
fn header<'a>(path: &Path, file: Tables<'a>) -> Result<&'a Header> {
    let is_program = |header: &&Header| {
        let is_ours = header.is_class_64() && header.is_little_endian();
        header.e_ident().magic == elf::ELFMAG && is_ours
    };
    let header = file.read_at::<Header>(0).ok().filter(is_program);
    header.with_context(|| format!("{} is no 64-bit little-endian ELF file", path.display()))
}

/// The sections by number and kind. Their names are not needed, so that it does not matter where those lie.
fn sections<'a>(path: &Path, file: Tables<'a>) -> Result<SectionTable<'a, Header, Tables<'a>>> {
    let headers = header(path, file)?.section_headers(LittleEndian, file)?;
    Ok(SectionTable::new(headers, StringTable::default()))
}

/// Offset in the file of the address `at`, by the loadable segments.
fn file_offset(segments: &[elf::ProgramHeader64<LittleEndian>], at: u64) -> Option<u64> {
    segments.iter().filter(|one| one.p_type(LittleEndian) == elf::PT_LOAD).find_map(|one| {
        let inside = at.checked_sub(one.p_vaddr(LittleEndian))?;
        let is_there = inside < one.p_filesz(LittleEndian);
        is_there.then(|| one.p_offset(LittleEndian).saturating_add(inside))
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::stage::Scratch;

    const OWN: &str = "/proc/self/exe";

    /// A path for a file, which goes with the directory that it is in.
    fn place(test: &str) -> (Scratch, PathBuf) {
        let scratch = Scratch::make(test).unwrap();
        let path = scratch.path().join("program");
        (scratch, path)
    }

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
        let (_scratch, path) = place("divvy-elf-other");
        let own = std::fs::read(OWN).unwrap();
        // 32 bits, and the other order of bytes.
        for (at, value) in [(4, 1), (5, 2)] {
            let mut other = own[..4096].to_vec();
            other[at] = value;
            std::fs::write(&path, &other).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("no 64-bit little-endian ELF"), "{error}");
        }
    }

    #[test]
    fn a_pipe_without_a_writer_is_not_waited_for() {
        let (_scratch, path) = place("divvy-elf-pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("no 64-bit little-endian ELF"), "{error}");
    }

    #[test]
    fn tables_that_claim_gigabytes_are_not_read() {
        let (_scratch, path) = place("divvy-elf-sparse");
        let mut bytes = std::fs::read(OWN).unwrap();
        let [at, count] = [0x20, 0x38].map(|at| usize::from(bytes[at]));
        // Every segment claims to be eight gigabytes long, of which the file has holes.
        for segment in (0..count).map(|nth| at + 56 * nth) {
            bytes[segment + 32..segment + 40].copy_from_slice(&(8_u64 << 30).to_le_bytes());
        }
        std::fs::write(&path, &bytes).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(9 << 30).unwrap();
        assert!(read(&path).is_err());
    }

    /// A program whose sections were cut off is understood by its segments.
    #[test]
    fn a_program_needs_no_sections() {
        let (_scratch, path) = place("divvy-elf-cut");
        let mut bytes = std::fs::read(OWN).unwrap();
        // e_shoff, e_shnum and e_shstrndx.
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let (cut, whole) = (read(&path).unwrap(), read(Path::new(OWN)).unwrap());
        assert_eq!(cut, whole);
        assert!(exports(&path).unwrap_err().to_string().contains("no dynamic symbol table"));
        assert!(demanded_versions(&path).unwrap().is_empty());
    }

    #[test]
    fn neither_a_version_nor_names_of_sections_are_asked_for() {
        let (_scratch, path) = place("divvy-elf-bare");
        let own = Path::new(OWN);
        let mut bytes = std::fs::read(own).unwrap();
        // EI_VERSION, and an e_shstrndx that is none.
        bytes[6] = 0;
        bytes[0x3e..0x40].copy_from_slice(&0xfff0_u16.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path).unwrap(), read(own).unwrap());
        assert_eq!(exports(&path).unwrap(), exports(own).unwrap());
        assert_eq!(demanded_versions(&path).unwrap(), demanded_versions(own).unwrap());
    }

    #[test]
    fn a_program_is_not_heard_asking_for_libraries_without_end() {
        let (_scratch, path) = place("divvy-elf-needs");
        let mut bytes = std::fs::read(OWN).unwrap();
        let [at, count] = [0x20, 0x38].map(|at| usize::from(bytes[at]));
        let word =
            |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        // PT_DYNAMIC is number 2. Its entries move to the end of the file, and each NEEDED becomes many.
        let mut heads = (0..count).map(|nth| at + 56 * nth);
        let head = heads.find(|at| bytes[*at..*at + 4] == [2, 0, 0, 0]).unwrap();
        let [start, length] = [8, 32].map(|field| word(&bytes, head + field) as usize);
        let entries = bytes[start..start + length].to_vec();
        let new_start = bytes.len();
        for entry in entries.chunks(16) {
            let times = if word(entry, 0) == 1 { MOST_NEEDED + 1 } else { 1 };
            bytes.extend(entry.repeat(times));
        }
        let new_length = (bytes.len() - new_start) as u64;
        bytes[head + 8..head + 16].copy_from_slice(&(new_start as u64).to_le_bytes());
        bytes[head + 32..head + 40].copy_from_slice(&new_length.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let elf = read(&path).unwrap();
        assert_eq!(elf.needed.len(), MOST_NEEDED);
    }

    #[test]
    fn garbled_heads_are_errors_not_panics() {
        let (_scratch, path) = place("divvy-elf");
        let mut bytes = std::fs::read(OWN).unwrap();
        bytes.truncate(4096);
        for at in 16..64 {
            for value in [0, 0x7f, 0xff] {
                let mut broken = bytes.clone();
                broken[at] = value;
                std::fs::write(&path, &broken).unwrap();
                let _ = (read(&path), exports(&path), demanded_versions(&path));
            }
        }
    }
}
