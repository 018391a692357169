//! The machine's daemon: `divvy daemon --system` as root, with the capabilities of its unit, and the
//! tenants of two users. It plays in mounts of its own, so that it meets nobody else's tenants.

mod memory;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Finished, MIB, Machine, Running, client, finish, root, stage, until};
use crate::hostile::{can_unshare, is_root};

const USERS: [u32; 2] = [1001, 1002];
/// Where the machine's directory lies inside.
const INSIDE: &str = "/mnt";
/// The simulated card.
const CARD: &str = "GPU-513d9a0b-7e42-4c11-9f20-d177e5000000";

/// A machine without tenants, whose kernel module knows the simulated card.
const ENTER: &str = r#"
set -e
mount --make-rprivate /
mount --bind "$1" /mnt
for place in /run /var/log /proc/driver; do mount -t tmpfs -o mode=755 none "$place"; done
for place in /dev/shm /tmp; do mount -t tmpfs -o mode=1777 none "$place"; done
mkdir -p "/proc/driver/nvidia/gpus/0000:01:00.0"
echo "GPU UUID: $2" > "/proc/driver/nvidia/gpus/0000:01:00.0/information"
echo ready
exec sleep 600
"#;

/// The machine, its mounts, and what runs in them.
struct System {
    machine: Machine,
    mounts: Running,
    running: Vec<Running>,
}

impl System {
    fn new() -> Self {
        let machine = Machine::new()
            .native()
            .with("SIMGPU_DIR", format!("{INSIDE}/sim"))
            .with("SIMGPUD", format!("{INSIDE}/tree/sim/simgpud"))
            .with("SIMGPU_LINGER", "forever")
            .with("LD_LIBRARY_PATH", format!("{INSIDE}/tree/sim"))
            .with("DIVVY_LIBRARY", format!("{INSIDE}/tree/lib/libdivvy.so"))
            .with("HOME", "/nonexistent")
            .with("TMPDIR", "/tmp")
            .with("SIMGPU_SEED", 0)
            .without("XDG_RUNTIME_DIR")
            .without("DIVVY_DEVICE_LOCKS")
            .without("DIVVY_ONLY_RUNTIME_DIR");
        let tree = machine.home().join("tree");
        let parts = ["bin/divvy", "lib/libdivvy.so", "sim/simgpud"];
        let libraries = ["sim/libcuda.so.1", "sim/libnvidia-ml.so.1"];
        for part in parts.iter().chain(&libraries) {
            let to = tree.join(part);
            fs::create_dir_all(to.parent().expect("a folder")).expect("folders can be made");
            fs::copy(stage().join(part), to).expect("the tree can be copied");
        }
        for name in ["beyond", "turns"] {
            fs::copy(client(name), tree.join(name)).expect("clients can be copied");
        }
        open(machine.home(), 0o755);
        open(&machine.home().join("sim"), 0o777);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER, "sh"]).arg(machine.home()).arg(CARD);
        let mounts = Running::start(&mut command);
        let system = Self { machine, mounts, running: Vec::new() };
        let ready = || system.outside("/proc/driver/nvidia/gpus/0000:01:00.0/information").exists();
        until("the mounts are made", ready);
        // A machine for everybody: a user could not start it.
        let mut first = system.inside(0, "sh");
        first.args(["-c", "umask 0; exec \"$@\"", "sh", &format!("{INSIDE}/tree/beyond")]);
        let first = finish(first.args([MIB.to_string(), MIB.to_string(), "0".to_owned()]));
        assert_eq!(first.code(), Some(0), "{first}");
        system
    }

    /// A path of the inside, seen from here.
    fn outside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.mounts.pid()))
    }

    /// A program on the inside, of this user.
    fn inside(&self, uid: u32, program: &str) -> Command {
        let mut command = self.machine.command("nsenter");
        command.args(["--target", &self.mounts.pid().to_string(), "--mount", "setpriv"]);
        if uid == 0 {
            let (allowed, bound) = (unit("CapabilityBoundingSet"), "--bounding-set");
            let names = allowed.split_whitespace().filter_map(|name| name.strip_prefix("CAP_"));
            let names: Vec<_> = names.map(|name| format!("+{}", name.to_lowercase())).collect();
            command.args([bound, &format!("-all,{}", names.join(","))]);
            command.args(["--inh-caps", "-all", "--no-new-privs"]);
        } else {
            let uid = uid.to_string();
            command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
        }
        command.arg("--").arg(program);
        command
    }

    fn divvy(&self, uid: u32, arguments: &[&str]) -> Command {
        let mut command = self.inside(uid, &format!("{INSIDE}/tree/bin/divvy"));
        command.args(arguments);
        command
    }

    fn run(&self, uid: u32, arguments: &[&str]) -> Finished {
        finish(&mut self.divvy(uid, arguments))
    }

    /// Starts the machine's daemon, and says which process it is.
    fn daemon(&mut self) -> u32 {
        self.daemon_with(&[])
    }

    /// The same with more arguments.
    fn daemon_with(&mut self, arguments: &[&str]) -> u32 {
        let mut command = self.divvy(0, &["daemon", "--system"]);
        let daemon = Running::start(command.args(arguments));
        let pid = daemon.pid();
        self.running.push(daemon);
        until("the machine's daemon answers", || self.view(0)["pid"] == pid);
        pid
    }

    /// Starts a program with a context, in a tenant of this user's.
    fn tenant(&mut self, uid: u32, name: &str) {
        let mut command = self.divvy(uid, &["run", "--name", name, "--memory", "2GiB", "--"]);
        command.arg(format!("{INSIDE}/tree/beyond"));
        command.args([MIB.to_string(), MIB.to_string(), "60000".to_owned()]);
        self.running.push(Running::start(&mut command));
    }

    /// What the machine's daemon tells this user.
    fn view(&self, uid: u32) -> Value {
        let told = self.run(uid, &["daemon", "--system", "--status", "--json"]);
        serde_json::from_str(&told.out).unwrap_or_default()
    }

    /// The uids of the tenants that the machine's daemon serves, as this user is told.
    fn served(&self, uid: u32) -> Vec<u32> {
        let view = self.view(uid);
        let tenants = view["tenants"].as_array().cloned().unwrap_or_default();
        let served = tenants.iter().filter(|tenant| tenant["reason"].is_null());
        served.filter_map(|tenant| u32::try_from(tenant["uid"].as_u64()?).ok()).collect()
    }

    /// The directory of this user's only tenant, on the inside.
    fn directory(&self, uid: u32) -> String {
        let parent = format!("/dev/shm/divvy-{uid}/tenants");
        let mut names = fs::read_dir(self.outside(&parent)).expect("tenants").flatten();
        let name = names.next().expect("a tenant").file_name();
        format!("{parent}/{}", name.to_string_lossy())
    }

    /// User and mode of a path on the inside.
    fn status(&self, path: &str) -> (u32, u32) {
        let status = fs::symlink_metadata(self.outside(path)).expect(path);
        (status.uid(), status.mode() & 0o777)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        for running in &mut self.running {
            running.kill_with_children();
        }
        // What is left in these mounts: the simulated machine, a user's daemon.
        let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
        let ours = namespace(Path::new("/proc/self"));
        let inside = namespace(Path::new(&format!("/proc/{}", self.mounts.pid())));
        if inside.is_none() || inside == ours {
            return;
        }
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if namespace(&process.path()) == inside {
                let _ = Command::new("kill").arg("-KILL").arg(process.file_name()).status();
            }
        }
    }
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("modes can be set");
}

