//! `divvy run` as a user meets it: exit codes, signals, environment, what is left behind.
//!
//! The library that is preloaded here is the C library itself, which changes nothing: this is about
//! the launcher. What the real library does is the end-to-end tests' business.

mod typed;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use typed::as_typed;

/// The C library this process uses.
fn harmless_library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("a libc");
    line.get(line.find('/').unwrap()..).unwrap().to_owned()
}

/// A root of this test's own, gone afterwards.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("divvy-run-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn divvy(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.0).stdin(Stdio::null());
        command.env("DIVVY_LIBRARY", harmless_library()).env("DIVVY_ONLY_RUNTIME_DIR", "1");
        command.env("DIVVY_DEVICE_LOCKS", self.0.join("locks"));
        for name in ["DIVVY_TENANT", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.divvy(arguments).output().unwrap()
    }

    fn tenants(&self) -> Vec<PathBuf> {
        let users = std::fs::read_dir(&self.0).unwrap().flatten();
        users
            .filter_map(|user| std::fs::read_dir(user.path().join("tenants")).ok())
            .flat_map(|tenants| tenants.flatten().map(|tenant| tenant.path()))
            .filter(|path| !path.ends_with(".meet"))
            .collect()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_programs_exit_code_is_ours() {
    let root = Root::new("codes");
    let code = |arguments: &[&str]| root.run(arguments).status.code();
    assert_eq!(code(&["run", "-m", "1GiB", "--", "true"]), Some(0));
    assert_eq!(code(&["run", "--", "sh", "-c", "exit 77"]), Some(77));
    assert_eq!(code(&["run", "--", "sh", "-c", "kill -SEGV $$"]), Some(128 + 11));
    assert_eq!(code(&["run", "--", "/nonexistent"]), Some(127));
    assert_eq!(code(&["run", "--", "/proc/self/status"]), Some(126));
    assert!(root.tenants().is_empty(), "{:?}", root.tenants());
}

#[test]
fn a_bad_limit_stops_everything_before_it_starts() {
    let root = Root::new("limits");
    let mark = root.0.join("started");
    for bad in ["abc", "-1", "010g", "", "0=", "17=1g", "GPU-zz=1g", "1g,1g"] {
        let memory = format!("--memory={bad}");
        let output = root.run(&["run", &memory, "--", "touch", mark.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{bad}: {}", words(&output));
        assert!(words(&output).contains(&format!("--memory {bad}:")), "{}", words(&output));
    }
    assert!(!mark.exists() && root.tenants().is_empty());
}

#[test]
fn an_option_that_is_mistyped_starts_nothing() {
    let root = Root::new("options");
    let mark = root.0.join("started");
    let mark = mark.to_str().unwrap();
    for (line, named) in [
        (&["run", "--memroy", "8GiB", "--", "touch", mark][..], ["'--memroy'", "'--memory'"]),
        (&["run", "--memroy=8GiB", "touch", mark], ["'--memroy'", "'--memory'"]),
        (&["ruun", "--", "touch", mark], ["'ruun'", "'run'"]),
        // An option in the place of another's value.
        (&["run", "--name", "--memory", "8GiB", "touch", mark], ["\"--memory\"", "--name"]),
    ] {
        let output = root.run(line);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {said}");
        assert!(named.iter().all(|name| said.contains(name)), "{line:?}: {said}");
    }
    assert!(!Path::new(mark).exists() && root.tenants().is_empty());
}

#[test]
fn the_program_finds_its_tenant_and_what_was_preloaded_stays() {
    let root = Root::new("environment");
    let script =
        r#"echo "$LD_PRELOAD"; echo "$NCCL_NVLS_ENABLE"; head -c 8 "$DIVVY_TENANT/config""#;
    let output = root
        .divvy(&["run", "-m", "8GiB", "-n", "train", "--", "sh", "-c", script])
        .env("LD_PRELOAD", "libm.so.6")
        .env("NCCL_NVLS_ENABLE", "0")
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout.clone()).unwrap();
    let expected = format!("{}:libm.so.6\n0\nDIVVYCFG", harmless_library());
    assert_eq!(out, expected, "{}", words(&output));
}

#[test]
fn a_tenant_within_a_tenant_is_refused() {
    let root = Root::new("nested");
    let output = root.divvy(&["run", "--", "true"]).env("DIVVY_TENANT", "/x").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output).contains("/x"), "{}", words(&output));
}

