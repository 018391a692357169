//! `divvy install` and `divvy uninstall`: what is written, where, and that exactly that is removed again.
//!
//! The simulated GPU is not beside this command here; deliveries that have all parts are tried in the end-to-end tests.

mod asked;
mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use asked::divvy;
use library::some_library;

/// A directory of the test's own, gone afterwards.
struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("divvy-inst-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("prefix")).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn prefix(&self) -> PathBuf {
        self.0.join("prefix")
    }

    /// A command with a library that any program can load.
    fn command(&self, arguments: &[&str]) -> Command {
        let library = self.0.join("built.so");
        fs::write(&library, some_library()).unwrap();
        let arguments: Vec<String> = arguments
            .iter()
            .map(|word| word.replace("PREFIX", &self.prefix().display().to_string()))
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = divvy(&self.0, &arguments);
        command.env("DIVVY_LIBRARY", library);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ends a program with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Paths of all files and links below `folder`.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => drop(found.insert(entry.path())),
            }
        }
    }
    found
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn nothing_is_installed_where_no_prefix_is_named() {
    let scene = Scene::new("unasked");
    let state = |path: &str| fs::symlink_metadata(path).and_then(|status| status.modified()).ok();
    let places =
        ["/usr/local/bin", "/usr/local/lib", "/usr/local/lib/divvy", "/usr/local/bin/divvy"];
    let before = places.map(state);
    let output = scene.run(&["install"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("divvy install ~/.local"), "{}", said(&output));
    assert_eq!(places.map(state), before);
}

#[test]
fn a_dry_run_names_what_is_written_then_and_writes_nothing() {
    let scene = Scene::new("dry");
    let output = scene.run(&["install", "PREFIX", "--dry-run"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(files(&scene.prefix()).is_empty());
    let told: BTreeSet<PathBuf> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("would write ").map(PathBuf::from))
        .collect();
    assert_eq!(scene.run(&["install", "PREFIX"]).status.code(), Some(0));
    let mut written = files(&scene.prefix());
    assert!(written.remove(&scene.prefix().join("lib/divvy/installed.json")));
    assert_eq!(told, written);
    for part in [
        "bin/divvy",
        "lib/libdivvy.so",
        "share/man/man1/divvy-run.1",
        "share/bash-completion/completions/divvy",
        "lib/systemd/system/divvy.service",
    ] {
        assert!(written.contains(&scene.prefix().join(part)), "{part}: {written:#?}");
    }
    let unit = fs::read_to_string(scene.prefix().join("lib/systemd/system/divvy.service")).unwrap();
    let starts = format!("ExecStart={}/bin/divvy daemon", scene.prefix().display());
    assert!(unit.contains(&starts), "{unit}");
}

#[test]
fn what_was_installed_is_removed_and_nothing_else() {
    let scene = Scene::new("remove");
    let prefix = scene.prefix();
    fs::create_dir_all(prefix.join("bin")).unwrap();
    fs::create_dir_all(prefix.join("share/man/man1")).unwrap();
    let others = [prefix.join("bin/other"), prefix.join("share/man/man1/other.1")];
    others.iter().for_each(|path| fs::write(path, "x").unwrap());
    assert_eq!(scene.run(&["install", "PREFIX"]).status.code(), Some(0));
    // An upgrade: the list has the libraries of both.
    let mut later = scene.command(&["install", "PREFIX"]);
    let newer = scene.0.join("newer.so");
    fs::write(&newer, [&*some_library(), &[0]].concat()).unwrap();
    assert_eq!(later.env("DIVVY_LIBRARY", &newer).status().unwrap().code(), Some(0));
    let installed = files(&prefix);
    let dry = scene.run(&["uninstall", "PREFIX", "--dry-run"]);
    assert_eq!((dry.status.code(), files(&prefix)), (Some(0), installed), "{}", said(&dry));

    let changed = prefix.join("share/man/man1/divvy.1");
    fs::write(&changed, "mine").unwrap();
    let output = scene.run(&["uninstall", "PREFIX", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["changed"], serde_json::json!([changed]));
    let list = prefix.join("lib/divvy/installed.json");
    let left: BTreeSet<_> = others.iter().cloned().chain([changed.clone(), list]).collect();
    assert_eq!(files(&prefix), left);

    fs::remove_file(&changed).unwrap();
    assert_eq!(scene.run(&["uninstall", "PREFIX"]).status.code(), Some(0));
    assert_eq!(files(&prefix), others.into_iter().collect());
    assert!(!prefix.join("lib").exists(), "a folder that was made goes");
    let again = scene.run(&["uninstall", "PREFIX"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    assert!(said(&again).contains("apt remove"), "{}", said(&again));
}

#[test]
fn a_program_that_runs_with_the_library_is_named_and_goes_on() {
    let scene = Scene::new("used");
    assert_eq!(scene.run(&["install", "PREFIX"]).status.code(), Some(0));
    let library = scene.prefix().join("lib/libdivvy.so").canonicalize().unwrap();
    let mut sleep = Command::new("sleep");
    let mut program = Ends(sleep.arg("600").env("LD_PRELOAD", &library).spawn().unwrap());
    let maps = format!("/proc/{}/maps", program.0.id());
    let since = std::time::Instant::now();
    while !fs::read_to_string(&maps).unwrap().contains(&library.display().to_string()) {
        assert!(since.elapsed().as_secs() < 60, "it never was mapped");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let output = scene.run(&["uninstall", "PREFIX"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told = format!("in use: sleep (pid {}) goes on with {}", program.0.id(), library.display());
    assert!(said(&output).contains(&told), "{}", said(&output));
    assert!(!library.exists());
    assert!(fs::read_to_string(&maps).unwrap().contains("(deleted)"));
    assert!(matches!(program.0.try_wait(), Ok(None)), "it goes on");
}
