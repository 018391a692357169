//! `divvy install`: this Divvy below a prefix, beside the versions that still run.
//!
//! Programs have the library mapped and pass its path on to what they start. So each build lies under a
//! name of its own, made of its version and its content; `libdivvy.so` is a link that is exchanged in one
//! step. Promises: no file of a library is written into once it has its name, nor does an upgrade remove
//! one; `--clean` removes those alone that no process has mapped or names in its environment, and none
//! where a process cannot be looked into. Does not install the simulated driver, nor start anything.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::machine::install;
use crate::output::{json, out};

/// Where the libraries lie below the prefix.
const FOLDER: &str = "lib/divvy";
/// Name of the library for programs and people.
const LINK: &str = "libdivvy.so";
/// The links, each with what it leads to; the first is the one that an upgrade exchanges.
const LINKS: [(&str, &str); 3] = [
    ("lib/libdivvy.so", "divvy/libdivvy.so"),
    ("lib/libvgpu.so", "libdivvy.so"),
    ("lib/libnvshare.so", "libdivvy.so"),
];

/// Install this command, its benchmarks and its library below a prefix, or upgrade what is installed there.
///
/// The library gets a name of its own, such as lib/divvy/libdivvy-0.1.0-5f0e….so, and libdivvy.so becomes
/// a link to it in one step. Programs that run keep the library they have, and pass it on to what they
/// start; programs started later get the new one. Earlier libraries stay until --clean.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory to install into: bin/ and lib/ below it
    #[arg(value_name = "PREFIX", default_value = "/usr/local")]
    prefix: PathBuf,

    /// Remove earlier libraries that no process uses any more; as root, since all must be looked into
    #[arg(long)]
    clean: bool,

    /// Print what is installed as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  sudo ./bin/divvy install
  ./bin/divvy install ~/.local
  sudo divvy install --clean";

/// An installation.
#[derive(Debug, serde::Serialize)]
struct Report {
    /// The library that programs started from now on get.
    library: PathBuf,
    /// Earlier ones that stay.
    earlier: Vec<PathBuf>,
    removed: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    let library = install::library()?;
    let binary = std::env::current_exe().context("the path of this command is not known")?;
    fs::create_dir_all(&args.prefix)
        .with_context(|| format!("{} cannot be made", args.prefix.display()))?;
    let prefix = args.prefix.canonicalize()?;
    let library = put(&library, &prefix)?;
    // A build of the command alone has no others beside it.
    let others = [install::BENCH, install::KUBE].map(|name| (name, binary.with_file_name(name)));
    for (name, program) in others.into_iter().chain([("divvy", binary)]) {
        let installed = prefix.join("bin").join(name);
        if program.is_file() && installed.canonicalize().ok() != Some(program.canonicalize()?) {
            place(&fs::read(&program)?, &installed)?;
        }
    }
    let mut earlier = earlier(&prefix, &library)?;
    let mut removed = Vec::new();
    if args.clean && !earlier.is_empty() {
        let users = Users::look(Path::new("/proc"))?;
        (earlier, removed) = earlier.into_iter().partition(|path| users.has(path));
        for path in &removed {
            fs::remove_file(path).with_context(|| format!("{} stays", path.display()))?;
        }
    }
    let report = Report { library, earlier, removed };
    let lines = |what: &str, paths: &[PathBuf]| -> String {
        paths.iter().map(|path| format!("{what} {}\n", path.display())).collect()
    };
    let text = format!(
        "{LINK} is {}\n{}{}",
        report.library.display(),
        lines("stays", &report.earlier),
        lines("removed", &report.removed)
    );
    let done = format!("{} was installed", report.library.display());
    out::after(&done, || if args.json { json::print(&report) } else { out::text(&text) })?;
    Ok(0)
}

/// Installs `library` below `prefix` and makes it the one that programs get; where it lies then.
fn put(library: &Path, prefix: &Path) -> Result<PathBuf> {
    let bytes = fs::read(library).with_context(|| format!("{}", library.display()))?;
    let name = format!("libdivvy-{}-{:016x}.so", env!("CARGO_PKG_VERSION"), fingerprint(&bytes));
    let folder = prefix.join(FOLDER);
    let path = folder.join(&name);
    match fs::read(&path) {
        // The same build, installed before.
        Ok(there) if there == bytes => {}
        Ok(_) => bail!("{} has another content; remove it or name another prefix", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => place(&bytes, &path)?,
        Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
    }
    for (link, to) in LINKS {
        relink(&prefix.join(link), to)?;
    }
    // Last, and in one step: what starts now gets the old one or the new one.
    relink(&folder.join(LINK), &name)?;
    Ok(path)
}

/// FNV-1a: names content, and is not there to withstand anybody.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A name beside `path` that nobody looks for.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new-{}", std::process::id()))
}

