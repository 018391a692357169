//! Paths of a tenant's directory and of what lies in it, without an allocation.
//!
//! Promises: a path that is too long is an error, never cut.
//!
//! Does not look at what lies there.

use core::ffi::CStr;

use crate::error::AttachError;

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

    /// The name of `path` in the directory that it lies in.
    pub(crate) fn last(path: &CStr) -> Result<Self, AttachError> {
        let mut parts = path.to_bytes().rsplit(|b| *b == b'/').filter(|part| !part.is_empty());
        Self::join(c"", parts.next().unwrap_or(b"."))
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
