//! Progress of what takes longer than a moment, on standard error.
//!
//! Promises: nothing is written where standard error is no terminal, or where the user wants results and errors only; the line
//! is taken away before its owner says anything else.
//!
//! Does not know how long anything takes: its owner says so.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::output::{options, out, plain};

/// Cells of the bar.
const BAR: usize = 20;
/// Between two lines.
const PERIOD: Duration = Duration::from_millis(250);
/// Work that is over sooner needs no line.
const LEAST: Duration = Duration::from_secs(2);

/// Whether there is anybody who wants to see it.
pub fn is_shown() -> bool {
    !options::is_quiet() && std::io::stderr().is_terminal()
}

/// Writes a line in the place of the one before; an empty one takes it away.
pub fn show(line: &str) {
    if is_shown() {
        out::error_text(&format!("\r\x1b[K{}", plain::line(line)));
    }
}

/// The line of work that is `done` in part, with the time that is left at this pace.
pub fn line(what: &str, done: f64, spent: Duration) -> String {
    let done = if done.is_nan() { 0.0 } else { done.clamp(0.0, 1.0) };
    let filled = (done * BAR as f64) as usize;
    let left = match done > 0.0 {
        true => format!(", about {:.0} s left", spent.as_secs_f64() * (1.0 - done) / done),
        false => String::new(),
    };
    format!("[{}{}] {what}{left}", "#".repeat(filled), ".".repeat(BAR - filled))
}

/// The progress of something whose length is known, until it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows it from now on, by a thread of its own, so that its owner is not held up by the terminal meanwhile.
    pub fn timed(what: &str, length: Duration) -> Self {
        let none = Self { stop: None, thread: None };
        if length < LEAST || !is_shown() {
            return none;
        }
        let (stop, stopped) = channel::<()>();
        let (what, begun) = (what.to_owned(), Instant::now());
        let draw = move || {
            loop {
                let spent = begun.elapsed();
                show(&line(&what, spent.as_secs_f64() / length.as_secs_f64(), spent));
                if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return show("");
                }
            }
        };
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(draw);
        thread.map_or(none, |thread| Self { stop: Some(stop), thread: Some(thread) })
    }
}

/// The progress of something that its owner looks at, until it is dropped.
#[derive(Debug)]
pub struct Watched {
    what: String,
    begun: Instant,
    /// When the last line was drawn.
    drawn: Option<Instant>,
}

impl Watched {
    /// Shows nothing for two seconds from now on, since most is over by then.
    pub fn new(what: String) -> Self {
        Self { what, begun: Instant::now(), drawn: None }
    }

    /// Draws that so much of it is done, from 0 to 1, if the last line is a while ago.
    pub fn note(&mut self, done: f64) {
        let spent = self.begun.elapsed();
        if spent >= LEAST && self.drawn.is_none_or(|drawn| drawn.elapsed() >= PERIOD) {
            show(&line(&self.what, done, spent));
            self.drawn = Some(Instant::now());
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            show("");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_left() {
        let second = Duration::from_secs(1);
        assert_eq!(line("x", 0.0, second), "[....................] x");
        assert_eq!(line("x", 0.25, second), "[#####...............] x, about 3 s left");
        assert_eq!(line("x", 7.0, second), "[####################] x, about 0 s left");
        assert_eq!(line("x", f64::NAN, second), "[....................] x");
    }
}
