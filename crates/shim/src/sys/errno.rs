//! `errno` belongs to the program: what we do besides its own call must not change it.

/// Puts `errno` back when dropped.
#[derive(Debug)]
pub(super) struct Keep(i32);

impl Keep {
    /// Notes the value.
    #[inline]
    pub(super) fn new() -> Self {
        // SAFETY: the C library's errno of this thread, valid as long as the thread runs.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Keep {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
