//! The tarball of the other processor, under an emulator of programs.

use std::path::Path;
use std::process::Command;

use crate::artefacts::{Scratch, folder, has_tool, named, said};

/// Where Debian's package of the other C library lies.
const LIBC: &str = "/usr/aarch64-linux-gnu";

#[test]
fn the_tarball_for_aarch64_starts() {
    let test = "tarball on aarch64";
    let Some(folder) = folder(test) else { return };
    if !has_tool(test, "qemu-aarch64-static", "qemu-user-static") {
        return;
    }
    if !Path::new(LIBC).join("lib/libc.so.6").exists() {
        println!("SKIPPED {test}: {LIBC} is not there; Debian's package libc6-arm64-cross has it");
        return;
    }
    let scratch = Scratch::new("aarch64");
    let tarball = named(&folder, "divvy-", "-aarch64-linux.tar.gz");
    said(
        Command::new("tar")
            .args(["xzf"])
            .arg(&tarball)
            .arg("--strip-components=1")
            .arg("-C")
            .arg(&scratch.0),
    );
    let emulated = |program: &str, preload: Option<&str>| {
        let mut command = Command::new("qemu-aarch64-static");
        command.args(["-L", LIBC]);
        if let Some(library) = preload {
            command.arg("-E").arg(format!("LD_PRELOAD={}", scratch.0.join(library).display()));
        }
        command.arg(scratch.0.join(program));
        command
    };
    let version = said(emulated("bin/divvy", None).arg("--version"));
    assert!(version.starts_with("divvy "), "{version}");
    said(emulated("bin/divvy-bench", None).arg("--help"));
    // The library is loaded into a program that never uses a GPU, and lets it be.
    let preloaded = said(emulated("bin/divvy", Some("lib/libdivvy.so")).arg("--version"));
    assert_eq!(preloaded, version);
}