#[test]
fn a_missing_library_is_named() {
    let root = Root::new("library");
    let output =
        root.divvy(&["run", "--", "true"]).env("DIVVY_LIBRARY", "/no.so").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(words(&output).contains("/no.so"), "{}", words(&output));
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_the_program_runs() {
    let root = Root::new("report");
    let mark = root.0.join("started");
    let mark = mark.to_str().unwrap();
    let folder = root.0.to_str().unwrap();
    for report in ["/nonexistent/report.json", folder] {
        let output = root.run(&["run", "--report", report, "--", "touch", mark]);
        assert_eq!(output.status.code(), Some(125), "{}", words(&output));
        let said = format!("--report {report} cannot be written");
        assert!(words(&output).contains(&said), "{}", words(&output));
    }
    assert!(!Path::new(mark).exists() && root.tenants().is_empty());
    // A disk that fills up meanwhile is not known before.
    for (script, code) in [("exit 0", 1), ("exit 7", 7)] {
        let output = root.run(&["run", "--report", "/dev/full", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{}", words(&output));
        assert!(words(&output).contains("No space left on device"), "{}", words(&output));
    }
    // What was there before is replaced as a whole.
    let report = root.0.join("report.json");
    std::fs::write(&report, "x".repeat(100_000)).unwrap();
    root.run(&["run", "--report", report.to_str().unwrap(), "--", "true"]);
    let text = std::fs::read_to_string(&report).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["exit_code"], 0);
}

#[test]
fn a_summary_that_nobody_can_read_is_no_success() {
    let root = Root::new("summary");
    for (script, code) in [("exit 0", 1), ("exit 7", 7)] {
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        for err in [std::process::Stdio::from(closed), full.into()] {
            let mut command = as_typed(&root.divvy(&["run", "--json", "--", "sh", "-c", script]));
            let status = command.stderr(err).status().unwrap();
            assert_eq!(status.code(), Some(code), "{script}: {status:?}");
        }
    }
}

/// Starts a script under `divvy run` and waits until it says "ready".
fn start(root: &Root, script: &str) -> (std::process::Child, BufReader<impl Read + use<>>) {
    let divvy = root.divvy(&["run", "--", "sh", "-c", script]);
    let mut child = as_typed(&divvy).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, out)
}

fn pid(child: &std::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

#[test]
fn signals_reach_the_program_and_it_decides() {
    let root = Root::new("signals");
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ] {
        let name = signal.as_str().trim_start_matches("SIG");
        let script = format!(
            "trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let (mut child, mut out) = start(&root, &script);
        kill(pid(&child), signal).unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, format!("got {name}\n"));
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
    }
    assert!(root.tenants().is_empty());
}

/// A terminal that goes away tells the leader of its session alone, as of `ssh -t HOST divvy run …`.
#[test]
fn a_terminal_that_hangs_up_ends_the_program_of_a_session_leader() {
    let root = Root::new("hang-up");
    // This side is the test's alone from its first instant: programs that other tests start meanwhile would keep the terminal.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let terminal = posix_openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let other = open(Path::new(&ptsname_r(&terminal).unwrap()), flags, Mode::empty()).unwrap();
    let divvy = root.divvy(&["run", "--", "sh", "-c", "echo ready; exec sleep 77"]);
    // Under `nohup` the test itself ignores what a terminal sends, and its children would.
    let mut leader = Command::new("env");
    leader.args(["--default-signal=HUP", "setsid", "--ctty"]);
    leader.arg(divvy.get_program()).args(divvy.get_args());
    for (name, value) in divvy.get_envs() {
        match value {
            Some(value) => leader.env(name, value),
            None => leader.env_remove(name),
        };
    }
    leader.stdin(Stdio::from(other)).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = leader.spawn().expect("env is of coreutils");
    drop(leader);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    drop(terminal);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 1));
}

#[test]
fn a_signal_that_ends_the_program_gives_128_and_its_number() {
    let root = Root::new("ended");
    let (mut child, _out) = start(&root, "echo ready; exec sleep 30");
    kill(pid(&child), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn a_program_stopped_behind_our_back_does_not_stop_us() {
    let root = Root::new("stopped");
    // Until it has ended: whoever wakes it may come before it stops.
    let script = "(while sleep 0.3; kill -CONT $$; do :; done) & echo ready; kill -STOP $$; exit 5";
    let (mut child, _out) = start(&root, script);
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn what_a_killed_owner_left_is_removed_by_the_next() {
    let root = Root::new("sweep");
    let (mut child, _out) = start(&root, "echo ready; exec sleep 5");
    let left = root.tenants();
    assert_eq!(left.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(root.run(&["run", "--", "true"]).status.code(), Some(0));
    assert!(left[0].exists(), "the program may come to its first driver call yet");
    let deadline = Instant::now() + Duration::from_secs(60);
    while left[0].exists() && Instant::now() < deadline {
        assert_eq!(root.run(&["run", "--", "true"]).status.code(), Some(0));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!left[0].exists());
}

#[test]
fn the_summary_is_json_and_ps_sees_a_running_tenant() {
    let root = Root::new("json");
    let report = root.0.join("report.json");
    let path = report.to_str().unwrap();
    let output = root.run(&["run", "--json", "--report", path, "-n", "one", "--", "true"]);
    let summary: serde_json::Value = serde_json::from_str(words(&output).trim()).unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(summary, report);
    assert_eq!(summary["tenant"], "one");
    assert_eq!(summary["exit_code"], 0);

    let (mut child, _out) = start(&root, "echo ready; exec sleep 30");
    let listing = root.run(&["ps", "--json"]);
    let listing: serde_json::Value = serde_json::from_slice(&listing.stdout).unwrap();
    let mine = |tenant: &&serde_json::Value| {
        Path::new(tenant["directory"].as_str().unwrap()).starts_with(&root.0)
    };
    let tenants: Vec<_> = listing["tenants"].as_array().unwrap().iter().filter(mine).collect();
    assert_eq!(tenants.len(), 1);
    assert_eq!(tenants[0]["owner_alive"], true);
    kill(pid(&child), Signal::SIGTERM).unwrap();
    child.wait().unwrap();
}