/// Puts `bytes` at `path` in one step; what lay there stays whole for whoever has it open or mapped.
fn place(bytes: &[u8], path: &Path) -> Result<()> {
    let cannot = || format!("{} cannot be written", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    let new = aside(path);
    let written = fs::write(&new, bytes)
        .and_then(|()| fs::set_permissions(&new, Permissions::from_mode(0o755)))
        .and_then(|()| fs::File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.with_context(cannot)
}

/// Makes `link` lead to `to` in one step, whatever lies there.
fn relink(link: &Path, to: &str) -> Result<()> {
    if fs::read_link(link).is_ok_and(|now| now == Path::new(to)) {
        return Ok(());
    }
    if let Some(folder) = link.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    let new = aside(link);
    let _ = fs::remove_file(&new);
    let linked = symlink(to, &new).and_then(|()| fs::rename(&new, link));
    linked.with_context(|| format!("{} cannot be made a link to {to}", link.display()))
}

/// The libraries below `prefix` but `library`.
fn earlier(prefix: &Path, library: &Path) -> Result<Vec<PathBuf>> {
    let folder = prefix.join(FOLDER);
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_library = name.starts_with("libdivvy-") && name.ends_with(".so");
        if is_library && path != library {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Mapped files of the machine's processes, and their environments.
#[derive(Debug, Default)]
struct Users {
    /// Inodes of mapped files that have a name of the library's.
    inodes: Vec<u64>,
    environments: Vec<Vec<u8>>,
}

impl Users {
    /// Looks into every process.
    ///
    /// # Errors
    /// Where one may not be looked into: it may use any library.
    fn look(proc: &Path) -> Result<Self> {
        let mut users = Self::default();
        for entry in fs::read_dir(proc).with_context(|| format!("{}", proc.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let [maps, environment] = ["maps", "environ"].map(|file| fs::read(path.join(file)));
            for read in [&maps, &environment] {
                let is_closed =
                    read.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
                ensure!(
                    !is_closed,
                    "process {name} cannot be looked into, and may use any library: nothing was \
                     removed; run `divvy install --clean` as root"
                );
            }
            // One that has ended meanwhile uses none.
            let maps = String::from_utf8_lossy(maps.as_deref().unwrap_or_default()).into_owned();
            users.inodes.extend(maps.lines().filter_map(library_inode));
            users.environments.extend(environment);
        }
        Ok(users)
    }

    fn has(&self, library: &Path) -> bool {
        let name = library.file_name().unwrap_or_default().as_encoded_bytes();
        let is_named = |text: &Vec<u8>| text.windows(name.len()).any(|part| part == name);
        // In a container it has another path; only its inode tells.
        fs::metadata(library).is_ok_and(|status| self.inodes.contains(&status.ino()))
            || self.environments.iter().any(is_named)
    }
}

/// The inode in a line of `/proc/PID/maps`, where the file may be a library of ours.
fn library_inode(line: &str) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let inode = fields.nth(4)?.parse().ok()?;
    let name = Path::new(fields.next()?).file_name()?.to_str()?;
    install::is_library_name(name).then_some(inode)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A directory that goes at the end of the test.
    struct Prefix(PathBuf);

    impl Prefix {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("divvy-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path.canonicalize().unwrap())
        }

        fn build(&self, content: &[u8]) -> PathBuf {
            let path = self.0.join("built.so");
            fs::write(&path, content).unwrap();
            path
        }

        fn link(&self) -> PathBuf {
            self.0.join("lib/libdivvy.so").canonicalize().unwrap()
        }
    }

    impl Drop for Prefix {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A process that has `file` mapped, until it is dropped.
    struct Mapper(std::process::Child);

    impl Mapper {
        fn of(file: &Path) -> Self {
            let child = Command::new("sleep")
                .arg("600")
                .env("LD_PRELOAD", file)
                .stdout(Stdio::null())
                .spawn()
                .expect("sleep starts");
            let maps = format!("/proc/{}/maps", child.id());
            let since = std::time::Instant::now();
            while !fs::read_to_string(&maps).unwrap().contains(&file.display().to_string()) {
                assert!(since.elapsed().as_secs() < 30, "it never was mapped");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Self(child)
        }
    }

    impl Drop for Mapper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A shared library that any program loads: the C library's own helper.
    fn some_library() -> Vec<u8> {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().find_map(|line| {
            let path = line.split_ascii_whitespace().nth(5)?;
            path.contains("libgcc_s").then(|| path.to_owned())
        });
        fs::read(path.expect("libgcc_s is mapped")).unwrap()
    }

    #[test]
    fn a_library_that_runs_is_neither_written_nor_removed_by_the_next() {
        let prefix = Prefix::new("install");
        let mut content = some_library();
        let one = put(&prefix.build(&content), &prefix.0).unwrap();
        assert_eq!(prefix.link(), one);
        let mapper = Mapper::of(&one);
        let state = |path: &Path| {
            let status = fs::metadata(path).unwrap();
            (status.ino(), status.mtime_nsec(), status.len(), fs::read(path).unwrap())
        };
        let before = state(&one);

        // Another build of the same version: behind its end nothing is loaded.
        content.push(0);
        let two = put(&prefix.build(&content), &prefix.0).unwrap();
        assert_ne!(one, two);
        assert_eq!(prefix.link(), two);
        for name in ["libvgpu.so", "libnvshare.so"] {
            assert_eq!(prefix.0.join("lib").join(name).canonicalize().unwrap(), two);
        }
        assert!(state(&one) == before, "the first was touched");
        assert_eq!(earlier(&prefix.0, &two).unwrap(), std::slice::from_ref(&one));
        // The same build again changes nothing.
        let again = state(&two);
        assert_eq!(put(&prefix.build(&content), &prefix.0).unwrap(), two);
        assert!(state(&two) == again);

        let users = || match Users::look(Path::new("/proc")) {
            Ok(users) => Some(users),
            Err(error) => {
                println!("SKIPPED removal of what nobody uses: {error:#}");
                None
            }
        };
        if let Some(users) = users() {
            assert!(users.has(&one), "a process has it mapped");
            assert!(!users.has(&two));
        }
        drop(mapper);
        if let Some(users) = users() {
            assert!(!users.has(&one));
        }
        let names = fs::read_dir(prefix.0.join(FOLDER)).unwrap();
        assert_eq!(names.count(), 3, "two libraries and a link");
    }

    #[test]
    fn the_link_leads_somewhere_at_any_instant() {
        let prefix = Prefix::new("relink");
        put(&prefix.build(b"0"), &prefix.0).unwrap();
        let link = prefix.0.join("lib/libdivvy.so");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut reads = 0_u32;
                while !is_over.load(std::sync::atomic::Ordering::SeqCst) || reads < 100 {
                    let content = fs::read(&link).expect("there is always one");
                    assert!(content.len() == 1, "and it is whole");
                    reads += 1;
                }
            });
            for content in b'1'..=b'9' {
                put(&prefix.build(&[content]), &prefix.0).unwrap();
            }
            is_over.store(true, std::sync::atomic::Ordering::SeqCst);
            reader.join().unwrap();
        });
        assert_eq!(fs::read(&link).unwrap(), b"9");
        assert_eq!(earlier(&prefix.0, &prefix.link()).unwrap().len(), 9);
    }

    #[test]
    fn another_content_under_the_same_name_is_not_written_over() {
        let prefix = Prefix::new("clash");
        let path = put(&prefix.build(b"one"), &prefix.0).unwrap();
        fs::write(&path, b"garbled").unwrap();
        let error = put(&prefix.build(b"one"), &prefix.0).unwrap_err();
        assert!(error.to_string().contains("has another content"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"garbled");
        // A file in the place of the link, as a copied tree has it, becomes the link.
        fs::remove_file(&path).unwrap();
        let link = prefix.0.join(FOLDER).join(LINK);
        fs::remove_file(&link).unwrap();
        fs::write(&link, b"copied").unwrap();
        put(&prefix.build(b"one"), &prefix.0).unwrap();
        assert_eq!(fs::read(&link).unwrap(), b"one");
    }

    #[test]
    fn maps_of_ours_are_told_by_their_names() {
        let line = |path: &str| format!("7f00-7f01 r-xp 00000000 08:01 1234   {path}");
        for name in
            ["/a/libdivvy.so", "/libvgpu.so", "/libnvshare.so", "/x/libdivvy-0.1.0-5f.so (deleted)"]
        {
            assert_eq!(library_inode(&line(name)), Some(1234), "{name}");
        }
        for name in ["/usr/lib/libc.so.6", "[heap]", ""] {
            assert_eq!(library_inode(&line(name)), None, "{name}");
        }
    }
}
