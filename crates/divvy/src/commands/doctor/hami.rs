//! `divvy doctor --hami`: which library limits each process of the machine that uses a GPU.
//!
//! After HAMi's or nvshare's library was replaced by Divvy's, some programs may still run with the old one, and HAMi's
//! plugin may have put its own back: the file's name says nothing, since all of them answer to it. A library is
//! Divvy's where its file says so, and limits a process whose variables or tenant hold a limit. A process that has NVML alone takes
//! no memory and needs none. Reads `/proc` and tenants' files alone; processes that may not be looked into are counted and said.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use divvy_policy::variables::{PEER_TENANT, TENANT};
use serde::Serialize;

use super::environment;
use crate::machine::install;
use crate::output::table::TextTable;
use crate::output::{exit_codes, json, out};
use crate::tenants::ledger;

/// A container's tenant, where the library looks for it.
const MOUNTED: &str = "/run/divvy/tenant";
/// Pids that a line names.
const MOST_PIDS: usize = 8;

/// Library that limits a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Limiter {
    Divvy,
    Hami,
    Nvshare,
    /// Divvy's library is there and no limit.
    Unlimited,
    /// It asks NVML alone.
    Unneeded,
    None,
}

impl Limiter {
    fn words(self) -> &'static str {
        match self {
            Self::Divvy => "Divvy",
            Self::Hami => "HAMi-core",
            Self::Nvshare => "nvshare",
            Self::Unlimited => "Divvy, without a limit",
            Self::Unneeded => "nothing; asks NVML alone",
            Self::None => "nothing",
        }
    }
}

/// One process that uses a GPU's library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct GpuProcess {
    pid: u32,
    comm: String,
    limiter: Limiter,
    /// The limiting library, as the process has it mapped.
    library: Option<String>,
    /// Whether that file was replaced since: a restart takes the new one.
    replaced: bool,
}

/// Output of `--json`.
#[derive(Debug, Default, Serialize)]
struct Limited {
    processes: Vec<GpuProcess>,
    /// Processes that may not be looked into.
    unreadable: Vec<u32>,
}

pub(super) fn run(as_json: bool) -> Result<u8> {
    let limited = look(Path::new("/proc"))?;
    if as_json {
        json::print(&limited)?;
    } else {
        out::text(&limited.text())?;
    }
    Ok(if limited.is_all_ours() { 0 } else { exit_codes::NOT_AS_EXPECTED })
}

/// Looks into every process.
fn look(proc: &Path) -> Result<Limited> {
    let mut limited = Limited::default();
    let entries = fs::read_dir(proc).with_context(|| format!("{}", proc.display()))?;
    for entry in entries.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        match fs::read(entry.path().join("maps")) {
            Ok(maps) => limited.processes.extend(judge(&entry.path(), pid, &maps)),
            // It has ended meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => {}
            Err(_) => limited.unreadable.push(pid),
        }
    }
    limited.processes.sort_by_key(|process| process.pid);
    limited.unreadable.sort_unstable();
    Ok(limited)
}

