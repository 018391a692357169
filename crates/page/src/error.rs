//! Why a process could not join its tenant, in words that name the value and the fix.

use core::ffi::CStr;
use core::fmt;

use divvy_abi::ABI_VERSION;

use crate::Errno;

/// Which of the tenant's two files an error speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TenantFile {
    /// The limits.
    Config,
    /// The ledger.
    Usage,
}

impl TenantFile {
    /// Its name in the directory.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Config => c"config",
            Self::Usage => c"usage",
        }
    }
}

impl fmt::Display for TenantFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().to_str().unwrap_or_default())
    }
}

/// Why attaching failed. The program must then be refused memory, or run unlimited if its operator
/// chose so; which is not decided here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// The directory's path does not fit our buffers.
    PathTooLong {
        /// Bytes of the path.
        bytes: usize,
    },
    /// The directory cannot be opened or made.
    Directory(Errno),
    /// The directory belongs to somebody who is neither us nor root.
    ForeignDirectory {
        /// Its owner.
        uid: u32,
    },
    /// A file cannot be opened.
    Open(TenantFile, Errno),
    /// A file belongs to somebody it must not.
    ForeignFile {
        /// The file.
        file: TenantFile,
        /// Its owner.
        uid: u32,
    },
    /// A file is not a regular file.
    NotAFile(TenantFile),
    /// A file starts with bytes that are not Divvy's.
    BadMagic {
        /// The file.
        file: TenantFile,
        /// Its first bytes.
        found: [u8; 8],
    },
    /// A file is of a version that is not served.
    Version {
        /// The file.
        file: TenantFile,
        /// Its version.
        found: u32,
        /// The oldest version that is served; the newest is [`divvy_abi::ABI_VERSION`].
        oldest: u32,
    },
    /// Processes of the tenant run with a library of another version, which cannot share its files with
    /// ours, or does not know what is to be changed.
    OtherLibrary {
        /// Its version.
        found: u32,
    },
    /// A file is shorter than its version demands.
    ShortFile {
        /// The file.
        file: TenantFile,
        /// Bytes it has.
        bytes: u64,
        /// Bytes it should have.
        expected_bytes: u64,
    },
    /// The disk or the quota is full.
    NoSpace(Errno),
    /// A system call failed that has no reason to.
    System(Errno),
    /// All process slots are taken by living processes.
    NoSlot,
    /// All device rows are taken.
    NoDeviceRow,
    /// Another process held the admission lock for a second.
    LockTimeout,
    /// The owner has not written limits, and there is nobody else to.
    NoConfig,
    /// Another process lives in the tenant, and this one wants it alone.
    Taken,
}

impl AttachError {
    /// Whether trying again later may succeed: something was used up or taken, nothing is wrong.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::NoSlot | Self::LockTimeout | Self::NoSpace(_) => true,
            Self::Directory(errno) | Self::Open(_, errno) | Self::System(errno) => {
                matches!(errno.0, libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR)
            }
            Self::PathTooLong { .. }
            | Self::ForeignDirectory { .. }
            | Self::ForeignFile { .. }
            | Self::NotAFile(_)
            | Self::BadMagic { .. }
            | Self::Version { .. }
            | Self::OtherLibrary { .. }
            | Self::ShortFile { .. }
            | Self::NoDeviceRow
            | Self::NoConfig
            | Self::Taken => false,
        }
    }
}

impl fmt::Display for AttachError {
    #[expect(clippy::too_many_lines, reason = "a table: one sentence for each reason")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathTooLong { bytes } => {
                write!(f, "the tenant directory's path has {bytes} bytes; use one under 200")
            }
            Self::Directory(errno) => {
                let fix = match errno.0 {
                    libc::ENOENT => "make it, or start the program by divvy run",
                    libc::ENOTDIR => "name a directory",
                    libc::EROFS => "mount its file system writable",
                    _ => "make it writable for this user",
                };
                write!(f, "the tenant directory cannot be used: {errno}; {fix}")
            }
            Self::ForeignDirectory { uid } => write!(
                f,
                "the tenant directory belongs to uid {uid}, who is neither this user nor root; \
                 remove it or name another"
            ),
            Self::Open(file, errno) => {
                write!(f, "the tenant's {file} file cannot be opened: {errno}")
            }
            Self::ForeignFile { file, uid } => write!(
                f,
                "the tenant's {file} file belongs to uid {uid}, who is neither this user, root nor \
                 the directory's owner; remove it"
            ),
            Self::NotAFile(file) => {
                write!(f, "the tenant's {file} is not a regular file; remove it")
            }
            Self::BadMagic { file, found } => {
                write!(f, "the tenant's {file} file starts with 0x")?;
                found.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(", which is not Divvy's; remove it")
            }
            Self::Version { file, found, oldest } => write!(
                f,
                "the tenant's {file} file has version {found}, served are {oldest} to {ABI_VERSION}; \
                 use the Divvy that wrote it, or remove it when the tenant's processes have ended"
            ),
            Self::OtherLibrary { found } => write!(
                f,
                "processes of the tenant run with a library of version {found}, and this needs \
                 version {ABI_VERSION}; end them first, or use another tenant"
            ),
            Self::ShortFile { file, bytes, expected_bytes } => write!(
                f,
                "the tenant's {file} file has {bytes} bytes instead of {expected_bytes}; remove it"
            ),
            Self::NoSpace(errno) => write!(
                f,
                "the tenant directory's file system has no room: {errno}; free {} KiB there",
                divvy_abi::usage::USAGE_BYTES / 1024
            ),
            Self::System(errno) => write!(f, "a system call failed: {errno}"),
            Self::NoSlot => write!(
                f,
                "all {} process slots of the tenant are taken by running processes",
                divvy_abi::MAX_SLOTS - 1
            ),
            Self::NoDeviceRow => {
                write!(f, "the tenant already uses {} devices", divvy_abi::MAX_DEVICES)
            }
            Self::LockTimeout => write!(
                f,
                "another process held the tenant's admission lock for a second; is the machine \
                 stopped or the file system hung?"
            ),
            Self::NoConfig => {
                write!(f, "the tenant has no config file; start the program by `divvy run`")
            }
            Self::Taken => write!(f, "another process runs in the tenant; use another tenant"),
        }
    }
}

impl core::error::Error for AttachError {}
