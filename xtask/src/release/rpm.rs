//! The package for Fedora, RHEL, SUSE and theirs, of the same files and scripts as the deb.
//!
//! Written as rpm 4 has it, compressed by gzip, which all of them read. Not signed.

use ::rpm::{BuildConfig, CompressionType, Dependency, FileOptions, PackageBuilder};
use anyhow::{Context, Result};

use super::arguments::Arch;
use super::layout::VERSION;
use super::tree::{Tree, TreeEntry};

/// Words of the package about itself.
const SUMMARY: &str = "Share NVIDIA GPUs among unmodified programs";
const DESCRIPTION: &str = "Each group of processes gets a limit of device memory that is never exceeded and a share of \
device time. A library is preloaded into the programs; there is no kernel module, and nothing is recompiled.";

/// Scripts of a package: what is run after its files are there, and after they are gone.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) installed: String,
    pub(super) removed: String,
}

/// Name of the file.
pub(super) fn name(arch: Arch) -> String {
    format!("divvy-{VERSION}-1.{}.rpm", arch.name())
}

/// The package of `tree`, whose paths begin at the file system's root.
pub(super) fn package(arch: Arch, tree: &Tree, scripts: &Scripts, epoch_s: u64) -> Result<Vec<u8>> {
    let epoch_s = u32::try_from(epoch_s).context("rpm has times of 32 bits")?;
    let config = BuildConfig::v4().compression(CompressionType::Gzip).source_date(epoch_s);
    let mut package = PackageBuilder::new("divvy", VERSION, "Apache-2.0", arch.name(), SUMMARY);
    package
        .using_config(config)
        .release("1")
        .description(DESCRIPTION)
        .url("https://github.com/divvy-gpu/divvy")
        .build_host("reproducible")
        // The symbol of the C library itself, which every rpm system provides.
        .requires(Dependency::any("libc.so.6(GLIBC_2.17)(64bit)"))
        .post_install_script(scripts.installed.as_str())
        .post_uninstall_script(scripts.removed.as_str());
    for (path, entry) in tree.entries() {
        let place = format!("/{path}");
        match entry {
            TreeEntry::File { bytes, .. } => {
                let mode = u16::try_from(entry.mode())?;
                let options = FileOptions::new(place).permissions(mode);
                package.with_file_contents(bytes.clone(), options)?;
            }
            TreeEntry::Link(to) => {
                package.with_symlink(FileOptions::symlink(place, to.as_str()))?;
            }
        }
    }
    // Folders that are nobody else's go with the package.
    for folder in tree.folders() {
        if folder.starts_with("usr/lib/divvy") || folder == "usr/share/doc/divvy" {
            package.with_dir_entry(FileOptions::dir(format!("/{folder}")).permissions(0o755))?;
        }
    }
    let mut bytes = Vec::new();
    package.build()?.write(&mut bytes)?;
    Ok(bytes)
}
