//! Runs a process to its end, or ends it, and keeps what it said.

use std::fmt;
use std::io::{PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::trial::until;

/// How long any one process may take before it counts as hung: a benchmark takes some ten seconds.
const PATIENCE: Duration = Duration::from_secs(180);

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Its standard output.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
    /// How long it took.
    pub(crate) took: Duration,
    /// Whether it was ended for taking too long.
    pub(crate) hung: bool,
    what: String,
}

impl Finished {
    /// Its exit code, unless a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hung = if self.hung { " (hung, ended)" } else { "" };
        writeln!(f, "{}: {}{hung} after {:?}", self.what, self.status, self.took)?;
        writeln!(f, "--- stdout\n{}\n--- stderr\n{}", self.out, self.err)
    }
}

/// A process that may still run.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    out: Reader,
    err: Reader,
    since: Instant,
    what: String,
}

impl Running {
    /// Starts `command`.
    pub(crate) fn start(command: &mut Command) -> Self {
        let what = format!("{command:?}");
        let ((out, to_out), (err, to_err)) = (drained(), drained());
        command.stdin(Stdio::null()).stdout(to_out).stderr(to_err);
        let child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        // The command would keep the pipes open in this process.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self { child, out, err, since: Instant::now(), what }
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Ends it and its children: what `unshare` started, which outlives it under another user. They are gone
    /// when this returns: a process that was killed holds what it has until it has had a processor for its end.
    pub(crate) fn kill_with_children(&mut self) {
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        for child in children.split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", child]).status();
        }
        self.kill();
        until("the children have ended", || !children.split_whitespace().any(lives));
    }

    /// Whether it has ended.
    pub(crate) fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Finished {
        let mut hung = false;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(error) => panic!("{}: {error}", self.what),
            }
            if self.since.elapsed() > PATIENCE && !hung {
                hung = true;
                self.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let took = self.since.elapsed();
        Finished { status, out: self.out.text(), err: self.err.text(), took, hung, what: self.what }
    }
}

/// Whether a process has not ended, or not given back all it had.
fn lives(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Runs `command` to its end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    Running::start(command).finish()
}

/// Comes out of no process.
const END: &[u8] = b"\0the end of what is read here\0";

/// What comes out of a process, which need not be the last to have its pipe open.
#[derive(Debug)]
struct Reader {
    ours: PipeWriter,
    bytes: Receiver<Vec<u8>>,
}

impl Reader {
    /// Everything that was written until now, however late it is read: it comes out before what is written now.
    fn text(mut self) -> String {
        self.ours.write_all(END).expect("it is read");
        String::from_utf8_lossy(&self.bytes.recv().expect("it is read")).into_owned()
    }
}

/// A pipe whose other end is a process's, read for as long as anybody has that open.
fn drained() -> (Reader, Stdio) {
    let (mut pipe, ours) = std::io::pipe().expect("a pipe");
    let theirs = ours.try_clone().expect("a descriptor");
    let (send, bytes) = channel();
    std::thread::spawn(move || {
        let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = pipe.read(&mut chunk) {
            let from = read.len().saturating_sub(END.len());
            read.extend_from_slice(&chunk[..count]);
            if let Some(at) = read[from..].windows(END.len()).position(|it| it == END) {
                read.truncate(from + at);
                break;
            }
        }
        let _ = send.send(read);
        // Children that still write are neither held up nor ended by it.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    });
    (Reader { ours, bytes }, theirs.into())
}

#[test]
fn all_is_read_of_a_process_whose_child_has_its_pipe() {
    let finished = finish(Command::new("sh").args(["-c", "seq 30000; sleep 5 & exit 3"]));
    let wanted: Vec<String> = (1..=30_000).map(|number| number.to_string()).collect();
    assert_eq!(finished.code(), Some(3));
    assert!(finished.out.lines().eq(wanted), "{} lines", finished.out.lines().count());
}

/// Sends a process a signal, by its name without SIG.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{pid} cannot be sent {name}");
}
