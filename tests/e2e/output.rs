//! `divvy demo` and `divvy bench` whose output goes nowhere; the other commands are asked in
//! `crates/divvy/tests/output.rs`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Machine, stage};

/// Longer than a demonstration or a figure takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A machine whose tenants are the test's own.
fn machine() -> Machine {
    Machine::new().native()
}

fn commands(machine: &Machine) -> Vec<Command> {
    let results = machine.home().join("results").display().to_string();
    let figure = ["--only", "exec", "--rounds", "1", "--out", &results];
    let bench = [&["bench", "overhead", "--sim"][..], &figure].concat();
    let lines = [
        vec!["demo", "--sim", "--seconds", "8"],
        vec!["demo", "--sim", "--seconds", "8", "--json"],
        bench.clone(),
        [&bench[..], &["--json"]].concat(),
    ];
    let command = |line: Vec<&str>| {
        let mut command = machine.command(stage().join("bin/divvy"));
        command.args(line).stdin(Stdio::null());
        command
    };
    lines.into_iter().map(command).collect()
}

fn finish(mut command: Command, out: Stdio) -> Output {
    let mut child = command.stdout(out).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut pipe = child.stderr.take().expect("it is piped");
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        pipe.read_to_end(&mut said).map(|_| said).unwrap_or_default()
    });
    let status = ended(&mut child);
    Output { status, stdout: Vec::new(), stderr: said.join().expect("it was read") }
}

fn ended(child: &mut Child) -> std::process::ExitStatus {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status;
        }
        if Instant::now() > give_up {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The tenants that are left.
fn tenants(machine: &Machine) -> Vec<std::path::PathBuf> {
    let users = std::fs::read_dir(machine.home().join("run")).expect("the runtime").flatten();
    users
        .filter_map(|user| std::fs::read_dir(user.path().join("tenants")).ok())
        .flat_map(|tenants| tenants.flatten().map(|tenant| tenant.path()))
        .filter(|path| !path.ends_with(".meet"))
        .collect()
}

#[test]
fn nobody_reads_a_demonstration_or_a_figure() {
    let machine = machine();
    for command in commands(&machine) {
        let what = format!("{command:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = finish(command, writer.into());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{what}: {:?} {words}", output.status);
        let is_stored = words.contains("the figures were stored in");
        assert_eq!(is_stored, what.contains("\"bench\""), "{what}: {words}");
    }
    assert!(tenants(&machine).is_empty(), "{:?}", tenants(&machine));
}

#[test]
fn a_full_disk_takes_no_demonstration_and_no_figure() {
    let machine = machine();
    for command in commands(&machine) {
        let what = format!("{command:?}");
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = finish(command, full.into());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{what}: {:?} {words}", output.status);
        assert!(
            words.contains("standard output cannot be written: No space left"),
            "{what}: {words}"
        );
    }
    assert!(tenants(&machine).is_empty(), "{:?}", tenants(&machine));
}

#[test]
fn a_demonstration_whose_reader_leaves_leaves_nothing() {
    let machine = machine();
    let mut command = machine.command(stage().join("bin/divvy"));
    command.args(["demo", "--sim", "--seconds", "60"]).stdin(Stdio::null());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.starts_with("steady  ") {
        line.clear();
        assert!(out.read_line(&mut line).expect("it can be read") > 0, "no table came");
    }
    assert_eq!(tenants(&machine).len(), 2);
    drop(out);
    assert_eq!(ended(&mut child).code(), Some(141));
    assert!(tenants(&machine).is_empty(), "{:?}", tenants(&machine));
}
