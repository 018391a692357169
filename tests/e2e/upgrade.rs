//! An upgrade under tenants that run: the library of the version before, under this daemon and this
//! command.
//!
//! The library is built from a commit of that version, in release mode but without what takes
//! long. Without that commit (a shallow clone, a tarball) it is said that nothing was tested.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use divvy_abi::ABI_VERSION;
use divvy_abi::config::{CONFIG_BYTES, Config, Rule, quantity, selector};
use divvy_page::reader::write_config;
use divvy_page::{Directory, now_ns};
use serde_json::Value;

use crate::harness::{GIB, MIB, Machine, Running, Talk, client, finish, root, stage};

/// A commit whose files are of the version before, and which lacks what the version was raised for.
const BEFORE: &str = "0806ef30e2c9c458ab70dfc702142b3bc61c2707";
const BEFORE_VERSION: u32 = ABI_VERSION - 1;
/// What must happen has happened by then, however busy the host is.
const PATIENCE: Duration = Duration::from_secs(60);

/// The library of the version before, built once; `None` after it was said why not.
fn before() -> Option<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BUILT.get_or_init(build) {
        Ok(path) => Some(path),
        Err(why) => {
            println!("SKIPPED the library of the version before: {why}");
            None
        }
    }
}

/// Builds it below the target directory, where it stays for the next run.
fn build() -> Result<PathBuf, String> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(root()).stderr(Stdio::null());
        git
    };
    let commit = format!("{BEFORE}^{{commit}}");
    let is_there = git(&["cat-file", "-e", &commit]).status();
    if !is_there.is_ok_and(|status| status.success()) {
        return Err(format!("commit {BEFORE} is not here; fetch the whole history"));
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("before-{BEFORE}"));
    let library = folder.join("target/release/libdivvy.so");
    if library.exists() {
        return Ok(library);
    }
    let source = folder.join("source");
    fs::create_dir_all(&source).expect("the target directory can be written");
    let mut archive = git(&["archive", BEFORE]).stdout(Stdio::piped()).spawn().expect("git runs");
    let packed = archive.stdout.take().expect("piped");
    let unpacked = Command::new("tar").arg("-x").arg("-C").arg(&source).stdin(packed).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "tar unpacks what git archives");
    assert!(archive.wait().is_ok_and(|status| status.success()), "git archives {BEFORE}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            build.env_remove(name);
        }
    }
    build.args(["build", "--quiet", "--locked", "--release", "--package", "divvy-shim"]);
    for setting in ["lto=\"off\"", "codegen-units=16", "opt-level=1"] {
        build.arg("--config").arg(format!("profile.release.{setting}"));
    }
    build.arg("--target-dir").arg(folder.join("target")).current_dir(&source);
    build.env_remove("CARGO_MANIFEST_DIR").env_remove("RUSTFLAGS").env_remove("DIVVY_UNHOOK");
    let since = Instant::now();
    let built = build.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the library of {BEFORE} is not built:\n{errors}");
    println!("the library of {BEFORE} took {:?} to build", since.elapsed());
    Ok(library)
}

/// A machine with a daemon, and a tenant as the command before has made it.
struct Upgraded {
    machine: Machine,
    daemon: Running,
    tenant: PathBuf,
}

