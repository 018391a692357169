//! A root of a test's own, daemons in it, and tenants made with the library's own words.

use std::ffi::CString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use divvy_abi::config::{Config, GateLine, gate};
use divvy_abi::usage::MemoryKind;
use divvy_page::owner::Owner;
use divvy_page::reader::{UsageFile, write_config};
use divvy_page::{ConfigSource, DeviceRow, Directory, NewDevice, Tenant, now_ns};
use divvy_policy::gate::Words as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

pub(crate) const MS: u64 = 1_000_000;
const KERNEL: Duration = Duration::from_millis(1);
/// What a busy tenant says is in flight: as with some kernels queued, so that what is late here is not an
/// idle device.
const QUEUED_NS: u64 = 5 * MS;

/// The C library this process uses: preloading it changes nothing.
fn harmless_library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("a libc");
    line.get(line.find('/').unwrap()..).unwrap().to_owned()
}

/// Longer than anything that comes at all takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `is_so`; panics with `what` when that never comes.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory of the test's own in place of XDG_RUNTIME_DIR, gone afterwards; and a device, which does
/// one kernel at a time.
pub(crate) struct Root(pub(crate) PathBuf, Arc<Mutex<()>>);

impl Root {
    /// Asks the daemon by a frame of the test's own.
    pub(crate) fn ask(&self, call: &Value) -> Value {
        let body = json!({ "version": 1, "call": call }).to_string();
        let mut stream = UnixStream::connect(self.home().join("daemon.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        stream.write_all(&[&length[..], body.as_bytes()].concat()).unwrap();
        let mut head = [0; 4];
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; usize::try_from(u32::from_le_bytes(head)).unwrap()];
        stream.read_exact(&mut body).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["answer"].clone()
    }

    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("divvy-dm-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let root = Self(path, Arc::default());
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).recursive(true).create(root.tenants()).unwrap();
        root
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.0.join(format!("divvy-{}", nix::unistd::geteuid()))
    }

    pub(crate) fn tenants(&self) -> PathBuf {
        self.home().join("tenants")
    }

    pub(crate) fn divvy(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_divvy"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.0).stdin(Stdio::null());
        command.env("DIVVY_LIBRARY", harmless_library());
        command.env("DIVVY_DEVICE_LOCKS", self.0.join("locks")).env("DIVVY_ONLY_RUNTIME_DIR", "1");
        for name in ["DIVVY_TENANT", "DIVVY_TENANT_ROOT", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.divvy(arguments).output().unwrap()
    }

    /// Starts a daemon in the foreground of a process of its own and waits until it answers.
    pub(crate) fn daemon(&self, arguments: &[&str]) -> Daemon {
        let child = self.divvy(&["daemon"]).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let daemon = Daemon(child);
        until("the daemon answers", || self.view().is_some_and(|v| v["pid"] == daemon.pid()));
        daemon
    }

    /// What the daemon of this root sees. The command waits a second for an answer, which a busy machine
    /// may not give it: so it is asked again; where no daemon is, all are refused at once.
    pub(crate) fn view(&self) -> Option<serde_json::Value> {
        let ask = || {
            let output = self.run(&["daemon", "--status", "--json"]);
            let view: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
            view.filter(|view| !view["pid"].is_null())
        };
        (0..5).find_map(|_| ask())
    }

    /// Waits until the daemon of this root has gone through `steps` more of its steps, which is time for it however
    /// little of the host it has; views of before and after.
    pub(crate) fn goes_through(&self, steps: u64) -> [Seen; 2] {
        let seen = || Seen::of(&self.view().expect("a daemon"));
        let (before, mut after) = (seen(), Seen::default());
        until("the daemon goes on", || {
            after = seen();
            after.wakes >= before.wakes + steps
        });
        [before, after]
    }

    /// The tenants of this root that a view has, if it is one. A view shows the user's others too, of
    /// programs that run under limits by environment variables alone.
    pub(crate) fn own_tenants<'a>(
        &self,
        view: &'a serde_json::Value,
    ) -> Vec<&'a serde_json::Value> {
        let is_own = |tenant: &&serde_json::Value| {
            tenant["directory"].as_str().is_some_and(|path| Path::new(path).starts_with(&self.0))
        };
        view["tenants"].as_array().into_iter().flatten().filter(is_own).collect()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How far a daemon was when it left a view.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// When that was.
    pub(crate) seen_ns: u64,
    /// Its steps.
    pub(crate) wakes: u64,
}

impl Seen {
    pub(crate) fn of(view: &serde_json::Value) -> Self {
        let number = |name: &str| view[name].as_u64().unwrap();
        Self { seen_ns: number("seen_ns"), wakes: number("wakes") }
    }
}

