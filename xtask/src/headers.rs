//! NVIDIA's header files, for generation and for the C programs that are compiled against them.
//!
//! They are fetched once, with pip, from the vendor's own Python packages into
//! `target/headers/<package>-<version>`; nothing of them is ever committed. Offline, a caller gets
//! an error that names the package.

#[cfg(feature = "regen")]
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A CUDA version as cuda.h spells it: 11080 is 11.8.
#[cfg(feature = "regen")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version(pub(crate) u32);

#[cfg(feature = "regen")]
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// One unpacked header package.
#[cfg(feature = "regen")]
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// The CUDA version it belongs to.
    pub(crate) version: Version,
    /// Its include directory.
    pub(crate) include: PathBuf,
}

/// Every runtime header set the table is made from, oldest first.
const CUDA: &[(u32, &str, &str)] = &[
    (11080, "nvidia-cuda-runtime-cu11", "11.8.89"),
    (12000, "nvidia-cuda-runtime-cu12", "12.0.146"),
    (12010, "nvidia-cuda-runtime-cu12", "12.1.105"),
    (12020, "nvidia-cuda-runtime-cu12", "12.2.140"),
    (12030, "nvidia-cuda-runtime-cu12", "12.3.101"),
    (12040, "nvidia-cuda-runtime-cu12", "12.4.127"),
    (12050, "nvidia-cuda-runtime-cu12", "12.5.82"),
    (12060, "nvidia-cuda-runtime-cu12", "12.6.77"),
    (12080, "nvidia-cuda-runtime-cu12", "12.8.90"),
    (12090, "nvidia-cuda-runtime-cu12", "12.9.79"),
    (13000, "nvidia-cuda-runtime", "13.0.96"),
    (13010, "nvidia-cuda-runtime", "13.1.80"),
    (13020, "nvidia-cuda-runtime", "13.2.86"),
    (13030, "nvidia-cuda-runtime", "13.3.29"),
    (13040, "nvidia-cuda-runtime", "13.4.92"),
    (13050, "nvidia-cuda-runtime", "13.5.37"),
];

/// The management headers, oldest first.
const NVML: &[(u32, &str, &str)] = &[
    (12090, "nvidia-nvml-dev-cu12", "12.9.79"),
    (13000, "nvidia-nvml-dev", "13.0.87"),
    (13050, "nvidia-nvml-dev", "13.5.37"),
];

/// The driver headers.
#[cfg(feature = "regen")]
pub(crate) fn cuda(root: &Path) -> Result<Vec<Header>> {
    all(root, CUDA, "cuda.h")
}

/// The NVML headers.
#[cfg(feature = "regen")]
pub(crate) fn nvml(root: &Path) -> Result<Vec<Header>> {
    all(root, NVML, "nvml.h")
}

/// Headers that C clients are compiled against: the last of CUDA 12, driver and NVML.
pub(crate) fn client_includes(root: &Path) -> Result<Vec<PathBuf>> {
    let newest_of_12 = |list: &[(u32, &'static str, &'static str)]| {
        list.iter().copied().rfind(|(version, ..)| version / 1000 == 12)
    };
    let cuda = newest_of_12(CUDA).context("no CUDA 12 headers are listed")?;
    let nvml = newest_of_12(NVML).context("no NVML 12 headers are listed")?;
    Ok(vec![one(root, cuda.1, cuda.2, "cuda.h")?, one(root, nvml.1, nvml.2, "nvml.h")?])
}

#[cfg(feature = "regen")]
fn all(root: &Path, list: &[(u32, &str, &str)], file: &str) -> Result<Vec<Header>> {
    list.iter()
        .map(|&(version, package, release)| {
            let include = one(root, package, release, file)?;
            Ok(Header { version: Version(version), include })
        })
        .collect()
}

fn one(root: &Path, package: &str, release: &str, file: &str) -> Result<PathBuf> {
    let into = root.join("target/headers").join(format!("{package}-{release}"));
    if let Some(found) = include_dir(&into, file) {
        return Ok(found);
    }
    eprintln!("fetching {package} {release}");
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"])
        .args(["--root-user-action=ignore", "--only-binary=:all:", "--target"])
        .arg(&into)
        .arg(format!("{package}=={release}"))
        .status()
        .context("python3 -m pip")?;
    if !status.success() {
        bail!("the headers of {package} {release} could not be fetched with pip ({status})");
    }
    include_dir(&into, file).with_context(|| format!("{package} {release} holds no {file}"))
}

fn include_dir(package: &Path, file: &str) -> Option<PathBuf> {
    ["cuda_runtime", "cu13", "nvml_dev"]
        .iter()
        .map(|part| package.join("nvidia").join(part).join("include"))
        .find(|dir| dir.join(file).exists())
}
