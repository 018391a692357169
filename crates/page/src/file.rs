//! The tenant's two files: opened, made, judged by kind, owner, head and length.
//!
//! Promises: an exact error for each thing that can be wrong; links are never followed and nothing
//! but a regular file is read; a file is laid out under the admission lock, its magic last.
//!
//! Does not map anything.

use core::ffi::CStr;

use divvy_abi::layout::{self, Layout};
use divvy_abi::{ABI_VERSION, config, usage};
use zerocopy::{FromBytes, IntoBytes};

use crate::at::{self, New};
use crate::directory::Directory;
use crate::error::{AttachError, TenantFile};
use crate::sys::{self, Errno, Fd};
use crate::trust::Trust;

/// Layouts that a process of a tenant knows: today's.
pub(crate) const OURS_USAGE: &[Layout] = &[layout::USAGE[0]];
pub(crate) const OURS_CONFIG: &[Layout] = &[layout::CONFIG[0]];

/// First bytes of our config: magic, version and size.
pub(crate) const CONFIG_HEAD: [u8; 16] = head(config::MAGIC, config::CONFIG_FILE_BYTES);
/// Bytes behind a usage file's magic.
const VERSION_AND_SIZE: [u8; 8] = {
    let [.., a, b, c, d, e, f, g, h] = head(usage::MAGIC, usage::USAGE_BYTES);
    [a, b, c, d, e, f, g, h]
};

const fn head(magic: [u8; 8], bytes: usize) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h] = magic;
    let [v0, v1, v2, v3] = ABI_VERSION.to_ne_bytes();
    let [s0, s1, s2, s3] = (bytes as u32).to_ne_bytes();
    [a, b, c, d, e, f, g, h, v0, v1, v2, v3, s0, s1, s2, s3]
}

/// How often a config that is read in pieces is read until no other was written meanwhile.
const READINGS: u32 = 16;

/// Opens the usage file, of whatever version it is; makes and initialises it when it is new.
pub(crate) fn make_usage(trust: &Trust) -> Result<Fd, AttachError> {
    let fd = open_or_make(trust, TenantFile::Usage)?;
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    trust.judge(TenantFile::Usage, &stat)?;
    if stat.size_bytes == 0 || !header_is_written(&fd)? {
        initialise(&fd)?;
    }
    Ok(fd)
}

/// Opens a file for reading and writing; makes it where there is none. Containers with other uids may share the
/// directory, whose mode says who gets in.
fn open_or_make(trust: &Trust, file: TenantFile) -> Result<Fd, AttachError> {
    let open = || trust.directory().open_file(file.name(), libc::O_RDWR, 0);
    let fd = match open() {
        Err(Errno(libc::ENOENT)) => {
            match at::make(trust.directory().fd(), file.name(), New::File, trust.file_mode()) {
                // Another process was faster.
                Err(Errno(libc::EEXIST)) => open(),
                made => return made.map_err(cannot(file)),
            }
        }
        other => other,
    };
    fd.map_err(|errno| AttachError::Open(file, errno))
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
    same(directory.open_file(TenantFile::Usage.name(), libc::O_RDWR, 0), device, inode)
}

fn same(fd: Result<Fd, Errno>, device: u64, inode: u64) -> Result<Fd, AttachError> {
    let fd = fd.map_err(|errno| AttachError::Open(TenantFile::Usage, errno))?;
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    if (stat.device, stat.inode) == (device, inode) {
        Ok(fd)
    } else {
        Err(AttachError::Open(TenantFile::Usage, Errno(libc::ENOENT)))
    }
}

/// The error of a call that may have found the disk full, and is otherwise `other`.
#[inline(never)]
pub(crate) fn no_room_or(errno: Errno, other: AttachError) -> AttachError {
    match errno.0 {
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => AttachError::NoSpace(errno),
        _ => other,
    }
}

fn cannot(file: TenantFile) -> impl Fn(Errno) -> AttachError {
    move |errno| no_room_or(errno, AttachError::Open(file, errno))
}

fn header_is_written(fd: &Fd) -> Result<bool, AttachError> {
    let mut magic = [0_u8; 8];
    sys::read_at(fd, &mut magic, usage::MAGIC_AT as u64).map_err(AttachError::System)?;
    Ok(magic != [0; 8])
}