impl Upgraded {
    fn new() -> Self {
        let machine = Machine::new().native().with("SIMGPU_MODE", "calibrated");
        let runtime = machine.home().join("runtime");
        let locks = machine.home().join("locks");
        let home = runtime.join(format!("divvy-{}", fs::metadata(machine.home()).unwrap().uid()));
        let tenant = home.join("tenants/before-1");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&tenant).expect("folders");
        let machine = machine
            .with("XDG_RUNTIME_DIR", runtime.display())
            .with("DIVVY_DEVICE_LOCKS", locks.display());
        let mut config = Config { rule_count: 1, ..Config::default() };
        let all = config.rules[0];
        config.rules[0] =
            Rule { selector: selector::ALL, quantity: quantity::BYTES, value: GIB, ..all };
        config.name[..6].copy_from_slice(b"before");
        write_config(&directory(&tenant), &config).expect("a config");
        // In its parts it is what that version wrote.
        let file = fs::File::options().write(true).open(tenant.join("config")).expect("there");
        file.write_all_at(&BEFORE_VERSION.to_ne_bytes(), 8).expect("written");
        file.set_len(CONFIG_BYTES as u64).expect("without orders");
        let daemon = Running::start(machine.divvy(&["daemon"]).stdin(Stdio::null()));
        Self { machine, daemon, tenant }
    }

    /// A process of the tenant with this library.
    fn process(&self, library: &Path) -> Command {
        let mut command = self.machine.scenario("upgrade", "obeys");
        command.env("LD_PRELOAD", library).env("DIVVY_TENANT", &self.tenant);
        command
    }

    fn set(&self, change: &[&str]) {
        let done = finish(self.machine.divvy(&["set", "before"]).args(change));
        assert_eq!(done.code(), Some(0), "{change:?}\n{done}");
    }

    /// The tenant as `divvy ps` shows it.
    fn shown(&self) -> Value {
        let listed = finish(&mut self.machine.divvy(&["ps", "--json"]));
        assert_eq!(listed.code(), Some(0), "{listed}");
        let listing: Value = serde_json::from_str(&listed.out).expect("JSON");
        assert_eq!(listing["unreadable"].as_array().map(Vec::len), Some(0), "{listing}");
        let tenants = listing["tenants"].as_array().expect("a list");
        let name = self.tenant.display().to_string();
        let one = tenants.iter().find(|one| one["directory"] == name.as_str());
        one.unwrap_or_else(|| panic!("not shown: {listing}")).clone()
    }

    /// The version in a file's head.
    fn version(&self, file: &str) -> u32 {
        let mut word = [0; 4];
        let file = fs::File::open(self.tenant.join(file)).expect("there");
        file.read_exact_at(&mut word, 8).expect("long enough");
        u32::from_ne_bytes(word)
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        self.daemon.kill_with_children();
    }
}

fn directory(path: &Path) -> Directory {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no NUL inside");
    Directory::open(&path).expect("a directory")
}

/// Says a line, and what is answered.
fn ask(talk: &mut Talk, line: &str) -> String {
    talk.say(line);
    talk.line()
}

/// Says a line and checks the answer.
fn expect(talk: &mut Talk, line: &str, answer: &str) {
    assert_eq!(ask(talk, line), answer, "to {line:?}");
}

fn send(signal: &str, to: u32) {
    let line = format!("kill -{signal} {to}");
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
}

/// Repeats `act` until it is true.
fn until(what: &str, mut act: impl FnMut() -> bool) {
    let since = Instant::now();
    while !act() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
    }
}

