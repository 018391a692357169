//! A process that is talked with: a line in lets it go on, its lines out say how far it is.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long any one line may take before the process counts as hung.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running process; it is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    what: String,
}

impl Talk {
    /// Starts `command`. Its standard error is the test's.
    pub(crate) fn start(command: &mut Command) -> Self {
        let what = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let output = child.stdout.take().expect("it is piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, what }
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) {
        self.say("go");
    }

    /// Gives it a line.
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open");
        // It may have ended: what it says next, or does not, tells.
        let _ = writeln!(input, "{line}").and_then(|()| input.flush());
    }

    /// The next line, if it comes in time.
    pub(crate) fn line_within(&self, time: Duration) -> Option<String> {
        self.lines.recv_timeout(time).ok()
    }

    /// The newest line it has printed, waited for if there is none that nobody has read.
    pub(crate) fn newest_line(&self) -> String {
        self.lines.try_iter().last().unwrap_or_else(|| self.line())
    }

    /// The next line.
    pub(crate) fn line(&self) -> String {
        self.line_within(PATIENCE).unwrap_or_else(|| panic!("{}: no further line", self.what))
    }

    /// The next line; none when its output has ended.
    pub(crate) fn next_line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("{}: no further line", self.what),
        }
    }

    /// The next line, which must be `wanted`.
    pub(crate) fn expect(&self, wanted: &str) {
        assert_eq!(self.line(), wanted, "{}", self.what);
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Closes its input and waits for its end; `None` when it does not end in `time`.
    pub(crate) fn end_within(mut self, time: Duration) -> Option<ExitStatus> {
        self.input = None;
        let since = Instant::now();
        while since.elapsed() < time {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// Closes its input and waits for its end, which must be a success.
    pub(crate) fn ends_well(self) {
        let what = self.what.clone();
        let status = self.end_within(PATIENCE);
        assert!(status.is_some_and(|status| status.success()), "{what}: {status:?}");
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