/// Lays the file out under the admission lock; the magic is written last, so that a creator killed
/// half-way leaves a file that the next one lays out again.
fn initialise(fd: &Fd) -> Result<(), AttachError> {
    let lock = crate::admission::AdmissionGuard::on(fd)?;
    if header_is_written(fd)? {
        return Ok(());
    }
    // A file without magic is mapped by no process; its bytes must not become a ledger.
    let laid_out = lay_out(fd);
    drop(lock);
    laid_out.map_err(|errno| no_room_or(errno, AttachError::System(errno)))
}

/// Lays out a file that nobody has mapped.
pub(crate) fn lay_out(fd: &Fd) -> Result<(), Errno> {
    sys::set_len(fd, 0)?;
    sys::set_len(fd, usage::USAGE_BYTES)?;
    // The rows of the ledger and of the gates follow when a device is seen: 128 KiB each.
    sys::allocate(fd, 0, usage::LEDGER_AT)?;
    sys::write_at(fd, &VERSION_AND_SIZE, usage::VERSION_AT as u64)?;
    sys::write_at(fd, &usage::MAGIC, 0)
}

/// The layout of an open usage file; `None` for one without a head, which is written last: nobody has joined by it, and
/// the next process lays it out anew.
pub(crate) fn laid_out(
    fd: &Fd,
    served: &'static [Layout],
) -> Result<Option<&'static Layout>, AttachError> {
    if header_is_written(fd)? { judge_usage(fd, served).map(Some) } else { Ok(None) }
}

/// Judges an open usage file by its kind, head and length; which of the layouts that are served it has.
pub(crate) fn judge_usage(
    fd: &Fd,
    served: &'static [Layout],
) -> Result<&'static Layout, AttachError> {
    judge(TenantFile::Usage, fd, served)?.ok_or(AttachError::ShortFile {
        file: TenantFile::Usage,
        bytes: 0,
        expected_bytes: layout::HEAD_BYTES as u64,
    })
}

/// The same of either file; `None` for one whose head is not written.
pub(crate) fn judge(
    file: TenantFile,
    fd: &Fd,
    served: &'static [Layout],
) -> Result<Option<&'static Layout>, AttachError> {
    let stat = sys::stat(fd).map_err(AttachError::System)?;
    if stat.mode & libc::S_IFMT != libc::S_IFREG {
        return Err(AttachError::NotAFile(file));
    }
    let mut head = [0_u8; layout::HEAD_BYTES];
    let short = |bytes: u64, expected: usize| {
        Err(AttachError::ShortFile { file, bytes, expected_bytes: expected as u64 })
    };
    let got = sys::read_at(fd, &mut head, 0).map_err(AttachError::System)?;
    // None is written yet, or whoever began to write has died.
    if head == [0; layout::HEAD_BYTES] {
        return Ok(None);
    }
    if got < head.len() {
        return short(got as u64, head.len());
    }
    let magic = match file {
        TenantFile::Usage => usage::MAGIC,
        TenantFile::Config => config::MAGIC,
    };
    let (found_magic, rest) = head.split_at(magic.len());
    if found_magic != magic {
        let found = found_magic.first_chunk().copied().unwrap_or_default();
        return Err(AttachError::BadMagic { file, found });
    }
    let found = u32::from_ne_bytes(rest.first_chunk().copied().unwrap_or_default());
    let Some(layout) = layout::of(found, served) else {
        let oldest = served.last().map_or(ABI_VERSION, |layout| layout.version);
        return Err(AttachError::Version { file, found, oldest });
    };
    if stat.size_bytes < layout.bytes as u64 {
        return short(stat.size_bytes, layout.bytes);
    }
    Ok(Some(layout))
}

/// Reads what lies at `offset` in today's layout; what the file does not have stays as it is in `into`.
/// Whether all reading succeeded.
pub(crate) fn read_through(fd: &Fd, layout: &Layout, into: &mut [u8], offset: usize) -> bool {
    let (mut done, mut is_read) = (0, true);
    while let Some(rest) = into.get_mut(done..)
        && !rest.is_empty()
    {
        let run = layout.run(offset.saturating_add(done), rest.len());
        if let (Some(at), Some(part)) = (run.at, rest.get_mut(..run.bytes)) {
            is_read &= sys::read_at(fd, part, at as u64).is_ok();
        }
        done += run.bytes.max(1);
    }
    is_read
}

/// Opens the config and judges its owner; `None` when there is none.
pub(crate) fn open_config(trust: &Trust, flags: i32) -> Result<Option<Fd>, AttachError> {
    let fd = match trust.directory().open_file(TenantFile::Config.name(), flags, 0) {
        Ok(fd) => fd,
        Err(Errno(libc::ENOENT)) => return Ok(None),
        Err(errno) => return Err(AttachError::Open(TenantFile::Config, errno)),
    };
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    trust.judge(TenantFile::Config, &stat)?;
    Ok(Some(fd))
}

