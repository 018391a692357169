//! `dlsym` and `dlvsym`: a tail-jump to the C library's, or the address of a hook.
//!
//! The C library's answer for RTLD_NEXT and RTLD_DEFAULT depends on its caller, so we jump and
//! never call: the program's return address stays where it was. The search finds our export where the
//! caller stands before us; a caller behind us, a library that wraps the driver, is given the hook. A name that cannot be ours is told by
//! its first bytes, without leaving this file's assembly. For an explicit handle and a name that we
//! hook, the C library is asked first, and a hook is answered only in place of the driver's own
//! function: a program that probes for a function the driver lacks finds none, and sees the right
//! `dlerror`. A limited program that has a `dlsym` of its own, and looks the next one up by any of these, is given ours.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::loader;
use crate::sys::resolve::Dlsym;
use crate::sys::{mode, offsets, resolve, tables};

/// The C library's `dlsym` and `dlvsym`, 0 before the first use.
static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);
static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// The name `cu[A-Z]…`, `nvml…` or `dl…` goes to `$route`, which is told the caller too and returns where to
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
            "cmp byte ptr [rsi], 'd'",
            "je 5f",
            "cmp byte ptr [rsi], 'n'",
            "jne 3f",
            "cmp byte ptr [rsi + 1], 'v'",
            "jne 3f",
            "cmp byte ptr [rsi + 2], 'm'",
            "jne 3f",
            "cmp byte ptr [rsi + 3], 'l'",
            "je 4f",
            "jmp 3f",
            "5:",
            "cmp byte ptr [rsi + 1], 'l'",
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
            "cmp w9, #'d'",
            "b.eq 5f",
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
            "b 3f",
            "5:",
            "ldrb w9, [x1, #1]",
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
/// 1. The arguments are what the C library's demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    tail_jump!(REAL_DLSYM, route_dlsym)
}

/// `dlvsym`, as the C library documents it.
///
/// # Safety
/// 1. The arguments are what the C library's demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    tail_jump!(REAL_DLVSYM, route_dlvsym)
}

/// The name that the program asks for, possibly null.
#[derive(Clone, Copy)]
struct Name<'a> {
    text: *const c_char,
    call: PhantomData<&'a c_char>,
}

impl<'a> Name<'a> {
    /// # Safety
    /// 1. `text` is null, or a text that a NUL ends, valid for reads during `'a`.
    unsafe fn of(text: *const c_char) -> Self {
        Self { text, call: PhantomData }
    }

    /// Its bytes; none at null.
    fn bytes(self) -> Option<&'a [u8]> {
        // SAFETY: not null, so a text by the promise of `of`.
        (!self.text.is_null()).then(|| unsafe { CStr::from_ptr(self.text) }.to_bytes())
    }
}

/// # Safety
/// 1. `name` is what the program asks `dlsym` for, which reads it too: as [`Name::of`] wants it, during the call.
unsafe extern "C" fn route_dlsym(handle: *mut c_void, name: *const c_char, caller: usize) -> usize {
    // SAFETY: 1. by the first condition.
    let name = unsafe { Name::of(name) };
    let real = real(&REAL_DLSYM, b"dlsym");
    if real != 0 && hooked(handle, name).is_some() {
        (answer_dlsym as Dlsym) as usize
    } else {
        next(handle, name, caller).or_else(|| own(name)).unwrap_or_else(|| or_nothing(real))
    }
}

/// # Safety
/// 1. As of [`route_dlsym`].
unsafe extern "C" fn route_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
) -> usize {
    // SAFETY: 1. by the first condition.
    let name = unsafe { Name::of(name) };
    let real = real(&REAL_DLVSYM, b"dlvsym");
    if real != 0 && hooked(handle, name).is_some() {
        (answer_dlvsym as Dlvsym) as usize
    } else {
        next(handle, name, caller).or_else(|| own(name)).unwrap_or_else(|| or_nothing(real))
    }
}