/// A daemon, killed when the test ends.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> i32 {
        let mut code = None;
        until("the daemon ends", || {
            code = self.0.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|code| code.code()).unwrap_or(-1)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A tenant of this process's, whose one thread launches as fast as its gate lets it.
pub(crate) struct Fake {
    pub(crate) directory: PathBuf,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) row: DeviceRow,
    pub(crate) launches: Arc<AtomicU64>,
    /// Time for which the host let it lie when what it had said to be in flight was over.
    pub(crate) late_ns: Arc<AtomicU64>,
    /// Time for which its thread was given no processor: a turn that comes and goes meanwhile is lost.
    pub(crate) starved_ns: Arc<AtomicU64>,
    /// Time that it had beyond the planned ends of its turns: its daemon was late.
    pub(crate) over_ns: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Writes the limits of the tenant in `directory`.
pub(crate) fn limit(directory: &Path, config: &Config) {
    write_config(&Directory::open(&c_path(directory)).unwrap(), config).unwrap();
}

pub(crate) fn named(name: &str) -> Config {
    let mut config = Config::default();
    for (to, from) in config.name.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    config
}

impl Fake {
    /// A tenant with a context on the device with this UUID, and nothing to do.
    pub(crate) fn idle(root: &Root, name: &str, uuid: u8) -> Self {
        let directory = root.tenants().join(name);
        std::fs::create_dir(&directory).unwrap();
        limit(&directory, &named(name));
        let tenant = Tenant::attach(&c_path(&directory), &ConfigSource::Owner).unwrap();
        let device = NewDevice {
            uuid: [uuid; 16],
            index: Some(0),
            total_bytes: 1 << 34,
            limit_bytes: None,
            name: b"card",
        };
        let row = tenant.device_row(&device).unwrap();
        tenant.hold(row, 1 << 20, MemoryKind::Context);
        Self {
            directory,
            tenant: Arc::new(tenant),
            row,
            launches: Arc::default(),
            late_ns: Arc::default(),
            starved_ns: Arc::default(),
            over_ns: Arc::default(),
            stop: Arc::default(),
            thread: None,
        }
    }

    /// The same, launching all the time.
    pub(crate) fn busy(root: &Root, name: &str, uuid: u8) -> Self {
        let mut fake = Self::idle(root, name, uuid);
        let (tenant, row) = (Arc::clone(&fake.tenant), fake.row);
        let counts = [&fake.launches, &fake.late_ns, &fake.over_ns, &fake.starved_ns];
        let counts = counts.map(Arc::clone);
        let (stop, device) = (Arc::clone(&fake.stop), Arc::clone(&root.1));
        let body = move || work(&tenant, row, counts.each_ref().map(|one| &**one), &stop, &device);
        fake.thread = Some(std::thread::spawn(body));
        fake
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner::open(&c_path(&self.directory)).unwrap()
    }

    pub(crate) fn line(&self) -> GateLine {
        self.tenant.share(self.row).unwrap().gate_line()
    }

    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(SeqCst)
    }

    /// What its kernels took.
    pub(crate) fn used_ns(&self) -> u64 {
        let usage = UsageFile::open(&c_path(&self.directory)).unwrap();
        usage.expect("a usage file").gate_sum(0).used_ns
    }

    /// Waits for more launches than there were.
    pub(crate) fn goes_on(&self, what: &str) {
        let before = self.launches();
        until(what, || self.launches() > before + 5);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// How long the calling thread has waited for a processor in all; 0 where the kernel does not say.
fn thread_starved_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The gate's rules in their simplest form: what the library does at each launch.
fn work(
    tenant: &Tenant,
    row: DeviceRow,
    [launches, late_ns, over_ns, starved_ns]: [&AtomicU64; 4],
    stop: &AtomicBool,
    device: &Mutex<()>,
) {
    let share = tenant.share(row).unwrap();
    let (mut epoch, mut paused) = (0, false);
    while !stop.load(SeqCst) {
        starved_ns.store(thread_starved_ns(), SeqCst);
        let now = now_ns();
        let any = tenant.any_gate().load() != 0;
        if tenant.config_epoch() != epoch
            && let Some(config) = tenant.live_config()
        {
            (epoch, paused) = (config.epoch, config.paused != 0);
        }
        if any && paused {
            std::thread::sleep(KERNEL);
            continue;
        }
        let line = share.gate_line();
        if any && line.gate == gate::CLOSED && line.lease_ns > now {
            share.busy_until_ns().store(now, SeqCst);
            share.note_want(now);
            share.wait(gate::CLOSED, line.lease_ns.min(now + 20 * MS));
            continue;
        }
        if any {
            share.note_launch(now);
            share.busy_until_ns().store(now + QUEUED_NS, SeqCst);
            share.count_launches(1);
        }
        let running = device.lock().unwrap();
        let start_ns = now_ns();
        std::thread::sleep(KERNEL);
        let took_ns = now_ns() - start_ns;
        late_ns.fetch_add(took_ns.saturating_sub(QUEUED_NS), SeqCst);
        if any && line.turn_end_ns != 0 {
            let from_ns = line.turn_end_ns.max(start_ns);
            over_ns.fetch_add((start_ns + took_ns).saturating_sub(from_ns), SeqCst);
        }
        if any {
            share.add_used(i64::try_from(took_ns).unwrap());
        }
        drop(running);
        launches.fetch_add(1, SeqCst);
    }
}

/// Waits until the daemon makes the two take turns: each has been closed once while the other was open.
pub(crate) fn take_turns(one: &Fake, two: &Fake) {
    for fake in [one, two] {
        until("a tenant is closed for the other", || fake.line().gate == gate::CLOSED);
    }
    one.goes_on("the first has its turn");
    two.goes_on("the second has its turn");
}
