//! Error numbers of the kernel, with the names people search for.
//!
//! Promises: every number has a text. Not the C library's `errno`, which is the program's and never touched here.

use core::fmt;

/// A system call's error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    /// The name people search for, where we know it.
    pub const fn name(self) -> &'static str {
        match self.0 {
            libc::EPERM => "EPERM: not permitted",
            libc::ENOENT => "ENOENT: no such file or directory",
            libc::EACCES => "EACCES: permission denied",
            libc::EAGAIN => "EAGAIN: locked by another process",
            libc::ENOMEM => "ENOMEM: no memory left",
            libc::EEXIST => "EEXIST: exists already",
            libc::ENOTDIR => "ENOTDIR: not a directory",
            libc::EMFILE => "EMFILE: no file descriptors left in this process",
            libc::ENFILE => "ENFILE: no file descriptors left on this machine",
            libc::EFBIG => "EFBIG: file size limit reached",
            libc::ENOSPC => "ENOSPC: no space left on the device",
            libc::EROFS => "EROFS: read-only file system",
            libc::ELOOP => "ELOOP: a symbolic link",
            libc::ENOSYS => "ENOSYS: not known to this kernel",
            libc::EDQUOT => "EDQUOT: disk quota exceeded",
            libc::ENOLCK => "ENOLCK: no locks on this file system",
            libc::EINVAL => "EINVAL: invalid argument",
            _ => "system error",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn each_error_that_is_known_is_named_by_itself() {
        let known = [
            (libc::EPERM, "EPERM"),
            (libc::ENOENT, "ENOENT"),
            (libc::EACCES, "EACCES"),
            (libc::EAGAIN, "EAGAIN"),
            (libc::ENOMEM, "ENOMEM"),
            (libc::EEXIST, "EEXIST"),
            (libc::ENOTDIR, "ENOTDIR"),
            (libc::EMFILE, "EMFILE"),
            (libc::ENFILE, "ENFILE"),
            (libc::EFBIG, "EFBIG"),
            (libc::ENOSPC, "ENOSPC"),
            (libc::EROFS, "EROFS"),
            (libc::ELOOP, "ELOOP"),
            (libc::ENOSYS, "ENOSYS"),
            (libc::EDQUOT, "EDQUOT"),
            (libc::ENOLCK, "ENOLCK"),
            (libc::EINVAL, "EINVAL"),
        ];
        for (number, name) in known {
            let text = Errno(number).to_string();
            assert!(
                text.starts_with(name) && text.ends_with(&std::format!("({number})")),
                "{text}"
            );
        }
        assert_eq!(Errno(5).to_string(), "system error (5)");
    }
}
