//! Starting a daemon on demand: many `divvy run` at once start one.
//!
//! A process that wants a daemon takes the home's start lock, looks whether one runs, and starts it under the
//! lock. A daemon that wants to end for lack of tenants takes the same lock first and looks once more
//! for tenants; so a process that made its tenant before that look finds a daemon that stays, or none.
//!
//! The daemon is nobody's child and of no session, has no descriptor of its starter's, and is told the
//! same environment but for LD_PRELOAD.

use std::fs::File;
use std::io::Read;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::signal::SigSet;

use super::place::DaemonHome;
use crate::output::out;

/// The option by which this binary starts the daemon and ends.
pub(super) const LAUNCH: &str = "--launch";
/// The option by which the daemon itself is started then.
pub(super) const ON_DEMAND: &str = "--on-demand";

/// Sees to it that a daemon runs in `home`.
pub(crate) fn ensure(home: &DaemonHome) -> Result<()> {
    let _held = home.start_lock()?;
    if home.is_served() {
        return Ok(());
    }
    let status = command(home, LAUNCH)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("no process can be started")?;
    if !status.success() {
        bail!("the daemon did not start; {} says why", home.log().display());
    }
    Ok(())
}

fn command(home: &DaemonHome, option: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("divvy").args(["daemon", option, "--home"]).arg(home.directory());
    command.env_remove("LD_PRELOAD").stdin(Stdio::null());
    command
}

/// Between `divvy run` and the daemon: leaves the session, starts the daemon, waits until it serves.
pub(super) fn launch(home: &DaemonHome) -> Result<u8> {
    close_inherited();
    // A process that keeps a daemon for its program blocks all signals; the daemon waits for some.
    SigSet::all().thread_unblock()?;
    let _ = nix::unistd::setsid();
    let log = File::options().append(true).create(true).open(home.log());
    let log = log.with_context(|| format!("{} cannot be made", home.log().display()))?;
    let mut daemon = command(home, ON_DEMAND)
        .current_dir("/")
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("no process can be started")?;
    let mut ready = [0_u8; 1];
    let mut said = daemon.stdout.take().context("no pipe")?;
    // A byte when it serves; the end of the pipe when it could not.
    Ok(u8::from(said.read(&mut ready)? == 0))
}

/// Tells the starter that the daemon serves, and lets go of its pipe.
pub(super) fn say_ready() -> Result<()> {
    out::text("\n")?;
    let null = File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(())
}

/// Closes what this process was given beside the standard streams: a lock or a pipe of a script that
/// runs `divvy run` must not live as long as the daemon. Called before anything is opened.
fn close_inherited() {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<RawFd> = names.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The listing's own is closed by now, which is an error here and no harm.
        let _ = nix::unistd::close(descriptor);
    }
}
