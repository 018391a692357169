//! `simgpud`: the simulated machine's daemon.
//!
//! Client libraries start it as `simgpud --detach` with the start lock held; it leaves the daemon proper
//! (`--serve`) behind and prints, on standard output, `ready` or what is wrong. `--foreground` keeps a
//! machine running until it is killed, for machines that several containers share.

use rustix::fs::{FlockOperation, flock};
use simgpu::client::{socket_path, start_lock};
use simgpu::machine::description::{self, Description, from_environment};
use simgpu::machine::server::Server;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("--detach") => detach(),
        Some("--serve") => serve(true),
        Some("--foreground") => serve(false),
        _ => Err("usage: simgpud --detach | --foreground; the machine is SIMGPU_DIR's".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn directory() -> Result<PathBuf, String> {
    let directory = description::directory(&from_environment);
    std::path::absolute(&directory)
        .map_err(|problem| format!("SIMGPU_DIR={}: {problem}", directory.display()))
}

/// Leaves the daemon behind, an orphan of no session, and ends.
fn detach() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|problem| problem.to_string())?;
    let log = directory()?.join("simgpud.log");
    let log = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&log)
        .map_or_else(|_| Stdio::null(), Stdio::from);
    // It is not waited for: it outlives this process by design.
    Command::new(program)
        .arg("--serve")
        .stderr(log)
        .spawn()
        .map(drop)
        .map_err(|problem| format!("simgpud could not be left behind: {problem}"))
}

fn serve(detached: bool) -> Result<(), String> {
    let directory = directory()?;
    if detached {
        simgpu::sys::descriptor::close_inherited();
        let _ = rustix::process::setsid();
    }
    let description = Description::read(&from_environment).map_err(|bad| bad.to_string())?;
    let linger = description::linger(&from_environment).map_err(|bad| bad.to_string())?;
    let lock = start_lock(&directory).map_err(|problem| problem.to_string())?;
    if !detached {
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| errno.to_string())?;
    }
    std::env::set_current_dir("/").map_err(|problem| problem.to_string())?;
    raise_limits();
    let linger = if detached { linger } else { None };
    let path = socket_path(&directory);
    let mut server = Server::new(description, path.clone(), lock, linger)
        .map_err(|errno| format!("{}: the machine cannot listen ({errno})", path.display()))?;
    println!("ready");
    if detached {
        close_output();
    } else {
        server.unlock();
    }
    server.run().map_err(|errno| errno.to_string())
}

/// Closes standard output: the process that started this one waits for its end.
fn close_output() {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// The program that started us may have small limits; the machine is not part of it.
fn raise_limits() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    for resource in [Resource::Nofile, Resource::Fsize, Resource::As] {
        let mut limit = getrlimit(resource);
        limit.current = limit.maximum;
        let _ = setrlimit(resource, limit);
    }
    // Slices are shorter than the default slack of timers makes exact.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
