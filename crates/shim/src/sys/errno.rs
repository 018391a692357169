//! `errno` belongs to the program: what we do besides its own call must not change it.

fn place() -> *mut core::ffi::c_int {
    // SAFETY: takes nothing and gives the place of this thread's errno.
    unsafe { libc::__errno_location() }
}

/// Puts `errno` back when dropped.
#[derive(Debug)]
pub(super) struct Keep {
    place: *mut core::ffi::c_int,
    value: core::ffi::c_int,
}

impl Keep {
    /// Notes the value.
    #[inline]
    pub(super) fn new() -> Self {
        let place = place();
        // SAFETY: valid as long as the thread runs.
        Self { place, value: unsafe { place.read() } }
    }
}

impl Drop for Keep {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: valid as long as the thread runs, which is the one it was made by: a raw pointer
        // keeps it from being sent.
        unsafe { self.place.write(self.value) };
    }
}