/// The process whose directory and maps these are, and its limiter; `None` where it uses no GPU.
fn judge(directory: &Path, pid: u32, maps: &[u8]) -> Option<GpuProcess> {
    let maps = String::from_utf8_lossy(maps);
    let (mut has_cuda, mut has_nvml) = (false, false);
    // A file has a line for each of its parts.
    let mut found: BTreeMap<Limiter, &str> = BTreeMap::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').and_then(|at| line.get(at..)) else { continue };
        let file = path.strip_suffix(" (deleted)").unwrap_or(path);
        let name = file.rsplit('/').next().unwrap_or_default();
        has_cuda |= name.starts_with("libcuda.so");
        has_nvml |= name.starts_with("libnvidia-ml.so");
        let named = match name {
            _ if name.starts_with("libdivvy") => Limiter::Divvy,
            _ if name.starts_with("libvgpu.so") => Limiter::Hami,
            _ if name.starts_with("libnvshare.so") => Limiter::Nvshare,
            _ => continue,
        };
        if found.values().any(|known| *known == path) {
            continue;
        }
        let ours = is_ours(directory, line, file, file == path);
        let limiter = match ours {
            Some(true) => Limiter::Divvy,
            Some(false) if named == Limiter::Divvy => continue,
            _ => named,
        };
        found.entry(limiter).or_insert(path);
    }
    if !has_cuda && !has_nvml {
        return None;
    }
    let (limiter, path) =
        found.first_key_value().map_or((Limiter::None, None), |(l, p)| (*l, Some(*p)));
    let limiter = match limiter {
        Limiter::Divvy if path.is_some_and(|path| is_limited(directory, path)) => limiter,
        Limiter::Divvy | Limiter::None if !has_cuda => Limiter::Unneeded,
        Limiter::Divvy => Limiter::Unlimited,
        _ => limiter,
    };
    let comm = fs::read(directory.join("comm")).unwrap_or_default();
    Some(GpuProcess {
        pid,
        comm: String::from_utf8_lossy(&comm).trim_end().to_owned(),
        limiter,
        replaced: path.is_some_and(|path| path.ends_with(" (deleted)")),
        library: path.map(str::to_owned),
    })
}

/// Whether a limit holds in the process that has Divvy's library as `library`: in its variables, or in its tenant's files. What
/// cannot be read is taken for one: the library itself refuses memory then.
fn is_limited(directory: &Path, library: &str) -> bool {
    // By that name each process has a tenant of its own.
    let name = library.strip_suffix(" (deleted)").unwrap_or(library);
    let Ok(text) = fs::read(directory.join("environ")) else { return true };
    let pairs = text.split(|byte| *byte == 0).filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((text(&pair[..at]), text(&pair[at + 1..])))
    });
    let variables = environment::variables(pairs);
    let root = directory.join("root");
    let mounted = Some(MOUNTED).filter(|path| root.join(&path[1..]).exists());
    let named = environment::tenant_of(&variables, TENANT).or(mounted);
    if let Some(tenant) = named {
        let files = ledger::read_foreign(&root.join(tenant.trim_start_matches('/')));
        return files
            .map_or(true, |tenant| !tenant.memory.is_empty() || !tenant.compute.is_empty());
    }
    let (memory, share) = environment::rules(&variables);
    !memory.is_empty()
        || !share.rules().is_empty()
        || !environment::asked(&variables).iter().all(|asked| asked.starts_with(PEER_TENANT))
        || name.ends_with("/libnvshare.so")
}

/// Whether the file of a line of a process's maps is Divvy's; `None` where only its name is known.
fn is_ours(directory: &Path, line: &str, file: &str, is_there: bool) -> Option<bool> {
    // The file that is mapped, also when another has its name by now; whoever asks must be root for it.
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let bare = |address: &str| address.trim_start_matches('0').to_owned();
    let mapped = range.map(|(from, to)| format!("map_files/{}-{}", bare(from), bare(to)));
    let mapped = mapped.and_then(|mapped| install::is_ours(&directory.join(mapped)));
    // Root of the process, since a container has mounts of its own.
    let by_name = || install::is_ours(&directory.join("root").join(file.trim_start_matches('/')));
    mapped.or_else(|| is_there.then(by_name).flatten())
}

impl Limited {
    fn is_all_ours(&self) -> bool {
        let is_ours =
            |process: &GpuProcess| matches!(process.limiter, Limiter::Divvy | Limiter::Unneeded);
        self.unreadable.is_empty() && self.processes.iter().all(is_ours)
    }

