//! The owner's side: reads a tenant's files without mapping them, and writes its limits.
//!
//! Reading is by `pread`, so a tenant that shortens or garbles its file harms nobody but itself: a
//! short read is an exact error or zeros, a text is stripped of control characters before anybody
//! prints it, and every number is taken as a claim of the tenant. A device's row is read until two
//! readings have the same change counters; where that does not happen soon, `consistent` is false.
//!
//! Does not judge who owns the files (the reader named the directory), wait for a lock, change the
//! usage file, or say whether a process is who it says it is.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::string::String;
use std::vec::Vec;

use divvy_abi::config::{self, Config};
use divvy_abi::usage::{self, Kind, SHARED_SLOT, device, line, slot, state};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS, Uuid};
use divvy_policy::ledger::{changes, held_bytes};
use zerocopy::IntoBytes;

use crate::error::{AttachError, File};
use crate::file;
use crate::sys::{self, Errno, Fd};

/// Readings of a row before it is given out as inconsistent.
const READINGS: usize = 16;

/// A tenant at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its limits; `None` when nobody has written any.
    pub config: Option<Config>,
    /// Devices its processes have seen.
    pub devices: Vec<DeviceSnapshot>,
    /// Its processes: the living, and the dead that still hold something.
    pub processes: Vec<ProcessSnapshot>,
}

/// One device of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// Row in the tenant's files.
    pub row: usize,
    /// The device.
    pub uuid: Uuid,
    /// Its index on the machine, where known.
    pub index: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its memory.
    pub total_bytes: u64,
    /// The tenant's limit, `None` for none.
    pub limit_bytes: Option<u64>,
    /// What the tenant holds, the dead and the shared included.
    pub used_bytes: u64,
    /// Of these, memory exported by legacy IPC.
    pub shared_bytes: u64,
    /// The largest total any process has seen.
    pub peak_bytes: u64,
    /// Requests refused, the dead's included.
    pub refusals: u64,
    /// Whether all of it is of one instant.
    pub consistent: bool,
}

/// One process of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// Its slot.
    pub slot: usize,
    /// Whether its liveness lock is held. What a dead process held is freed by the next claim or by
    /// the next request that meets the limit.
    pub alive: bool,
    /// Whether it is still attaching.
    pub starting: bool,
    /// Its pid, in its own pid namespace.
    pub pid: u32,
    /// Inode of that namespace.
    pub pid_namespace: u64,
    /// Its start, in clock ticks since boot.
    pub start_ticks: u64,
    /// The name of the thread that attached.
    pub comm: String,
    /// Why it was refused memory last; 0 for never.
    pub reason: u32,
    /// What it holds, device by device; devices it has not used are left out.
    pub uses: Vec<DeviceUse>,
}

/// What one process holds on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// The device's row.
    pub row: usize,
    /// Bytes it holds.
    pub held_bytes: u64,
    /// Bytes it is asking for.
    pub asking_bytes: u64,
    /// The largest total of the tenant it has seen.
    pub peak_bytes: u64,
    /// Its requests that were refused.
    pub refusals: u64,
    /// Bytes by kind, in the order of [`Kind::ALL`].
    pub kind_bytes: [u64; Kind::ALL.len()],
}

impl DeviceUse {
    /// Bytes held for `kind`.
    pub fn bytes_of(&self, kind: Kind) -> u64 {
        self.kind_bytes.get(kind as usize).copied().unwrap_or(0)
    }
}

impl Snapshot {
    /// Reads the tenant in `directory`. A tenant no process has joined yet has no usage file; it
    /// reads as empty.
    ///
    /// # Errors
    /// [`AttachError`] naming the file and what is wrong with it.
    pub fn read(directory: &Path) -> Result<Self, AttachError> {
        let config = read_config(directory)?;
        let path = c_path(&directory.join("usage"))?;
        let fd = match sys::open(&path, libc::O_RDONLY | libc::O_NONBLOCK, 0) {
            Ok(fd) => fd,
            Err(Errno(libc::ENOENT)) if directory.is_dir() => {
                return Ok(Self { config, devices: Vec::new(), processes: Vec::new() });
            }
            Err(errno) => return Err(AttachError::Open(File::Usage, errno)),
        };
        file::judge_usage(&fd)?;
        Ok(read_usage(&fd, config))
    }

