//! The work of one stream on its way to the device's engines.
//!
//! A lane is used by one thread: it submits without waiting and collects completions in order. The
//! daemon announces a completion as soon as it is certain, with the time at which it will have
//! happened; [`Lane::wait`] returns at that time. So the daemon's own latency does not stretch kernels.

use super::ClientError;
use super::link::{self, Guarded};
use super::start::socket_path;
use crate::sys::fork::ForkWord;
use crate::wire::{Engine, PROTOCOL, Pace, Reply, Request, socket};
use rustix::fd::AsFd;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

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
    /// Whether the stream has more that can run right behind it: the device then does not take it for
    /// idle while the next piece is on its way.
    pub more: bool,
}

/// When a piece of work ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What [`Lane::submit`] answered.
    pub sequence: u64,
    /// When it began, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// When it ended.
    pub finished_ns: u64,
}

/// A stream's line to the engines.
#[derive(Debug)]
pub struct Lane {
    remote: Option<Remote>,
    fork: ForkWord,
    next: u64,
    pending: VecDeque<(u64, u64)>,
    /// How many of the pending went with a descriptor the program closed.
    lost: usize,
    precise: bool,
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
        let remote = Remote::open(directory, ticket)?;
        Ok(Self { remote: Some(remote), ..Self::local(fork) })
    }

    pub(super) fn local(fork: ForkWord) -> Self {
        Self { remote: None, fork, next: 1, pending: VecDeque::new(), lost: 0, precise: false }
    }

    /// Whether work takes no time and `submit` need not be called at all.
    pub fn is_instant(&self) -> bool {
        self.remote.is_none()
    }

    /// Hands work in; it runs after all earlier work of this lane.
    pub fn submit(&mut self, work: &Work) -> Result<u64, ClientError> {
        self.submit_at(work, now_ns())
    }

    /// Hands work in that the program submitted at `submitted_ns`, before this thread got to it: on a
    /// device that was idle it began then, so the threads' hand-over takes no simulated time.
    pub fn submit_at(&mut self, work: &Work, submitted_ns: u64) -> Result<u64, ClientError> {
        if self.fork.forked() {
            return Err(ClientError::Forked);
        }
        let sequence = self.next;
        if let Some(remote) = &mut self.remote {
            let request = Request::Run {
                sequence,
                context: work.context,
                engine: work.engine as u8,
                amount: work.amount,
                width_permille: work.width_permille,
                pace: work.pace as u8,
                more: u8::from(work.more),
                submitted_ns,
            };
            if remote.socket.get().is_none() {
                *remote = Remote::open(&remote.directory, remote.ticket)?;
                self.lost = self.pending.len();
            }
            let socket = remote.socket.get().ok_or(ClientError::Gone)?;
            socket::send(socket, &request.encode(), None).map_err(link::lost)?;
        }
        self.next += 1;
        self.pending.push_back((sequence, submitted_ns));
        Ok(sequence)
    }

    /// Waits until the oldest work handed in has finished; `None` if there is none.
    ///
    /// Work under way when the program closes the lane's descriptor counts as finished then.
    pub fn wait(&mut self) -> Result<Option<Completion>, ClientError> {
        if self.fork.forked() {
            return Err(ClientError::Forked);
        }
        let Some(&(sequence, submitted_ns)) = self.pending.front() else { return Ok(None) };
        let mut completion =
            Completion { sequence, started_ns: submitted_ns, finished_ns: now_ns() };
        if let Some(remote) = &mut self.remote {
            match remote.socket.get() {
                Some(socket) if self.lost == 0 => {
                    let packet = socket::receive(socket).map_err(link::lost)?;
                    completion = completed(&packet.bytes, sequence)?;
                    self.sleep_until(completion.finished_ns);
                }
                Some(_) => self.lost -= 1,
                None => self.lost = self.pending.len() - 1,
            }
        } else {
            completion.finished_ns = submitted_ns;
        }
        self.pending.pop_front();
        Ok(Some(completion))
    }

    fn sleep_until(&mut self, finished_ns: u64) {
        if now_ns() >= finished_ns {
            return;
        }
        if !self.precise {
            // The stream's thread is the simulation's own: let its timers be exact.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            self.precise = true;
        }
        let until = Timespec {
            tv_sec: (finished_ns / 1_000_000_000) as i64,
            tv_nsec: (finished_ns % 1_000_000_000) as i64,
        };
        while now_ns() < finished_ns {
            let _ = rustix::thread::clock_nanosleep_absolute(
                rustix::thread::ClockId::Monotonic,
                &until,
            );
        }
    }
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

/// The machine's clock: CLOCK_MONOTONIC in nanoseconds, the same in every process.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
