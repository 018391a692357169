//! A shared library for tests of what is installed: here, and in the crate.
//!
//! Promises: any program can load it. Is not Divvy's own, which tests of this crate do without.

use std::fs;

/// The helper of the compiler, which this process has mapped, as every Rust program has.
pub(crate) fn some_library() -> Vec<u8> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.lines().find_map(|line| {
        let path = line.split_ascii_whitespace().nth(5)?;
        path.contains("libgcc_s").then(|| path.to_owned())
    });
    fs::read(path.expect("libgcc_s is mapped")).unwrap()
}