    /// The processes that live.
    pub fn living(&self) -> impl Iterator<Item = &ProcessSnapshot> {
        self.processes.iter().filter(|process| process.alive)
    }
}

/// Reads a tenant's limits; `None` when there are none.
///
/// # Errors
/// As [`Snapshot::read`].
pub fn read_config(directory: &Path) -> Result<Option<Config>, AttachError> {
    let path = c_path(&directory.join("config"))?;
    match sys::open(&path, libc::O_RDONLY | libc::O_NONBLOCK, 0) {
        Ok(fd) => file::parse_config(&fd),
        Err(Errno(libc::ENOENT)) => Ok(None),
        Err(errno) => Err(AttachError::Open(File::Config, errno)),
    }
}

/// Writes a tenant's limits as their owner: a new file under another name, then renamed over the
/// old one, so that a process reads all of the old limits or all of the new ones, and a full disk
/// or a kill leaves the old ones. `epoch` is counted up from the file there was.
///
/// # Errors
/// [`AttachError::NoSpace`] and [`AttachError::Open`].
pub fn write_config(directory: &Path, new: &Config) -> Result<(), AttachError> {
    let before = read_config(directory).ok().flatten().map_or(0, |config| config.epoch);
    let config = Config { epoch: before.wrapping_add(1), ..new.clone() };
    let temporary = directory.join(std::format!(".config.{}", std::process::id()));
    let path = c_path(&temporary)?;
    let written = (|| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let fd = sys::open(&path, flags, 0o644)?;
        // Processes of other uids read it; they must not write it, whatever the umask said.
        sys::chmod(&fd, 0o644)?;
        sys::write_at(&fd, config.as_bytes(), 0)
    })();
    let renamed = written.and_then(|()| {
        std::fs::rename(&temporary, directory.join("config"))
            .map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
    });
    renamed.map_err(|errno| {
        let _ = std::fs::remove_file(&temporary);
        match errno.0 {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => AttachError::NoSpace(errno),
            _ => AttachError::Open(File::Config, errno),
        }
    })
}

fn c_path(path: &Path) -> Result<CString, AttachError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| AttachError::Directory(Errno(libc::EINVAL)))
}

fn read_usage(fd: &Fd, config: Option<Config>) -> Snapshot {
    let head = bytes_at(fd, 0, usage::SHARED_AT);
    let high = (u32_in(&head, usage::SLOTS_HIGH_AT) as usize).clamp(1, MAX_SLOTS);
    let mut devices = Vec::new();
    let mut uses: Vec<Vec<DeviceUse>> = Vec::new();
    uses.resize_with(high, Vec::new);
    for row in 0..MAX_DEVICES {
        let at = usage::device_at(row);
        if u32_in(&head, at + device::STATE) == 0 {
            continue;
        }
        let (lines, consistent) = read_row(fd, row, high);
        for (slot, uses) in uses.iter_mut().enumerate() {
            let one = use_in(&lines, row, slot);
            if slot != SHARED_SLOT && one != (DeviceUse { row, ..EMPTY }) {
                uses.push(one);
            }
        }
        devices.push(device_in(&head, row, &lines, consistent));
    }
    let processes = uses
        .into_iter()
        .enumerate()
        .skip(1)
        .filter_map(|(index, uses)| process_in(fd, &head, index, uses))
        .collect();
    Snapshot { config, devices, processes }
}

const EMPTY: DeviceUse = DeviceUse {
    row: 0,
    held_bytes: 0,
    asking_bytes: 0,
    peak_bytes: 0,
    refusals: 0,
    kind_bytes: [0; Kind::ALL.len()],
};

