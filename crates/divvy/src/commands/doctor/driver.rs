//! The driver and the library: found, of one version, and what of the one the other hooks.
//!
//! The driver's file is read, never loaded. What is hooked is read out of libdivvy.so itself (it
//! exports exactly its hooks), so this cannot claim more than what is installed does.

use std::collections::BTreeSet;
use std::path::Path;

use divvy_driver_api::{DRIVER, Effect, NVML, UNDOCUMENTED, find};

use super::finding::Finding;
use crate::machine::loader::find_library;
use crate::machine::{elf, gpus, install};
use crate::output::reason::Reason;

/// Families in which an unknown name may take memory or work past the limits.
const SENSITIVE: [&str; 15] = [
    "cuArray",
    "cuCtx",
    "cuDevicePrimaryCtx",
    "cuGraph",
    "cuGreen",
    "cuImport",
    "cuIpc",
    "cuKernel",
    "cuLaunch",
    "cuLibrary",
    "cuLogicalEndpoint",
    "cuMem",
    "cuMipmappedArray",
    "cuModule",
    "cuMulticast",
];

/// Effects that a limit of memory needs.
const MEMORY_EFFECTS: [Effect; 4] =
    [Effect::Account, Effect::Answer, Effect::Observe, Effect::Refuse];
/// Effects that a share of device time needs.
const TIME_EFFECTS: [Effect; 2] = [Effect::Gate, Effect::Span];

/// Names shown before a list is cut.
const SHOWN: usize = 6;

pub(super) fn look() -> Vec<Finding> {
    let module = gpus::module_version(Path::new(gpus::PROC));
    let cuda = find_library("libcuda.so.1");
    let mut findings = vec![kernel_module(module.as_deref()), device_files()];
    findings.push(library(Reason::DriverLibrary, "libcuda.so.1", cuda.as_deref()));
    let nvml = find_library("libnvidia-ml.so.1");
    findings.push(library(Reason::NvmlLibrary, "libnvidia-ml.so.1", nvml.as_deref()));
    findings.extend(versions(module.as_deref(), cuda.as_deref()));
    findings.extend(shim(cuda.as_deref()));
    findings
}

fn kernel_module(version: Option<&str>) -> Finding {
    let Some(version) = version else {
        return Finding::note(Reason::KernelModule, "no NVIDIA kernel module is loaded").with_fix(
            "on a machine without a GPU use the simulated one: divvy run --sim, divvy demo --sim",
        );
    };
    let gpus = gpus::list(Path::new(gpus::PROC));
    let list: Vec<_> = gpus.iter().map(|gpu| format!("{} {}", gpu.name, gpu.uuid)).collect();
    Finding::ok(
        Reason::KernelModule,
        format!("NVIDIA kernel module {version}; {} GPU(s): {}", gpus.len(), list.join(", ")),
    )
}

fn device_files() -> Finding {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut files: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            name.strip_prefix("nvidia").is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
            })
        })
        .collect();
    files.sort();
    let openable = |name: &String| {
        std::fs::File::options().read(true).write(true).open(Path::new("/dev").join(name)).is_ok()
    };
    let closed: Vec<&String> = files.iter().filter(|name| !openable(name)).collect();
    if files.is_empty() {
        Finding::note(Reason::DeviceFiles, "no /dev/nvidia0: this process sees no GPU")
    } else if closed.is_empty() {
        Finding::ok(Reason::DeviceFiles, format!("/dev/{}", files.join(", /dev/")))
    } else {
        Finding::bad(
            Reason::DeviceFiles,
            format!(
                "{} of {} device files cannot be opened: {closed:?}",
                closed.len(),
                files.len()
            ),
            "give this user read and write permission on them",
        )
    }
}

/// Parts of a driver that are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DriverParts {
    /// Its library, and a GPU that it may find.
    Ready,
    /// Its library, and no GPU.
    NoGpu,
    /// Nothing.
    None,
}

pub(super) fn driver() -> DriverParts {
    let Some(cuda) = find_library("libcuda.so.1") else { return DriverParts::None };
    let simulated = cuda.canonicalize().is_ok_and(|real| is_simulated(&real));
    let devices = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"];
    let has_gpu = simulated || devices.iter().any(|path| Path::new(path).exists());
    if has_gpu { DriverParts::Ready } else { DriverParts::NoGpu }
}

