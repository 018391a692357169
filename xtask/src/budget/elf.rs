//! Facts of a shared object for the budgets, read out of its ELF.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

const PAGE_BYTES: u64 = 4096;

type Header = elf::FileHeader64<object::Endianness>;

/// Facts of one shared object.
#[derive(Debug, Default)]
pub(super) struct Library {
    /// `DT_NEEDED`.
    pub(super) needed: Vec<String>,
    /// Symbol versions asked of other libraries, as `libc.so.6 GLIBC_2.2.5`.
    pub(super) versions: BTreeSet<String>,
    /// Defined dynamic symbols.
    pub(super) exports: BTreeSet<String>,
    /// Undefined dynamic symbols.
    pub(super) imports: BTreeSet<String>,
    /// The section that each dynamic relocation without a symbol writes to (a pointer to be moved).
    pub(super) moved_pointers: Vec<String>,
    /// Defined symbols of the full symbol table that belong to core's panic machinery.
    pub(super) panics: BTreeSet<String>,
    /// Bytes of thread-local storage every thread of the host would carry.
    pub(super) thread_local_bytes: u64,
    /// `DF_1_NODELETE`: it stays mapped when a program closes it.
    pub(super) stays: bool,
    /// Whether the full symbol table was there to look for panics in.
    pub(super) has_symbol_table: bool,
    /// `e_machine`.
    pub(super) machine: u16,
    /// Pages of 4 KiB of the file that a program may write to. Loading writes to each: relocations, or
    /// the zeroes behind the last byte.
    pub(super) written_pages: u64,
    /// Bytes of the file up to the end of what is loaded; a stripped file has little more.
    pub(super) loaded_bytes: u64,
}

/// Reads `path`.
pub(super) fn read(path: &Path) -> Result<Library> {
    let name = || path.display().to_string();
    let data = fs::read(path).with_context(name)?;
    let file = ElfFile64::<object::Endianness>::parse(&*data).with_context(name)?;
    let machine = file.elf_header().e_machine(file.endian()).0;
    let mut library = Library { machine, ..Library::default() };
    dynamic(&file, &mut library).with_context(name)?;
    versions(&file, &mut library).with_context(name)?;
    for symbol in file.dynamic_symbols() {
        let Ok(text) = symbol.name() else { continue };
        if text.is_empty() {
            continue;
        }
        if symbol.is_undefined() {
            library.imports.insert(text.to_owned());
        } else if symbol.elf_symbol().st_bind() != elf::STB_LOCAL {
            library.exports.insert(text.to_owned());
        }
    }
    for symbol in file.symbols() {
        library.has_symbol_table = true;
        let text = symbol.name().unwrap_or_default();
        if symbol.is_definition() && text.contains("core") && text.contains("panicking") {
            library.panics.insert(text.to_owned());
        }
    }
    moved_pointers(&file, &mut library);
    for segment in file.elf_program_headers() {
        if segment.p_type(file.endian()) == elf::PT_LOAD {
            let in_file = segment.p_filesz(file.endian());
            // Where nothing is in the file, as of zeroes alone, the offset is none of its bytes: the linker rounds it to
            // a page.
            if in_file > 0 {
                let end = segment.p_offset(file.endian()) + in_file;
                library.loaded_bytes = library.loaded_bytes.max(end);
            }
            if in_file > 0 && segment.p_flags(file.endian()).contains(elf::PF_W) {
                let start = segment.p_vaddr(file.endian());
                library.written_pages +=
                    (start + in_file).div_ceil(PAGE_BYTES) - start / PAGE_BYTES;
            }
        }
        if segment.p_type(file.endian()) == elf::PT_TLS {
            library.thread_local_bytes += segment.p_memsz(file.endian());
        }
    }
    Ok(library)
}

fn dynamic(file: &ElfFile64<'_, object::Endianness>, library: &mut Library) -> Result<()> {
    let (endian, data) = (file.endian(), file.data());
    let Some((entries, strings)) = file.elf_section_table().dynamic(endian, data)? else {
        return Ok(());
    };
    let strings = file.elf_section_table().strings(endian, data, strings)?;
    for entry in entries {
        match entry.tag(endian) {
            elf::DT_NEEDED => {
                let name = entry.string(endian, strings)?;
                library.needed.push(String::from_utf8_lossy(name).into_owned());
            }
            elf::DT_FLAGS_1 => {
                let flags: u64 = entry.d_val(endian);
                library.stays = elf::DynamicFlags1(flags).contains(elf::DF_1_NODELETE);
            }
            _ => {}
        }
    }
    Ok(())
}

fn versions(file: &ElfFile64<'_, object::Endianness>, library: &mut Library) -> Result<()> {
    let (endian, data) = (file.endian(), file.data());
    let sections = Header::sections(file.elf_header(), endian, data)?;
    let Some((mut needs, strings)) = sections.gnu_verneed(endian, data)? else { return Ok(()) };
    let strings = sections.strings(endian, data, strings)?;
    while let Some((need, mut versions)) = needs.next()? {
        let from = String::from_utf8_lossy(need.file(endian, strings)?).into_owned();
        while let Some(version) = versions.next()? {
            let name = String::from_utf8_lossy(version.name(endian, strings)?).into_owned();
            library.versions.insert(format!("{from} {name}"));
        }
    }
    Ok(())
}

fn moved_pointers(file: &ElfFile64<'_, object::Endianness>, library: &mut Library) {
    let Some(relocations) = file.dynamic_relocations() else { return };
    for (at, relocation) in relocations {
        if matches!(relocation.target(), RelocationTarget::Symbol(_)) {
            continue;
        }
        let section = file
            .sections()
            .find(|section| at >= section.address() && at - section.address() < section.size());
        let name = section.and_then(|section| section.name().ok().map(str::to_owned));
        library.moved_pointers.push(name.unwrap_or_else(|| "?".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_itself_is_read_for_what_it_is() {
        let library = read(&std::env::current_exe().unwrap()).unwrap();
        assert!(library.needed.iter().any(|name| name == "libc.so.6"), "{:?}", library.needed);
        assert!(library.versions.iter().any(|version| version.starts_with("libc.so.6 GLIBC_2.")));
        assert!(library.imports.contains("malloc"));
        assert!(!library.panics.is_empty(), "a Rust test links core's panic machinery");
        assert!(library.thread_local_bytes > 0, "std keeps its thread in thread-local storage");
        assert!(library.written_pages > 1, "std has more pointers to move than fit a page");
        assert!(!library.moved_pointers.is_empty(), "vtables hold pointers that must be moved");
        assert!(!library.stays);
    }

    #[test]
    fn what_is_no_elf_file_is_named() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let error = read(&path).unwrap_err();
        assert!(format!("{error:#}").contains("Cargo.toml"), "{error:#}");
    }
}
