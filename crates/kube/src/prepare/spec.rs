//! Files that a container runtime reads: the CDI spec of a tenant, and the list of what to preload.
//!
//! The mounts are those of `divvy cdi`, which a test compares; but the tenant is the daemon's, so its directory itself is
//! mounted and named, and there are no limits in the environment.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::ids;
use super::settings::PreloadBy;

/// The version of the specification: the oldest in which names may hold a dot and begin with a digit.
const CDI_VERSION: &str = "0.5.0";
/// Where the library lies in a container.
const LIBRARY: &str = "/usr/local/divvy/libdivvy.so";
/// Where the loader looks for what to preload.
const PRELOAD: &str = "/etc/ld.so.preload";
/// Where a container has its tenant. The library looks there where no variable names one, so that what clears variables
/// (`sudo`, `ssh`, `cron`) loses no limit; of two tenants in a container the last is mounted.
const TENANT: &str = "/run/divvy/tenant";

/// Places on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparePlaces {
    /// Folder of the checkpoint, and of what containers mount; outlives a reboot, and has the same path on the host.
    pub state: PathBuf,
    /// Folder of CDI files, such as `/var/run/cdi`.
    pub cdi: PathBuf,
    /// The library on the host.
    pub library: PathBuf,
    /// Vendor and class of the card's own CDI devices, such as `nvidia.com/gpu`.
    pub card_kind: String,
    /// The kernel's id of this boot.
    pub boot_id: String,
}

/// The kernel's id of this boot.
///
/// # Errors
/// The system's.
pub fn boot_id() -> std::io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

impl PreparePlaces {
    pub(super) fn checkpoint(&self) -> PathBuf {
        self.state.join("checkpoint.json")
    }

    /// Where one goes that could not be read.
    pub(super) fn garbled(&self) -> PathBuf {
        self.state.join("checkpoint.json.garbled")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.state.join("checkpoint.lock")
    }

    /// The file that becomes a container's `/etc/ld.so.preload`.
    pub(super) fn preload(&self) -> PathBuf {
        self.state.join("ld.so.preload")
    }

    pub(super) fn cdi_file(&self, id: &str) -> PathBuf {
        self.cdi.join(ids::cdi_file(id))
    }

    /// CDI device of the card itself.
    pub(super) fn card(&self, gpu_uuid: &str) -> String {
        format!("{}={gpu_uuid}", self.card_kind)
    }
}

/// Text of the file that becomes `/etc/ld.so.preload`.
pub(super) fn preload_text() -> String {
    format!("{LIBRARY}\n")
}

/// Things that a container is given of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEdits {
    /// Variables.
    pub env: Vec<(String, String)>,
    /// Mounts.
    pub mounts: Vec<ContainerMount>,
}

/// A file or folder of the host in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerMount {
    /// Where it is on the host.
    pub host_path: PathBuf,
    /// Where it is in the container.
    pub container_path: String,
    /// Whether the container may not write there.
    pub is_read_only: bool,
}

/// A spec: <https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md>.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CdiSpec<'a> {
    cdi_version: &'static str,
    kind: &'static str,
    devices: [CdiDevice<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CdiDevice<'a> {
    name: &'a str,
    container_edits: CdiEdits<'a>,
}

#[derive(Debug, Serialize)]
struct CdiEdits<'a> {
    env: Vec<String>,
    mounts: Vec<CdiMount<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CdiMount<'a> {
    host_path: &'a Path,
    container_path: &'a str,
    options: [&'static str; 4],
}

/// Things that a container is given of the tenant that lies in `directory`.
pub(super) fn edits(
    places: &PreparePlaces,
    directory: &Path,
    preload: PreloadBy,
) -> ContainerEdits {
    let mount = |host_path: &Path, container_path: &str, is_read_only| ContainerMount {
        host_path: host_path.to_owned(),
        container_path: container_path.to_owned(),
        is_read_only,
    };
    let mut env = vec![("DIVVY_TENANT".to_owned(), TENANT.to_owned())];
    let mut mounts = vec![mount(&places.library, LIBRARY, true)];
    match preload {
        PreloadBy::File => mounts.push(mount(&places.preload(), PRELOAD, true)),
        PreloadBy::Variable => env.push(("LD_PRELOAD".to_owned(), LIBRARY.to_owned())),
    }
    mounts.push(mount(directory, TENANT, false));
    ContainerEdits { env, mounts }
}

/// Text of the spec of the tenant `id`.
pub(super) fn text(id: &str, edits: &ContainerEdits) -> serde_json::Result<String> {
    let mounts = edits.mounts.iter().map(|it| CdiMount {
        host_path: &it.host_path,
        container_path: &it.container_path,
        options: [if it.is_read_only { "ro" } else { "rw" }, "nosuid", "nodev", "bind"],
    });
    let env = edits.env.iter().map(|(name, value)| format!("{name}={value}"));
    let container_edits = CdiEdits { env: env.collect(), mounts: mounts.collect() };
    let devices = [CdiDevice { name: id, container_edits }];
    let spec = CdiSpec { cdi_version: CDI_VERSION, kind: ids::KIND, devices };
    Ok(serde_json::to_string_pretty(&spec)? + "\n")
}