/// Where to jump for RTLD_NEXT from a library behind ours, whose search would pass us by and meet the
/// driver: a wrapper's.
fn next(handle: *mut c_void, name: Name<'_>, caller: usize) -> Option<usize> {
    /// # Safety
    /// 1. As of [`route_dlsym`].
    unsafe extern "C" fn answer(_: *mut c_void, name: *const c_char) -> *mut c_void {
        // SAFETY: 1. by the first condition.
        let name = unsafe { Name::of(name) };
        let hook = position(name).and_then(tables::hook).and_then(offsets::address);
        core::ptr::with_exposed_provenance_mut(hook.unwrap_or(0))
    }
    let index = position(name).filter(|_| handle.addr() == usize::MAX)?;
    (mode::is_active() && resolve::is_next_for(index, name.bytes()?, caller))
        .then_some((answer as Dlsym) as usize)
}

/// Where to jump for the name of one of these two: a program's own wrapper of it goes on to us.
fn own(name: Name<'_>) -> Option<usize> {
    extern "C" fn to_dlsym() -> usize {
        (dlsym as Dlsym) as usize
    }
    extern "C" fn to_dlvsym() -> usize {
        (dlvsym as Dlvsym) as usize
    }
    let answer: extern "C" fn() -> usize = match name.bytes()? {
        b"dlsym" => to_dlsym,
        b"dlvsym" => to_dlvsym,
        _ => return None,
    };
    mode::is_active().then_some(answer as usize)
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
fn hooked(handle: *mut c_void, name: Name<'_>) -> Option<usize> {
    // RTLD_DEFAULT and RTLD_NEXT search from the caller, and find our export where it should be.
    if matches!(handle.addr(), 0 | usize::MAX) {
        return None;
    }
    position(name).filter(|_| mode::is_active())
}

/// The position of `name`, if there is a hook for it.
fn position(name: Name<'_>) -> Option<usize> {
    let name = name.bytes()?;
    let index = tables::position(tables::hash(name), name)?;
    tables::hook(index).map(|_| index)
}

/// # Safety
/// 1. The arguments are the program's own for `dlsym`.
/// 2. The address of the C library's is known.
unsafe extern "C" fn answer_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: by the second condition: routed here only when the word holds it.
    let real = unsafe { core::mem::transmute::<usize, Dlsym>(REAL_DLSYM.load(Relaxed)) };
    // SAFETY: the program's own arguments.
    let found = unsafe { real(handle, name) };
    // SAFETY: 1. and 2. are what the C library was asked with.
    unsafe { instead_of(found, handle, name) }
}

/// # Safety
/// 1. The arguments are the program's own for `dlvsym`.
/// 2. The address of the C library's is known.
unsafe extern "C" fn answer_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    // SAFETY: by the second condition: routed here only when the word holds it.
    let real = unsafe { core::mem::transmute::<usize, Dlvsym>(REAL_DLVSYM.load(Relaxed)) };
    // SAFETY: the program's own arguments.
    let found = unsafe { real(handle, name, version) };
    // SAFETY: 1. and 2. are what the C library was asked with.
    unsafe { instead_of(found, handle, name) }
}

/// Our hook where `found` is the driver's function of that name, that of our copy where the driver is in
/// another namespace, else `found`.
///
/// # Safety
/// 1. `handle` is one that the C library has just looked in, or one of its two names for a search.
/// 2. `name` is what it was asked for: as [`Name::of`] wants it, during the call.
unsafe fn instead_of(found: *mut c_void, handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: 1. by the second condition.
    let asked = unsafe { Name::of(name) };
    let Some(index) = hooked(handle, asked).filter(|_| !found.is_null()) else { return found };
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
    // SAFETY: 1. the function's type says so. 2. `hooked` leaves the names for a search out. 3. by the second condition.
    let elsewhere = unsafe { loader::hook_elsewhere(real, (handle, name), (index, found)) };
    elsewhere.unwrap_or(found)
}
