//! Attempts to speak to another's commands in a daemon's place, and to hold them up by what lies in files.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::world::{
    self, ATTACKER, Ends, VICTIM, attack, directory, divvy, finish, run, served, tenant, tenant_in,
    tenants, until, verdict, word,
};

/// Commands run for each way: nothing here is a race.
const RUNS: usize = 48;

/// What a user asks, and what must not be in the answer.
const QUESTIONS: [&[&str]; 8] = [
    &["ps"],
    &["ps", "--json"],
    &["ps", "--openmetrics"],
    &["daemon", "--status"],
    &["daemon", "--status", "--json"],
    &["set", "nobody", "--pause"],
    &["set", "job", "--weight", "7"],
    &["top", "--once", "--interval", "0.1"],
];

pub(crate) fn forgeries() {
    tenant(VICTIM, "job");
    let (mut tries, mut believed) = (0, 0);
    for how in ["lie", "drip", "deaf"] {
        let home = Path::new("/tmp").join(format!("divvy-{VICTIM}"));
        directory(&home, ATTACKER);
        tenant_in(&home.join("tenants"), ATTACKER, "FORGED", 1);
        let socket = home.join("daemon.sock");
        let _forger = world::attack_begun(ATTACKER, &["forge", word(&socket), how]);
        for question in QUESTIONS.iter().cycle().take(RUNS) {
            let (code, told) = run(VICTIM, question);
            tries += 1;
            // An invented tenant may be named only to say whose it is.
            let is_plain = |c: char| c == '\n' || divvy_page::reader::is_shown(c);
            let is_believed = told.contains("FORGED") || !told.chars().all(is_plain);
            if code.is_none() || is_believed {
                if believed < 5 {
                    println!("{how}: {question:?}: {code:?}: {told:?}");
                }
                believed += 1;
            }
        }
        std::fs::remove_dir_all(&home).unwrap();
    }
    verdict("a forged answer believed or waited for", believed, tries);

    // All the places of a user who has never been here: nothing is put into another's hands.
    let newcomer = VICTIM + 1;
    let taken = ["/dev/shm", "/tmp"].map(|base| format!("{base}/divvy-{newcomer}"));
    taken.iter().for_each(|place| directory(&Path::new(place).join("tenants"), ATTACKER));
    taken.iter().for_each(|place| open_to_all(Path::new(place)));
    for arguments in [&["run", "--", "true"][..], &["demo", "--sim"]] {
        let mut command = divvy(newcomer, arguments);
        command.env("DIVVY_LIBRARY", harmless_library());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (code, told) = finish(child, Duration::from_secs(60));
        assert!(code == Some(125) && told.contains("is not a directory of uid"), "{told}");
    }
    let left = taken.iter().flat_map(|place| std::fs::read_dir(place).unwrap()).flatten();
    verdict("a user's files in another's place", left.count().saturating_sub(2), 4);
}

pub(crate) fn files() {
    let own = tenant(VICTIM, "job");
    for (at, file) in ["owner", "config", "usage"].into_iter().enumerate() {
        let odd = |kind: &str| {
            let file = tenant(ATTACKER, &format!("{kind}-{at}")).join(file);
            let _ = std::fs::remove_file(&file);
            file
        };
        mkfifo(&odd("pipe"), Mode::S_IRWXU).unwrap();
        std::fs::create_dir(odd("directory")).unwrap();
        symlink("/dev/zero", odd("link")).unwrap();
        drop(UnixListener::bind(odd("socket")).unwrap());
        std::fs::write(odd("\x1b[31mescape\n"), "\x1b[31mgarbage").unwrap();
    }
    let _daemon = world::daemon(&[]);
    until("the victim is served", || served(VICTIM) == [word(&own)]);
    let root = word(&tenants(ATTACKER)).to_owned();
    let root = ["ps", "--root", &root];
    let system = ["daemon", "--system", "--status"];
    let questions: [&[&str]; 5] = [&["ps"], &["ps", "--json"], &root, &system, QUESTIONS[7]];
    let (mut held_up, mut tries) = (0, 0);
    for question in questions.iter().cycle().take(RUNS) {
        let (code, told) = run(0, question);
        tries += 1;
        let is_plain = |c: char| c == '\n' || divvy_page::reader::is_shown(c);
        if code != Some(0) || !told.chars().all(is_plain) {
            if held_up < 5 {
                println!("{question:?}: {code:?}: {told:?}");
            }
            held_up += 1;
        }
    }
    verdict("root's command held up or made to print what a terminal obeys", held_up, tries);
    let told = run(0, &root).1;
    assert!(told.contains("DV067") && told.contains("is not a regular file"), "{told}");
    sweeps();
}

fn open_to_all(place: &Path) {
    for path in [place.to_owned(), place.join("tenants")] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).unwrap();
    }
}

/// Root starts programs while XDG_RUNTIME_DIR is still that of the user it was: what it removes there of
/// tenants that have ended must not be another's.
fn sweeps() {
    let base = format!("/run/user/{ATTACKER}");
    directory(Path::new(&base), ATTACKER);
    let ended = tenant(VICTIM, "ended");
    std::fs::write(ended.join("owner"), r#"{"pid":1,"command":["x"]}"#).unwrap();
    let (place, link) = (format!("{base}/divvy-0"), format!("{base}/link"));
    symlink(format!("/dev/shm/divvy-{VICTIM}"), &link).unwrap();
    let start = || {
        let mut command = divvy(0, &["run", "--no-daemon", "--", "true"]);
        command.env("XDG_RUNTIME_DIR", &base).env("DIVVY_LIBRARY", harmless_library());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        finish(child, Duration::from_secs(60))
    };
    let (code, told) = start();
    assert_eq!(code, Some(0), "{told}");
    // Where root has made its place there, the attacker has it turn about.
    let _turner = Path::new(&place)
        .exists()
        .then(|| Ends(attack(ATTACKER, &["swap", place.as_str(), link.as_str()])));
    let mut removed = 0;
    for _ in 0..RUNS {
        start();
        removed += usize::from(!ended.exists());
        directory(&ended, VICTIM);
        std::fs::write(ended.join("owner"), r#"{"pid":1,"command":["x"]}"#).unwrap();
    }
    verdict("the victim's directory removed by root", removed, RUNS);
}

/// The C library this process uses: preloading it changes nothing.
fn harmless_library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("a libc");
    line.get(line.find('/').unwrap()..).unwrap().to_owned()
}
