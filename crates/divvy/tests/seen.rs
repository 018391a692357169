//! What is to be seen of tenants, as a user sees it: the metrics page, the trace, the screen.
//!
//! The tenant is made of files, with the library's own words; this process is its only member.

mod calls;
mod typed;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use divvy_abi::config::Config;
use divvy_abi::usage::MemoryKind;
use divvy_page::reader::write_config;
use divvy_page::{ConfigSource, Directory, NewDevice, Tenant};
use divvy_policy::gate::Words as _;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{FlowArg, LocalFlags, tcflow, tcgetattr};
use nix::unistd::Pid;
use typed::as_typed;

const MIB: u64 = 1 << 20;
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tenant that holds a block, and a place for what commands leave.
struct Scene {
    base: PathBuf,
    _tenant: Tenant,
}

impl Scene {
    fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("divvy-seen-{name}-{}", std::process::id()));
        let directory = base.join("tenants/one");
        std::fs::create_dir_all(&directory).unwrap();
        let path = std::ffi::CString::new(directory.as_os_str().as_bytes()).unwrap();
        let mut config = Config::default();
        for (to, from) in config.name.iter_mut().zip(b"seen-one") {
            *to = *from;
        }
        write_config(&Directory::open(&path).unwrap(), &config).unwrap();
        let tenant = Tenant::attach(&path, &ConfigSource::Owner).unwrap();
        let device = NewDevice {
            uuid: [9; 16],
            index: Some(5),
            total_bytes: 1 << 34,
            limit_bytes: None,
            name: b"card",
        };
        let row = tenant.device_row(&device).unwrap();
        assert_eq!(tenant.ask(row, 3 * MIB, MemoryKind::Block, None), Ok(()));
        tenant.share(row).unwrap().add_used(2_500_000_000);
        Self { base, _tenant: tenant }
    }

    fn divvy(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.base).stdin(Stdio::null());
        command.env("DIVVY_TENANT_ROOT", self.base.join("tenants"));
        command.env("DIVVY_DEVICE_LOCKS", self.base.join("locks")).env_remove("DIVVY_TENANT");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.divvy(arguments).output().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// Ends a daemon with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until `is_so`; panics with `what` when that never comes.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn the_daemon_serves_what_ps_prints() {
    let scene = Scene::new("metrics");
    let printed = text(&scene.run(&["ps", "--openmetrics"]).stdout);
    let held = "divvy_tenant_memory_held_bytes{tenant=\"seen-one\"";
    let line = printed.lines().find(|line| line.starts_with(held)).expect("the tenant");
    assert!(line.ends_with(" 3145728") && printed.ends_with("# EOF\n"), "{printed}");
    let (_daemon, address) = collected(&scene);
    let used = "divvy_tenant_used_seconds_total{tenant=\"seen-one\"";
    let mut page = String::new();
    until("the page has the tenant and its device", || {
        page = get(&address, "/metrics").unwrap_or_default();
        page.contains(used) && page.contains("divvy_device_turns_total{")
    });
    assert!(page.starts_with("HTTP/1.0 200 OK\r\n"), "{page}");
    assert!(page.contains("application/openmetrics-text; version=1.0.0"), "{page}");
    assert!(page.lines().any(|l| l == line), "{page}");
    let used = page.lines().find(|line| line.starts_with(used)).unwrap();
    assert!(used.ends_with(" 2.500000000"), "{used}");
    assert!(get(&address, "/other").unwrap().starts_with("HTTP/1.0 404 "));
}

