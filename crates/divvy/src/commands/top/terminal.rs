//! The terminal of `divvy top`: taken, read, given back; and its end, or the command's, noticed.
//!
//! A thread waits for SIGTERM, SIGINT and SIGHUP, by a descriptor, and for the terminal to hang up. What
//! it sees is asked for by [`Terminal::next`] at least every [`LOOK`]. Promises: the terminal is put back
//! whatever ends the command, unless it is gone; a terminal that is gone is not read, since reading it
//! returns nothing at once, for ever; a command that is held up nevertheless (by a terminal that takes no
//! output, or by the library that reads keys, which a hang-up at the wrong instant catches) is ended
//! by the signal itself after [`GRACE`].

use std::io::{IsTerminal, Stdin, stdin};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::app::App;
use super::screen;
use super::table::Look;
use crate::output::failure::usage;
use crate::output::out;
use crate::pause::pause;

/// The longest wait for a key before the end is asked for again.
const LOOK: Duration = Duration::from_millis(50);
/// Time the command has to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// Next event.
#[derive(Debug)]
pub(super) enum Next {
    /// A key, or another event of the terminal.
    Event(Event),
    /// The time is over.
    Nothing,
    /// The command was asked to end, or its terminal is gone.
    End,
}

/// The terminal, until it is dropped.
#[derive(Debug)]
pub(super) struct Terminal {
    /// `None` once it is gone or given back.
    inner: Option<DefaultTerminal>,
    /// The signal to end by, 0 for none.
    asked: Arc<AtomicI32>,
}

impl Terminal {
    /// Whether there is one to take.
    ///
    /// # Errors
    /// A usage error that names what to do without one.
    pub(super) fn check() -> Result<()> {
        if out::is_terminal() && stdin().is_terminal() {
            return Ok(());
        }
        Err(usage("this is no terminal: give --once for one frame as text, or --json"))
    }

    /// Takes it, and starts the thread. Called before any other thread is started.
    pub(super) fn take() -> Result<Self> {
        let asked = watch()?;
        // From here on a panic puts the terminal back as well.
        let inner = ratatui::try_init().context("the terminal cannot be taken")?;
        Ok(Self { inner: Some(inner), asked })
    }

    /// Draws `app`. A terminal that is gone is nothing to draw on, and no error: [`Self::next`] says so.
    pub(super) fn draw(&mut self, app: &App, look: Look) -> Result<()> {
        let Some(inner) = &mut self.inner else { return Ok(()) };
        match inner.draw(|frame| screen::draw(frame, app, look)) {
            Ok(_) => Ok(()),
            Err(error) => self.lost_by(error).context("the screen cannot be written"),
        }
    }

    /// Waits until `deadline` for an event.
    pub(super) fn next(&mut self, deadline: Instant) -> Result<Next> {
        while self.inner.is_some() && self.signal().is_none() {
            if wait_for_input(&stdin(), Duration::ZERO)? == Input::HungUp {
                self.lose();
                break;
            }
            // Of several keys that were read at once some may be kept there.
            let polled = event::poll(Duration::ZERO);
            match polled.and_then(|is_some| is_some.then(event::read).transpose()) {
                Ok(Some(event)) => return Ok(Next::Event(event)),
                Ok(None) => {}
                Err(error) => {
                    self.lost_by(error).context("the keyboard cannot be read")?;
                    break;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Next::Nothing);
            }
            wait_for_input(&stdin(), left.min(LOOK))?;
        }
        Ok(Next::End)
    }

    /// The signal the command was asked to end by; SIGHUP where its terminal is gone.
    pub(super) fn signal(&self) -> Option<Signal> {
        let asked = Signal::try_from(self.asked.load(Relaxed)).ok();
        asked.or_else(|| self.inner.is_none().then_some(Signal::SIGHUP))
    }

    /// Takes an error of the terminal for its end where it has hung up: what fails then, and how, depends on
    /// what was asked of it.
    fn lost_by(&mut self, error: std::io::Error) -> std::io::Result<()> {
        match wait_for_input(&stdin(), Duration::ZERO) {
            Ok(Input::HungUp) => {
                self.lose();
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Lets go of a terminal that is gone: there is nothing to put back, and its drop would say so on a
    /// standard error that is most likely the same terminal.
    fn lose(&mut self) {
        std::mem::forget(self.inner.take());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let is_gone = matches!(wait_for_input(&stdin(), Duration::ZERO), Ok(Input::HungUp));
        if is_gone || ratatui::try_restore().is_err() {
            self.lose();
        }
    }
}

/// Result of waiting for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// There may be some.
    Perhaps,
    /// There will be none any more.
    HungUp,
}

/// Waits until there is input, the terminal has hung up, or `time` is over.
fn wait_for_input(terminal: &Stdin, time: Duration) -> Result<Input> {
    let mut waited = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
    let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
    match poll(&mut waited, time) {
        // A changed size of the window, most likely.
        Err(Errno::EINTR) => return Ok(Input::Perhaps),
        polled => polled.context("the terminal cannot be waited for")?,
    };
    let came = waited.first().and_then(PollFd::revents).unwrap_or(PollFlags::empty());
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    Ok(if came.intersects(gone) { Input::HungUp } else { Input::Perhaps })
}

/// Starts the thread; where it leaves the signal to end by.
fn watch() -> Result<Arc<AtomicI32>> {
    let set: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    set.thread_block().context("signals cannot be blocked")?;
    // Not to be waited for by reading: the terminal may be what there is to see.
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .context("no descriptor for signals can be had")?;
    let asked = Arc::new(AtomicI32::new(0));
    let setter = Arc::clone(&asked);
    std::thread::Builder::new()
        .name("divvy signals".to_owned())
        .stack_size(64 << 10)
        .spawn(move || {
            let signal = wait(&signals, &stdin());
            setter.store(signal as i32, Relaxed);
            pause(GRACE);
            // Still here: the process ends as it would have without this module.
            let _ = set.thread_unblock();
            let _ = raise(signal);
            // Ignored, as SIGHUP under `nohup` is.
            let _ = raise(Signal::SIGKILL);
        })
        .context("no thread can be had")?;
    Ok(asked)
}

/// Waits for a signal, or for the terminal to hang up.
fn wait(signals: &SignalFd, terminal: &Stdin) -> Signal {
    loop {
        let mut waited = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(terminal.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut waited, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(_) => return Signal::SIGTERM,
            Ok(_) => {}
        }
        if let Ok(Some(info)) = signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo).ok();
            return signal.and_then(|n| Signal::try_from(n).ok()).unwrap_or(Signal::SIGTERM);
        }
        return Signal::SIGHUP;
    }
}
