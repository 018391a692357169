//! Where the other parts of Divvy are: the library, the simulated driver, the small C clients.
//!
//! Each is looked for by an environment variable first, then beside the binary (a build tree, a
//! tarball), then in `../lib/divvy` (an installed tree); the library last of all among what is preloaded here. Nothing is searched by LD_LIBRARY_PATH: what
//! is loaded into programs must be the one that belongs to this binary.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Name of the benchmarks' program.
pub(crate) const BENCH: &str = "divvy-bench";
/// Name of the program for Kubernetes.
pub(crate) const KUBE: &str = "divvy-kube";
/// Name of the library.
const LIBRARY: &str = "libdivvy.so";
/// Most bytes of a library that are looked at.
const MOST_BYTES: u64 = 16 << 20;
/// Text in every `libdivvy.so`, a variable that no other library reads.
const MARK: &[u8] = b"DIVVY_MEMORY";

/// The directories searched, in order, for a part that lies in `inner`.
fn places(inner: &str) -> Vec<PathBuf> {
    let Ok(binary) = std::env::current_exe() else { return Vec::new() };
    let Some(beside) = binary.parent() else { return Vec::new() };
    match inner {
        "" => ["", "../lib/divvy", "../lib"].map(|place| beside.join(place)).to_vec(),
        _ => ["", "../lib/divvy", ".."].map(|place| beside.join(place).join(inner)).to_vec(),
    }
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{} cannot be resolved", path.display()))
}

/// Whether a file of this name may be the library: as it is called, in any version, or HAMi-core's or nvshare's.
pub(crate) fn is_library_name(name: &str) -> bool {
    let is_one = |stem: &str| {
        let rest = name.strip_prefix(stem);
        rest.is_some_and(|rest| rest.starts_with(['.', '-']) && rest.contains(".so"))
    };
    ["libdivvy", "libvgpu", "libnvshare"].into_iter().any(is_one)
}

/// Another program of ours, which lies beside this one.
///
/// # Errors
/// Names the place where it is missing, and how it gets there.
pub fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own file is not known")?;
    let path = own.with_file_name(name);
    if !path.is_file() {
        bail!(
            "{} is missing; put it there from the folder that {} came in",
            path.display(),
            own.display()
        );
    }
    Ok(path)
}

/// The library to preload, by the file's own name: where that is a link, the version it leads to now, which
/// a program's children get too when the link leads elsewhere.
///
/// # Errors
/// Names every place searched.
pub fn library() -> Result<PathBuf> {
    preloadable(&absolute(&library_found()?)?)
}

/// The same by the name that it was found under: for what gets the version that is installed by then.
///
/// # Errors
/// As [`library`].
pub(crate) fn library_link() -> Result<PathBuf> {
    link(&library_found()?)
}

/// `path` with its directory resolved, and the last name as it is.
pub(crate) fn link(path: &Path) -> Result<PathBuf> {
    // That it leads somewhere is seen now.
    absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => {
            let folder = if folder == Path::new("") { Path::new(".") } else { folder };
            Ok(absolute(folder)?.join(name))
        }
        _ => absolute(path),
    }
}

/// Advice where a part is missing: `cargo install` brings the command alone, and the others go where this one looks for
/// them.
fn how_parts_come() -> String {
    let own = std::env::current_exe().ok();
    let prefix = own.as_deref().and_then(Path::parent).and_then(Path::parent);
    format!(
        "in Divvy's sources, `$(cargo xtask stage)/bin/divvy install {}` builds all parts and puts them where \
         they are found, and `bin/divvy install` of a release does so too",
        prefix.unwrap_or(Path::new("PREFIX")).display()
    )
}

fn library_found() -> Result<PathBuf> {
    if let Some(path) = named("DIVVY_LIBRARY") {
        if !path.is_file() {
            bail!("DIVVY_LIBRARY names {}, which is no file; correct or unset it", path.display());
        }
        return Ok(path);
    }
    let places = places("");
    let found = places.iter().map(|place| place.join(LIBRARY)).find(|path| path.is_file());
    found.or_else(preloaded).with_context(|| {
        let list: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        let how = how_parts_come();
        format!(
            "{LIBRARY} was not found in {}; {how}; or name it by DIVVY_LIBRARY",
            list.join(", ")
        )
    })
}

