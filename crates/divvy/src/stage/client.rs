//! One client program on a stage: started, told to go, and asked for the lines of JSON it prints, within a time.
//!
//! Promises: a client that fails or is silent ends in an error that says what it said last; dropped, it is ended.
//!
//! Does not know what a client does, nor whose tenant it is.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::pause::pause;
use crate::signals::quiet_thread;

/// A client that has been started.
#[derive(Debug)]
pub struct StageClient {
    child: Child,
    line: Receiver<String>,
    errors: Receiver<String>,
}

impl StageClient {
    /// Starts it with its standard input kept open.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().with_context(|| format!("{name} cannot be started"))?;
        let out = child.stdout.take().context("the client has no output")?;
        let mut err = child.stderr.take().context("the client has no error output")?;
        let (send, line) = channel();
        quiet_thread("divvy client", move || {
            for text in BufReader::new(out).lines().map_while(Result::ok) {
                // A library may print there too; only the client speaks JSON.
                if text.starts_with('{') {
                    let _ = send.send(text);
                }
            }
        })?;
        let (send, errors) = channel();
        quiet_thread("divvy client", move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            let _ = send.send(text);
        })?;
        Ok(Self { child, line, errors })
    }

    /// Its answer within `patience`.
    ///
    /// # Errors
    /// When there is none, with the client's last words.
    pub fn answer(&mut self, patience: Duration) -> Result<Value> {
        match self.line.recv_timeout(patience) {
            Ok(line) => read(&line),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                bail!("no answer within {} s", patience.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => self.ended(),
        }
    }

    /// Its answer, if there is one by now; waits for nothing.
    ///
    /// # Errors
    /// When there will be none, with the client's last words.
    pub fn answer_by_now(&mut self) -> Result<Option<Value>> {
        match self.line.try_recv() {
            Ok(line) => read(&line).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => self.ended(),
        }
    }

    /// Why it has nothing to say any more.
    fn ended<T>(&mut self) -> Result<T> {
        let status = self.child.wait()?;
        let said = self.errors.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        bail!("{status}: {}", said.lines().last().unwrap_or("it said nothing"))
    }

    /// Sends it the byte it waits for.
    ///
    /// # Errors
    /// When it does not listen.
    pub fn go(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("the client's input is closed")?;
        input.write_all(b"g").and_then(|()| input.flush()).context("the client does not listen")
    }

    /// Ends its input: it says what it has to say and ends.
    pub fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it, whatever it does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends its input and waits until it has ended; kills it after ten seconds.
    pub fn finish(mut self) {
        self.stop();
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            pause(Duration::from_millis(2));
        }
    }
}

impl Drop for StageClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(line: &str) -> Result<Value> {
    serde_json::from_str(line).with_context(|| format!("it said {line}"))
}

/// Starts a client, takes its answer, lets it end.
///
/// # Errors
/// As of [`StageClient::answer`].
pub fn run(command: Command, patience: Duration) -> Result<Value> {
    let mut client = StageClient::start(command)?;
    let answer = client.answer(patience)?;
    client.finish();
    Ok(answer)
}

/// A number of an answer.
///
/// # Errors
/// When the answer has none of that name.
pub fn number(answer: &Value, field: &str) -> Result<f64> {
    answer.get(field).and_then(Value::as_f64).with_context(|| format!("no {field} in {answer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_client_answers_in_json() {
        let answer = run(shell("echo noise; echo '{\"ns\":7}'"), Duration::from_secs(5)).unwrap();
        assert_eq!(number(&answer, "ns").unwrap(), 7.0);
        assert!(number(&answer, "x").unwrap_err().to_string().contains("no x"));
    }

    #[test]
    fn a_client_that_fails_or_hangs_says_why() {
        let error = run(shell("echo why >&2; exit 3"), Duration::from_secs(5)).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
        let error = run(shell("exec sleep 20"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("no answer"), "{error}");
    }
}
