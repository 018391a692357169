//! `errno` belongs to the program: what we do besides its own call must not change it.

fn place() -> *mut core::ffi::c_int {
    // SAFETY: takes nothing and gives the place of this thread's errno.
    unsafe { libc::__errno_location() }
}

/// Puts `errno` back when dropped.
#[derive(Debug)]
pub(super) struct Keep(i32);

impl Keep {
    /// Notes the value.
    #[inline]
    pub(super) fn new() -> Self {
        let place = place();
        // SAFETY: valid as long as the thread runs.
        Self(unsafe { place.read() })
    }
}

impl Drop for Keep {
    #[inline]
    fn drop(&mut self) {
        let place = place();
        // SAFETY: valid as long as the thread runs.
        unsafe { place.write(self.0) };
    }
}
