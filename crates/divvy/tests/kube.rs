//! `divvy kube` becomes `divvy-kube`: the one beside it, else one on `PATH`, and says what is missing where there is none.
//!
//! That program is a script here, and this one a link in a folder of the test's own. One test, since a script that is being
//! written cannot be started by another.

mod typed;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn kube(folder: &Path, path: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(folder.join("divvy"));
    command.arg("kube").args(arguments).env("PATH", format!("{path}:/usr/bin:/bin"));
    typed::as_typed(&command).output().unwrap()
}

fn script(path: &Path, name: &str) {
    fs::write(path, format!("#!/bin/sh\nprintf '{name}'\nprintf '<%s>' \"$@\"\nexit 3\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn it_becomes_the_program_beside_it_or_on_the_path() {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kube-{}", std::process::id()));
    let (folder, elsewhere) = (base.join("bin"), base.join("elsewhere"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_divvy"), folder.join("divvy")).unwrap();
    let path = elsewhere.display().to_string();

    let missing = kube(&folder, &path, &["convert", "--help"]);
    let words = String::from_utf8(missing.stderr).unwrap();
    let place = folder.canonicalize().unwrap().join("divvy-kube");
    assert_eq!(missing.status.code(), Some(125), "{words}");
    assert!(words.starts_with(&format!("divvy: {} is missing", place.display())), "{words}");
    assert!(words.contains("cargo build --release -p divvy-kube"), "{words}");

    // A file that cannot be executed is no program.
    fs::write(elsewhere.join("divvy-kube"), "").unwrap();
    assert_eq!(kube(&folder, &path, &[]).status.code(), Some(125));
    script(&elsewhere.join("divvy-kube"), "elsewhere");
    let found = kube(&folder, &path, &["convert", "--json", "a b"]);
    assert_eq!(found.status.code(), Some(3), "{found:?}");
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "elsewhere<convert><--json><a b>");

    script(&place, "beside");
    let help = kube(&folder, &path, &["--help"]);
    assert_eq!(String::from_utf8(help.stdout).unwrap(), "beside<--help>");
    fs::remove_dir_all(&base).unwrap();
}
