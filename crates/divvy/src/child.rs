//! Runs a program as a child: signals go through, job control works, its end becomes our exit code.
//!
//! Signals are blocked and read from a descriptor, so no handler runs and the child inherits the
//! dispositions this process was given (`nohup` stays `nohup`); its signal mask is empty. A signal that
//! the terminal sent to the whole foreground group has reached the child already and is not sent
//! twice. When the terminal stops the child, this process stops too, so that the shell sees it.
//!
//! A child ended by signal n gives exit code 128 + n, as a shell reports it. This process does not
//! kill itself by the same signal: a core file would be written for the wrong program.

use std::io::{ErrorKind, IsTerminal};
use std::process::Command;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp};

use crate::failure;

/// Signals passed on to the child.
const FORWARDED: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// `si_code` of a signal the kernel sent of its own accord, as terminals' are.
const SI_KERNEL: i32 = 0x80;

/// Starts `command` and stays until it has ended. `started` is told the child's pid.
///
/// # Errors
/// With exit code 126 or 127 when the program cannot be started.
pub(crate) fn run(mut command: Command, started: impl FnOnce(u32)) -> Result<u8> {
    let mut set = SigSet::empty();
    for signal in FORWARDED.into_iter().chain([Signal::SIGCHLD]) {
        set.add(signal);
    }
    set.thread_block().context("signals cannot be blocked")?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)
        .context("no descriptor for signals can be had")?;
    let name = command.get_program().to_string_lossy().into_owned();
    let spawned = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => failure::with_code(
            failure::NOT_FOUND,
            format!("{name} was not found; write its path, or put its directory into PATH"),
        ),
        _ => failure::with_code(
            failure::NOT_EXECUTABLE,
            format!("{name} cannot be executed: {error}"),
        ),
    })?;
    started(spawned.id());
    let child = Pid::from_raw(i32::try_from(spawned.id()).context("a pid beyond i32")?);
    loop {
        if let Some(code) = collect(child)? {
            return Ok(code);
        }
        match signals.read_signal() {
            Ok(Some(info)) => forward(child, info.ssi_signo, info.ssi_code),
            Ok(None) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("signals cannot be read"),
        }
    }
}

/// The child's exit code, once it has one; follows its stops until then.
fn collect(child: Pid) -> Result<Option<u8>> {
    loop {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        match waitpid(child, Some(flags)) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(Some(code as u8)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Some(128 + signal as i32 as u8)),
            Ok(WaitStatus::Stopped(_, signal)) => {
                let by_terminal =
                    matches!(signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU);
                if by_terminal && std::io::stdin().is_terminal() {
                    raise(Signal::SIGSTOP).context("this process cannot be stopped")?;
                    // Continued: so shall the child be, if the shell has not done it.
                    let _ = kill(child, Signal::SIGCONT);
                }
            }
            Ok(_) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("the program's end cannot be waited for"),
        }
    }
}

fn forward(child: Pid, signo: u32, code: i32) {
    let Some(signal) = i32::try_from(signo).ok().and_then(|n| Signal::try_from(n).ok()) else {
        return;
    };
    let same_group = getpgid(Some(child)).is_ok_and(|group| group == getpgrp());
    if signal == Signal::SIGCHLD || (code == SI_KERNEL && same_group) {
        return;
    }
    // The child may have ended a moment ago; then there is nobody to tell.
    let _ = kill(child, signal);
}
