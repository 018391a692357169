//! The recipe for podman, really played: podman and crun start a container with the device that `divvy cdi` writes, on the
//! simulated GPU, and the container prints what the page shows.
//!
//! Its root is a folder with this machine's `/usr` in it, since no registry is asked. It runs in mounts of its own, where
//! specs lie in `/run/cdi` and control groups are version 2's: crun knows no mixture of both.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::compare::{Numbers, is_shown};
use super::page::{command_of, file_of};
use super::session::{python, save};
use crate::harness::{Finished, Machine, finish, stage};
use crate::hostile::{can_unshare, is_root};

const PAGE: &str = "docs/guide/recipes.md";

const ENTER: &str = r#"
set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup 2> /dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /run
mkdir /run/cdi
cp "$SPECS"/* /run/cdi/
exec podman "$@"
"#;

/// Whether podman can be tried; says so when not.
fn is_possible() -> bool {
    let has = |program: &str| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let can = is_root() && can_unshare(&["--mount"]);
    let why = match (can, has("podman") && has("crun")) {
        (false, _) => "this machine does not let us make namespaces",
        (_, false) => "there is no podman or no crun; `apt-get install podman crun` brings them",
        _ => return true,
    };
    println!("SKIPPED podman: {why}");
    false
}

/// The root of a container: this machine's programs, and nothing else.
fn container_root(machine: &Machine) -> PathBuf {
    let root = machine.home().join("rootfs");
    for folder in ["usr/local", "etc", "tmp", "proc", "sys", "dev", "run", "var"] {
        fs::create_dir_all(root.join(folder)).expect("a directory of the test's own");
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(Path::new("usr").join(name), root.join(name)).expect("a link can be made");
    }
    root
}

/// `podman run` of a shell's command, with these devices.
fn podman(machine: &Machine, root: &Path, devices: &[&str], command: &str) -> Finished {
    let home = machine.home();
    let at = |name: &str| home.join(name).display().to_string();
    let mut podman = machine.command("unshare");
    podman.args(["--mount", "sh", "-c", ENTER, "enter"]);
    podman.env("SPECS", home.join("specs")).env("HOME", home).env_remove("LD_LIBRARY_PATH");
    podman.args(["--root", &at("storage"), "--runroot", &at("podman"), "--tmpdir", &at("state")]);
    podman.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "crun"]);
    podman.args(["run", "--rm", "--cgroups=disabled", "--network=none"]);
    // Limits that are raised would need a right that containers may lack.
    podman.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=512:512"]);
    let prefix = python().parent().and_then(Path::parent).map(Path::to_owned);
    let shared = ["/usr/lib", "/usr/lib64", "/usr/bin"].map(PathBuf::from);
    let shared = shared.into_iter().chain([stage().to_owned()]).chain(prefix);
    for path in shared.filter(|path| path.exists() && path != Path::new("/usr")) {
        podman.arg("--volume").arg(format!("{0}:{0}:ro", path.display()));
    }
    podman.arg("--volume").arg(format!("{0}:{0}", home.join("shared").display()));
    for (name, value) in [
        ("LD_LIBRARY_PATH", stage().join("sim")),
        ("SIMGPUD", stage().join("sim/simgpud")),
        ("SIMGPU_DIR", home.join("shared")),
    ] {
        podman.arg("--env").arg(format!("{name}={}", value.display()));
    }
    devices.iter().for_each(|device| {
        podman.args(["--device", device]);
    });
    podman.arg("--workdir").arg(home.join("shared")).arg("--rootfs").arg(root);
    finish(podman.args(["/bin/sh", "-c", command]))
}

#[test]
fn a_container_of_podman_has_its_limits_by_a_device() {
    if !is_possible() {
        return;
    }
    let machine = Machine::new().native();
    let home = machine.home();
    fs::create_dir_all(home.join("shared")).expect("a directory of the test's own");
    fs::create_dir_all(home.join("specs")).expect("a directory of the test's own");
    let private = fs::DirBuilder::new().mode(0o700).create(home.join("tenants"));
    private.expect("a directory of the test's own");
    save(&home.join("shared"), "work.py", &file_of("docs/guide/tutorial.md", "work.py"));

    let (typed, shown) = command_of(PAGE, "divvy cdi");
    let spec = home.join("specs/divvy-train.json").display().to_string();
    let mut cdi = machine.command(stage().join("bin/divvy"));
    let options = typed.replace("/etc/cdi/divvy-train.json", &spec);
    cdi.args(options.split_whitespace().skip(1));
    let made = finish(cdi.arg("--host-dir").arg(home.join("tenants")));
    assert_eq!(made.code(), Some(0), "{made}");
    assert_eq!(made.out.trim(), shown[0].replace("/etc/cdi/divvy-train.json", &spec));

    let root = container_root(&machine);
    let nothing = podman(&machine, &root, &[], "exit 0");
    if nothing.code() != Some(0) {
        println!("SKIPPED podman: it starts no container here: {}", nothing.err.trim());
        return;
    }
    let (typed, shown) = command_of(PAGE, "podman run");
    let program = typed.split_once("IMAGE python3 ").expect("the page runs python3").1;
    let command = format!("exec {} {program} 2>&1", python().display());
    let ran = podman(&machine, &root, &["divvy/tenant=train"], &command);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let printed: Vec<String> = ran.out.lines().map(str::to_owned).collect();
    assert!(is_shown(&shown, &printed, Numbers::Volatile), "{shown:#?}\n{ran}");
}
