//! `divvy bench` becomes the program beside it, which `divvy install` installs too, and says what is missing where there is none.
//!
//! That program is a script here, and this one a link in a folder of the test's own: what `divvy-bench` measures is asked
//! in the end-to-end tests. One test, since a script that is being written cannot be started by another.

mod typed;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// Tells of its arguments, of a signal that is ignored and of who it is; ends as it is told.
const SCRIPT: &str = "#!/bin/sh
printf '<%s>' \"$@\"
echo
cat
echo \"$$ $FROM\" >&2
case $1 in end) exit 7;; signal) kill -TERM $$;; esac
";

fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(folder.join("divvy"));
    command.arg("bench").args(arguments).env("FROM", "outside");
    command
}

fn ended(command: &Command, input: &Path) -> (u32, Output) {
    let mut command = typed::as_typed(command);
    command.stdin(fs::File::open(input).unwrap());
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    (child.id(), child.wait_with_output().unwrap())
}

#[test]
fn it_becomes_the_program_beside_it() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_divvy"), folder.join("divvy")).unwrap();
    let input = folder.join("input");
    fs::write(&input, "typed\n").unwrap();

    let (_, missing) = ended(&bench(&folder, &["share", "--help"]), &input);
    let words = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(125), "{words}");
    let place = folder.canonicalize().unwrap().join("divvy-bench");
    assert!(
        words.starts_with(&format!("divvy: {} is missing; put it there from", place.display())),
        "{words}"
    );
    assert_eq!(words.lines().count(), 1, "{words}");

    let program = folder.join("divvy-bench");
    fs::write(&program, "").unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let (_, cut_short) = ended(&bench(&folder, &[]), &input);
    let words = String::from_utf8(cut_short.stderr).unwrap();
    assert!(cut_short.status.code() == Some(125) && words.contains("cannot be started"), "{words}");

    fs::write(&program, SCRIPT).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o644)).unwrap();
    let (_, closed) = ended(&bench(&folder, &[]), &input);
    let words = String::from_utf8(closed.stderr).unwrap();
    assert!(closed.status.code() == Some(125) && words.contains("cannot be started"), "{words}");

    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    for line in
        [&["end", "--help", "-h", "a b", "--only=x"][..], &["end", "--", "--json"], &["end"]]
    {
        let (pid, output) = ended(&bench(&folder, line), &input);
        assert_eq!(output.status.code(), Some(7), "{line:?}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(told, format!("<{}>\ntyped\n", line.join("><")), "{line:?}");
        let own = String::from_utf8(output.stderr).unwrap();
        assert_eq!(own, format!("{pid} outside\n"), "the process is not the same");
    }

    // What is installed has both.
    let prefix = folder.join("prefix");
    let mut install = Command::new(folder.join("divvy"));
    install.arg("install").arg(&prefix).env("DIVVY_LIBRARY", folder.join("divvy"));
    let (_, installed) = ended(&install, &input);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let (_, output) = ended(&bench(&prefix.join("bin"), &["end"]), &input);
    assert_eq!(output.status.code(), Some(7));

    let (_, output) = ended(&bench(&folder, &["signal"]), &input);
    assert_eq!(output.status.signal(), Some(15));
    let (_, help) = ended(&bench(&folder, &["--help"]), &input);
    assert_eq!(String::from_utf8(help.stdout).unwrap(), "<--help>\ntyped\n");
    fs::remove_dir_all(&folder).unwrap();
}