/// A device's lines, and whether they are of one instant.
fn read_row(fd: &Fd, row: usize, high: usize) -> (Vec<u8>, bool) {
    let read = || bytes_at(fd, usage::line_at(row, 0), usage::LINE_BYTES * high);
    let sum = |lines: &[u8]| {
        (0..high).fold(0_u64, |sum, slot| {
            let word = u64_in(lines, usage::LINE_BYTES * slot + line::HELD);
            sum.wrapping_add(changes(word))
        })
    };
    let mut lines = read();
    for _ in 0..READINGS {
        let again = read();
        if sum(&again) == sum(&lines) {
            return (again, true);
        }
        lines = again;
    }
    (lines, false)
}

fn use_in(lines: &[u8], row: usize, slot: usize) -> DeviceUse {
    let word = |offset| u64_in(lines, usage::LINE_BYTES * slot + offset);
    DeviceUse {
        row,
        held_bytes: held_bytes(word(line::HELD)),
        asking_bytes: word(line::ASKING),
        peak_bytes: word(line::PEAK),
        refusals: word(line::REFUSALS),
        kind_bytes: core::array::from_fn(|kind| word(line::KINDS + 8 * kind)),
    }
}

fn device_in(head: &[u8], row: usize, lines: &[u8], consistent: bool) -> DeviceSnapshot {
    let at = usage::device_at(row);
    let all = || (0..lines.len() / usage::LINE_BYTES).map(|slot| use_in(lines, row, slot));
    let uuid = head.get(at + device::UUID..).and_then(|b| b.first_chunk()).copied();
    let index = u32_in(head, at + device::INDEX);
    let limit_bytes = u64_in(head, at + device::LIMIT_BYTES);
    DeviceSnapshot {
        row,
        uuid: uuid.unwrap_or_default(),
        index: (index != u32::MAX).then_some(index),
        name: text_in(head, at + device::NAME, device::NAME_BYTES),
        total_bytes: u64_in(head, at + device::TOTAL_BYTES),
        limit_bytes: (limit_bytes != 0).then_some(limit_bytes),
        used_bytes: all().fold(0, |sum, one| sum.saturating_add(one.held_bytes)),
        shared_bytes: use_in(lines, row, SHARED_SLOT).held_bytes,
        peak_bytes: all().map(|one| one.peak_bytes).max().unwrap_or(0),
        refusals: all().fold(0, |sum, one| sum.saturating_add(one.refusals)),
        consistent,
    }
}

fn process_in(fd: &Fd, head: &[u8], index: usize, uses: Vec<DeviceUse>) -> Option<ProcessSnapshot> {
    let at = usage::slot_at(index);
    let state = u32_in(head, at + slot::STATE);
    let alive = file::is_alive(fd, index);
    let holds = uses.iter().any(|one| one.held_bytes != 0 || one.asking_bytes != 0);
    (state != state::FREE && (alive || holds)).then(|| ProcessSnapshot {
        slot: index,
        alive,
        starting: state == state::STARTING,
        pid: u32_in(head, at + slot::PID),
        pid_namespace: u64_in(head, at + slot::PID_NAMESPACE),
        start_ticks: u64_in(head, at + slot::START_TICKS),
        comm: text_in(head, at + slot::COMM, slot::COMM_BYTES),
        reason: u32_in(head, at + slot::REASON),
        uses,
    })
}

/// `bytes` of the file at `offset`; what it does not have is zero.
fn bytes_at(fd: &Fd, offset: usize, bytes: usize) -> Vec<u8> {
    let mut into = std::vec![0; bytes];
    let _ = sys::read_at(fd, &mut into, offset as u64);
    into
}

fn u32_in(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
}

fn u64_in(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
}

/// A zero-padded text, safe to print: control characters (a terminal obeys them) become `?`.
fn text_in(bytes: &[u8], at: usize, max: usize) -> String {
    let field = bytes.get(at..at + max).unwrap_or_default();
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end).unwrap_or_default())
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// A config's name, safe to print.
pub fn config_name(config: &Config) -> String {
    text_in(&config.name, 0, config::NAME_BYTES)
}