/// What the unit file says under this name.
fn unit(name: &str) -> String {
    let text = fs::read_to_string(root().join("deploy/divvy.service")).expect("the unit file");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("the unit has no {name}")).to_owned()
}

fn signal(name: &str, pid: u32) {
    let done = Command::new("kill").arg(name).arg(pid.to_string()).status();
    assert!(done.is_ok_and(|status| status.success()), "{name} {pid}");
}

#[test]
fn the_machines_daemon_serves_all_users_and_each_sees_and_changes_its_own() {
    if !is_root() || !can_unshare(&["--mount"]) {
        println!("SKIPPED the machine's daemon: only root with mounts of its own can play it");
        return;
    }
    let [one, two] = USERS;
    let mut system = System::new();
    system.tenant(one, "first");
    let users_own = |system: &System| {
        let told = system.run(one, &["daemon", "--status", "--json"]);
        serde_json::from_str::<Value>(&told.out).is_ok_and(|view| !view["pid"].is_null())
    };
    let lock = format!("/tmp/.divvy-devices/{CARD}.lock");
    until("the user's own daemon divides the card", || {
        users_own(&system) && system.outside(&lock).exists()
    });

    let pid = system.daemon();
    until("the machine's has taken over", || system.served(0) == [one]);
    assert!(!users_own(&system), "the user's own goes on");
    let second = system.run(one, &["daemon"]);
    assert_eq!(second.code(), Some(1), "{second}");
    assert!(second.err.contains("the machine's daemon serves"), "{second}");
    let other = system.run(one, &["daemon", "--system"]);
    assert!(other.code() == Some(125) && other.err.contains("as root"), "{other}");

    system.tenant(two, "second");
    until("both are served", || system.served(0).len() == 2);
    for uid in USERS {
        assert_eq!(system.served(uid), [uid], "a user is told of its own");
    }
    until("the card is divided", || {
        let device = &system.view(one)["devices"][0];
        device["uuid"] == CARD && device["reason"].is_null() && device["mode"] != "free"
    });
    assert_eq!(system.status("/run/divvy"), (0, 0o755));
    assert_eq!(system.status("/run/divvy/daemon.sock"), (0, 0o666));
    assert_eq!(system.status("/run/divvy/daemon.lock"), (0, 0o600));
    assert_eq!(system.status(&lock), (0, 0o600));

    // Another's tenant cannot be seen; where its owner shows it, it still cannot be changed.
    let theirs = system.directory(two);
    let set = |uid: u32, tenant: &str| system.run(uid, &["set", tenant, "--weight", "300"]);
    assert_eq!(set(one, &theirs).code(), Some(2));
    for path in
        [&format!("{theirs}/usage"), &theirs, "/dev/shm/divvy-1002/tenants", "/dev/shm/divvy-1002"]
    {
        open(&system.outside(path), 0o755);
    }
    let refused = set(one, &theirs);
    assert!(refused.code() == Some(125) && refused.err.contains("uid 1001"), "{refused}");
    for (uid, name) in [(one, "first"), (two, "second"), (0, "second")] {
        let changed = set(uid, name);
        assert!(changed.code() == Some(0) && changed.out.contains("weight 300"), "{changed}");
    }
    let listing = system.run(0, &["ps"]);
    assert!(listing.out.contains("first") && listing.out.contains("second"), "{listing}");

    signal("-KILL", pid);
    let again = system.daemon();
    assert_ne!(again, pid);
    until("both are served again", || system.served(0).len() == 2);
    until("the card is divided again", || system.view(0)["devices"][0]["reason"].is_null());
    signal("-TERM", again);
    until("it has ended", || !system.outside("/run/divvy/daemon.sock").exists());
    until("it keeps no device from users", || {
        fs::metadata(system.outside(&lock)).map_or(true, |status| status.uid() != 0)
    });
}

