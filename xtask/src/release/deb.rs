//! The package for Debian, Ubuntu and theirs: an `ar` archive of a version, a description and the files.
//!
//! The format is deb(5). Promises: dpkg of 2012 and newer reads it. Starts no service: who wants the machine's daemon
//! enables it.

use anyhow::Result;

use super::arguments::Arch;
use super::layout::VERSION;
use super::sums::md5;
use super::tree::{Tree, TreeEntry, gzip};

/// Fields of the package beside its name and version.
const ABOUT: &str = "\
Section: utils
Priority: optional
Homepage: https://github.com/divvy-gpu/divvy
Maintainer: The Divvy authors <divvy-gpu@users.noreply.github.com>
Depends: libc6 (>= 2.17)
Description: share NVIDIA GPUs among unmodified programs
 Each group of processes gets a limit of device memory that is never exceeded
 and a share of device time. A library is preloaded into the programs; there is
 no kernel module, and nothing is recompiled. The package holds the command, its
 library, a simulated GPU to try it on, and a unit for the machine's daemon.
";

/// Name of the file.
pub(super) fn name(arch: Arch) -> String {
    format!("divvy_{VERSION}_{}.deb", arch.debian())
}

/// The package of `tree`, whose paths begin at the file system's root; `scripts` are dpkg's, by their names there.
pub(super) fn package(
    arch: Arch,
    tree: &Tree,
    scripts: &[(&str, String)],
    epoch_s: u64,
) -> Result<Vec<u8>> {
    let mut control = Tree::default();
    let size_kib = tree.len_bytes().div_ceil(1024);
    control.put(
        "control",
        TreeEntry::text(format!(
            "Package: divvy\nVersion: {VERSION}\nArchitecture: {}\nInstalled-Size: {size_kib}\n{ABOUT}",
            arch.debian()
        )),
    );
    let sums: String = tree
        .entries()
        .filter_map(|(path, entry)| Some(format!("{}  {path}\n", md5(entry.bytes()?))))
        .collect();
    control.put("md5sums", TreeEntry::text(sums));
    for (name, script) in scripts {
        control.put(*name, TreeEntry::program(script.clone().into_bytes()));
    }
    let control = gzip(&control.tar("./", epoch_s)?)?;
    let data = gzip(&tree.tar("./", epoch_s)?)?;
    let members: [(&str, &[u8]); 3] =
        [("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    Ok(ar(&members, epoch_s))
}

/// An archive of the members, each with a head of sixty bytes.
fn ar(members: &[(&str, &[u8])], epoch_s: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let head =
            format!("{name:<16}{epoch_s:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100_644, bytes.len());
        archive.extend_from_slice(head.as_bytes());
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_begin_at_even_places() {
        let archive = ar(&[("a", b"123"), ("b", b"45")], 9);
        let text = String::from_utf8(archive).unwrap();
        assert_eq!(&text[..8], "!<arch>\n");
        assert_eq!(&text[8..68], "a               9           0     0     100644  3         `\n");
        assert_eq!(&text[68..72], "123\n");
        assert!(text[72..].starts_with('b'));
    }
}