/// Reads and judges the config; `None` when there is none or its head is not written.
pub(crate) fn read_config(trust: &Trust) -> Result<Option<config::Config>, AttachError> {
    match open_config(trust, libc::O_RDONLY)? {
        Some(fd) => parse_config(&fd, OURS_CONFIG),
        None => Ok(None),
    }
}

/// Reads an open config file; `None` when its head is not written. Its version stays the file's.
pub(crate) fn parse_config(
    fd: &Fd,
    served: &'static [Layout],
) -> Result<Option<config::Config>, AttachError> {
    match judge(TenantFile::Config, fd, served)? {
        Some(layout) => whole_config(fd, layout).map(Some),
        None => Ok(None),
    }
}

/// Reads a config that was judged.
fn whole_config(fd: &Fd, layout: &Layout) -> Result<config::Config, AttachError> {
    let mut bytes = [0_u8; config::CONFIG_BYTES];
    let failed = AttachError::Open(TenantFile::Config, Errno(libc::EIO));
    if !read_through(fd, layout, &mut bytes, 0) {
        return Err(failed);
    }
    config::Config::read_from_bytes(&bytes).map_err(|_| failed)
}

/// The same on the owner's side, of the layouts that are served there: what has to be read in pieces is
/// read again where limits were changed between two of them.
pub(crate) fn parse_served(
    fd: &Fd,
    served: &'static [Layout],
) -> Result<Option<config::Config>, AttachError> {
    let Some(layout) = judge(TenantFile::Config, fd, served)? else { return Ok(None) };
    let mut config = whole_config(fd, layout)?;
    for _ in 0..READINGS {
        let mut epoch = [0; 8];
        let is_one = layout.parts.len() == 1;
        if is_one || !read_through(fd, layout, &mut epoch, config::EPOCH_AT) {
            break;
        }
        if config.epoch.to_ne_bytes() == epoch {
            break;
        }
        config = whole_config(fd, layout)?;
    }
    Ok(Some(config))
}

/// Writes the config in place. Called under the admission lock by the first process of a tenant
/// without an owner; an owner replaces the whole file instead.
pub(crate) fn write_config(trust: &Trust, config: &config::Config) -> Result<(), AttachError> {
    let room = cannot(TenantFile::Config);
    let fd = open_or_make(trust, TenantFile::Config)?;
    let stat = sys::stat(&fd).map_err(AttachError::System)?;
    trust.judge(TenantFile::Config, &stat)?;
    // The head last: who is killed half-way, or finds the disk full, leaves a file that says nothing.
    let (head, rest) = config.as_bytes().split_at(layout::HEAD_BYTES);
    sys::write_at(&fd, &[0; layout::HEAD_BYTES], 0)
        .and_then(|()| sys::write_at(&fd, rest, layout::HEAD_BYTES as u64))
        .and_then(|()| sys::set_len(&fd, config::CONFIG_FILE_BYTES))
        .and_then(|()| sys::write_at(&fd, head, 0))
        .map_err(&room)
}

/// Writes the config as the tenant's owner: a new file under another name, then renamed over the old
/// one, so that a process reads all of the old limits or all of the new ones, and a full disk or a
/// kill leaves the old ones.
pub(crate) fn replace_config(
    directory: &Directory,
    config: &config::Config,
) -> Result<(), AttachError> {
    let config = config::Config {
        version: ABI_VERSION,
        size: config::CONFIG_FILE_BYTES as u32,
        ..config.clone()
    };
    let name = at::numbered(*b".config.00000000\0", sys::pid().into());
    let new = CStr::from_bytes_with_nul(&name).unwrap_or(c".config");
    // A file of that name, such as one left by a process of the same number, is not written into.
    at::unlink(directory.fd(), new);
    let written = (|| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let fd = directory.open_file(new, flags, 0o644)?;
        // Processes of other uids read it; they must not write it, whatever the umask said.
        sys::chmod(&fd, 0o644)?;
        sys::write_at(&fd, config.as_bytes(), 0)?;
        sys::set_len(&fd, config::CONFIG_FILE_BYTES)?;
        at::rename(directory.fd(), new, TenantFile::Config.name(), 0)
    })();
    written.map_err(|errno| {
        at::unlink(directory.fd(), new);
        cannot(TenantFile::Config)(errno)
    })
}
