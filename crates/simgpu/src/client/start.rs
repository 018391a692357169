//! Finding the machine's daemon, or starting it.
//!
//! Starting is race-free: whoever holds a flock on `start.lock` in the machine's directory looks once
//! more and then starts the daemon, which says on its standard output that it is ready, or why not. A
//! daemon takes the same lock to end. A client that meets a daemon in the act of ending sees its
//! connection drop before the first answer, and begins again.

use super::error::{ClientError, StartError};
use crate::machine::description::{self, Lookup};
use crate::wire::socket;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How often a client begins again before it gives up: each time a daemon must have ended in between.
const ATTEMPTS: u32 = 1000;

/// Where a machine's daemon listens.
pub fn socket_path(directory: &Path) -> PathBuf {
    directory.join("simgpud.sock")
}

/// The lock for starting and ending the machine.
pub fn start_lock(directory: &Path) -> Result<OwnedFd, StartError> {
    let failed = |problem, errno| StartError::Directory {
        directory: directory.to_path_buf(),
        problem,
        errno,
    };
    let path = directory.join("start.lock");
    let flags = OFlags::CLOEXEC | OFlags::RDONLY;
    let open = |flags| {
        rustix::io::retry_on_intr(|| rustix::fs::open(&path, flags, Mode::from_raw_mode(0o666)))
    };
    // Its maker may have another uid; reading is enough for a lock.
    match open(flags) {
        Err(Errno::NOENT) => open(flags | OFlags::CREATE),
        outcome => outcome,
    }
    .map_err(|errno| failed("its start.lock cannot be opened", errno))
}

/// Takes the lock, waiting for whoever starts or ends the machine at the moment.
fn hold(lock: &OwnedFd, directory: &Path) -> Result<(), StartError> {
    rustix::io::retry_on_intr(|| rustix::fs::flock(lock, FlockOperation::LockExclusive)).map_err(
        |errno| StartError::Directory {
            directory: directory.to_path_buf(),
            problem: "its start.lock cannot be locked",
            errno,
        },
    )
}

/// Connects to the machine of `directory` and says hello, starting the daemon if there is none.
pub(super) fn connect<T>(
    directory: &Path,
    lookup: Lookup<'_>,
    hello: impl Fn(OwnedFd) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let path = socket_path(directory);
    for _ in 0..ATTEMPTS {
        match socket::connect(&path) {
            Ok(socket) => match hello(socket) {
                Err(ClientError::Gone) => continue,
                outcome => return outcome,
            },
            Err(Errno::NOENT | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(ClientError::System(errno)),
        }
        make_directory(directory)?;
        let lock = start_lock(directory)?;
        hold(&lock, directory)?;
        if matches!(socket::connect(&path), Err(Errno::NOENT | Errno::CONNREFUSED)) {
            launch(directory, lookup)?;
        }
        // Said, not left to closing: a child forked meanwhile would keep the lock with its copy.
        let _ = rustix::fs::flock(&lock, FlockOperation::Unlock);
    }
    Err(ClientError::Gone)
}

fn make_directory(directory: &Path) -> Result<(), StartError> {
    match rustix::fs::mkdir(directory, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(StartError::Directory {
            directory: directory.to_path_buf(),
            problem: "it cannot be made",
            errno,
        }),
    }
}

/// Starts the daemon and waits until it listens. The program run here ends at once; the daemon it
/// leaves behind is no child of ours.
fn launch(directory: &Path, lookup: Lookup<'_>) -> Result<(), StartError> {
    let program = find(lookup)?;
    let mut command = Command::new(&program);
    for name in description::variables() {
        match lookup(&name) {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child = command
        .arg("--detach")
        .env("SIMGPU_DIR", directory)
        .env_remove("LD_PRELOAD")
        .env_remove("LD_AUDIT")
        .env_remove("SIMGPU_FAULTS")
        .env_remove("SIMGPU_FAULTS_FILE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|problem| StartError::Execute {
            program: program.clone(),
            problem: problem.to_string(),
        })?;
    let mut answer = String::new();
    if let Some(mut output) = child.stdout.take() {
        // An unreadable answer reads as a refusal below.
        let _ = output.read_to_string(&mut answer);
    }
    // The program may reap all children itself, so a missing one is no error.
    let _ = child.wait();
    match answer.trim() {
        "ready" => Ok(()),
        "" => Err(StartError::Refused(format!("{} ended without a word", program.display()))),
        problem => Err(StartError::Refused(problem.to_owned())),
    }
}

/// `$SIMGPUD`, else beside this library, else beside the program; each also one directory up, where
/// Cargo puts binaries.
fn find(lookup: Lookup<'_>) -> Result<PathBuf, StartError> {
    if let Some(path) = lookup("SIMGPUD") {
        return Ok(PathBuf::from(path));
    }
    let library = own_library();
    let executable = std::env::current_exe().ok();
    for beside in [library, executable].into_iter().flatten() {
        for directory in beside.ancestors().skip(1).take(2) {
            let candidate = directory.join("simgpud");
            if candidate.is_file() {
                return Ok(candidate);
            }
        }
    }
    Err(StartError::NotFound)
}

/// The file this code was loaded from.
fn own_library() -> Option<PathBuf> {
    let here = own_library as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        let path = rest.find('/').and_then(|at| rest.get(at..))?;
        (start..end).contains(&here).then(|| PathBuf::from(path))
    })
}
