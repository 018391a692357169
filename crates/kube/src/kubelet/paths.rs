//! Paths of the sockets, as the kubelet looks for them.
//!
//! Both lie in folders of our own, the kubelet looks into those of its registry too: the agent's pod needs no folder in which other
//! drivers' sockets are. Promises: two pods of a rolling update have sockets of their own; a path that the system cannot bind is made shorter, or
//! refused before anything is made. Pure.

use std::path::{Path, PathBuf};

use crate::fnv::{BASIS, fnv_1a};

/// The longest path of a socket.
const MOST_BYTES: usize = 107;

/// Sockets of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletSockets {
    /// The one that the kubelet calls to prepare claims.
    pub service: PathBuf,
    /// The one that the kubelet finds, and asks where the other is.
    pub registration: PathBuf,
}

impl KubeletSockets {
    /// Below the kubelet's folder, which must have the same path in the agent's container as on the host: the kubelet is
    /// told the path. With the UID of the agent's pod, where two pods may run at a time.
    ///
    /// # Errors
    /// In words, where no name is short enough.
    pub fn of(root: &Path, driver: &str, pod_uid: Option<&str>) -> Result<Self, String> {
        let plugins = root.join("plugins").join(driver);
        let registry = root.join("plugins_registry").join(driver);
        let Some(uid) = pod_uid.filter(|uid| !uid.is_empty()) else {
            return Ok(Self {
                service: fitting(&plugins, &["dra.sock".to_owned()])?,
                registration: fitting(&registry, &["reg.sock".to_owned()])?,
            });
        };
        let hash = format!("{:016x}", fnv_1a(fnv_1a(BASIS, driver.as_bytes()), uid.as_bytes()));
        let service = [format!("dra-{uid}.sock"), format!("dra-{hash}.sock")];
        let registration = [format!("{uid}-reg.sock"), format!("{hash}-reg.sock")];
        Ok(Self {
            service: fitting(&plugins, &service)?,
            registration: fitting(&registry, &registration)?,
        })
    }
}

/// The first name that makes a path that can be bound.
fn fitting(folder: &Path, names: &[String]) -> Result<PathBuf, String> {
    let fits = |path: &PathBuf| path.as_os_str().len() <= MOST_BYTES;
    let found = names.iter().map(|name| folder.join(name)).find(fits);
    found.ok_or_else(|| {
        let shortest = names.last().map(String::as_str).unwrap_or_default();
        format!(
            "{} has more than the {MOST_BYTES} bytes of a socket's path; give a shorter --kubelet-root",
            folder.join(shortest).display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "3f0c7a52-1c1f-4f6a-9d3e-0a1b2c3d4e5f";

    fn of(root: &str, driver: &str, uid: Option<&str>) -> (String, String) {
        let sockets = KubeletSockets::of(Path::new(root), driver, uid).unwrap();
        let text = |path: PathBuf| {
            assert!(path.as_os_str().len() <= MOST_BYTES, "{}", path.display());
            path.display().to_string()
        };
        (text(sockets.service), text(sockets.registration))
    }

    #[test]
    fn names_are_those_that_the_kubelet_knows() {
        let root = "/var/lib/kubelet";
        for uid in [None, Some("")] {
            let (service, registration) = of(root, "gpu.divvy.dev", uid);
            assert_eq!(service, "/var/lib/kubelet/plugins/gpu.divvy.dev/dra.sock");
            assert_eq!(registration, "/var/lib/kubelet/plugins_registry/gpu.divvy.dev/reg.sock");
        }
        let (service, registration) = of(root, "gpu.divvy.dev", Some(UID));
        assert_eq!(service, format!("{root}/plugins/gpu.divvy.dev/dra-{UID}.sock"));
        assert_eq!(registration, format!("{root}/plugins_registry/gpu.divvy.dev/{UID}-reg.sock"));
    }

    #[test]
    fn a_path_that_is_too_long_is_hashed_and_then_refused() {
        let root = format!("/{}", "k".repeat(49));
        let driver = "gpu.divvy.dev";
        let (service, registration) = of(&root, driver, Some(UID));
        assert!(service.ends_with(".sock") && !service.contains(UID), "{service}");
        assert!(registration.contains(&format!("/{driver}/")), "{registration}");
        let other = of(&root, driver, Some("another"));
        assert!(other.0 != service && other.1 != registration);
        let error = KubeletSockets::of(Path::new(&format!("/{}", "k".repeat(80))), driver, None);
        assert!(error.unwrap_err().contains("--kubelet-root"));
    }
}
