//! The stage: mounts and processes of its own, two users, the machine's daemon.

use std::ffi::{CString, OsStr};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use divvy_abi::config::Config;
use divvy_page::Directory;
use divvy_page::reader::{read_config, write_config};
use serde_json::{Value, json};

use crate::ROLE;

/// Whom the attacks are for.
pub(crate) const VICTIM: u32 = 1001;
/// The first of the attackers; each way has one of its own.
pub(crate) const ATTACKER: u32 = 2001;
/// The victim's weight, which nobody else may change, and what attackers want it to be.
pub(crate) const WEIGHT: u32 = 7;
pub(crate) const STOLEN: &str = "666";
/// The victim's name for its tenant, which nobody else may read.
pub(crate) const SECRET: &str = "the-victims-secret";
/// How often each way is tried.
pub(crate) const TRIES: usize = 1000;

/// A line by which an attacker says that it is at it.
pub(crate) const BEGUN: &str = "begun";

pub(crate) const SOCKET: &str = "/run/divvy/daemon.sock";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const WHOLE: Duration = Duration::from_secs(240);
/// Where programs lie inside, and this one among them.
const PROGRAMS: &str = "/mnt";

const ENTER: &str = r#"
set -e
mount --make-rprivate /
mount --bind "$1" /mnt
for place in /run /var/log; do mount -t tmpfs -o mode=755 none "$place"; done
for place in /dev/shm /tmp; do mount -t tmpfs -o mode=1777 none "$place"; done
shift
exec "$@"
"#;
const UNSHARE: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Plays one referee's part to its end.
pub(crate) fn play(play: &str) {
    let tried = Command::new("unshare").args(UNSHARE).arg("true").output();
    let is_possible =
        nix::unistd::geteuid().is_root() && tried.is_ok_and(|output| output.status.success());
    if !is_possible {
        println!("SKIPPED users: {play}: only root with mounts of its own can play two users");
        return;
    }
    // Another version of the program, in the same folder, shows what each way did there.
    let divvy = std::env::var("DIVVY_USERS_BINARY");
    let divvy = PathBuf::from(divvy.as_deref().unwrap_or(env!("CARGO_BIN_EXE_divvy")));
    let programs = Path::new(env!("CARGO_BIN_EXE_divvy")).parent().unwrap();
    let me = std::env::current_exe().unwrap();
    let me = Path::new(PROGRAMS).join(me.strip_prefix(programs).expect("tests lie with programs"));
    let mut command = Command::new("unshare");
    command.args(UNSHARE).args(["sh", "-c", ENTER, "sh"]).arg(programs).arg(me);
    command.args(["act", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, format!("referee\t{play}"));
    command.env("DIVVY_USERS_BINARY", Path::new(PROGRAMS).join(divvy.file_name().unwrap()));
    for name in ["XDG_RUNTIME_DIR", "DIVVY_TENANT", "DIVVY_TENANT_ROOT", "DIVVY_DEVICE_LOCKS"] {
        command.env_remove(name);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, told) = finish(child.spawn().unwrap(), WHOLE);
    println!("{told}");
    assert_eq!(code, Some(0), "{play}");
}

/// Waits for a process, ends it when that takes too long, and returns its exit code and words.
pub(crate) fn finish(mut child: Child, patience: Duration) -> (Option<i32>, String) {
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = err.read_to_end(&mut text);
        text
    });
    let words = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = out.read_to_end(&mut text);
        text
    });
    let give_up = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() >= give_up {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let text = [words.join().unwrap(), reader.join().unwrap()].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (status.and_then(|status| status.code()), text)
}

/// Waits until `is_so`; panics with `what` when it never is.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ways that led somewhere.
static SUCCESSES: AtomicUsize = AtomicUsize::new(0);

/// Says how often a way led anywhere, which must be never.
pub(crate) fn verdict(way: &str, successes: usize, tries: usize) {
    println!("{way}: {successes} of {tries}");
    SUCCESSES.fetch_add(usize::from(successes != 0), SeqCst);
}

/// Fails where a way led anywhere, after all were tried.
pub(crate) fn judge() {
    assert_eq!(SUCCESSES.load(SeqCst), 0, "ways that led somewhere");
}

/// A program of the project's, as user `uid`.
pub(crate) fn divvy(uid: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("DIVVY_USERS_BINARY").unwrap());
    command.args(arguments).uid(uid).gid(uid).current_dir("/");
    command.env("HOME", "/nonexistent").env_remove(ROLE).stdin(Stdio::null());
    command
}

/// The same, run to its end: exit code (none where it did not end) and words.
pub(crate) fn run(uid: u32, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = divvy(uid, arguments);
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), PATIENCE)
}