/// Whether a driver's library is the simulated one: its NVML knows no kernel module, its file no version.
fn is_simulated(real: &Path) -> bool {
    real.to_string_lossy().contains("libsim")
        || real.parent().is_some_and(|folder| folder.join("simgpud").exists())
}

fn library(code: Reason, name: &str, path: Option<&Path>) -> Finding {
    match path {
        None => Finding::note(code, format!("{name} was not found"))
            .with_fix("install the NVIDIA driver, or use the simulated GPU (--sim)"),
        Some(path) => {
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let version =
                file_version(&real).map_or_else(String::new, |v| format!(", version {v}"));
            let kind = if is_simulated(&real) { " (Divvy's simulated driver)" } else { "" };
            Finding::ok(code, format!("{}{version}{kind}", path.display()))
        }
    }
}

/// `580.159.04` of `libcuda.so.580.159.04`.
fn file_version(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let version = name.split_once(".so.")?.1;
    gpus::is_version(version).then(|| version.to_owned())
}

fn versions(module: Option<&str>, cuda: Option<&Path>) -> Option<Finding> {
    let module = module?;
    let library = file_version(&cuda?.canonicalize().ok()?)?;
    Some(if library == module {
        Finding::ok(Reason::DriverVersions, format!("library and kernel module are both {module}"))
    } else {
        Finding::bad(
            Reason::DriverVersions,
            format!("libcuda is {library} and the kernel module {module}"),
            "restart after a driver update, or give the container the host's driver libraries \
             (a compatibility package of CUDA is the exception that works)",
        )
    })
}

fn shim(cuda: Option<&Path>) -> Vec<Finding> {
    let path = match install::library() {
        Ok(path) => path,
        Err(error) => {
            let fix = "build it, or name it by DIVVY_LIBRARY";
            return vec![Finding::bad(Reason::ShimLibrary, format!("{error:#}"), fix)];
        }
    };
    let mut findings =
        vec![Finding::ok(Reason::ShimLibrary, format!("{}", path.display())), shim_needs(&path)];
    match elf::exports(&path) {
        Ok(hooks) => findings.extend(coverage(&hooks, cuda)),
        Err(error) => findings.push(Finding::bad(
            Reason::ShimLibrary,
            format!("{}: {error:#}", path.display()),
            "build it anew",
        )),
    }
    findings
}

fn shim_needs(path: &Path) -> Finding {
    let needed = elf::read(path).map(|elf| elf.needed).unwrap_or_default();
    let versions = elf::demanded_versions(path).unwrap_or_default();
    let newest = newest_glibc(&versions);
    let found = format!("libdivvy.so needs {}, {newest}", needed.join(", "));
    let known = ["libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    if needed.iter().all(|name| known.contains(&name.as_str())) {
        Finding::ok(Reason::ShimNeeds, found)
    } else {
        Finding::bad(
            Reason::ShimNeeds,
            found,
            "use a released build: a program without these libraries would not start",
        )
    }
}

fn newest_glibc(versions: &BTreeSet<String>) -> String {
    let number = |name: &&String| {
        let digits = name.strip_prefix("GLIBC_")?;
        digits.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>()
    };
    versions
        .iter()
        .filter(|name| number(name).is_some())
        .max_by_key(number)
        .cloned()
        .unwrap_or_else(|| "no version of glibc".to_owned())
}

