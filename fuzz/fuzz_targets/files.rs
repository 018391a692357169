//! `bodies/files.rs` under libFuzzer.
#![no_main]

#[path = "../bodies/files.rs"]
mod body;

use std::path::PathBuf;
use std::sync::LazyLock;

static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
    let shm = std::path::Path::new("/dev/shm");
    let base = if shm.is_dir() { shm.to_path_buf() } else { std::env::temp_dir() };
    let path = base.join(format!("divvy-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory");
    path
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(&DIRECTORY, data));
