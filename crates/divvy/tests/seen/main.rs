//! What is to be seen of tenants, as a user sees it: the metrics page, the trace, the screen.
//!
//! The tenant is made of files, with the library's own words; this process is its only member.

#[path = "../calls/mod.rs"]
mod calls;
mod screen;
#[path = "../typed/mod.rs"]
mod typed;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use divvy_abi::config::Config;
use divvy_abi::usage::MemoryKind;
use divvy_page::reader::write_config;
use divvy_page::{ConfigSource, Directory, NewDevice, Tenant};
use divvy_policy::gate::Words as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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

/// Waits for the end.
fn ended(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}
