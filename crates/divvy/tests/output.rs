//! Every command whose output goes nowhere: into a pipe that nobody reads, onto a disk that is full.
//!
//! None of them may panic, succeed or hang. `demo` and `bench` need the simulated driver and are asked
//! the same in the end-to-end tests; `run` itself writes nothing to standard output.

mod asked;

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE};
use divvy_page::Directory;
use divvy_page::reader::{read_config, write_config};

use asked::divvy;

/// Longer than any command here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands that write to standard output at least once; the first word is the command.
const COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "run"],
    &["run", "--help"],
    &["ps"],
    &["ps", "--json"],
    &["ps", "--openmetrics"],
    &["ps", "--watch"],
    &["ps", "--watch", "--json"],
    &["top", "--once", "--interval", "0.1"],
    &["top", "--json", "--interval", "0.1"],
    &["set", "lost", "--resume"],
    &["set", "lost", "--resume", "--json"],
    &["freeze", "lost"],
    &["freeze", "lost", "--json"],
    &["thaw", "lost"],
    &["thaw", "lost", "--json"],
    &["log"],
    &["log", "--json"],
    &["trace", "lost", "--seconds", "0.1", "--out", "OUT/trace.json"],
    &["trace", "lost", "--seconds", "0.1", "--out", "OUT/trace.json", "--json"],
    &["daemon", "--status"],
    &["daemon", "--status", "--json"],
    &["tenant", "list"],
    &["tenant", "list", "--json"],
    &["tenant", "remove", "nobody"],
    &["tenant", "remove", "nobody", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["completions", "bash"],
    &["completions", "fish", "--json"],
    &["install", "OUT/prefix"],
    &["install", "OUT/prefix", "--json"],
    &["uninstall", "OUT/prefix", "--dry-run"],
    &["uninstall", "OUT/prefix", "--dry-run", "--json"],
    &["cdi", "-n", "x", "-m", "1GiB"],
    &["cdi", "-n", "x", "-m", "1GiB", "--host-dir", "OUT/host", "--out", "OUT/x.json"],
    &["cdi", "-n", "x", "-m", "1GiB", "--host-dir", "OUT/host", "--out", "OUT/x.json", "--json"],
];
/// Commands that are asked elsewhere, or write nothing.
const ELSEWHERE: &[&str] = &["run", "demo", "bench", "kube", "help"];

/// A tenant called "lost", a daemon, and a folder for what commands write.
struct Scene {
    base: PathBuf,
    daemon: Child,
}

impl Scene {
    fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("divvy-out-{name}-{}", std::process::id()));
        let tenant = base.join("tenants/lost");
        std::fs::create_dir_all(&tenant).unwrap();
        let mut config = Config { flags: FLAG_OVERSUBSCRIBE, ..Config::default() };
        for (to, from) in config.name.iter_mut().zip(b"lost") {
            *to = *from;
        }
        write_config(&opened(&tenant), &config).unwrap();
        let mut daemon = divvy(&base, &["daemon"]);
        let daemon = daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let scene = Self { base, daemon };
        let give_up = Instant::now() + PATIENCE;
        let answers = || divvy(&scene.base, &["daemon", "--status"]).output().unwrap().status;
        while !answers().success() {
            assert!(Instant::now() < give_up, "no daemon answers");
            std::thread::sleep(Duration::from_millis(20));
        }
        scene
    }

    /// Runs a command to its end with `out` for its standard output.
    fn run(&self, arguments: &[&str], out: Stdio) -> Output {
        let folder = self.base.display().to_string();
        let arguments: Vec<_> = arguments.iter().map(|word| word.replace("OUT", &folder)).collect();
        let words: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut command = divvy(&self.base, &words);
        finish(command.stdout(out).stderr(Stdio::piped()).spawn().unwrap(), &words)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

fn opened(path: &Path) -> Directory {
    Directory::open(&std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap()).unwrap()
}

/// Waits for the end; a command that hangs is ended and fails the test.
fn finish(mut child: Child, words: &[&str]) -> Output {
    let give_up = Instant::now() + PATIENCE;
    let mut pipe = child.stderr.take().unwrap();
    // Read aside: a full pipe must not hold the command.
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        pipe.read_to_end(&mut said).map(|_| said).unwrap_or_default()
    });
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{words:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = child.wait().unwrap();
    Output { status, stdout: Vec::new(), stderr: said.join().unwrap() }
}

/// The writing end of a pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full_disk() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// What a command had done before it could not say so; nothing for the others.
fn done(arguments: &[&str]) -> &'static str {
    match arguments {
        ["set", ..] => "the limits of lost were changed",
        ["freeze", ..] => "the memory of lost has left the card",
        ["thaw", ..] => "the memory of lost is on the card",
        ["trace", ..] => "trace.json was written",
        ["tenant", "remove", ..] => "did what it was asked",
        ["install", ..] => ".so was installed",
        ["cdi", rest @ ..] if rest.contains(&"--out") => "x.json was written",
        _ => "",
    }
}

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    let scene = Scene::new("pipe");
    for arguments in COMMANDS {
        let output = scene.run(arguments, closed_pipe());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{arguments:?}: {:?} {words}", output.status);
        match done(arguments) {
            "" => assert_eq!(words, "", "{arguments:?}"),
            done => assert!(words.contains(done), "{arguments:?}: {words}"),
        }
    }
}

#[test]
fn a_full_disk_is_an_error_of_every_command() {
    let scene = Scene::new("full");
    for arguments in COMMANDS {
        let output = scene.run(arguments, full_disk());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {:?} {words}", output.status);
        let error = "standard output cannot be written: No space left on device (os error 28)";
        assert!(words.contains(error), "{arguments:?}: {words}");
        assert!(words.contains(done(arguments)), "{arguments:?}: {words}");
    }
}

#[test]
fn a_change_that_nobody_is_told_of_was_made() {
    let scene = Scene::new("change");
    scene.run(&["set", "lost", "--pause"], closed_pipe());
    let tenant = opened(&scene.base.join("tenants/lost"));
    assert_eq!(read_config(&tenant).unwrap().unwrap().paused, 1);
}

#[test]
fn an_error_that_nobody_can_read_keeps_its_exit_code() {
    let scene = Scene::new("stderr");
    for err in [closed_pipe(), full_disk()] {
        let mut command = divvy(&scene.base, &["set", "nobody", "--pause"]);
        let status = command.stdout(Stdio::null()).stderr(err).status().unwrap();
        assert_eq!(status.code(), Some(2), "{status:?}");
    }
}

#[test]
fn no_command_is_left_out() {
    let output = divvy(Path::new("/nonexistent"), &["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let commands: Vec<_> = list
        .lines()
        .map_while(|line| line.strip_prefix("  ").filter(|line| !line.is_empty()))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 8, "{commands:?}");
    for command in commands {
        let is_asked = COMMANDS.iter().any(|arguments| arguments[0] == command);
        assert!(is_asked || ELSEWHERE.contains(&command), "{command} is asked nowhere");
    }
}
