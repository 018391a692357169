//! Finds NVIDIA's header packages, and fetches those that are missing.
//!
//! They lie where `cargo xtask regen` puts them: `target/headers/<package>-<release>`, or the
//! directory that `DIVVY_HEADERS` names. A package that is not there is fetched with pip; when that
//! fails too the caller is told, so that it can count what it did not compare.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One header set: the version as cuda.h spells it, and the package that holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) version: u32,
    pub(crate) package: &'static str,
    pub(crate) release: &'static str,
    pub(crate) file: &'static str,
}

const fn cuda(version: u32, package: &'static str, release: &'static str) -> Set {
    Set { version, package, release, file: "cuda.h" }
}

const fn nvml(version: u32, package: &'static str, release: &'static str) -> Set {
    Set { version, package, release, file: "nvml.h" }
}

/// The driver headers compared: the first of each major version, the last of 12 and the newest.
pub(crate) const CUDA: &[Set] = &[
    cuda(11080, "nvidia-cuda-runtime-cu11", "11.8.89"),
    cuda(12000, "nvidia-cuda-runtime-cu12", "12.0.146"),
    cuda(12090, "nvidia-cuda-runtime-cu12", "12.9.79"),
    cuda(13000, "nvidia-cuda-runtime", "13.0.96"),
    cuda(13050, "nvidia-cuda-runtime", "13.5.37"),
];

/// The management headers compared.
pub(crate) const NVML: &[Set] = &[
    nvml(12090, "nvidia-nvml-dev-cu12", "12.9.79"),
    nvml(13000, "nvidia-nvml-dev", "13.0.87"),
    nvml(13050, "nvidia-nvml-dev", "13.5.37"),
];

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The include directory of `set`, fetched if need be; `None` after a counted skip was printed.
pub(crate) fn include(set: Set) -> Option<PathBuf> {
    let base = std::env::var_os("DIVVY_HEADERS")
        .map_or_else(|| root().join("target/headers"), PathBuf::from);
    let package = base.join(format!("{}-{}", set.package, set.release));
    if let Some(found) = find(&package, set.file) {
        return Some(found);
    }
    let fetched = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"])
        .args(["--root-user-action=ignore", "--only-binary=:all:", "--target"])
        .arg(&package)
        .arg(format!("{}=={}", set.package, set.release))
        .status();
    let found = find(&package, set.file);
    if found.is_none() {
        println!(
            "SKIPPED 1: headers of {} {} absent from {} and not to be had with pip ({fetched:?})",
            set.package,
            set.release,
            base.display()
        );
    }
    found
}

fn find(package: &Path, file: &str) -> Option<PathBuf> {
    ["cuda_runtime", "cu13", "nvml_dev"]
        .iter()
        .map(|part| package.join("nvidia").join(part).join("include"))
        .find(|dir| dir.join(file).exists())
}
