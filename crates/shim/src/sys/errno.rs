//! `errno` belongs to the program: what we do besides its own call must not change it.

use core::ffi::c_int;
use core::sync::atomic::AtomicUsize;

use super::resolve;

/// The place of this thread's errno in the C library, which is what a call of the driver's may change; none without one.
fn place() -> Option<*mut c_int> {
    static LOCATION: AtomicUsize = AtomicUsize::new(0);
    let address = resolve::in_c_library(&LOCATION, b"__errno_location")?;
    // SAFETY: the C library's function of this name.
    let location =
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> *mut c_int>(address) };
    // SAFETY: takes nothing and gives the place of this thread's errno.
    Some(unsafe { location() })
}

/// Puts `errno` back when dropped.
#[derive(Debug)]
pub(super) struct Keep(Option<(*mut c_int, c_int)>);

impl Keep {
    /// Notes the value. A call, since a hundred calls of the driver each begin with it.
    #[inline(never)]
    pub(super) fn new() -> Self {
        // SAFETY: valid as long as the thread runs.
        Self(place().map(|place| (place, unsafe { place.read() })))
    }
}

impl Drop for Keep {
    #[inline]
    fn drop(&mut self) {
        if let Some((place, value)) = self.0 {
            // SAFETY: valid as long as the thread runs, which is the one it was made by: a raw pointer
            // keeps it from being sent.
            unsafe { place.write(value) };
        }
    }
}