/// The library that everything here starts with, under whatever name: in containers it is all there is.
fn preloaded() -> Option<PathBuf> {
    let variable = std::env::var("LD_PRELOAD").unwrap_or_default();
    let file = fs::read_to_string("/etc/ld.so.preload").unwrap_or_default();
    let mut paths = preload_entries(&variable, &file).map(|(_, entry)| PathBuf::from(entry));
    paths.find(|path| path.is_absolute() && is_ours(path) == Some(true))
}

/// Entries that the loader preloads, by `LD_PRELOAD` and by the text of `/etc/ld.so.preload`: where each stands, and its path.
pub(crate) fn preload_entries<'a>(
    variable: &'a str,
    file: &'a str,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let lines = file.lines().filter(|line| !line.trim_start().starts_with('#'));
    let from_file = lines.flat_map(|line| line.split([' ', ':', '\t']));
    variable
        .split([' ', ':', '\t', '\n'])
        .map(|entry| ("LD_PRELOAD", entry))
        .chain(from_file.map(|entry| ("/etc/ld.so.preload", entry)))
        .filter(|(_, entry)| !entry.is_empty())
}

/// Whether this file is `libdivvy.so`, under whatever name; `None` where it cannot be read.
pub(crate) fn is_ours(path: &Path) -> Option<bool> {
    // A pipe with such a name is not waited for, also where it comes in a file's place this moment.
    let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let file = fs::File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut bytes = Vec::new();
    let is_file = file.metadata().is_ok_and(|status| status.is_file());
    let is_read = is_file && file.take(MOST_BYTES).read_to_end(&mut bytes).is_ok();
    is_read.then(|| bytes.windows(MARK.len()).any(|part| part == MARK))
}

fn preloadable(path: &Path) -> Result<PathBuf> {
    let text = path.to_str().unwrap_or("");
    if text.is_empty() || text.contains([' ', ':', '\t', '\n']) {
        bail!(
            "{} cannot be preloaded: LD_PRELOAD takes no path with spaces or colons; move it",
            path.display()
        );
    }
    Ok(path.to_owned())
}

/// `LD_PRELOAD` with `library` first, keeping what was there.
pub(crate) fn preload(library: &Path, before: Option<&OsStr>) -> std::ffi::OsString {
    let mut value = library.as_os_str().to_owned();
    let old = before.map(OsStr::to_string_lossy).unwrap_or_default();
    let others: Vec<&str> = old
        .split([' ', ':', '\t', '\n'])
        .filter(|entry| !entry.is_empty() && Path::new(entry) != library)
        .collect();
    for other in others {
        value.push(":");
        value.push(other);
    }
    value
}

/// The simulated driver: a directory with both libraries, and the machine's daemon.
#[derive(Debug)]
pub(crate) struct Simulator {
    /// Holds `libcuda.so.1` and `libnvidia-ml.so.1`.
    pub(crate) libraries: PathBuf,
    /// The `simgpud` binary.
    pub(crate) daemon: PathBuf,
}

/// The two libraries as cargo builds them, and as programs ask for them.
const SIM_LIBRARIES: [(&str, &str); 2] =
    [("libsimcuda.so", "libcuda.so.1"), ("libsimnvml.so", "libnvidia-ml.so.1")];

/// Names by which programs ask for the simulated driver's libraries.
pub(crate) const SIM_NAMES: [&str; 2] = [SIM_LIBRARIES[0].1, SIM_LIBRARIES[1].1];
/// Programs of `bench/clients`, which demonstration, benchmarks and doctor start.
pub(crate) const CLIENTS: [&str; 18] = [
    "add",
    "attributes",
    "burst",
    "busy",
    "calls",
    "context_cost",
    "cost",
    "fill",
    "hold",
    "idle",
    "kernel_time",
    "link",
    "marks",
    "probe",
    "storm",
    "tenant",
    "touch",
    "varied",
];

