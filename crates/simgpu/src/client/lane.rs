//! The work of one stream on its way to the device's engines.
//!
//! Any thread hands work in, without waiting; one thread at a time collects completions, in order. The
//! daemon announces a completion as soon as it is certain, with the time at which it will have
//! happened; [`Lane::wait`] returns at that time, at once if it has passed. So work handed in ahead
//! runs back to back on the device, however late the threads of this host come.

use super::error::ClientError;
use super::link::{self, Guarded};
use super::start::socket_path;
use crate::clock::now_ns;
use crate::sys::fork::ForkWord;
use crate::wire::{Engine, PROTOCOL, Pace, Reply, Request, socket};
use rustix::fd::AsFd;
use rustix::time::Timespec;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A piece of work for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The context it belongs to: `Context::id`.
    pub context: u64,
    /// The engine.
    pub engine: Engine,
    /// Nanoseconds for [`Engine::Compute`], bytes for the copy engines.
    pub amount: u64,
    /// How much of the device it fills, 1 to 1000; work of one context runs side by side while the
    /// sum is at most 1000.
    pub width_permille: u32,
    /// How the duration of a kernel is to be read.
    pub pace: Pace,
}

/// When a piece of work ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Answer of [`Lane::submit`].
    pub sequence: u64,
    /// When it began, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// When it ended.
    pub finished_ns: u64,
}

/// A stream's line to the engines.
#[derive(Debug)]
pub struct Lane {
    line: Mutex<Line>,
    fork: ForkWord,
}

#[derive(Debug)]
struct Line {
    remote: Option<Remote>,
    next: u64,
    /// Number and time of what was handed in and not collected.
    pending: VecDeque<(u64, u64)>,
    /// How many of the pending went with a descriptor the program closed.
    lost: usize,
    /// How often the program closed it.
    reopened: u64,
}

#[derive(Debug)]
struct Remote {
    socket: Guarded,
    directory: PathBuf,
    ticket: [u8; 16],
}

impl Remote {
    fn open(directory: &Path, ticket: [u8; 16]) -> Result<Self, ClientError> {
        let socket = socket::connect(&socket_path(directory)).map_err(|_| ClientError::Gone)?;
        let request = Request::Lane { protocol: PROTOCOL, ticket };
        match link::exchange(socket.as_fd(), &request, None)?.0 {
            Reply::Done {} => Ok(Self {
                socket: Guarded::new(socket).map_err(ClientError::System)?,
                directory: directory.to_path_buf(),
                ticket,
            }),
            reply => Err(ClientError::from_reply(&reply)),
        }
    }
}

impl Lane {
    pub(super) fn open(
        directory: &Path,
        ticket: [u8; 16],
        fork: ForkWord,
    ) -> Result<Self, ClientError> {
        Ok(Self::over(Some(Remote::open(directory, ticket)?), fork))
    }

    pub(super) fn local(fork: ForkWord) -> Self {
        Self::over(None, fork)
    }

    fn over(remote: Option<Remote>, fork: ForkWord) -> Self {
        let line = Line { remote, next: 1, pending: VecDeque::new(), lost: 0, reopened: 0 };
        Self { line: Mutex::new(line), fork }
    }

    fn line(&self) -> Result<MutexGuard<'_, Line>, ClientError> {
        // Before the lock: a thread of the parent's may have held it at the fork.
        if self.fork.forked() {
            return Err(ClientError::Forked);
        }
        Ok(self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands work in; it runs after all earlier work of this lane.
    pub fn submit(&self, work: &Work) -> Result<u64, ClientError> {
        self.submit_at(work, now_ns())
    }

    /// Hands work in that the device could have begun at `ready_ns`, before this thread got to it:
    /// the threads' hand-over takes no simulated time. Cost: two system calls.
    pub fn submit_at(&self, work: &Work, ready_ns: u64) -> Result<u64, ClientError> {
        let mut line = self.line()?;
        let sequence = line.next;
        let Line { remote, pending, lost, reopened, .. } = &mut *line;
        if let Some(remote) = remote {
            let request = Request::Run {
                sequence,
                context: work.context,
                engine: work.engine as u8,
                amount: work.amount,
                width_permille: work.width_permille,
                pace: work.pace as u8,
                submitted_ns: ready_ns,
            };
            if remote.socket.get().is_none() {
                *remote = Remote::open(&remote.directory, remote.ticket)?;
                *lost = pending.len();
                *reopened += 1;
            }
            let socket = remote.socket.get().ok_or(ClientError::Gone)?;
            socket::send(socket, &request.encode(), None).map_err(link::lost)?;
        }
        line.next += 1;
        line.pending.push_back((sequence, ready_ns));
        Ok(sequence)
    }

    /// Waits until the oldest work handed in has finished; `None` if there is none.
    ///
    /// Work under way when the program closes the lane's descriptor counts as finished then.
    pub fn wait(&self) -> Result<Option<Completion>, ClientError> {
        let mut line = self.line()?;
        let Some(&(sequence, ready_ns)) = line.pending.front() else { return Ok(None) };
        let Line { remote, pending, lost, reopened, .. } = &mut *line;
        let reopened = *reopened;
        let socket = match remote.as_mut().map(|remote| remote.socket.share()) {
            None => {
                pending.pop_front();
                let done = Completion { sequence, started_ns: ready_ns, finished_ns: ready_ns };
                return Ok(Some(done));
            }
            Some(Some(socket)) if *lost == 0 => socket,
            Some(still_open) => {
                *lost = still_open.map_or(pending.len(), |_| *lost) - 1;
                pending.pop_front();
                let done = Completion { sequence, started_ns: ready_ns, finished_ns: now_ns() };
                return Ok(Some(done));
            }
        };
        drop(line);
        let mut space = [0; socket::SMALL_PACKET_BYTES];
        let packet = socket::receive_small(&*socket, &mut space).map_err(link::lost)?;
        let completion = completed(packet, sequence)?;
        sleep_until(completion.finished_ns);
        let mut line = self.line()?;
        line.pending.pop_front();
        if line.reopened != reopened {
            // It was counted as lost, but this thread still had hold of the socket.
            line.lost = line.lost.saturating_sub(1);
        }
        Ok(Some(completion))
    }
}

fn sleep_until(finished_ns: u64) {
    if now_ns() >= finished_ns {
        return;
    }
    // The thread may be the program's: its timers are exact for this sleep only.
    let slack = rustix::thread::current_timer_slack().ok();
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let until = Timespec {
        tv_sec: (finished_ns / 1_000_000_000) as i64,
        tv_nsec: (finished_ns % 1_000_000_000) as i64,
    };
    while now_ns() < finished_ns {
        let _ =
            rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &until);
    }
    let _ = rustix::thread::set_current_timer_slack(slack.and_then(NonZeroU64::new));
}

/// The completion in a packet, which must be that of `sequence`.
fn completed(packet: &[u8], sequence: u64) -> Result<Completion, ClientError> {
    if packet.is_empty() {
        return Err(ClientError::Gone);
    }
    match Reply::decode(packet) {
        Some(Reply::Completed { sequence: done, started_ns, finished_ns }) if done == sequence => {
            Ok(Completion { sequence, started_ns, finished_ns })
        }
        _ => Err(ClientError::Protocol),
    }
}
