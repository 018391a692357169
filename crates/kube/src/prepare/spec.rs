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
    container_path: &'static str,
    options: [&'static str; 4],
}

/// Text of the spec of the tenant `id`, which lies in `directory`.
pub(super) fn text(
    places: &PreparePlaces,
    id: &str,
    directory: &Path,
    preload: PreloadBy,
) -> serde_json::Result<String> {
    let mount = |host_path, container_path, access| CdiMount {
        host_path,
        container_path,
        options: [access, "nosuid", "nodev", "bind"],
    };
    let mut env = vec![format!("DIVVY_TENANT={TENANT}")];
    let mut mounts = vec![mount(&places.library, LIBRARY, "ro")];
    let list = places.preload();
    match preload {
        PreloadBy::File => mounts.push(mount(&list, PRELOAD, "ro")),
        PreloadBy::Variable => env.push(format!("LD_PRELOAD={LIBRARY}")),
    }
    mounts.push(mount(directory, TENANT, "rw"));
    let container_edits = CdiEdits { env, mounts };
    let devices = [CdiDevice { name: id, container_edits }];
    let spec = CdiSpec { cdi_version: CDI_VERSION, kind: ids::KIND, devices };
    Ok(serde_json::to_string_pretty(&spec)? + "\n")
}
