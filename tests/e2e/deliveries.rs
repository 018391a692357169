//! Each form in which Divvy comes to a machine, from there to the end of the tutorial and through the demonstration.
//!
//! Forms are laid as trees, of the files of the staged tree; archives and packages themselves are tried by
//! `cargo xtask test release`. Promises: nothing is found in the staged tree or the checkout by the command that is tried.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::documents;
use crate::harness::{Machine, finish, root, stage};

/// A directory in which a form is laid.
struct Delivery(Machine);

impl Delivery {
    fn new() -> Self {
        Self(Machine::new().native())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.home().join(name)
    }

    /// Copies a file of the staged tree.
    fn copy(&self, from: &str, to: &str) {
        let to = self.path(to);
        fs::create_dir_all(to.parent().expect("a folder")).expect("folders can be made");
        fs::copy(stage().join(from), to).unwrap_or_else(|error| panic!("{from}: {error}"));
    }

    /// Lays command, simulated GPU and the programs of the demonstration, each folder where a form has it.
    fn lay(&self, sim: &str, clients: &str) {
        for program in ["divvy", "divvy-bench", "divvy-kube"] {
            self.copy(&format!("bin/{program}"), &format!("opt/bin/{program}"));
        }
        for part in ["libcuda.so.1", "libnvidia-ml.so.1", "simgpud"] {
            self.copy(&format!("sim/{part}"), &format!("opt/{sim}/{part}"));
        }
        for source in fs::read_dir(root().join("bench/clients")).expect("sources").flatten() {
            let name = source.path().file_stem().unwrap_or_default().display().to_string();
            if stage().join("clients").join(&name).exists() {
                self.copy(&format!("clients/{name}"), &format!("opt/{clients}/{name}"));
            }
        }
    }

    /// The same with the library as a release has it.
    fn lay_release(&self) {
        self.lay("lib/divvy/sim", "lib/divvy/clients");
        self.copy("lib/libdivvy.so", "opt/lib/divvy/libdivvy-0.1.0-0.so");
        symlink("libdivvy-0.1.0-0.so", self.path("opt/lib/divvy/libdivvy.so")).expect("a link");
        symlink("divvy/libdivvy.so", self.path("opt/lib/libdivvy.so")).expect("a link");
    }

    /// Runs a command to its end.
    fn must(&self, command: &mut Command) {
        let finished = finish(command);
        assert_eq!(finished.code(), Some(0), "{finished}");
    }

    /// Installs by the command at `from` below a prefix.
    fn install(&self, from: &Path, arguments: &[&str]) {
        let mut command = self.0.command(from);
        command.arg("install").args(arguments);
        for name in ["SIMGPUD", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        self.must(&mut command);
    }

    /// Follows the tutorial with the command in `bin`.
    fn works(&self, bin: &str) {
        let bin = self.path(bin);
        documents::follow_the_tutorial_by(&bin);
    }
}

#[test]
fn from_the_folder_of_dist() {
    let delivery = Delivery::new();
    delivery.lay("sim", "clients");
    delivery.copy("lib/libdivvy.so", "opt/lib/divvy/libdivvy.so");
    delivery.works("opt/bin");
}

#[test]
fn from_an_unpacked_release() {
    let delivery = Delivery::new();
    delivery.lay_release();
    delivery.works("opt/bin");
}

#[test]
fn from_what_an_unpacked_release_installs() {
    let delivery = Delivery::new();
    delivery.lay_release();
    let prefix = delivery.path("prefix").display().to_string();
    delivery.install(&delivery.path("opt/bin/divvy"), &[&prefix]);
    // The folder may go.
    fs::remove_dir_all(delivery.path("opt")).expect("it is ours");
    delivery.works("prefix/bin");
    let mut uninstall = delivery.0.command(delivery.path("prefix/bin/divvy"));
    delivery.must(uninstall.arg("uninstall"));
    assert!(!delivery.path("prefix/bin").exists() && !delivery.path("prefix/lib").exists());
}

#[test]
fn from_a_package() {
    let delivery = Delivery::new();
    delivery.lay("lib/divvy/sim", "lib/divvy/clients");
    delivery.copy("lib/libdivvy.so", "opt/lib/divvy/package/libdivvy.so");
    let prefix = delivery.path("opt").display().to_string();
    let mut script = delivery.0.command(delivery.path("opt/bin/divvy"));
    script.args(["install", &prefix, "--only-library"]);
    delivery.must(script.env("DIVVY_LIBRARY", delivery.path("opt/lib/divvy/package/libdivvy.so")));
    delivery.works("opt/bin");
}

/// `cargo install` brings the command alone; its first error says how the other parts come.
#[test]
fn from_cargo_install() {
    let delivery = Delivery::new();
    delivery.copy("bin/divvy", "cargo/bin/divvy");
    let mut alone = delivery.0.command(delivery.path("cargo/bin/divvy"));
    let finished = finish(alone.args(["run", "--sim", "-m", "1GiB", "--", "true"]));
    let prefix = delivery.path("cargo").display().to_string();
    let how = format!("$(cargo xtask stage)/bin/divvy install {prefix}");
    assert!(finished.code() == Some(125) && finished.err.contains(&how), "{finished}");
    delivery.install(&stage().join("bin/divvy"), &[&prefix]);
    delivery.works("cargo/bin");
}