#[test]
fn a_tenant_of_the_version_before_keeps_its_limits_under_this_daemon_and_command() {
    let Some(library) = before() else { return };
    let upgraded = Upgraded::new();
    let mut old = Talk::start(&mut upgraded.process(library));
    old.expect("ready");
    let maps = fs::read_to_string(format!("/proc/{}/maps", old.pid())).expect("it runs");
    assert!(maps.contains(&library.display().to_string()), "{maps}");
    assert_eq!(["usage", "config"].map(|file| upgraded.version(file)), [BEFORE_VERSION; 2]);

    // The limit holds, and is shown.
    expect(&mut old, "total", "total 1024");
    expect(&mut old, "alloc 300", "alloc 0");
    expect(&mut old, "alloc 800", "alloc 2");
    let shown = upgraded.shown();
    let device = &shown["devices"][0];
    assert_eq!((&shown["name"], &shown["layout"]), (&"before".into(), &BEFORE_VERSION.into()));
    assert_eq!(shown["processes"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(device["limit_bytes"], GIB, "{shown}");
    assert!(device["held_bytes"].as_u64().is_some_and(|held| held > 300 * MIB), "{shown}");
    assert_eq!(device["refusals"], 1, "{shown}");

    // It is changed while the program runs: more, and less.
    upgraded.set(&["--memory", "2GiB"]);
    expect(&mut old, "total", "total 2048");
    expect(&mut old, "alloc 800", "alloc 0");
    upgraded.set(&["--memory", "1200MiB"]);
    expect(&mut old, "alloc 300", "alloc 2");

    // So are the cap and the pause.
    upgraded.set(&["--compute", "20%"]);
    until("the cap throttles", || {
        ask(&mut old, "work 200");
        let device = &upgraded.shown()["devices"][0];
        device["share_ppm"] == 200_000 && device["throttled_ns"].as_u64() > Some(0)
    });
    upgraded.set(&["--compute", "0"]);
    upgraded.set(&["--pause"]);
    let waited_ns = || upgraded.shown()["devices"][0]["waited_ns"].as_u64();
    let before_ns = waited_ns();
    old.say("work 1");
    until("it waits in the pause", || {
        assert_eq!(old.line_within(Duration::ZERO), None, "it works in a pause");
        waited_ns() > before_ns.map(|ns| ns + 100_000_000)
    });
    upgraded.set(&["--resume"]);
    assert!(old.line().starts_with("work "));
    assert_eq!(["usage", "config"].map(|file| upgraded.version(file)), [BEFORE_VERSION; 2]);
    old.ends_well();
}

#[test]
fn turns_of_this_daemon_are_kept_by_a_library_of_the_version_before() {
    let Some(library) = before() else { return };
    let upgraded = Upgraded::new();
    let mut old = Talk::start(&mut upgraded.process(library));
    old.expect("ready");
    let mut run = upgraded.machine.divvy(&["run", "--memory", "2GiB", "--"]);
    let mut new = Talk::start(run.arg(client("upgrade")).arg("obeys"));
    new.expect("ready");
    until("it waits for turns", || {
        old.say("work 300");
        new.say("work 300");
        assert!(old.line().starts_with("work ") && new.line().starts_with("work "));
        let device = &upgraded.shown()["devices"][0];
        device["waited_ns"].as_u64() > Some(0) && device["launches"].as_u64() > Some(0)
    });
    let mut word = [0; 8];
    let config = fs::File::open(upgraded.tenant.join("config")).expect("there");
    let lease_at = divvy_abi::config::gate_at(0) + 16;
    config.read_exact_at(&mut word, lease_at as u64).expect("a line");
    let lease_ns = u64::from_ne_bytes(word);
    assert!(lease_ns.abs_diff(now_ns()) < 60_000_000_000, "the daemon wrote its line: {lease_ns}");
    new.ends_well();
    old.ends_well();
}

#[test]
fn a_new_program_does_not_join_an_old_one_and_takes_over_its_limits_once_it_has_ended() {
    let Some(library) = before() else { return };
    let upgraded = Upgraded::new();
    let mut old = Talk::start(&mut upgraded.process(library));
    old.expect("ready");
    expect(&mut old, "alloc 300", "alloc 0");
    upgraded.set(&["--memory", "2GiB", "--weight", "70"]);
    let ours = stage().join("lib/libdivvy.so");
    let inodes =
        || ["usage", "config"].map(|file| fs::metadata(upgraded.tenant.join(file)).unwrap().ino());
    let before = inodes();

    // Not beside it, and never without limits.
    let words = format!(
        "processes of the tenant run with a library of version {BEFORE_VERSION}, and this needs \
         version {ABI_VERSION}; end them first"
    );
    // One that is stopped lives, and nobody waits for it.
    for (signal, fail) in [("CONT", "closed"), ("CONT", "open"), ("STOP", "closed")] {
        send(signal, old.pid());
        let mut refused = upgraded.process(&ours);
        let refused = finish(refused.env("DIVVY_FAIL", fail).stdin(Stdio::null()));
        assert_ne!(refused.code(), Some(0), "{refused}");
        assert!(refused.err.contains(&words), "{refused}");
        assert_eq!(inodes(), before);
    }
    send("CONT", old.pid());
    expect(&mut old, "total", "total 2048");
    expect(&mut old, "alloc 2000", "alloc 2");

    // The library before does not join one of ours either.
    old.ends_well();
    let mut new = Talk::start(&mut upgraded.process(&ours));
    new.expect("ready");
    assert_eq!(["usage", "config"].map(|file| upgraded.version(file)), [ABI_VERSION; 2]);
    expect(&mut new, "total", "total 2048");
    expect(&mut new, "alloc 1500", "alloc 0");
    expect(&mut new, "alloc 300", "alloc 2");
    let mut late = upgraded.process(library);
    late.stdin(Stdio::null());
    let late = finish(&mut late);
    assert_ne!(late.code(), Some(0), "{late}");
    let words =
        format!("a library of version {ABI_VERSION}, and this needs version {BEFORE_VERSION}");
    assert!(late.err.contains(&words), "{late}");

    // The daemon and the command have gone along.
    let shown = upgraded.shown();
    assert_eq!((&shown["layout"], &shown["weight"]), (&ABI_VERSION.into(), &70.into()), "{shown}");
    upgraded.set(&["--memory", "3GiB"]);
    expect(&mut new, "total", "total 3072");
    upgraded.set(&["--memory", "default"]);
    expect(&mut new, "total", "total 1024");
    new.ends_well();
}
