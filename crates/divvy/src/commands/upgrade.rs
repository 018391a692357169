//! `divvy install`: this Divvy below a prefix, beside the versions that still run.
//!
//! Programs have the library mapped and pass its path on to what they start. So each build lies under a
//! name of its own, made of its version and its content; `libdivvy.so` is a link that is exchanged in one
//! step. Promises: no file of a library is written into once it has its name, nor does an upgrade remove
//! one; `--clean` removes those alone that no process has mapped or names in its environment, and none
//! where a process cannot be looked into. What was written is on a list ([`record`]), by which
//! [`crate::commands::uninstall`] removes it. Writes nowhere without a prefix. Starts nothing.

#[cfg(test)]
#[path = "../../tests/library/mod.rs"]
mod library;
mod parts;
pub(crate) mod place;
pub(crate) mod record;
pub(crate) mod users;

use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::machine::install;
use crate::output::failure::usage;
use crate::output::{json, out};
use parts::Part;
use place::{Mode, fingerprint, place, relink};
use record::{Content, InstalledEntry, Record};
use users::Users;

/// Where the libraries lie below the prefix.
const FOLDER: &str = "lib/divvy";
/// Name of the library for programs and people.
const LINK: &str = "libdivvy.so";
/// The links, each with what it leads to.
const LINKS: [(&str, &str); 3] = [
    ("lib/libdivvy.so", "divvy/libdivvy.so"),
    ("lib/libvgpu.so", "libdivvy.so"),
    ("lib/libnvshare.so", "libdivvy.so"),
];
/// The prefix that is offered on a terminal.
const USUAL: &str = "/usr/local";

/// Install Divvy below a prefix, or upgrade what is installed there.
///
/// Lays the command, the programs beside it, the library, the simulated GPU, the programs of the demonstration, man pages,
/// completions and the unit of the daemon. The library gets a name of its own, such as
/// lib/divvy/libdivvy-0.1.0-5f0e….so, and libdivvy.so becomes a link to it in one step. Programs that run keep the
/// library they have, and pass it on to what they start; programs started later get the new one. Earlier libraries stay
/// until --clean. `divvy uninstall PREFIX` removes what was written.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    below: PrefixArgs,

    /// Remove earlier libraries that no process uses any more; as root, since all must be looked into
    #[arg(long, conflicts_with = "dry_run")]
    clean: bool,

    /// Install the library and its links alone; packages bring the other files themselves
    #[arg(long)]
    only_library: bool,
}

/// Arguments of the commands that write or remove files below a prefix.
#[derive(Debug, clap::Args)]
pub(crate) struct PrefixArgs {
    /// Directory that bin/, lib/ and share/ lie below; without it `install` asks for it on a terminal, and `uninstall` takes
    /// the one that this command lies in
    #[arg(value_name = "PREFIX")]
    pub(crate) prefix: Option<PathBuf>,

    /// Print what would be written or removed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "Examples:
  ./bin/divvy install ~/.local
  sudo ./bin/divvy install /usr/local
  sudo divvy install /usr/local --clean";

/// An installation.
#[derive(Debug, serde::Serialize)]
struct Report {
    /// The library that programs started from now on get.
    library: PathBuf,
    /// Files and links that were written, or would be.
    written: Vec<PathBuf>,
    /// Earlier libraries that stay.
    earlier: Vec<PathBuf>,
    removed: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args, parser: clap::Command) -> Result<u8> {
    let library = Library::read(&install::library()?)?;
    let prefix = match &args.below.prefix {
        Some(prefix) => whole(prefix)?,
        None => whole(Path::new(USUAL))?,
    };
    let (parts, missing) = match args.only_library {
        true => (Vec::new(), Vec::new()),
        false => parts(&prefix, parser)?,
    };
    let plan = Plan::make(&prefix, library, parts)?;
    if args.below.prefix.is_none() {
        ask(&plan)?;
    }
    missing.iter().for_each(|words| out::note(words));
    let written = plan.written();
    if args.below.dry_run {
        let report =
            Report { library: plan.library(), written, earlier: Vec::new(), removed: Vec::new() };
        return shown(&report, args.below.json, true).map(|()| 0);
    }
    let library = plan.carry_out(!args.only_library)?;
    let mut earlier = earlier(&prefix, &library)?;
    let mut removed = Vec::new();
    if args.clean && !earlier.is_empty() {
        let users = Users::look(Path::new("/proc"))?.all()?;
        (earlier, removed) = earlier.into_iter().partition(|path| users.has(path));
        for path in &removed {
            fs::remove_file(path).with_context(|| format!("{} stays", path.display()))?;
        }
        if let Some(mut record) = Record::read(&prefix)? {
            record.settle(&prefix);
            record.write(&prefix)?;
        }
    }
    let report = Report { library, written, earlier, removed };
    let done = format!("{} was installed", report.library.display());
    out::after(&done, || shown(&report, args.below.json, false))?;
    Ok(0)
}

fn shown(report: &Report, as_json: bool, is_dry: bool) -> Result<()> {
    if as_json {
        return json::print(report);
    }
    let lines = |what: &str, paths: &[PathBuf]| -> String {
        paths.iter().map(|path| format!("{what} {}\n", path.display())).collect()
    };
    if is_dry {
        return out::text(&lines("would write", &report.written));
    }
    out::text(&format!(
        "{LINK} is {}\n{}{}",
        report.library.display(),
        lines("stays", &report.earlier),
        lines("removed", &report.removed)
    ))
}

/// `path` from the root; links in the part that exists are resolved.
fn whole(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    for there in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (there.canonicalize(), path.strip_prefix(there)) {
            return Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
        }
    }
    Ok(path)
}