/// A daemon that serves metrics, and where it says that it does.
fn collected(scene: &Scene) -> (Ends, String) {
    let mut command = scene.divvy(&["daemon", "--metrics", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    // It may say more, and must find somebody who listens.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let address = line.trim().strip_prefix("divvy: metrics are served at http://");
    let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
    (Ends(child), address.unwrap_or_else(|| panic!("{line:?}")).to_owned())
}

#[test]
fn metrics_join_a_daemon_that_runs_and_go_on_when_it_ends() {
    let scene = Scene::new("join");
    let first = scene.divvy(&["daemon"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let first = Ends(first.unwrap());
    let pid = || -> serde_json::Value {
        let view = scene.run(&["daemon", "--status", "--json"]).stdout;
        serde_json::from_slice::<serde_json::Value>(&view).unwrap_or_default()["pid"].take()
    };
    until("the first answers", || pid() == first.0.id());
    let (second, address) = collected(&scene);
    let has_page = || {
        let page = get(&address, "/metrics").unwrap_or_default();
        page.starts_with("HTTP/1.0 200 OK") && page.contains("{tenant=\"seen-one\"")
    };
    until("the first's page is served", has_page);
    assert_eq!(pid(), first.0.id());
    drop(first);
    until("the second takes over", || pid() == second.0.id());
    until("its own page is served", has_page);
    // One that stands by ends when it is asked to.
    let (mut third, _) = collected(&scene);
    signal(&third.0, Signal::SIGTERM);
    assert_eq!(ended(&mut third.0).code(), Some(0));
    assert_eq!(pid(), second.0.id());
}

/// Whoever is silent, slow or endless keeps no collector waiting.
#[test]
fn a_collector_is_served_beside_slow_and_silent_ones() {
    let scene = Scene::new("slow");
    let (_daemon, address) = collected(&scene);
    until("a page is served", || get(&address, "/metrics").is_some());
    let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // A byte of a request at a time, for as long as anybody reads, and again.
                while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    let Ok(mut stream) = TcpStream::connect(&address) else { continue };
                    while stream.write_all(b"x").is_ok()
                        && !is_over.load(std::sync::atomic::Ordering::SeqCst)
                    {
                        // A slow sender's pace; nothing waits for it.
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        for _ in 0..20 {
            let page = get(&address, "/metrics").unwrap_or_default();
            assert!(page.starts_with("HTTP/1.0 200 OK\r\n") && page.ends_with("# EOF\n"), "{page}");
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    drop(silent);
    let mut endless = TcpStream::connect(&address).unwrap();
    endless.set_read_timeout(Some(PATIENCE)).unwrap();
    endless.write_all(&[b'x'; 8192]).unwrap();
    let mut answer = String::new();
    endless.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 431 "), "{answer}");
}

#[test]
fn an_interrupted_trace_keeps_what_it_has() {
    let scene = Scene::new("trace");
    let file = scene.base.join("trace.json");
    let out = ["trace", "seen-one", "--seconds", "500", "--json", "--out"];
    let mut command = scene.divvy(&[&out[..], &[file.to_str().unwrap()][..]].concat());
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    // From the file on an interrupt is waited for.
    until("the file is made", || file.exists());
    let reads = || calls::reads(format!("/proc/{}", child.id()));
    let before = reads();
    until("the tenant has been read", || reads() > before + 100);
    signal(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["readings"].as_u64().unwrap() > 0, "{report}");
    let events: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(events.len() as u64, report["events"].as_u64().unwrap());
    assert!(events.iter().any(|event| event["args"]["name"] == "seen-one on GPU 5"), "{events:?}");
    let wrong = scene.run(&["trace", "nobody"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("seen-one"), "{}", text(&wrong.stderr));
}

#[test]
fn the_screen_without_a_terminal() {
    let scene = Scene::new("once");
    let once = text(&scene.run(&["top", "--once", "--interval", "0.1"]).stdout);
    let words = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    assert!(once.lines().any(|line| words(line) == "5 seen-one 3 MiB"), "{once}");
    let json = scene.run(&["top", "--json", "--interval", "0.1"]).stdout;
    let picture: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let rows = picture["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["tenant"] == "seen-one" && row["index"] == 5), "{picture}");
    let refused = scene.run(&["top"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--once"), "{}", text(&refused.stderr));
}

/// What comes out of a terminal, read by a thread: a program that says nothing must not hold a test. The
/// thread closes its end of the terminal soon after the receiver is dropped.
fn output_of(terminal: &OwnedFd) -> Receiver<Vec<u8>> {
    let mut terminal = std::fs::File::from(terminal.try_clone().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut chunk = [0_u8; 4096];
        // An empty chunk asks whether anybody listens.
        while sender.send(Vec::new()).is_ok() {
            let mut waited = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
            if poll(&mut waited, 20_u8) == Ok(0) {
                continue;
            }
            let Ok(count @ 1..) = terminal.read(&mut chunk) else { return };
            if sender.send(chunk[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// All that comes until `end` is in it.
fn read_until(output: &Receiver<Vec<u8>>, end: &str) -> String {
    let mut seen = Vec::new();
    let give_up = Instant::now() + PATIENCE;
    while !text(&seen).contains(end) {
        match output.recv_timeout(PATIENCE) {
            Ok(chunk) if Instant::now() < give_up => seen.extend_from_slice(&chunk),
            other => panic!("no {end:?} ({:?}) in {:?}", other.err(), text(&seen)),
        }
    }
    text(&seen)
}

/// A terminal of 30 lines and 120 columns: both its ends. No process started meanwhile by another
/// test gets one of them: a terminal with a second master does not hang up.
fn terminal() -> (OwnedFd, OwnedFd) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname_r(&master).unwrap();
    let mut options = std::fs::File::options();
    let slave = options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
    let slave = OwnedFd::from(slave.open(path).unwrap());
    let size = ["rows", "30", "cols", "120"];
    let mut stty = Command::new("stty");
    let set = stty.args(size).stdin(slave.try_clone().unwrap()).status().unwrap();
    assert!(set.success());
    (master.into(), slave)
}

/// `divvy top` on a terminal of its own.
struct Top {
    master: OwnedFd,
    slave: OwnedFd,
    output: Receiver<Vec<u8>>,
    child: Ends,
}

impl Top {
    /// Starts it and waits until it has drawn the tenant.
    fn start(scene: &Scene) -> Self {
        let (master, slave) = terminal();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let mut command = as_typed(&scene.divvy(&["top", "--interval", "0.2"]));
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        let output = output_of(&master);
        let top = Self { master, slave, output, child: Ends(child) };
        let drawn = read_until(&top.output, "seen-one");
        assert!(drawn.contains("\x1b[?1049h"), "the other screen: {drawn:?}");
        assert!(top.is_raw());
        top
    }

    fn press(&self, keys: &[u8]) {
        let master = self.master.try_clone().unwrap();
        std::fs::File::from(master).write_all(keys).unwrap();
    }

    fn is_raw(&self) -> bool {
        let flags = tcgetattr(&self.slave).unwrap().local_flags;
        !flags.contains(LocalFlags::ICANON) && !flags.contains(LocalFlags::ECHO)
    }

    /// Waits for the first screen to come back, and for the end.
    fn puts_back(mut self) -> ExitStatus {
        read_until(&self.output, "\x1b[?1049l");
        let status = ended(&mut self.child.0);
        assert!(!self.is_raw());
        status
    }
}

/// Waits for the end.
fn ended(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

#[test]
fn the_terminal_is_put_back_by_a_key_and_by_a_signal() {
    let scene = Scene::new("terminal");
    let top = Top::start(&scene);
    // Keys that are read at once are all taken.
    top.press(b"jkq");
    assert_eq!(top.puts_back().code(), Some(0));
    for (by, code) in [(Signal::SIGTERM, 0), (Signal::SIGINT, 0), (Signal::SIGHUP, 129)] {
        let top = Top::start(&scene);
        signal(&top.child.0, by);
        assert_eq!(top.puts_back().code(), Some(code), "{by}");
    }
}

#[test]
fn the_screen_ends_with_its_terminal() {
    let scene = Scene::new("closed");
    // The last rounds close while keys are on their way.
    for keys in [&b""[..], b"", b"jj", b"e12", b"\x1b[", b"jkjk"] {
        let top = Top::start(&scene);
        top.press(keys);
        let Top { master, slave, output, mut child } = top;
        drop((master, slave, output));
        let status = ended(&mut child.0);
        let is_hangup =
            status.code() == Some(129) || status.signal() == Some(Signal::SIGHUP as i32);
        assert!(is_hangup, "{keys:?}: {status:?}");
    }
}

#[test]
fn a_terminal_that_takes_no_output_does_not_keep_the_screen() {
    let scene = Scene::new("stopped");
    for by in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut top = Top::start(&scene);
        // As Ctrl-S does. The prompt's frame then waits for the terminal; a command that has not come to
        // it yet ends by itself, with a code.
        tcflow(&top.slave, FlowArg::TCOOFF).unwrap();
        top.press(b"e");
        until("the key is taken", || {
            poll(&mut [PollFd::new(top.slave.as_fd(), PollFlags::POLLIN)], 0_u8) == Ok(0)
        });
        signal(&top.child.0, by);
        let status = ended(&mut top.child.0);
        assert!(status.signal() == Some(by as i32) || status.code().is_some(), "{status:?}");
    }
}
