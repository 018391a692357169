//! `dlsym` and `dlvsym`: a tail-jump to the C library's, or the address of a hook.
//!
//! The C library's answer for RTLD_NEXT and RTLD_DEFAULT depends on its caller, so we jump and
//! never call: the program's return address stays where it was. The search finds our export where the
//! caller stands before us; a caller behind us, a library that wraps the driver, is given the hook. A name that cannot be ours is told by
//! its first bytes, without leaving this file's assembly. For an explicit handle and a name that we
//! hook, the C library is asked first, and a hook is answered only in place of the driver's own
//! function: a program that probes for a function the driver lacks finds none, and sees the right
//! `dlerror`.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::loader;
use crate::sys::resolve::Dlsym;
use crate::sys::{mode, offsets, resolve, tables};

/// The C library's `dlsym` and `dlvsym`, 0 before the first use.
static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);
static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// The name `cu[A-Z]…` or `nvml…` goes to `$route`, which is told the caller too and returns where to
/// jump; all others jump to `$real` at once. Names are read byte by byte: they may end anywhere.
#[cfg(target_arch = "x86_64")]
macro_rules! tail_jump {
    ($real:ident, $route:ident) => {
        naked_asm!(
            "endbr64",
            "test rsi, rsi",
            "je 3f",
            "cmp byte ptr [rsi], 'c'",
            "jne 2f",
            "cmp byte ptr [rsi + 1], 'u'",
            "jne 3f",
            "movzx eax, byte ptr [rsi + 2]",
            "sub eax, 'A'",
            "cmp eax, 25",
            "jbe 4f",
            "jmp 3f",
            "2:",
            "cmp byte ptr [rsi], 'n'",
            "jne 3f",
            "cmp byte ptr [rsi + 1], 'v'",
            "jne 3f",
            "cmp byte ptr [rsi + 2], 'm'",
            "jne 3f",
            "cmp byte ptr [rsi + 3], 'l'",
            "je 4f",
            "3:",
            "mov rax, qword ptr [rip + {real}]",
            "test rax, rax",
            "je 4f",
            "jmp rax",
            "4:",
            "push rdi",
            "push rsi",
            "push rdx",
            "mov rdx, qword ptr [rsp + 24]",
            "call {route}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            real = sym $real,
            route = sym $route,
        )
    };
}

/// The same for arm64: x16 may be used to jump anywhere, x30 is the program's return address.
#[cfg(target_arch = "aarch64")]
macro_rules! tail_jump {
    ($real:ident, $route:ident) => {
        naked_asm!(
            "hint #34", // bti c
            "cbz x1, 3f",
            "ldrb w9, [x1]",
            "cmp w9, #'c'",
            "b.ne 2f",
            "ldrb w9, [x1, #1]",
            "cmp w9, #'u'",
            "b.ne 3f",
            "ldrb w9, [x1, #2]",
            "sub w9, w9, #'A'",
            "cmp w9, #25",
            "b.ls 4f",
            "b 3f",
            "2:",
            "cmp w9, #'n'",
            "b.ne 3f",
            "ldrb w9, [x1, #1]",
            "cmp w9, #'v'",
            "b.ne 3f",
            "ldrb w9, [x1, #2]",
            "cmp w9, #'m'",
            "b.ne 3f",
            "ldrb w9, [x1, #3]",
            "cmp w9, #'l'",
            "b.eq 4f",
            "3:",
            "adrp x16, {real}",
            "ldr x16, [x16, :lo12:{real}]",
            "cbz x16, 4f",
            "br x16",
            "4:",
            "stp x29, x30, [sp, #-48]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "str x2, [sp, #32]",
            "mov x2, x30",
            "bl {route}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldr x2, [sp, #32]",
            "ldp x29, x30, [sp], #48",
            "br x16",
            real = sym $real,
            route = sym $route,
        )
    };
}

/// `dlsym`, as the C library documents it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    tail_jump!(REAL_DLSYM, route_dlsym)
}

/// `dlvsym`, as the C library documents it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    tail_jump!(REAL_DLVSYM, route_dlvsym)
}

