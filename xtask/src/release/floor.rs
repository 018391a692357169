//! The oldest glibc that a file starts on, read from the file: the versions of the symbols that it asks for.

use anyhow::{Context, Result, bail};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _};

use super::tree::Tree;
use super::zig::GLIBC;

/// Checks all programs and libraries in `tree`; how many those are.
///
/// # Errors
/// Names the file that asks for a newer glibc, and the symbol's version.
pub(super) fn check(tree: &Tree) -> Result<usize> {
    let mut checked = 0;
    for (path, entry) in tree.entries() {
        let Some(bytes) = entry.bytes().filter(|bytes| bytes.starts_with(b"\x7fELF")) else {
            continue;
        };
        let newest = newest(bytes).with_context(|| path.to_owned())?;
        if newest > GLIBC {
            bail!(
                "{path} asks for GLIBC_{}.{}, and releases start on {}.{}",
                newest.0,
                newest.1,
                GLIBC.0,
                GLIBC.1
            );
        }
        checked += 1;
    }
    Ok(checked)
}

/// The newest version of a symbol of glibc's that the file asks for.
fn newest(bytes: &[u8]) -> Result<(u32, u32)> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes)?;
    let mut newest = (0, 0);
    if let Some(versions) = sections.versions(endian, bytes)? {
        for symbol in file.dynamic_symbols() {
            let index = versions.version_index(endian, symbol.index());
            let Some(version) = versions.version(index.into())? else { continue };
            let name = String::from_utf8_lossy(version.name());
            if let Some(number) = name.strip_prefix("GLIBC_").and_then(number) {
                newest = newest.max(number);
            }
        }
    }
    Ok(newest)
}

/// `2.17`, or `2.2.5`, of which the last part does not count; none for `PRIVATE`.
fn number(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::tree::TreeEntry;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(number("2.17"), Some((2, 17)));
        assert_eq!(number("2.2.5"), Some((2, 2)));
        assert_eq!(number("PRIVATE"), None);
        assert!(number("2.4") < number("2.17"));
    }

    #[test]
    fn a_program_of_this_machine_says_what_it_needs() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needed = newest(&this).unwrap();
        assert!(needed >= (2, 3), "{needed:?}");
        let mut tree = Tree::default();
        tree.put("text", TreeEntry::text("no program"));
        assert_eq!(check(&tree).unwrap(), 0);
        tree.put("this", TreeEntry::program(this));
        match check(&tree) {
            Ok(checked) => assert!(checked == 1 && needed <= GLIBC),
            Err(error) => {
                let said = error.to_string();
                let version = format!("GLIBC_{}.{}", needed.0, needed.1);
                assert!(said.contains("this") && said.contains(&version), "{said}");
            }
        }
    }
}
