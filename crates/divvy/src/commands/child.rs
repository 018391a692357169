//! Runs a program as a child: signals go through, job control works, its end becomes our exit code.
//!
//! Signals are blocked and read from a descriptor, so no handler runs, none is lost, and the child
//! inherits the dispositions this process was given (`nohup` stays `nohup`). A blocked mask survives
//! exec, so what is spawned is this binary again ([`start`]): it opens the mask, in which a signal
//! that came meanwhile takes effect, and becomes the program. A signal that
//! the terminal sent to the whole foreground group has reached the child already and is not sent
//! twice; one that hangs up tells the leader of its session alone. When the terminal stops the child, this
//! process stops too, so that the shell sees it.
//!
//! A child ended by signal n gives exit code 128 + n, as a shell reports it. This process does not
//! kill itself by the same signal: a core file would be written for the wrong program.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getsid};

use crate::output::{exit_codes, failure, out};
use crate::pause::pause;
use crate::signals;

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

/// An interrupted program that cannot go on anyway has this long to end by itself.
const INTERRUPT: Duration = Duration::from_secs(1);

/// The command by which this binary calls itself.
pub(crate) const START: &str = "start-in-tenant";

/// Become a program whose signals are open; what `divvy run` spawns.
///
/// Not for people.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// LD_PRELOAD of the program; this binary does without
    #[arg(long)]
    preload: OsString,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

fn watched() -> SigSet {
    FORWARDED.into_iter().chain([Signal::SIGCHLD]).collect()
}

/// The other half of [`run`]: opens the signal mask and becomes the program.
///
/// # Errors
/// With exit code 126 or 127 when the program cannot be executed.
pub(crate) fn start(args: &StartArgs) -> Result<u8> {
    watched().thread_unblock().context("signals cannot be unblocked")?;
    let (program, arguments) = args.command.split_first().context("no program was given")?;
    let error = Command::new(program).args(arguments).env("LD_PRELOAD", &args.preload).exec();
    let name = program.to_string_lossy();
    Err(match error.kind() {
        ErrorKind::NotFound => failure::with_code(
            exit_codes::NOT_FOUND,
            format!("{name} was not found; write its path, or put its directory into PATH"),
        ),
        _ => failure::with_code(
            exit_codes::NOT_EXECUTABLE,
            format!("{name} cannot be executed: {error}"),
        ),
    })
}

/// Runs `command` with `preload` and `environment`, and stays until it has ended; its exit code. `held_up` says why a
/// program that is interrupted does not notice, if it is known: then the user is told, and the program ended.
///
/// # Errors
/// When signals or processes cannot be had.
pub(crate) fn run(
    command: &[OsString],
    preload: &OsStr,
    environment: &[(&'static str, OsString)],
    held_up: impl Fn() -> Option<String>,
) -> Result<u8> {
    let set = watched();
    set.thread_block().context("signals cannot be blocked")?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)
        .context("no descriptor for signals can be had")?;
    let spawned = Command::new("/proc/self/exe")
        .args([OsStr::new(START), OsStr::new("--preload"), preload, OsStr::new("--")])
        .args(command)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .env_remove("LD_PRELOAD")
        .spawn()
        .context("no process can be started")?;
    let child = Pid::from_raw(i32::try_from(spawned.id()).context("a pid beyond i32")?);
    let has_ended = Arc::new(AtomicBool::new(false));
    loop {
        if let Some(code) = collect(child)? {
            has_ended.store(true, Relaxed);
            return Ok(code);
        }
        match signals.read_signal() {
            Ok(Some(info)) => {
                forward(child, info.ssi_signo, info.ssi_code);
                let is_interrupt = info.ssi_signo == Signal::SIGINT as u32;
                if let Some(why) = is_interrupt.then(&held_up).flatten() {
                    out::warn(&why);
                    end_soon(child, &has_ended);
                }
            }
            Ok(None) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("signals cannot be read"),
        }
    }
}

/// Ends the child a moment later, unless it has ended by then: an interpreter notices an interrupt only when the call
/// returns that it waits in, and that may be never.
fn end_soon(child: Pid, has_ended: &Arc<AtomicBool>) {
    let has_ended = Arc::clone(has_ended);
    // Without a thread the user is told too, and can send another signal.
    let _ = signals::quiet_thread("divvy interrupt", move || {
        pause(INTERRUPT);
        if !has_ended.load(Relaxed) {
            let _ = kill(child, Signal::SIGTERM);
        }
    });
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
    let is_leaders = matches!(signal, Signal::SIGHUP | Signal::SIGCONT)
        && getsid(None).is_ok_and(|session| session == getpid());
    if signal == Signal::SIGCHLD || (code == SI_KERNEL && same_group && !is_leaders) {
        return;
    }
    // The child may have ended a moment ago; then there is nobody to tell.
    let _ = kill(child, signal);
}