/// Finds the simulated driver. In a build tree the libraries have other names than programs ask for;
/// `links` is then filled with links of the right names.
pub(crate) fn simulator(links: &Path) -> Result<Simulator> {
    let mut roots = Vec::new();
    if let Some(path) = named("DIVVY_SIM") {
        roots.push(path);
    } else {
        roots.extend(places("sim"));
        roots.extend(places(""));
    }
    let daemon_near = |root: &Path| {
        [root.join("simgpud"), root.join("../simgpud")].into_iter().find(|path| path.is_file())
    };
    for root in &roots {
        let Some(daemon) = daemon_near(root) else { continue };
        if SIM_LIBRARIES.iter().all(|(_, asked)| root.join(asked).is_file()) {
            return Ok(Simulator { libraries: absolute(root)?, daemon: absolute(&daemon)? });
        }
        if SIM_LIBRARIES.iter().all(|(built, _)| root.join(built).is_file()) {
            std::fs::create_dir_all(links)
                .with_context(|| format!("{} cannot be made", links.display()))?;
            for (built, asked) in SIM_LIBRARIES {
                let link = links.join(asked);
                match std::os::unix::fs::symlink(absolute(&root.join(built))?, &link) {
                    Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                        return Err(error).with_context(|| format!("{}", link.display()));
                    }
                    _ => {}
                }
            }
            return Ok(Simulator { libraries: links.to_owned(), daemon: absolute(&daemon)? });
        }
    }
    let list: Vec<_> = roots.iter().map(|p| p.display().to_string()).collect();
    bail!(
        "the simulated driver (libcuda.so.1, libnvidia-ml.so.1, simgpud) was not found in {}; {}; or name \
         its directory by DIVVY_SIM",
        list.join(", "),
        how_parts_come()
    )
}

/// One of the small C programs of bench/clients, by its name.
pub fn client(name: &str) -> Result<PathBuf> {
    let mut roots = Vec::new();
    roots.extend(named("DIVVY_CLIENTS"));
    roots.extend(places("clients"));
    let found = roots.iter().map(|root| root.join(name)).find(|path| path.is_file());
    match found {
        Some(path) => absolute(&path),
        None => {
            let list: Vec<_> = roots.iter().map(|p| p.display().to_string()).collect();
            bail!(
                "the client program {name} was not found in {}; {}; or name its directory by \
                 DIVVY_CLIENTS",
                list.join(", "),
                how_parts_come()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_for_programs_and_kept_for_what_starts_later() {
        let base = std::env::temp_dir().join(format!("divvy-links-{}", std::process::id()));
        std::fs::create_dir_all(base.join("real")).unwrap();
        std::fs::write(base.join("real/libdivvy-1.so"), "").unwrap();
        std::os::unix::fs::symlink("libdivvy-1.so", base.join("real/libdivvy.so")).unwrap();
        std::os::unix::fs::symlink("real", base.join("lib")).unwrap();
        let (asked, real) =
            (base.join("lib/libdivvy.so"), base.canonicalize().unwrap().join("real"));
        assert_eq!(absolute(&asked).unwrap(), real.join("libdivvy-1.so"));
        assert_eq!(link(&asked).unwrap(), real.join("libdivvy.so"));
        assert!(link(&base.join("lib/absent.so")).is_err());
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn every_client_of_the_demonstration_is_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/clients");
        let mut programs: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .filter(|path| std::fs::read_to_string(path).unwrap().contains("int main("))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        programs.sort();
        assert_eq!(programs, CLIENTS);
    }

    #[test]
    fn what_was_preloaded_stays_and_we_are_first_once() {
        let lib = Path::new("/opt/libdivvy.so");
        let value = |old: &str| preload(lib, Some(OsStr::new(old))).into_string().unwrap();
        assert_eq!(preload(lib, None), "/opt/libdivvy.so");
        assert_eq!(value(""), "/opt/libdivvy.so");
        assert_eq!(value("/a.so /b.so"), "/opt/libdivvy.so:/a.so:/b.so");
        assert_eq!(value("/a.so:/opt/libdivvy.so"), "/opt/libdivvy.so:/a.so");
    }
}