extern "C" fn route_dlsym(handle: *mut c_void, name: *const c_char, caller: usize) -> usize {
    let real = real(&REAL_DLSYM, b"dlsym");
    if real != 0 && hooked(handle, name).is_some() {
        (answer_dlsym as Dlsym) as usize
    } else {
        next(handle, name, caller).unwrap_or_else(|| or_nothing(real))
    }
}

extern "C" fn route_dlvsym(handle: *mut c_void, name: *const c_char, caller: usize) -> usize {
    let real = real(&REAL_DLVSYM, b"dlvsym");
    if real != 0 && hooked(handle, name).is_some() {
        (answer_dlvsym as Dlvsym) as usize
    } else {
        next(handle, name, caller).unwrap_or_else(|| or_nothing(real))
    }
}

/// Where to jump for RTLD_NEXT from a library behind ours, whose search would pass us by and meet the
/// driver: a wrapper's.
fn next(handle: *mut c_void, name: *const c_char, caller: usize) -> Option<usize> {
    unsafe extern "C" fn answer(_: *mut c_void, name: *const c_char) -> *mut c_void {
        let hook = position(name).and_then(tables::hook).and_then(offsets::address);
        core::ptr::with_exposed_provenance_mut(hook.unwrap_or(0))
    }
    let index = position(name).filter(|_| handle.addr() == usize::MAX)?;
    // SAFETY: the program's name for `dlsym`, which reads it too.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    (mode::is_active() && resolve::is_next_for(index, name, caller))
        .then_some((answer as Dlsym) as usize)
}

fn real(word: &AtomicUsize, name: &[u8]) -> usize {
    resolve::in_c_library(word, name).unwrap_or(0)
}

/// Without a dynamic linker's interface in the process, no name is found.
fn or_nothing(real: usize) -> usize {
    extern "C" fn nothing() -> *mut c_void {
        core::ptr::null_mut()
    }
    if real == 0 { (nothing as extern "C" fn() -> *mut c_void) as usize } else { real }
}

/// The position of `name`, if it is hooked in this process and the handle names a library.
fn hooked(handle: *mut c_void, name: *const c_char) -> Option<usize> {
    // RTLD_DEFAULT and RTLD_NEXT search from the caller, and find our export where it should be.
    if matches!(handle.addr(), 0 | usize::MAX) {
        return None;
    }
    position(name).filter(|_| mode::is_active())
}

/// The position of `name`, if there is a hook for it.
fn position(name: *const c_char) -> Option<usize> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the program's name for `dlsym`, which reads it too.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let index = tables::position(tables::hash(name), name)?;
    tables::hook(index).map(|_| index)
}

unsafe extern "C" fn answer_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: routed here only when the word holds the C library's `dlsym`.
    let real = unsafe { core::mem::transmute::<usize, Dlsym>(REAL_DLSYM.load(Relaxed)) };
    // SAFETY: the program's own arguments.
    let found = unsafe { real(handle, name) };
    instead_of(found, handle, name)
}

unsafe extern "C" fn answer_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    // SAFETY: routed here only when the word holds the C library's `dlvsym`.
    let real = unsafe { core::mem::transmute::<usize, Dlvsym>(REAL_DLVSYM.load(Relaxed)) };
    // SAFETY: the program's own arguments.
    let found = unsafe { real(handle, name, version) };
    instead_of(found, handle, name)
}

/// Our hook where `found` is the driver's function of that name, that of our copy where the driver is in
/// another namespace, else `found`.
fn instead_of(found: *mut c_void, handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let Some(index) = hooked(handle, name).filter(|_| !found.is_null()) else { return found };
    if resolve::is_drivers(index, found.addr()) {
        let hook = tables::hook(index).and_then(offsets::address);
        return hook.map_or(found, core::ptr::with_exposed_provenance_mut);
    }
    let real = real(&REAL_DLSYM, b"dlsym");
    if real == 0 {
        return found;
    }
    // SAFETY: the C library's function of that name.
    let real = unsafe { core::mem::transmute::<usize, Dlsym>(real) };
    loader::hook_elsewhere(real, (handle, name), (index, found)).unwrap_or(found)
}
