//! Containers that podman and crun start, with the devices of CDI specs as the runtimes of clusters read them.
//!
//! A container's root is a folder with this machine's `/usr` in it, since no registry is asked. podman runs in mounts of its
//! own, where specs lie in `/run/cdi` and control groups are version 2's: crun knows no mixture of both. It is the first
//! process of its own pids, so that all it has started ends with it; and its files are each container's own, since podman
//! would keep count of all of them in one.
//!
//! Promises: a container has nothing of Divvy's or of the driver's but what its devices bring.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Machine, finish};

const ENTER: &str = r#"
set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup 2> /dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /run
mount -t tmpfs none /dev/shm
mkdir /run/cdi
cp "$SPECS"/* /run/cdi/ 2> /dev/null || true
exec podman "$@"
"#;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Whether podman starts containers here, for the test `what`; says so when not.
pub(crate) fn podman_works(what: &str) -> bool {
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    let why_not = WHY_NOT.get_or_init(|| {
        let has = |program: &str| {
            Command::new(program).arg("--version").output().is_ok_and(|told| told.status.success())
        };
        if !(has("podman") && has("crun")) {
            let words = "there is no podman or no crun; `apt-get install podman crun` brings them";
            return Some(words.to_owned());
        }
        let machine = Machine::new().native();
        let told =
            finish(&mut Container::new(&machine, &machine.home().join("none")).runs("exit 0"));
        (told.code() != Some(0))
            .then(|| format!("it starts no container here: {}", told.err.trim()))
    });
    if let Some(why) = why_not {
        println!("SKIPPED podman, {what}: {why}");
    }
    why_not.is_none()
}

/// A container that is to be started.
#[derive(Debug)]
pub(crate) struct Container {
    podman: Command,
    root: PathBuf,
}

impl Container {
    /// One with a root of its own, below the machine's home, where `specs` are the machine's CDI specs.
    pub(crate) fn new(machine: &Machine, specs: &Path) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let own = machine.home().join(format!("container-{number}"));
        let root = own.join("root");
        for folder in ["usr/local", "etc", "tmp", "proc", "sys", "dev", "run", "var"] {
            fs::create_dir_all(root.join(folder)).expect("a directory of the test's own");
        }
        for name in ["bin", "lib", "lib64"] {
            symlink(Path::new("usr").join(name), root.join(name)).expect("a link can be made");
        }
        let mut podman = machine.command("unshare");
        podman.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        podman.args(["sh", "-c", ENTER, "enter"]);
        podman.env("SPECS", specs).env("HOME", &own);
        podman.env_remove("LD_LIBRARY_PATH").env_remove("XDG_RUNTIME_DIR");
        for (option, folder) in [("--root", "storage"), ("--runroot", "run"), ("--tmpdir", "state")]
        {
            podman.arg(option).arg(own.join(folder));
        }
        podman.args([
            "--storage-driver",
            "vfs",
            "--cgroup-manager",
            "cgroupfs",
            "--runtime",
            "crun",
        ]);
        podman.args(["run", "--rm", "--interactive", "--cgroups=disabled", "--network=none"]);
        // Limits that are raised would need a right that containers may lack.
        podman.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=512:512"]);
        Self { podman, root }
            .mounts("/usr/lib", "ro")
            .mounts("/usr/lib64", "ro")
            .mounts("/usr/bin", "ro")
    }

    /// What will be `/` in it.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The same with a path of the host, where the host has it.
    pub(crate) fn mounts(self, path: impl AsRef<Path>, access: &str) -> Self {
        let path = path.as_ref().display();
        match Path::new(&path.to_string()).exists() {
            true => self.with(&["--volume", &format!("{path}:{path}:{access}")]),
            false => self,
        }
    }

    /// The same with options of `podman run`.
    pub(crate) fn with(mut self, options: &[&str]) -> Self {
        self.podman.args(options);
        self
    }

    /// The same with CDI devices.
    pub(crate) fn devices<T: AsRef<str>>(self, devices: impl IntoIterator<Item = T>) -> Self {
        devices.into_iter().fold(self, |all, device| all.with(&["--device", device.as_ref()]))
    }

    /// The command that starts it with a shell's command line.
    pub(crate) fn runs(mut self, line: &str) -> Command {
        self.podman.arg("--rootfs").arg(&self.root).args(["/bin/sh", "-c", line]);
        self.podman
    }

    /// The command that starts it with a program of its own root.
    pub(crate) fn executes(mut self, words: &[&str]) -> Command {
        self.podman.arg("--rootfs").arg(&self.root).args(words);
        self.podman
    }
}