#[test]
fn the_machines_daemon_makes_tenants_by_id_with_the_capabilities_of_its_unit() {
    if !is_root() || !can_unshare(&["--mount"]) {
        println!("SKIPPED tenants by id of the machine's daemon: only root with mounts of its own");
        return;
    }
    let mut system = System::new();
    let pid = system.daemon();
    let ask = |system: &System, uid: u32, words: &[&str]| {
        let told = system.run(uid, &[&["tenant"], words, &["--system", "--json"]].concat());
        (told.code(), serde_json::from_str::<Value>(&told.out).unwrap_or_default(), told.err)
    };
    let memory = format!("{CARD}=2GiB");
    let create = ["create", "job", "--memory", memory.as_str()];
    let (code, answer, told) = ask(&system, 0, &create);
    assert_eq!((code, &answer["made"]), (Some(0), &Value::Bool(true)), "{told}");
    let directory = "/run/divvy/by-id/0/job";
    assert_eq!(answer["tenant"]["directory"], directory);
    assert_eq!(system.status(directory), (0, 0o777));
    assert_eq!(system.status("/run/divvy/by-id/0"), (0, 0o700));
    until("it is served", || ask(&system, 0, &["stat", "job"]).1["tenant"]["served"] == true);
    // The unit gives no files away.
    let (code, _, told) = ask(&system, USERS[0], &create);
    assert!(code == Some(125) && told.contains("failed: ") && told.contains("CAP_CHOWN"), "{told}");
    assert_eq!(ask(&system, USERS[0], &["remove", "job"]).1["existed"], false);
    let stranger = "GPU-0c0c0c0c-0000-0000-0000-000000000003=8GiB";
    let (code, _, told) = ask(&system, 0, &["create", "other", "--memory", stranger]);
    assert!(code == Some(2) && told.contains("unknown-device: ") && told.contains(CARD), "{told}");

    signal("-KILL", pid);
    system.daemon();
    assert_eq!(ask(&system, 0, &create).1["made"], false, "the next daemon knows it");
    assert_eq!(ask(&system, 0, &["remove", "job"]).1["existed"], true);
    let folder = system.outside("/run/divvy/by-id/0");
    let left = || fs::read_dir(&folder).expect("a folder").flatten().count();
    until("nothing but the meeting place is left", || left() == 1);
}

#[test]
fn the_unit_is_understood_and_starts_what_there_is() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        println!("SKIPPED the unit is understood: there is no systemd-analyze");
        return;
    };
    assert!(version.status.success());
    let start = unit("ExecStart");
    let arguments: Vec<_> = start.split_whitespace().skip(1).chain(["--help"]).collect();
    let machine = Machine::new().native();
    let help = finish(machine.command(stage().join("bin/divvy")).args(arguments));
    assert_eq!(help.code(), Some(0), "the unit's options are known\n{help}");
    let text = fs::read_to_string(root().join("deploy/divvy.service")).expect("the unit file");
    let binary = stage().join("bin/divvy");
    let there = text.replace("/usr/local/bin/divvy", &binary.display().to_string());
    let copy = machine.home().join("divvy.service");
    fs::write(&copy, there).expect("a copy can be written");
    let verified = finish(Command::new("systemd-analyze").arg("verify").arg(copy));
    assert!(verified.code() == Some(0) && verified.err.is_empty(), "{verified}");
}
