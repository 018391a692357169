//! `divvy top` on a terminal of its own: keys, and the end of the terminal and of the command.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use divvy_page::Directory;
use divvy_page::reader::read_config;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::Signal;
use nix::sys::termios::{FlowArg, LocalFlags, tcflow, tcgetattr};

use super::typed::as_typed;
use super::{Ends, PATIENCE, Scene, ended, signal, text, until};

/// What comes out of a terminal, read by a thread: a program that says nothing must not hold a test. The
/// thread closes its end of the terminal soon after the receiver is dropped.
fn output_of(terminal: &OwnedFd) -> Receiver<Vec<u8>> {
    let mut terminal = std::fs::File::from(terminal.try_clone().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut chunk = [0_u8; 4096];
        // An empty chunk asks whether anybody listens.
        while sender.send(Vec::new()).is_ok() {
            let mut waited = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
            if poll(&mut waited, 20_u8) == Ok(0) {
                continue;
            }
            let Ok(count @ 1..) = terminal.read(&mut chunk) else { return };
            if sender.send(chunk[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// All that comes until `end` is in it.
fn read_until(output: &Receiver<Vec<u8>>, end: &str) -> String {
    let mut seen = Vec::new();
    let give_up = Instant::now() + PATIENCE;
    while !text(&seen).contains(end) {
        match output.recv_timeout(PATIENCE) {
            Ok(chunk) if Instant::now() < give_up => seen.extend_from_slice(&chunk),
            other => panic!("no {end:?} ({:?}) in {:?}", other.err(), text(&seen)),
        }
    }
    text(&seen)
}

/// A terminal of 30 lines and 120 columns: both its ends. No process started meanwhile by another
/// test gets one of them: a terminal with a second master does not hang up.
fn terminal() -> (OwnedFd, OwnedFd) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname_r(&master).unwrap();
    let mut options = std::fs::File::options();
    let slave = options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
    let slave = OwnedFd::from(slave.open(path).unwrap());
    resize(&slave, 120);
    (master.into(), slave)
}

fn resize(slave: &OwnedFd, columns: u16) {
    let size = ["rows", "30", "cols", &columns.to_string()];
    let mut stty = Command::new("stty");
    let set = stty.args(size).stdin(slave.try_clone().unwrap()).status().unwrap();
    assert!(set.success());
}

/// `divvy top` on a terminal of its own.
struct Top {
    master: OwnedFd,
    slave: OwnedFd,
    output: Receiver<Vec<u8>>,
    child: Ends,
}

impl Top {
    /// Starts it and waits until it has drawn the tenant.
    fn start(scene: &Scene) -> Self {
        let (master, slave) = terminal();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let mut command = as_typed(&scene.divvy(&["top", "--interval", "0.2"]));
        // All the places in which a program may keep what it should not.
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"]
        {
            command.env(name, scene.base.join("home"));
        }
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        let output = output_of(&master);
        let top = Self { master, slave, output, child: Ends(child) };
        let drawn = read_until(&top.output, "seen-one");
        assert!(drawn.contains("\x1b[?1049h"), "the other screen: {drawn:?}");
        assert!(top.is_raw());
        top
    }

    fn press(&self, keys: &[u8]) {
        let master = self.master.try_clone().unwrap();
        std::fs::File::from(master).write_all(keys).unwrap();
    }

    /// Presses keys, and waits for a word. A screen of another size is drawn anew; else only the letters of a word that
    /// are not as before would come.
    fn shows(&self, keys: &[u8], word: &str) {
        self.press(keys);
        let give_up = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        for columns in [119, 120].into_iter().cycle() {
            resize(&self.slave, columns);
            let until = Instant::now() + Duration::from_millis(400);
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                seen.extend(self.output.recv_timeout(left).unwrap_or_default());
            }
            if text(&seen).contains(word) {
                return;
            }
            assert!(Instant::now() < give_up, "no {word:?} after {keys:?} in {:?}", text(&seen));
        }
    }

    fn is_raw(&self) -> bool {
        let flags = tcgetattr(&self.slave).unwrap().local_flags;
        !flags.contains(LocalFlags::ICANON) && !flags.contains(LocalFlags::ECHO)
    }

    /// Waits for the first screen to come back, and for the end.
    fn puts_back(mut self) -> ExitStatus {
        read_until(&self.output, "\x1b[?1049l");
        let status = ended(&mut self.child.0);
        assert!(!self.is_raw());
        status
    }
}

#[test]
fn the_terminal_is_put_back_by_a_key_and_by_a_signal() {
    let scene = Scene::new("terminal");
    let top = Top::start(&scene);
    // Keys that are read at once are all taken.
    top.press(b"jkq");
    assert_eq!(top.puts_back().code(), Some(0));
    for end in [b"\x1b", b"\x03", b"\x04"] {
        let top = Top::start(&scene);
        top.press(end);
        assert_eq!(top.puts_back().code(), Some(0), "{end:?}");
    }
    for (by, code) in [(Signal::SIGTERM, 0), (Signal::SIGINT, 0), (Signal::SIGHUP, 129)] {
        let top = Top::start(&scene);
        signal(&top.child.0, by);
        assert_eq!(top.puts_back().code(), Some(code), "{by}");
    }
}

#[test]
fn the_screen_ends_with_its_terminal() {
    let scene = Scene::new("closed");
    // The last rounds close while keys are on their way.
    for keys in [&b""[..], b"", b"jj", b"e12", b"\x1b[", b"jkjk"] {
        let top = Top::start(&scene);
        top.press(keys);
        let Top { master, slave, output, mut child } = top;
        drop((master, slave, output));
        let status = ended(&mut child.0);
        let is_hangup =
            status.code() == Some(129) || status.signal() == Some(Signal::SIGHUP as i32);
        assert!(is_hangup, "{keys:?}: {status:?}");
    }
}

#[test]
fn a_terminal_that_takes_no_output_does_not_keep_the_screen() {
    let scene = Scene::new("stopped");
    for by in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut top = Top::start(&scene);
        // As Ctrl-S does. The prompt's frame then waits for the terminal; a command that has not come to
        // it yet ends by itself, with a code.
        tcflow(&top.slave, FlowArg::TCOOFF).unwrap();
        top.press(b"e");
        // A frame of a newer sample may wait for the terminal already, and the key then waits behind it.
        let enough = Instant::now() + Duration::from_secs(2);
        until("the key is taken, or waits", || {
            poll(&mut [PollFd::new(top.slave.as_fd(), PollFlags::POLLIN)], 0_u8) == Ok(0)
                || Instant::now() > enough
        });
        signal(&top.child.0, by);
        let status = ended(&mut top.child.0);
        assert!(status.signal() == Some(by as i32) || status.code().is_some(), "{status:?}");
    }
}

#[test]
fn keys_show_change_and_keep_nothing() {
    let scene = Scene::new("keys");
    let is_paused = || {
        let path = scene.base.join("tenants/one");
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        read_config(&Directory::open(&path).unwrap()).unwrap().unwrap().paused
    };
    let top = Top::start(&scene);
    top.shows(b"?", "Keys");
    top.shows(b"x", "TENANT");
    top.shows(b"\r", &std::process::id().to_string());
    top.shows(b"p", "pause;");
    top.shows(b"n", "nothing");
    assert_eq!(is_paused(), 0);
    top.shows(b"py", "paused");
    assert_eq!(is_paused(), 1);
    top.shows(b"p", "resumed");
    assert_eq!(is_paused(), 0);
    top.shows(b"e30%\r", "apply?");
    top.shows(b"y", "none");
    top.shows(b"/zz", "name");
    top.shows(b"\x1b", "seen-one");
    top.press(b"q");
    assert_eq!(top.puts_back().code(), Some(0));
    let kept = std::fs::read_dir(scene.base.join("home")).into_iter().flatten();
    let kept: Vec<_> = kept.map(|entry| entry.unwrap().file_name()).collect();
    assert!(kept.iter().all(|name| name == "divvy"), "it has kept more than its log: {kept:?}");
}
