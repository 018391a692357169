//! The recipe for podman, really played: podman and crun start a container with the device that `divvy cdi` writes, on the
//! simulated GPU, and the container prints what the page shows.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::compare::{Numbers, is_shown};
use super::page::{command_of, file_of};
use super::session::{python, save};
use crate::harness::{Container, Finished, Machine, finish, podman_works, stage};

const PAGE: &str = "docs/guide/recipes.md";

/// `podman run` of a shell's command, with these devices.
fn podman(machine: &Machine, devices: &[&str], command: &str) -> Finished {
    let home = machine.home();
    let shared = home.join("shared");
    let mut container = Container::new(machine, &home.join("specs")).mounts(stage(), "ro");
    let prefix = python().parent().and_then(Path::parent).map(Path::to_owned);
    if let Some(prefix) = prefix.filter(|prefix| prefix != Path::new("/usr")) {
        container = container.mounts(prefix, "ro");
    }
    for (name, value) in [
        ("LD_LIBRARY_PATH", stage().join("sim")),
        ("SIMGPUD", stage().join("sim/simgpud")),
        ("SIMGPU_DIR", shared.clone()),
        ("SIMGPU_SEED", "0".into()),
    ] {
        container = container.with(&["--env", &format!("{name}={}", value.display())]);
    }
    let container = container.mounts(&shared, "rw").devices(devices);
    let workdir = shared.display().to_string();
    finish(&mut container.with(&["--workdir", &workdir]).runs(command))
}

#[test]
fn a_container_of_podman_has_its_limits_by_a_device() {
    if !podman_works("a_container_of_podman_has_its_limits_by_a_device") {
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

    let (typed, shown) = command_of(PAGE, "podman run");
    let program = typed.split_once("IMAGE python3 ").expect("the page runs python3").1;
    let command = format!("exec {} {program} 2>&1", python().display());
    let ran = podman(&machine, &["divvy/tenant=train"], &command);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let printed: Vec<String> = ran.out.lines().map(str::to_owned).collect();
    assert!(is_shown(&shown, &printed, Numbers::Volatile), "{shown:#?}\n{ran}");

    // A program whose variables were cleared has the same limits.
    let cleared = format!("unset DIVVY_TENANT; {command}");
    let ran = podman(&machine, &["divvy/tenant=train"], &cleared);
    let printed: Vec<String> = ran.out.lines().map(str::to_owned).collect();
    assert!(is_shown(&shown, &printed, Numbers::Volatile), "{shown:#?}\n{ran}");
}
