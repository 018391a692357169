//! Finds the C clients, and compiles those that the staged tree lacks.
//!
//! They are compiled by gcc against the vendor's headers and linked with the simulated driver under
//! its production name, as somebody else's program would be linked with the real one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use super::{root, stage};

const HEADERS: [(&str, &str); 2] = [
    ("nvidia-cuda-runtime-cu12-12.9.79/nvidia/cuda_runtime/include", "cuda.h"),
    ("nvidia-nvml-dev-cu12-12.9.79/nvidia/nvml_dev/include", "nvml.h"),
];

/// The program made of `tests/clients/<name>.c`.
pub(crate) fn client(name: &str) -> PathBuf {
    let source = root().join("tests/clients").join(format!("{name}.c"));
    let staged = stage().join("clients").join(name);
    if changed(&staged) > changed(&source) && changed(&staged).is_some() {
        return staged;
    }
    build_program(name, &source, &[], &[])
}

/// Compiles `source` and `more` into a program of that name, once per run; `flags` go to gcc.
pub(crate) fn build_program(
    name: &str,
    source: &Path,
    more: &[PathBuf],
    flags: &[&str],
) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = built.get(name) {
        return path.clone();
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
    std::fs::create_dir_all(&folder).expect("the target directory is writable");
    let new = folder.join(format!("{name}.{}", std::process::id()));
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-g", "-Wall"]);
    for (include, header) in HEADERS {
        let include = root().join("target/headers").join(include);
        assert!(
            include.join(header).exists(),
            "{header} is not in {}: cargo test -p divvy-driver-api fetches it",
            include.display()
        );
        gcc.arg("-isystem").arg(include);
    }
    gcc.args(flags).arg(source).args(more).arg("-o").arg(&new);
    gcc.arg("-L").arg(stage().join("sim"));
    let text = std::fs::read_to_string(source).unwrap_or_default();
    for library in libraries(&text) {
        match library {
            "cuda" | "nvidia-ml" => gcc.arg(format!("-l:lib{library}.so.1")),
            other => gcc.arg(format!("-l{other}")),
        };
    }
    gcc.args(["-ldl", "-lpthread"]);
    let output = gcc.output().expect("gcc runs");
    assert!(output.status.success(), "{gcc:?}\n{}", String::from_utf8_lossy(&output.stderr));
    let path = folder.join(name);
    std::fs::rename(&new, &path).expect("the target directory is writable");
    built.insert(name.to_owned(), path.clone());
    path
}

/// The libraries the first line names: `/* link: cuda dl */`.
fn libraries(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .next()
        .and_then(|line| line.trim().strip_prefix("/* link:"))
        .and_then(|rest| rest.strip_suffix("*/"))
        .unwrap_or_default()
        .split_whitespace()
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|data| data.modified()).ok()
}