/// A process that ends with the test.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the machine's daemon and waits until it answers.
pub(crate) fn daemon(more: &[&str]) -> Ends {
    let child = divvy(0, &[&["daemon", "--system"], more].concat()).spawn().unwrap();
    let pid = child.id();
    let daemon = Ends(child);
    until("the machine's daemon answers", || view().is_some_and(|view| view["pid"] == pid));
    daemon
}

/// An attacker, or another part of it, as user `uid`.
pub(crate) fn attack(uid: u32, words: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["act", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, [&["attacker"], words].concat().join("\t"));
    command.uid(uid).gid(uid).current_dir("/").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The same, once it has said that it is at it.
pub(crate) fn attack_begun(uid: u32, words: &[&str]) -> Ends {
    let mut attacker = Ends(attack(uid, words));
    let said = BufReader::new(attacker.0.stdout.take().expect("piped"));
    let has_begun = said.lines().map_while(Result::ok).any(|line| line == BEGUN);
    assert!(has_begun, "{words:?} ends before it begins");
    attacker
}

/// Waits until the machine's daemon has gone through `steps` more of its steps, which is time for it however little of
/// the host it has.
pub(crate) fn daemon_goes_through(steps: u64) {
    let wakes = || view().and_then(|view| view["wakes"].as_u64());
    let before = wakes().expect("a daemon");
    until("the machine's daemon goes on", || wakes().is_some_and(|now| now >= before + steps));
}

/// Asks the machine's daemon as this process's user; `None` where it does not answer.
pub(crate) fn ask(call: &Value) -> Option<Value> {
    let mut stream = UnixStream::connect(SOCKET).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    exchange(&mut stream, call)
}

/// The same on a connection that is open.
pub(crate) fn exchange(stream: &mut UnixStream, call: &Value) -> Option<Value> {
    stream.write_all(&frame(call)).ok()?;
    answer(stream)
}

pub(crate) fn frame(call: &Value) -> Vec<u8> {
    let body = json!({"version": 1, "call": call}).to_string();
    let mut frame = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    frame.extend_from_slice(body.as_bytes());
    frame
}

pub(crate) fn answer(stream: &mut UnixStream) -> Option<Value> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut body).ok()?;
    serde_json::from_slice::<Value>(&body).ok().map(|response| response["answer"].clone())
}

/// What the machine's daemon sees.
pub(crate) fn view() -> Option<Value> {
    ask(&json!("list")).map(|answer| answer["list"].clone())
}

/// The directories of the tenants of `uid` that the daemon serves.
pub(crate) fn served(uid: u32) -> Vec<String> {
    served_in(&view(), uid)
}

/// The same by a view of its own; none without one.
pub(crate) fn served_in(view: &Option<Value>, uid: u32) -> Vec<String> {
    let tenants = view.as_ref().and_then(|view| view["tenants"].as_array());
    let tenants = tenants.cloned().unwrap_or_default();
    let of_user = tenants.iter().filter(|t| t["uid"] == uid && t["reason"].is_null());
    of_user.filter_map(|tenant| Some(tenant["directory"].as_str()?.to_owned())).collect()
}

/// Makes a directory that is `uid`'s, and those above it that are missing.
pub(crate) fn directory(path: &Path, uid: u32) {
    if !path.exists() {
        directory(path.parent().unwrap(), uid);
        std::fs::create_dir(path).unwrap();
        chown(path, Some(uid), Some(uid)).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Where `uid` has its tenants.
pub(crate) fn tenants(uid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/divvy-{uid}/tenants"))
}

/// Makes a tenant of `uid`'s in `parent`.
pub(crate) fn tenant_in(parent: &Path, uid: u32, name: &str, weight: u32) -> PathBuf {
    let path = parent.join(name);
    directory(&path, uid);
    let mut config = Config { weight, ..Config::default() };
    let shown = if uid == VICTIM { SECRET } else { "attackers" };
    config.name.iter_mut().zip(shown.bytes()).for_each(|(to, from)| *to = from);
    write_config(&open(&path), &config).unwrap();
    chown(path.join("config"), Some(uid), Some(uid)).unwrap();
    path
}

/// The same where `uid` has its tenants.
pub(crate) fn tenant(uid: u32, name: &str) -> PathBuf {
    tenant_in(&tenants(uid), uid, name, if uid == VICTIM { WEIGHT } else { 1 })
}

fn open(path: &Path) -> Directory {
    Directory::open(&CString::new(path.as_os_str().as_bytes()).unwrap()).unwrap()
}

/// The limits of the tenant at `path`.
pub(crate) fn limits(path: &Path) -> Config {
    read_config(&open(path)).unwrap().unwrap()
}

/// A path as a word of a role.
pub(crate) fn word(path: &(impl AsRef<OsStr> + ?Sized)) -> &str {
    path.as_ref().to_str().unwrap()
}