    fn text(&self) -> String {
        let mut table = TextTable::new(&[">PID", "PROGRAM", "LIMITED BY", "LIBRARY"]);
        for process in &self.processes {
            let library = process.library.clone().unwrap_or_else(|| "-".to_owned());
            let by = process.limiter.words().to_owned();
            table.row([process.pid.to_string(), process.comm.clone(), by, library]);
        }
        let count = |limiter| self.processes.iter().filter(|p| p.limiter == limiter).count();
        let ours = count(Limiter::Divvy);
        let mut text = match self.processes.len() - count(Limiter::Unneeded) {
            0 if self.processes.is_empty() => "No process uses a GPU's library.\n".to_owned(),
            all => format!(
                "{table}\n{ours} of {all} processes that use a GPU's library run under Divvy.\n"
            ),
        };
        if self.processes.iter().any(|process| process.replaced) {
            text.push_str("(deleted): the file was replaced; the program takes the new one when it starts again.\n");
        }
        let hidden = match self.unreadable.len() {
            0 => return text,
            1 => "1 process may".to_owned(),
            some => format!("{some} processes may"),
        };
        let most = self.unreadable.iter().take(MOST_PIDS).map(u32::to_string);
        let mut pids = most.collect::<Vec<_>>().join(", ");
        if self.unreadable.len() > MOST_PIDS {
            pids.push_str(", …");
        }
        let how = match nix::unistd::geteuid().is_root() {
            true => "that takes CAP_SYS_PTRACE, in the machine's pid namespace",
            false => "root may: sudo divvy doctor --hami",
        };
        text.push_str(&format!("{hidden} not be looked into (pid {pids}); {how}\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    const CUDA: &str = "/usr/lib/libcuda.so.1";

    /// A `/proc` of the test's own.
    struct Proc(PathBuf);

    impl Proc {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("divvy-hami-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("self")).unwrap();
            Self(path)
        }

        fn process(&self, pid: u32, mapped: &[&str]) -> PathBuf {
            let directory = self.0.join(pid.to_string());
            fs::create_dir_all(directory.join("root/usr/local/vgpu")).unwrap();
            let line = |path: &&str| {
                let part = format!("{path}\n7f10-7f20 rw-p 00001000 08:01 7 {path}\n");
                format!("7f00-7f10 r-xp 00000000 08:01 7    {part}")
            };
            let maps: String = mapped.iter().map(line).collect();
            fs::write(directory.join("maps"), format!("{maps}7fff-8000 rw-p 0 00:00 0 [stack]\n"))
                .unwrap();
            fs::write(directory.join("comm"), format!("p{pid}\n")).unwrap();
            fs::write(directory.join("environ"), "DIVVY_MEMORY=1GiB\0").unwrap();
            directory
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_process_is_limited_by_what_holds_in_it() {
        let proc = Proc::new("held");
        let ours = "/opt/libdivvy.so";
        let process = |pid, mapped: &[&str], environ: &str| {
            fs::write(proc.process(pid, mapped).join("environ"), environ).unwrap();
        };
        process(1, &[ours, CUDA], "HOME=/\0CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/x.cache\0");
        process(2, &[ours, CUDA], "CUDA_DEVICE_MEMORY_LIMIT_0=100m\0");
        process(3, &[ours, CUDA], "CUDA_DEVICE_SM_LIMIT=30\0");
        process(4, &[ours, "/x/libnvidia-ml.so.1"], "HOME=/\0");
        process(5, &["/x/libnvidia-ml.so.1"], "HOME=/\0");
        process(6, &["/usr/local/vgpu/libvgpu.so", "/x/libnvidia-ml.so.1"], "");
        for pid in [7, 8] {
            process(pid, &[ours, CUDA], "DIVVY_TENANT=/t\0");
            let tenant = proc.0.join(pid.to_string()).join("root/t");
            fs::create_dir_all(&tenant).unwrap();
            fs::set_permissions(&tenant, fs::Permissions::from_mode(0o700)).unwrap();
            let mut config = divvy_abi::config::Config::default();
            if pid == 8 {
                config.rules[0] = divvy_policy::limit::parse_rule("1GiB").unwrap();
                config.rule_count = 1;
            }
            ledger::write_config(&tenant, &config).unwrap();
        }
        let limited = look(&proc.0).unwrap();
        let by: Vec<_> = limited.processes.iter().map(|p| (p.pid, p.limiter)).collect();
        let expected = [
            (1, Limiter::Unlimited),
            (2, Limiter::Divvy),
            (3, Limiter::Divvy),
            (4, Limiter::Unneeded),
            (5, Limiter::Unneeded),
            (6, Limiter::Hami),
            (7, Limiter::Unlimited),
            (8, Limiter::Divvy),
        ];
        assert_eq!(by, expected);
        assert!(limited.text().contains("3 of 6 processes"), "{}", limited.text());
        let only = |limiter| Limited {
            processes: limited.processes.iter().filter(|p| p.limiter == limiter).cloned().collect(),
            unreadable: Vec::new(),
        };
        assert!(only(Limiter::Unneeded).is_all_ours() && only(Limiter::Divvy).is_all_ours());
        assert!(!only(Limiter::Unlimited).is_all_ours());
    }

    #[test]
    fn each_process_is_under_the_library_that_its_file_is() {
        let proc = Proc::new("library");
        let vgpu = "/usr/local/vgpu/libvgpu.so";
        proc.process(1, &["/bin/sh"]);
        proc.process(2, &["/opt/divvy/lib/divvy/libdivvy-0.1.0-5f.so", CUDA]);
        let swapped = proc.process(3, &[vgpu, CUDA]).join("root").join(&vgpu[1..]);
        fs::write(swapped, b"\x7fELF..\0DIVVY_MEMORY\0..").unwrap();
        let old = proc.process(4, &[CUDA, vgpu]).join("root").join(&vgpu[1..]);
        fs::write(old, b"\x7fELF..\0CUDA_DEVICE_MEMORY_LIMIT\0..").unwrap();
        proc.process(5, &["/x/libnvshare.so (deleted)", "/y/libnvidia-ml.so.1"]);
        proc.process(6, &[CUDA]);
        // Of one that was replaced the mapped file is looked at, where that may be.
        let replaced = proc.process(8, &["/usr/local/vgpu/libvgpu.so (deleted)", CUDA]);
        fs::create_dir(replaced.join("map_files")).unwrap();
        fs::write(replaced.join("map_files/7f00-7f10"), b"..DIVVY_MEMORY..").unwrap();
        // One that may not be looked into: here its maps are no file.
        fs::create_dir_all(proc.0.join("7/maps")).unwrap();
        let limited = look(&proc.0).unwrap();
        let by: Vec<_> = limited.processes.iter().map(|p| (p.pid, p.limiter)).collect();
        let expected = [
            (2, Limiter::Divvy),
            (3, Limiter::Divvy),
            (4, Limiter::Hami),
            (5, Limiter::Nvshare),
            (6, Limiter::None),
            (8, Limiter::Divvy),
        ];
        assert_eq!((by.as_slice(), limited.unreadable.as_slice()), (&expected[..], &[7][..]));
        assert!(!limited.is_all_ours());
        let text = limited.text();
        for line in [
            "  4  p4       HAMi-core   /usr/local/vgpu/libvgpu.so",
            "  6  p6       nothing     -",
            "3 of 6 processes that use a GPU's library run under Divvy.",
            "(deleted): the file was replaced; the program takes the new one when it starts again.",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.contains("1 process may not be looked into (pid 7); "), "{text}");
        let json = serde_json::to_value(&limited).unwrap();
        let nvshare = serde_json::json!({
            "pid": 5, "comm": "p5", "limiter": "nvshare", "library": "/x/libnvshare.so (deleted)",
            "replaced": true,
        });
        assert_eq!(json["processes"][3], nvshare);
        let none = Limited::default();
        assert!(none.is_all_ours() && none.text().starts_with("No process uses"));
    }
}
