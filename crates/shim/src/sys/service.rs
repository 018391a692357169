//! A thread of the library's own, in a program that is not its own.
//!
//! Promises: it gets none of the program's signals; it is detached, and named for people. By the C library's
//! `pthread_create`, since the driver needs a thread's storage; found at run time, so that a program without one loads
//! us all the same. Does not live on in a forked child: whoever needs it starts it there.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;

use super::{kernel, resolve};

type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(*mut u64, *const c_void, Start, *mut c_void) -> c_int;
type Detach = unsafe extern "C" fn(u64) -> c_int;

static CREATE: AtomicUsize = AtomicUsize::new(0);
static DETACH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn begin(run: *mut c_void) -> *mut c_void {
    kernel::name_thread(c"divvy");
    // SAFETY: `start` passes a function of this type.
    let run = unsafe { core::mem::transmute::<*mut c_void, fn()>(run) };
    run();
    core::ptr::null_mut()
}

/// Starts a thread that runs `run`; false where it cannot be had.
pub(crate) fn start(run: fn()) -> bool {
    let Some(create) = resolve::in_c_library(&CREATE, b"pthread_create") else { return false };
    // SAFETY: the C library's function of this name.
    let create = unsafe { core::mem::transmute::<usize, Create>(create) };
    let mut thread = 0_u64;
    // A thread inherits what is blocked where it is started.
    let made = kernel::without_signals(|| {
        // SAFETY: room for a thread's name, no attributes, and a function that is there as long as this library, which
        // is never unloaded.
        unsafe { create(&raw mut thread, core::ptr::null(), begin, run as *mut c_void) }
    });
    if made != 0 {
        return false;
    }
    if let Some(detach) = resolve::in_c_library(&DETACH, b"pthread_detach") {
        // SAFETY: the C library's function of this name.
        let detach = unsafe { core::mem::transmute::<usize, Detach>(detach) };
        // SAFETY: made above, and neither joined nor detached by anybody.
        unsafe { detach(thread) };
    }
    true
}
