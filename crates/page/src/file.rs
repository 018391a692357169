//! The tenant's two files: opened, made, judged by kind, owner, head and length.
//!
//! Promises: an exact error for each thing that can be wrong; links are never followed and nothing
//! but a regular file is read; a file is laid out under the admission lock, its magic last.
//!
//! Does not map anything.

use core::ffi::CStr;

use divvy_abi::{ABI_VERSION, config, usage};
use zerocopy::{FromBytes, IntoBytes};

use crate::at;
use crate::directory::Directory;
use crate::error::{AttachError, File};
use crate::sys::{self, Errno, Fd, Lock};
use crate::trust::Trust;

/// Longest path of a tenant directory, in bytes.
const PATH_BYTES: usize = 200;

/// Room for a file's name after the directory.
const NAME_BYTES: usize = 32;

/// A NUL-terminated path in a buffer of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    bytes: [u8; PATH_BYTES + NAME_BYTES],
}

impl Path {
    /// `directory` followed by `name`. Not inlined: it is asked for seldom.
    #[inline(never)]
    pub(crate) fn join(directory: &CStr, name: &[u8]) -> Result<Self, AttachError> {
        let from = directory.to_bytes();
        if from.len() > PATH_BYTES || from.len() + name.len() >= PATH_BYTES + NAME_BYTES {
            return Err(AttachError::PathTooLong { bytes: from.len() });
        }
        let mut path = Self { bytes: [0; PATH_BYTES + NAME_BYTES] };
        for (to, byte) in path.bytes.iter_mut().zip(from.iter().chain(name)) {
            *to = *byte;
        }
        Ok(path)
    }

    /// The directory that `path` lies in.
    pub(crate) fn parent(path: &CStr) -> Result<Self, AttachError> {
        let bytes = path.to_bytes();
        let trimmed = bytes.iter().rposition(|b| *b != b'/').map_or(0, |end| end + 1);
        let bytes = bytes.get(..trimmed).unwrap_or_default();
        let parent = match bytes.iter().rposition(|b| *b == b'/') {
            Some(0) => b"/",
            Some(slash) => bytes.get(..slash).unwrap_or_default(),
            None => b".",
        };
        Self::join(c"", parent)
    }