fn coverage(hooks: &BTreeSet<String>, cuda: Option<&Path>) -> Vec<Finding> {
    let table = || DRIVER.iter().chain(NVML);
    let hooked = |entry: &&divvy_driver_api::Entry| hooks.contains(entry.name);
    let driver = DRIVER.iter().filter(hooked).count();
    let nvml = NVML.iter().filter(hooked).count();
    let passed = table().filter(|entry| !hooked(entry)).count();
    let mut findings = vec![Finding::ok(
        Reason::Hooks,
        format!(
            "{driver} of {} driver and {nvml} of {} NVML entry points are hooked; {passed} are the \
             driver's own, untouched",
            DRIVER.len(),
            NVML.len()
        ),
    )];
    let missing = |effects: &[Effect]| -> Vec<&str> {
        let wanted = |entry: &&divvy_driver_api::Entry| {
            effects.iter().any(|effect| entry.effects.has(*effect)) && entry.in_driver_580
        };
        table().filter(wanted).filter(|entry| !hooked(entry)).map(|entry| entry.name).collect()
    };
    let together = "use a libdivvy.so of this version; the library and the binary belong together";
    let memory = missing(&MEMORY_EFFECTS);
    if !memory.is_empty() {
        findings.push(Finding::bad(
            Reason::NotHooked,
            format!(
                "{} entry points of memory families are not hooked: {}",
                memory.len(),
                cut(&memory)
            ),
            together,
        ));
    }
    let time = missing(&TIME_EFFECTS);
    findings.push(if time.is_empty() {
        Finding::ok(
            Reason::ComputeShare,
            "device time is measured and held to caps and turns: all entry points it takes are hooked",
        )
    } else {
        Finding::bad(
            Reason::ComputeShare,
            format!("{} entry points that submit work are not hooked: {}", time.len(), cut(&time)),
            together,
        )
    });
    if let Some(exported) = cuda.and_then(|path| elf::exports(path).ok()) {
        findings.push(uncovered(&exported));
    }
    findings
}

/// The driver's names go on with a capital; its debugger interface (`cudbg…`) is none of them.
fn is_entry_point(name: &str) -> bool {
    name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

fn uncovered(exported: &BTreeSet<String>) -> Finding {
    let unknown: Vec<&str> = exported
        .iter()
        .map(String::as_str)
        .filter(|name| is_entry_point(name) && find(name).is_none() && !UNDOCUMENTED.contains(name))
        .collect();
    let total = exported.iter().filter(|name| is_entry_point(name)).count();
    let sensitive: Vec<&str> = unknown
        .iter()
        .copied()
        .filter(|name| SENSITIVE.iter().any(|family| name.starts_with(family)))
        .collect();
    if sensitive.is_empty() {
        return Finding::ok(
            Reason::Uncovered,
            format!(
                "the driver exports {total} entry points, {} of them unknown here",
                unknown.len()
            ),
        );
    }
    Finding::bad(
        Reason::Uncovered,
        format!(
            "the driver exports {total} entry points; {} unknown ones may take memory past the limit: {}",
            sensitive.len(),
            cut(&sensitive)
        ),
        "use divvy run --strict, which refuses them, or a newer Divvy",
    )
}

fn cut(names: &[&str]) -> String {
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_library_without_its_hooks_is_bad() {
        let findings = coverage(&set(&["cuMemAlloc_v2"]), None);
        for code in [Reason::NotHooked, Reason::ComputeShare] {
            let missing = findings.iter().find(|finding| finding.code == code).unwrap();
            assert_eq!(missing.level, Level::Bad);
        }
        let all = DRIVER.iter().chain(NVML).map(|entry| entry.name.to_owned()).collect();
        assert!(coverage(&all, None).iter().all(|finding| finding.level == Level::Ok));
    }

    #[test]
    fn unknown_names_of_memory_families_are_bad_and_others_are_not() {
        assert_eq!(uncovered(&set(&["cuMemAlloc_v2", "cuInit"])).level, Level::Ok);
        assert_eq!(uncovered(&set(&["cuNewThing", "other"])).level, Level::Ok);
        let bad = uncovered(&set(&["cuMemFrobnicate", "cuInit"]));
        assert_eq!(bad.level, Level::Bad);
        assert!(bad.found.contains("cuMemFrobnicate"), "{}", bad.found);
    }

    #[test]
    fn versions_are_read_from_names() {
        let version = |name: &str| file_version(Path::new(name));
        assert_eq!(version("/l/libcuda.so.580.159.04").as_deref(), Some("580.159.04"));
        assert_eq!(version("/l/libsimcuda.so"), None);
        assert_eq!(version("/l/libcuda.so.1"), None);
        assert_eq!(newest_glibc(&set(&["GLIBC_2.9", "GLIBC_2.17", "GCC_3.0"])), "GLIBC_2.17");
    }

    #[test]
    fn lists_are_cut() {
        assert_eq!(cut(&["a", "b"]), "a, b");
        assert!(cut(&["a"; 9]).ends_with(", …"));
    }
}
