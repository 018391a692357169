//! Every command's JSON beside its example in `docs/json.md`. Those that need a driver are compared in `tests/e2e/json.rs`.

mod asked;
mod shape;

use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use asked::divvy;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE};
use divvy_abi::usage::MemoryKind;
use divvy_page::reader::write_config;
use divvy_page::{ConfigSource, Directory, NewDevice, Tenant};

/// Longer than a daemon takes to answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tenant called "train", with this process in it, and a daemon.
struct Scene {
    base: PathBuf,
    daemon: Child,
    _tenant: Tenant,
}

impl Scene {
    fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("divvy-json-{name}-{}", std::process::id()));
        let directory = base.join("tenants/train");
        std::fs::create_dir_all(&directory).unwrap();
        let path = std::ffi::CString::new(directory.as_os_str().as_bytes()).unwrap();
        let mut config = Config { flags: FLAG_OVERSUBSCRIBE, ..Config::default() };
        for (to, from) in config.name.iter_mut().zip(b"train") {
            *to = *from;
        }
        write_config(&Directory::open(&path).unwrap(), &config).unwrap();
        let tenant = Tenant::attach(&path, &ConfigSource::Owner).unwrap();
        let device = NewDevice {
            uuid: [9; 16],
            index: Some(0),
            total_bytes: 140 << 30,
            limit_bytes: Some(8 << 30),
            name: b"NVIDIA H200",
        };
        let row = tenant.device_row(&device).unwrap();
        assert_eq!(tenant.ask(row, 3 << 20, MemoryKind::Block, None), Ok(()));
        let mut command = divvy(&base, &["daemon"]);
        let daemon = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let scene = Self { base, daemon, _tenant: tenant };
        let give_up = Instant::now() + PATIENCE;
        let is_seen = |scene: &Self| {
            let seen = divvy(&scene.base, &["daemon", "--status", "--json"]).output().unwrap();
            let view: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap_or_default();
            view["tenants"].as_array().is_some_and(|tenants| !tenants.is_empty())
                && view["devices"].as_array().is_some_and(|devices| !devices.is_empty())
        };
        while !is_seen(&scene) {
            assert!(Instant::now() < give_up, "no daemon sees the tenant");
            std::thread::sleep(Duration::from_millis(20));
        }
        scene
    }

    /// Compares what a command prints; `head` is the command line on the page, with names in the place of paths.
    fn compare(&self, head: &str, arguments: &[&str]) {
        let base = self.base.display().to_string();
        let arguments: Vec<_> = arguments.iter().map(|word| word.replace("OUT", &base)).collect();
        let words: Vec<_> = arguments.iter().map(String::as_str).collect();
        let output = divvy(&self.base, &words).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let library = env!("CARGO_BIN_EXE_divvy");
        let pid = format!("\"pid\": {}", std::process::id());
        let replace = [
            (base.as_str(), "/run/user/1000"),
            (library, "/usr/lib/divvy/libdivvy.so"),
            ("every_command_p", "python3"),
            (pid.as_str(), "\"pid\": 4711"),
        ];
        shape::compare(head, &printed, &replace);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

#[test]
fn every_command_prints_what_the_page_shows() {
    let scene = Scene::new("all");
    scene.compare("divvy ps", &["ps", "--json"]);
    scene.compare("divvy top", &["top", "--json", "--interval", "0.1"]);
    scene.compare("divvy set", &["set", "train", "--compute", "30%", "--json"]);
    let memory = "GPU-09090909-0909-0909-0909-090909090909=8GiB";
    let create = ["tenant", "create", "job-1", "-m", memory, "-c", "30%", "--json"];
    scene.compare("divvy tenant", &create);
    scene.compare("divvy tenant remove", &["tenant", "remove", "job-1", "--json"]);
    scene.compare("divvy freeze, divvy thaw", &["freeze", "train", "--json"]);
    scene.compare("divvy freeze, divvy thaw", &["thaw", "train", "--json"]);
    let trace = ["trace", "train", "--seconds", "0.1", "--out", "OUT/trace.json", "--json"];
    scene.compare("divvy trace", &trace);
    // Lines have what applies to each: the example has the most.
    scene.compare("divvy log", &["log", "--since", "2999-01-01", "--json"]);
    scene.compare("divvy daemon --status", &["daemon", "--status", "--json"]);
    scene.compare("divvy daemon --schedule", &["daemon", "--schedule", "on", "--json"]);
    let defaults = scene.base.join("config/divvy/config.toml");
    std::fs::create_dir_all(defaults.parent().unwrap()).unwrap();
    std::fs::write(&defaults, "[run]\nmemory = \"8GiB\"\n\n[daemon]\nroot = \"/srv/tenants\"\n")
        .unwrap();
    scene.compare("divvy doctor", &["doctor", "--json"]);
    std::fs::remove_file(&defaults).unwrap();
    scene.compare("divvy doctor --hami", &["doctor", "--hami", "--json"]);
    scene.compare("divvy completions", &["completions", "fish", "--json"]);
    scene.compare("divvy install", &["install", "OUT/prefix", "--json"]);
    scene.compare("divvy uninstall", &["uninstall", "OUT/prefix", "--json"]);
    let out = ["--host-dir", "OUT/host", "--out", "OUT/x.json", "--json"];
    scene.compare("divvy cdi", &[&["cdi", "-n", "x", "-m", "1GiB"][..], &out].concat());
    // One after the other: a page that is written is written by one test.
    shape::compare("divvy ps", &line_of_a_watch(&scene), &[]);
}

/// The first line of `divvy ps --watch --json`.
fn line_of_a_watch(scene: &Scene) -> String {
    let mut command = divvy(&scene.base, &["ps", "--watch", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _ = child.kill();
    let _ = child.wait();
    line
}