    /// The same with its last bytes, as many as `END` has, replaced by `name`.
    pub(crate) fn with_end<const END: usize>(mut self, name: &[u8]) -> Self {
        let kept = self.as_c_str().count_bytes().saturating_sub(END);
        // The last byte stays the path's end.
        for (to, byte) in
            self.bytes.iter_mut().take(PATH_BYTES + NAME_BYTES - 1).skip(kept).zip(name)
        {
            *to = *byte;
        }
        self
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// Opens the usage file, making and initialising it when it is new.
pub(crate) fn open_usage(trust: &Trust) -> Result<Fd, AttachError> {
    let open = |errno| AttachError::Open(File::Usage, errno);
    let name = File::Usage.name();
    let fd = match trust.directory().open_file(name, libc::O_RDWR, 0) {
        Err(Errno(libc::ENOENT)) => {
            let flags = libc::O_RDWR | libc::O_CREAT;
            let fd = trust.directory().open_file(name, flags, 0o600).map_err(room_or(open))?;
            // At once: containers with other uids may share the directory, whose mode says who gets
            // in. It fails where another was faster, who does the same.
            let _ = sys::chmod(&fd, trust.file_mode());
            fd
        }
        other => other.map_err(open)?,
    };
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    trust.judge(File::Usage, &stat)?;
    if stat.size_bytes == 0 || !header_is_written(&fd)? {
        initialise(&fd)?;
    }
    judge_usage(&fd)?;
    Ok(fd)
}

/// Opens the usage file again, for a lock of its own; it must still be the file we mapped.
pub(crate) fn reopen_usage(path: &CStr, device: u64, inode: u64) -> Result<Fd, AttachError> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK;
    same(at::open(None, path, flags, 0), device, inode)
}

/// The same in a directory that is open.
pub(crate) fn reopen_usage_in(
    directory: &Directory,
    device: u64,
    inode: u64,
) -> Result<Fd, AttachError> {
    same(directory.open_file(File::Usage.name(), libc::O_RDWR, 0), device, inode)
}

fn same(fd: Result<Fd, Errno>, device: u64, inode: u64) -> Result<Fd, AttachError> {
    let fd = fd.map_err(|errno| AttachError::Open(File::Usage, errno))?;
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    if (stat.device, stat.inode) == (device, inode) {
        Ok(fd)
    } else {
        Err(AttachError::Open(File::Usage, Errno(libc::ENOENT)))
    }
}

fn room_or(other: impl Fn(Errno) -> AttachError) -> impl Fn(Errno) -> AttachError {
    move |errno| match errno.0 {
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => AttachError::NoSpace(errno),
        _ => other(errno),
    }
}

fn header_is_written(fd: &Fd) -> Result<bool, AttachError> {
    let mut magic = [0_u8; 8];
    sys::read_at(fd, &mut magic, usage::MAGIC_AT as u64).map_err(AttachError::System)?;
    Ok(magic != [0; 8])
}

/// Lays the file out under the admission lock; the magic is written last, so that a creator killed
/// half-way leaves a file that the next one lays out again.
fn initialise(fd: &Fd) -> Result<(), AttachError> {
    let lock = crate::admission::Held::on(fd)?;
    if header_is_written(fd)? {
        return Ok(());
    }
    let room = room_or(AttachError::System);
    // What lies there has no magic, so nobody has mapped it; its bytes must not become a ledger.
    sys::set_len(fd, 0).map_err(&room)?;
    sys::set_len(fd, usage::USAGE_BYTES).map_err(&room)?;
    // The rows of the ledger and of the gates follow when a device is seen: 128 KiB each.
    sys::allocate(fd, 0, usage::LEDGER_AT).map_err(&room)?;
    let mut head = [0_u8; 16];
    let words = [ABI_VERSION, usage::USAGE_BYTES as u32];
    for (to, byte) in head.iter_mut().skip(8).zip(words.iter().flat_map(|w| w.to_ne_bytes())) {
        *to = byte;
    }
    sys::write_at(fd, head.get(8..).unwrap_or(&[]), 8).map_err(&room)?;
    sys::write_at(fd, &usage::MAGIC, 0).map_err(&room)?;
    drop(lock);
    Ok(())
}

/// Judges an open usage file by its kind, head and length.
pub(crate) fn judge_usage(fd: &Fd) -> Result<(), AttachError> {
    let stat = sys::stat(fd).map_err(AttachError::System)?;
    if stat.mode & libc::S_IFMT != libc::S_IFREG {
        return Err(AttachError::NotAFile(File::Usage));
    }
    let mut head = [0_u8; 16];
    let got = sys::read_at(fd, &mut head, 0).map_err(AttachError::System)?;
    judge_head(File::Usage, &head, got, usage::MAGIC)?;
    let expected_bytes = usage::USAGE_BYTES as u64;
    if stat.size_bytes < expected_bytes {
        return Err(AttachError::ShortFile {
            file: File::Usage,
            bytes: stat.size_bytes,
            expected_bytes,
        });
    }
    Ok(())
}

fn judge_head(file: File, head: &[u8; 16], got: usize, magic: [u8; 8]) -> Result<(), AttachError> {
    let found: [u8; 8] = head.first_chunk().copied().unwrap_or_default();
    if got < head.len() {
        let short = AttachError::ShortFile { file, bytes: got as u64, expected_bytes: 16 };
        return Err(short);
    }
    if found != magic {
        return Err(AttachError::BadMagic { file, found });
    }
    let version = head.get(8..12).and_then(|b| b.first_chunk().copied()).unwrap_or_default();
    match u32::from_ne_bytes(version) {
        ABI_VERSION => Ok(()),
        found => Err(AttachError::Version { file, found }),
    }
}

/// Opens the config and judges its owner; `None` when there is none.
pub(crate) fn open_config(trust: &Trust) -> Result<Option<Fd>, AttachError> {
    let fd = match trust.directory().open_file(File::Config.name(), libc::O_RDONLY, 0) {
        Ok(fd) => fd,
        Err(Errno(libc::ENOENT)) => return Ok(None),
        Err(errno) => return Err(AttachError::Open(File::Config, errno)),
    };
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    trust.judge(File::Config, &stat)?;
    Ok(Some(fd))
}

/// Reads and judges the config; `None` when there is none or it is empty.
pub(crate) fn read_config(trust: &Trust) -> Result<Option<config::Config>, AttachError> {
    match open_config(trust)? {
        Some(fd) => parse_config(&fd),
        None => Ok(None),
    }
}

/// Reads an open config file; `None` when it is empty.
pub(crate) fn parse_config(fd: &Fd) -> Result<Option<config::Config>, AttachError> {
    let stat = sys::stat(fd).map_err(AttachError::System)?;
    if stat.mode & libc::S_IFMT != libc::S_IFREG {
        return Err(AttachError::NotAFile(File::Config));
    }
    let mut bytes = [0_u8; config::CONFIG_BYTES];
    let got = sys::read_at(fd, &mut bytes, 0).map_err(AttachError::System)?;
    if got == 0 {
        return Ok(None);
    }
    let head = bytes.first_chunk::<16>().copied().unwrap_or([0; 16]);
    judge_head(File::Config, &head, got, config::MAGIC)?;
    if got < bytes.len() {
        return Err(AttachError::ShortFile {
            file: File::Config,
            bytes: got as u64,
            expected_bytes: bytes.len() as u64,
        });
    }
    Ok(config::Config::read_from_bytes(&bytes).ok())
}

/// Writes the config in place. Called under the admission lock by the first process of a tenant
/// without an owner; an owner replaces the whole file instead.
pub(crate) fn write_config(trust: &Trust, config: &config::Config) -> Result<(), AttachError> {
    let room = room_or(|errno| AttachError::Open(File::Config, errno));
    let flags = libc::O_RDWR | libc::O_CREAT;
    let fd = trust.directory().open_file(File::Config.name(), flags, 0o600).map_err(&room)?;
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    trust.judge(File::Config, &stat)?;
    // Fails where another uid made the file, who has then set its mode.
    let _ = sys::chmod(&fd, trust.file_mode());
    sys::write_at(&fd, config.as_bytes(), 0).map_err(&room)
}

/// Writes the config as the tenant's owner: a new file under another name, then renamed over the old
/// one, so that a process reads all of the old limits or all of the new ones, and a full disk or a
/// kill leaves the old ones.
pub(crate) fn replace_config(
    directory: &Directory,
    config: &config::Config,
) -> Result<(), AttachError> {
    let mut name = *b".config.00000000\0";
    let digits = name.iter_mut().rev().skip(1).take(8).enumerate();
    for (place, to) in digits {
        let digit = (sys::pid() >> (4 * place)) & 15;
        *to = char::from_digit(digit, 16).map_or(b'0', |c| c as u8);
    }
    let new = CStr::from_bytes_with_nul(&name).unwrap_or(c".config");
    // What a process of the same number left, or whatever else has the name: it is not written into.
    at::unlink(directory.fd(), new);
    let written = (|| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let fd = directory.open_file(new, flags, 0o644)?;
        // Processes of other uids read it; they must not write it, whatever the umask said.
        sys::chmod(&fd, 0o644)?;
        sys::write_at(&fd, config.as_bytes(), 0)?;
        at::rename(directory.fd(), new, File::Config.name())
    })();
    written.map_err(|errno| {
        at::unlink(directory.fd(), new);
        room_or(|errno| AttachError::Open(File::Config, errno))(errno)
    })
}

/// Whether the slot's lock is held by a living process.
pub(crate) fn is_alive(fd: &Fd, slot: usize) -> bool {
    sys::is_locked(fd, slot_lock_at(slot)).unwrap_or(true)
}

/// Takes or drops a slot's liveness lock on `fd`'s description.
pub(crate) fn lock_slot(fd: &Fd, slot: usize, lock: Lock) -> Result<bool, Errno> {
    sys::set_lock(fd, slot_lock_at(slot), lock)
}

fn slot_lock_at(slot: usize) -> u64 {
    usage::SLOT_LOCKS_AT + slot as u64
}
