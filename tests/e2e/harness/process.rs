//! Runs a process to its end, or ends it, and keeps what it said.

use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long any one process may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

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
    out: JoinHandle<String>,
    err: JoinHandle<String>,
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
        let text = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
        Finished { status, out: text(self.out), err: text(self.err), took, hung, what: self.what }
    }
}

/// Runs `command` to its end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    Running::start(command).finish()
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
