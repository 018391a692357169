//! Where the loader would find a library.
//!
//! Promises: what it names is a file; where the loader's cache has it, one for this machine.
//!
//! Does not load anything.

use std::path::{Path, PathBuf};

use crate::machine::elf;

/// Where the loader would find `name`: LD_LIBRARY_PATH, the loader's cache, its built-in places.
pub(crate) fn find_library(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).filter(|place| !place.as_os_str().is_empty());
    let built_in = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/lib64",
        "/usr/lib/wsl/lib",
        "/usr/local/nvidia/lib64",
    ];
    let first = own.map(|place| place.join(name)).find(|file| file.is_file());
    first
        .or_else(|| in_loader_cache(name))
        .or_else(|| built_in.iter().map(|p| Path::new(p).join(name)).find(|file| file.is_file()))
}

/// The loader's cache holds its paths as NUL-terminated texts; a whole text that ends in the name and
/// is a file of ours is what the loader would open.
fn in_loader_cache(name: &str) -> Option<PathBuf> {
    let cache = std::fs::read("/etc/ld.so.cache").ok()?;
    let ending = format!("/{name}");
    cache
        .split(|byte| *byte == 0)
        .filter_map(|text| std::str::from_utf8(text).ok())
        .filter(|text| text.starts_with('/') && text.ends_with(&ending))
        .map(PathBuf::from)
        .find(|path| elf::read(path).is_ok_and(|elf| elf.is_native))
}
