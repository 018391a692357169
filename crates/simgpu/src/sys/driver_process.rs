//! The driver's process: forked children and its end.
//!
//! Promises: after a fork the child sees [`Life::Forked`] before it can call us, and a call made
//! after exit handlers began sees [`Life::Ended`]. Registers its two handlers at `cuInit`, never at
//! load. Does not survive `vfork`, whose child shares our memory and may call nothing anyway.
#![allow(unsafe_code, reason = "registers C handlers")]

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};

/// Where in its life the driver is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Before `cuInit`.
    New,
    /// Between `cuInit` and the end of the process.
    Ready,
    /// In a child forked after `cuInit`.
    Forked,
    /// Exit handlers run.
    Ended,
}

static LIFE: AtomicU8 = AtomicU8::new(0);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    fn atexit(handler: extern "C" fn()) -> c_int;
}

extern "C" fn in_child() {
    LIFE.store(2, Ordering::Relaxed);
}

extern "C" fn at_end() {
    LIFE.store(3, Ordering::Relaxed);
}

/// The present state; one relaxed load.
#[inline]
pub fn life() -> Life {
    match LIFE.load(Ordering::Relaxed) {
        0 => Life::New,
        1 => Life::Ready,
        2 => Life::Forked,
        _ => Life::Ended,
    }
}

/// Marks the driver ready and registers the handlers, once.
pub fn begin() {
    if LIFE.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        // SAFETY: the handler only stores to an atomic.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
        // SAFETY: the handler only stores to an atomic.
        unsafe { atexit(at_end) };
    }
}
