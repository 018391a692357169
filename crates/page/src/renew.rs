//! The usage file as who joins opens it: a tenant whose files are of another version is laid out anew once
//! nobody of it lives.
//!
//! Promises: a file that a living process has mapped is neither cut nor written, nor does its name go;
//! limits go along, and are there before the new ledger is. Whoever lays out holds the admission lock
//! and every liveness lock of the old file: so of two who lay out one finds it done, and a process of
//! the other version that joins meanwhile finds no slot, or limits that it refuses, since it reads them
//! after it has its slot. Killed at any point, the next one goes on from there.
//!
//! Does not read limits of a version that is not served, and does not carry what the dead have used.

use divvy_abi::config::{self, CONFIG_BYTES};
use divvy_abi::layout::{self, HEAD_BYTES};
use divvy_abi::{ABI_VERSION, usage};

use crate::admission::AdmissionGuard;
use crate::error::{AttachError, TenantFile};
use crate::source::ConfigSource;
use crate::sys::{self, Errno, Fd, Lock};
use crate::trust::Trust;
use crate::{at, file};

/// How often a usage file that others lay out anew is opened again.
const ATTEMPTS: u32 = 8;

/// The new file, before it has its name.
const NEW: &core::ffi::CStr = c".new";

/// Opens the usage file, making and initialising it when it is new.
#[inline(never)]
pub(crate) fn open_usage(trust: &Trust, source: &ConfigSource<'_>) -> Result<Fd, AttachError> {
    // A file that another process lays out meanwhile is opened again; each time it is of our version, or refused.
    for _ in 0..ATTEMPTS {
        let fd = file::make_usage(trust)?;
        match file::judge_usage(&fd, file::OURS_USAGE) {
            Err(AttachError::Version { found, .. }) => usage(trust, source, &fd, found)?,
            judged => return judged.map(|_| fd),
        }
    }
    Err(AttachError::LockTimeout)
}

/// Lays out the usage file anew in place of `old`, which has version `found`; nothing where another
/// process just has.
#[cold]
#[inline(never)]
fn usage(
    trust: &Trust,
    source: &ConfigSource<'_>,
    old: &Fd,
    found: u32,
) -> Result<(), AttachError> {
    let _held = AdmissionGuard::on(old)?;
    let stat = sys::stat(old).map_err(AttachError::System)?;
    if file::reopen_usage_in(trust.directory(), stat.device, stat.inode).is_err() {
        return Ok(());
    }
    // Until `old` is closed nobody gets a slot of it.
    let slots = sys::set_locks(old, usage::SLOT_LOCKS_AT, layout::SLOT_LOCKS, Lock::Write);
    if !slots.map_err(AttachError::System)? {
        return Err(AttachError::OtherLibrary { found });
    }
    limits(trust, source)?;
    replace(trust, TenantFile::Usage, old, None)
}

/// Puts another file in the place of one that is `like` it in mode and owner, in one step: a config of these
/// bytes and no orders, or one laid out as a ledger. One at a time is made, under the admission lock.
fn replace(
    trust: &Trust,
    file: TenantFile,
    like: &Fd,
    bytes: Option<&[u8]>,
) -> Result<(), AttachError> {
    let directory = trust.directory();
    // A file left by a process that was killed.
    at::unlink(directory.fd(), NEW);
    let made = (|| {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let new = directory.open_file(NEW, flags, 0o600)?;
        let like = sys::stat(like)?;
        let _ = sys::chmod(&new, like.mode & 0o777);
        sys::chown(&new, like.uid);
        match bytes {
            Some(bytes) => sys::write_at(&new, bytes, 0)
                .and_then(|()| sys::set_len(&new, config::CONFIG_FILE_BYTES)),
            None => file::lay_out(&new),
        }?;
        at::rename(directory.fd(), NEW, file.name(), 0)
    })();
    made.map_err(|errno| {
        at::unlink(directory.fd(), NEW);
        file::no_room_or(errno, AttachError::Open(file, errno))
    })
}

/// Carries the limits over into a config of our version. The caller keeps processes of others out, and
/// holds the admission lock.
#[cold]
#[inline(never)]
pub(crate) fn limits(trust: &Trust, source: &ConfigSource<'_>) -> Result<(), AttachError> {
    let Some(fd) = file::open_config(trust, libc::O_RDWR)? else { return Ok(()) };
    // No change of limits is lost: the old file is changed under this lock, and only while it has
    // its name.
    let _writer = AdmissionGuard::on(&fd)?;
    let mut carried = [0; CONFIG_BYTES];
    match (file::judge(TenantFile::Config, &fd, &layout::CONFIG), source) {
        (Ok(None), _) => return Ok(()),
        (Ok(Some(layout)), _) if layout.version == ABI_VERSION => return Ok(()),
        (Ok(Some(layout)), _) => {
            // Without its head, which is ours, and without gates: whoever serves the tenant writes them
            // again.
            let limits = carried.get_mut(HEAD_BYTES..config::gate_at(0)).unwrap_or_default();
            if !file::read_through(&fd, layout, limits, HEAD_BYTES) {
                return Err(AttachError::Open(TenantFile::Config, Errno(libc::EIO)));
            }
        }
        // Not read, and not needed: without an owner the first process writes what they are.
        (Err(AttachError::Version { .. }), source) if source.own().is_some() => {
            at::unlink(trust.directory().fd(), TenantFile::Config.name());
            return Ok(());
        }
        (Err(error), _) => return Err(error),
    }
    if let Some(head) = carried.first_chunk_mut() {
        *head = file::CONFIG_HEAD;
    }
    replace(trust, TenantFile::Config, &fd, Some(&carried))
}
