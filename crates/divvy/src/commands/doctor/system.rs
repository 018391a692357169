//! The kernel, the C library, the container: what the library's promises rest on.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::output::reason::Reason;
use crate::tenants::tenant_dir;

pub(super) fn look() -> Vec<Finding> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut findings = vec![
        kernel(&read("/proc/sys/kernel/osrelease")),
        glibc(),
        tenant_files(),
        container(&read("/proc/1/cgroup"), &read("/proc/self/mountinfo")),
    ];
    findings.extend(sandbox(&read("/proc/version")));
    findings.extend(auditors(&std::env::var("LD_AUDIT").unwrap_or_default()));
    findings.push(mps());
    findings.extend(mig());
    findings
}

/// 4.14 brought MADV_WIPEONFORK, by which a forked child knows that it is one.
fn kernel(release: &str) -> Finding {
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (4, 14) {
        Finding::ok(Reason::Kernel, format!("Linux {release}"))
    } else {
        Finding::bad(
            Reason::Kernel,
            format!(
                "Linux {release}: forked children cannot be told from their parents before 4.14"
            ),
            "use Linux 4.14 or newer",
        )
    }
}

fn glibc() -> Finding {
    let loader = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    match loader.iter().find(|path| Path::new(path).exists()) {
        Some(path) => {
            let libc = glibc_version().map_or_else(|| "glibc".to_owned(), |v| format!("glibc {v}"));
            Finding::ok(Reason::Glibc, format!("{libc}, loader {path}"))
        }
        None => Finding::bad(
            Reason::Glibc,
            "no glibc loader is installed; programs of musl systems cannot be limited",
            "use a glibc system (Debian, Ubuntu, RHEL); NVIDIA's driver needs one too",
        ),
    }
}

/// glibc's version, read out of the text it carries in itself.
fn glibc_version() -> Option<String> {
    let places =
        ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];
    let file = places.iter().map(|p| Path::new(p).join("libc.so.6")).find(|file| file.is_file())?;
    let bytes = std::fs::read(file).ok()?;
    let mark = b"stable release version ";
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    let rest = bytes.get(at + mark.len()..)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let text: String = digits.map(|byte| char::from(*byte)).collect();
    Some(text.trim_end_matches('.').to_owned()).filter(|text| !text.is_empty())
}

fn tenant_files() -> Finding {
    let roots = tenant_dir::roots(tenant_dir::uid());
    let base = roots.first().and_then(|root| root.parent()).map(PathBuf::from);
    let Some(base) = base else {
        let fix = "mount a tmpfs at /dev/shm, or set XDG_RUNTIME_DIR";
        return Finding::bad(Reason::TenantFiles, "there is no /dev/shm and no /tmp", fix);
    };
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let kind = file_system(&mounts, &base).unwrap_or_else(|| "unknown".to_owned());
    let probe = base.join(format!(".divvy-doctor-{}", std::process::id()));
    let made = std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe));
    if let Err(error) = made {
        let fix = "set XDG_RUNTIME_DIR to a directory of yours";
        let found = format!("{} cannot be written: {error}", base.display());
        return Finding::bad(Reason::TenantFiles, found, fix);
    }
    let found = format!("tenants are made in {} ({kind})", base.display());
    if kind == "tmpfs" {
        Finding::ok(Reason::TenantFiles, found)
    } else {
        Finding::note(Reason::TenantFiles, found)
            .with_fix("a tmpfs (XDG_RUNTIME_DIR or /dev/shm) keeps the ledger off the disk")
    }
}

/// The type of the file system `path` lies on: the longest mount point that begins it.
fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let best = mounts.filter(|(point, _)| path.starts_with(point)).max_by_key(|(p, _)| p.len());
    best.map(|(_, kind)| kind.to_owned())
}

