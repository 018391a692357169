//! Runs a process to its end, or ends it, and keeps what it said.

use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
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
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let out = drain(child.stdout.take());
        let err = drain(child.stderr.take());
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

/// What came out of a pipe so far.
#[derive(Debug)]
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Reader {
    /// Everything that was written; a child that holds the pipe open is waited for a second.
    fn text(self) -> String {
        let since = Instant::now();
        while !self.thread.is_finished() && since.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let bytes = self.bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> Reader {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&bytes);
    let thread = std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        let Some(mut pipe) = pipe else { return };
        while let Ok(count) = pipe.read(&mut chunk) {
            let Some(new) = chunk.get(..count).filter(|new| !new.is_empty()) else { return };
            into.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend_from_slice(new);
        }
    });
    Reader { bytes, thread }
}

/// Sends a process a signal, by its name without SIG.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{pid} cannot be sent {name}");
}