/// All files that are laid beside the library, and a sentence about each that is missing.
fn parts(prefix: &Path, parser: clap::Command) -> Result<(Vec<Part>, Vec<String>)> {
    let binary = std::env::current_exe().context("the path of this command is not known")?;
    let (mut all, missing) = parts::demonstration()?;
    all.extend(parts::texts(&binary, prefix, parser)?);
    all.extend(parts::programs(&binary)?);
    Ok((all, missing))
}

/// Has the user agree to the usual prefix.
///
/// # Errors
/// Where there is no terminal to ask on, or the user does not agree.
fn ask(plan: &Plan) -> Result<()> {
    let advice = "name the directory to install into: divvy install ~/.local, or, as root, divvy \
                  install /usr/local";
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(usage(advice));
    }
    let files: String =
        plan.written().iter().map(|path| format!("  {}\n", path.display())).collect();
    out::error_text(&format!("These files will be written:\n{files}Install into {USUAL}? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("the answer cannot be read")?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(usage(format!("nothing was installed; {advice}"))),
    }
}

/// The library, under the name that its content gives.
struct Library {
    bytes: Vec<u8>,
    name: String,
}

impl Library {
    fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("{}", path.display()))?;
        let sum = fingerprint(&bytes);
        let name = format!("libdivvy-{}-{sum:016x}.so", env!("CARGO_PKG_VERSION"));
        Ok(Self { bytes, name })
    }
}

/// Files that are to be written below a prefix.
struct Plan {
    prefix: PathBuf,
    library: Library,
    /// Whether the library is not there yet.
    is_new: bool,
    parts: Vec<Part>,
}

impl Plan {
    /// Leaves out those of `parts` that are there already.
    ///
    /// # Errors
    /// Where a file with another content has the library's name.
    fn make(prefix: &Path, library: Library, mut parts: Vec<Part>) -> Result<Self> {
        let path = prefix.join(FOLDER).join(&library.name);
        let is_new = match fs::read(&path) {
            // The same build, installed before.
            Ok(there) if there == library.bytes => false,
            Ok(_) => {
                bail!("{} has another content; remove it or name another prefix", path.display())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
        };
        parts.retain(|part| {
            let there = prefix.join(&part.path);
            let source = part.source.as_ref().and_then(|source| source.canonicalize().ok());
            let is_itself = source.is_some() && there.canonicalize().ok() == source;
            !is_itself && !fs::read(&there).is_ok_and(|bytes| bytes == part.bytes)
        });
        Ok(Self { prefix: prefix.to_owned(), library, is_new, parts })
    }

    /// Where the library lies.
    fn library(&self) -> PathBuf {
        self.prefix.join(FOLDER).join(&self.library.name)
    }

    /// The links with what they lead to, below the prefix; the last is the one by which programs get the new library.
    fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        let newest = (Path::new(FOLDER).join(LINK), PathBuf::from(&self.library.name));
        LINKS.iter().map(|(link, to)| (link.into(), to.into())).chain([newest]).collect()
    }

    /// Files and links that are missing or will change, by their paths and contents below the prefix.
    fn entries(&self) -> Vec<InstalledEntry> {
        let library = self.is_new.then(|| InstalledEntry {
            path: Path::new(FOLDER).join(&self.library.name),
            content: Content::of(&self.library.bytes),
        });
        let parts = self.parts.iter().map(|part| InstalledEntry {
            path: part.path.clone(),
            content: Content::of(&part.bytes),
        });
        let links = self.links().into_iter().filter_map(|(path, to)| {
            let is_there = fs::read_link(self.prefix.join(&path)).is_ok_and(|now| now == to);
            (!is_there).then_some(InstalledEntry { path, content: Content::Link(to) })
        });
        library.into_iter().chain(parts).chain(links).collect()
    }

    /// Their paths.
    fn written(&self) -> Vec<PathBuf> {
        self.entries().into_iter().map(|entry| self.prefix.join(entry.path)).collect()
    }

    /// Writes the files, and, where it `is_listed`, the list before and after them. Returns the library's path.
    fn carry_out(&self, is_listed: bool) -> Result<PathBuf> {
        let prefix = &self.prefix;
        let mut record = Record::read(prefix)?.filter(|_| is_listed).unwrap_or_default();
        if is_listed {
            let entries = self.entries();
            record.add_folders(prefix, Path::new(record::PLACE));
            entries.iter().for_each(|entry| record.add_folders(prefix, &entry.path));
            record.files.extend(entries);
            record.version = env!("CARGO_PKG_VERSION").to_owned();
            record.write(prefix)?;
        }
        let library = self.library();
        if self.is_new {
            place(&self.library.bytes, &library, Mode::Program)?;
        }
        for part in &self.parts {
            place(&part.bytes, &prefix.join(&part.path), part.mode)?;
        }
        // In one step each: a program that starts now gets the old library or the new one.
        for (link, to) in self.links() {
            relink(&prefix.join(link), &to)?;
        }
        if is_listed {
            record.settle(prefix);
            record.write(prefix)?;
        }
        Ok(library)
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    use super::library::some_library;
    use super::*;

    /// Installs a library alone.
    fn put(library: &Path, prefix: &Path) -> Result<PathBuf> {
        Plan::make(prefix, Library::read(library)?, Vec::new())?.carry_out(false)
    }

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

        let users = || match Users::look(Path::new("/proc")).and_then(Users::all) {
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
}