fn container(cgroup: &str, mounts: &str) -> Finding {
    let hints = [
        (Path::new("/.dockerenv").exists(), "Docker"),
        (Path::new("/run/.containerenv").exists(), "Podman"),
        (std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(), "Kubernetes"),
        (cgroup.contains("kubepods"), "kubepods cgroup"),
        (mounts.contains("/containerd/") || cgroup.contains("containerd"), "containerd"),
    ];
    let seen: Vec<&str> = hints.iter().filter(|(seen, _)| *seen).map(|(_, name)| *name).collect();
    if seen.is_empty() {
        return Finding::ok(Reason::Container, "no container is seen");
    }
    Finding::note(Reason::Container, format!("a container: {}", seen.join(", "))).with_fix(
        "processes of several containers share a limit only if they share the tenant's directory",
    )
}

fn sandbox(version: &str) -> Option<Finding> {
    let sandboxed = version.contains("gVisor") || Path::new("/proc/sentry-meminfo").exists();
    sandboxed.then(|| {
        Finding::bad(
            Reason::Sandbox,
            "gVisor: it does not read /etc/ld.so.preload",
            "set LD_PRELOAD in the container (divvy run does), or use another runtime",
        )
    })
}

/// The loader gives each of its auditors a namespace of its own, without what is preloaded.
fn auditors(variable: &str) -> Option<Finding> {
    (!variable.is_empty()).then(|| {
        Finding::note(
            Reason::Auditors,
            format!("LD_AUDIT={variable}: what auditors themselves ask of a driver is not limited"),
        )
    })
}

/// The directory of an MPS daemon that programs started here would use.
pub(super) fn mps_daemon() -> Option<PathBuf> {
    let pipe = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from);
    let place = pipe.unwrap_or_else(|| PathBuf::from("/tmp/nvidia-mps"));
    place.join("control").exists().then_some(place)
}

fn mps() -> Finding {
    if let Some(place) = mps_daemon() {
        return Finding::note(
            Reason::Mps,
            format!(
                "an MPS daemon at {}: contexts of its clients are smaller than charged",
                place.display()
            ),
        );
    }
    Finding::ok(Reason::Mps, "no MPS daemon is seen")
}

fn mig() -> Option<Finding> {
    let entries = std::fs::read_dir("/proc/driver/nvidia/capabilities").ok()?;
    let partitions: usize = entries
        .flatten()
        .filter_map(|gpu| std::fs::read_dir(gpu.path().join("mig")).ok())
        .map(|entries| {
            entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("gi")).count()
        })
        .sum();
    (partitions > 0).then(|| {
        Finding::note(
            Reason::Mig,
            format!("{partitions} MIG instance(s): limits count per instance, by its MIG- UUID"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn old_kernels_are_bad() {
        assert_eq!(kernel("4.13.16-1\n").level, Level::Bad);
        assert_eq!(kernel("").level, Level::Bad);
        assert_eq!(kernel("4.14.0").level, Level::Ok);
        assert_eq!(kernel("6.18.44-fc\n").level, Level::Ok);
    }

    #[test]
    fn the_longest_mount_point_counts() {
        let mounts = "a / ext4 rw 0 0\nb /dev devtmpfs rw 0 0\nc /dev/shm tmpfs rw 0 0\n";
        let kind = |path: &str| file_system(mounts, Path::new(path));
        assert_eq!(kind("/dev/shm/x").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/dev/shmx").as_deref(), Some("devtmpfs"));
        assert_eq!(kind("/tmp").as_deref(), Some("ext4"));
    }

    #[test]
    fn auditors_are_named() {
        assert!(auditors("").is_none());
        let found = auditors("/opt/trace.so").unwrap();
        assert_eq!(found.level, Level::Note);
        assert!(found.found.contains("/opt/trace.so"));
    }

    #[test]
    fn containers_are_hinted_at_by_their_cgroup() {
        assert_eq!(container("0::/kubepods/pod1", "").level, Level::Note);
    }
}
