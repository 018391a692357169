//! `dlmopen` and `dlopen`: libraries that are loaded where ours would not be met first.
//!
//! A new namespace of the dynamic linker gets a copy of this library before anything else. A library is
//! preloaded into the first namespace only, so what a program loads into another one would meet the
//! driver alone. The dynamic linker searches the namespace's first object before the one that asks, so a
//! copy that is there first is met first, as in the first namespace. It is a whole copy, with its own
//! place in the tenant. An address asked for through a handle of such a namespace is given by the copy
//! there. A copy cannot be unloaded, so its namespace stays; there are sixteen, and when they are all in
//! use one that holds nothing but our copy is given out again.
//!
//! Where no copy can be had, and for RTLD_DEEPBIND, by which a library finds the driver before us, a
//! strict tenant's program is refused, in the words that `dlerror` gives it. Else it is let through, and
//! told.
//!
//! Both calls look at who makes them, so we jump to the C library's and never call it with the program's
//! file. Does not meet namespaces that the dynamic linker makes for itself: auditors' (`LD_AUDIT`).

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sys::elf::LinkMap;
use crate::sys::resolve::Dlsym;
use crate::sys::{log, mode, resolve};
use crate::tenant::reason::{self, Reason};

const LM_ID_BASE: c_long = 0;
const LM_ID_NEWLM: c_long = -1;
const RTLD_DI_LMID: c_int = 1;

/// Second half of the message about a library that is let through.
const PAST_US: &str = "its calls of the driver go past the limits";

/// Namespaces of a process, as many as glibc has.
const NAMESPACES: usize = 16;

/// The C library's `dlmopen` and `dlopen`, 0 before the first use.
static REAL_DLMOPEN: AtomicUsize = AtomicUsize::new(0);
static REAL_DLOPEN: AtomicUsize = AtomicUsize::new(0);

/// The last object that came with our copy into each namespace we began, in the order of their making.
static LAST_OWN: [AtomicUsize; NAMESPACES] = [const { AtomicUsize::new(0) }; NAMESPACES];

type Dlmopen = unsafe extern "C" fn(c_long, *const c_char, c_int) -> *mut c_void;
type Dladdr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;
type Dlinfo = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;

/// Arguments for the C library's `dlmopen` in place of the program's.
#[repr(C)]
struct Asked {
    namespace: c_long,
    file: *const c_char,
}

/// `dlmopen`, as the C library documents it.
///
/// # Safety
/// 1. The arguments are what the C library's demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlmopen(namespace: c_long, file: *const c_char, flags: c_int) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {route}",
        "mov rdi, rax",
        "mov rsi, rdx",
        "pop rdx",
        "pop rax",
        "pop rax",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "je 2f",
        "jmp rax",
        "2:",
        "ret",
        route = sym route_dlmopen,
        real = sym REAL_DLMOPEN,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "hint #34", // bti c
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "str x2, [sp, #16]",
        "bl {route}",
        "ldr x2, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "mov x0, xzr",
        "ret",
        route = sym route_dlmopen,
        real = sym REAL_DLMOPEN,
    )
}

/// `dlopen`, as the C library documents it: a jump, but for RTLD_DEEPBIND (8) and the first use.
///
/// # Safety
/// 1. The arguments are what the C library's demands.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "endbr64",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "je 2f",
        "test esi, 8",
        "jne 2f",
        "jmp rax",
        "2:",
        "push rdi",
        "push rsi",
        "push rsi",
        "call {route}",
        "pop rsi",
        "pop rsi",
        "pop rdi",
        "mov rdi, rax",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "je 3f",
        "jmp rax",
        "3:",
        "ret",
        route = sym route_dlopen,
        real = sym REAL_DLOPEN,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "hint #34", // bti c
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "cbz x16, 2f",
        "tbnz w1, #3, 2f",
        "br x16",
        "2:",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "str x1, [sp, #16]",
        "bl {route}",
        "ldr x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "cbz x16, 3f",
        "br x16",
        "3:",
        "mov x0, xzr",
        "ret",
        route = sym route_dlopen,
        real = sym REAL_DLOPEN,
    )
}

extern "C" fn route_dlmopen(namespace: c_long, file: *const c_char, flags: c_int) -> Asked {
    let asked = Asked { namespace, file };
    let Some(real) = real() else { return asked };
    // Without a file or with the one flag the call fails anyway; with the other nothing is loaded.
    let loads = !file.is_null() && flags & (libc::RTLD_GLOBAL | libc::RTLD_NOLOAD) == 0;
    if namespace != LM_ID_NEWLM || !loads || !mode::is_active() {
        return asked;
    }
    // SAFETY: 1. as `real` gives it.
    match unsafe { begin(real) } {
        Some(namespace) => Asked { namespace, ..asked },
        None => match refused("into a namespace without Divvy") {
            Some(file) => Asked { namespace: LM_ID_BASE, file },
            None => {
                let text =
                    format_args!("a library is loaded into a namespace without us: {PAST_US}");
                reason::tell(Reason::OutOfReach, text);
                asked
            }
        },
    }
}

/// The file that the C library is asked for.
extern "C" fn route_dlopen(file: *const c_char, flags: c_int) -> *const c_char {
    resolve::in_c_library(&REAL_DLOPEN, b"dlopen");
    let passes_us = flags & libc::RTLD_DEEPBIND != 0 && flags & libc::RTLD_NOLOAD == 0;
    if file.is_null() || !passes_us || !mode::is_active() {
        return file;
    }
    refused("with RTLD_DEEPBIND").unwrap_or_else(|| {
        log!(Warn, "{}: a library is loaded with RTLD_DEEPBIND: {PAST_US}", Reason::OutOfReach);
        file
    })
}

/// A library is to be loaded where we are not met first. In a strict tenant: a file that there is not,
/// so that the C library's own error has our words.
#[cold]
fn refused(how: &str) -> Option<*const c_char> {
    if crate::tenant::is_strict() {
        let text = format_args!("a library is not loaded {how}: the tenant is strict");
        reason::tell(Reason::OutOfReach, text);
        return Some(c"DV210: refused in a strict tenant".as_ptr());
    }
    None
}

fn real() -> Option<Dlmopen> {
    let address = resolve::in_c_library(&REAL_DLMOPEN, b"dlmopen")?;
    // SAFETY: the C library's function of that name.
    Some(unsafe { core::mem::transmute::<usize, Dlmopen>(address) })
}

/// A new namespace with a copy of ours, or an old one with nothing else.
///
/// # Safety
/// 1. `real` is the C library's `dlmopen`.
unsafe fn begin(real: Dlmopen) -> Option<c_long> {
    let path = resolve::own_path()?;
    // SAFETY: the C library's function, a path, and flags that load it at once.
    let copy = unsafe { real(LM_ID_NEWLM, path.as_ptr(), libc::RTLD_NOW) };
    if !copy.is_null() {
        // SAFETY: 1. a handle is the entry's address, and in its namespace there is nothing but what came with our copy.
        let last = unsafe { last_of(copy.cast()) }.expose_provenance();
        // Where there is no place left the namespace is not given out again.
        let _ =
            LAST_OWN.iter().find(|word| word.compare_exchange(0, last, Relaxed, Relaxed).is_ok());
        // SAFETY: 1. a handle, which nobody closes.
        return unsafe { namespace_of(copy) };
    }
    LAST_OWN
        .iter()
        .map(|word| core::ptr::with_exposed_provenance_mut::<LinkMap>(word.load(Relaxed)))
        // SAFETY: 1. not null, so the entry of an object that came with a copy of ours.
        .find(|last| !last.is_null() && unsafe { next_of(*last) }.is_null())
        // SAFETY: 1. the same: its handle is its address.
        .and_then(|last| unsafe { namespace_of(last.cast()) })
}

/// The object behind one of ours, which are never unloaded.
///
/// # Safety
/// 1. `own` is the entry of an object that came with a copy of ours.
unsafe fn next_of(own: *mut LinkMap) -> *mut LinkMap {
    // SAFETY: by the first condition a loaded object's; the dynamic linker may be changing this word.
    unsafe { &(*own).next }.load(Relaxed)
}

/// The last object of a namespace in which there are only ours.
///
/// # Safety
/// 1. `own` is the entry of an object in such a namespace.
unsafe fn last_of(mut own: *mut LinkMap) -> *mut LinkMap {
    loop {
        // SAFETY: 1. by the first condition, of those behind it too.
        let next = unsafe { next_of(own) };
        if next.is_null() {
            return own;
        }
        own = next;
    }
}

/// # Safety
/// 1. `handle` is a handle of the dynamic linker's, of an object that is loaded.
unsafe fn namespace_of(handle: *mut c_void) -> Option<c_long> {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    let address = resolve::in_c_library(&REAL, b"dlinfo")?;
    // SAFETY: the C library's function of that name.
    let dlinfo = unsafe { core::mem::transmute::<usize, Dlinfo>(address) };
    let mut namespace = LM_ID_BASE;
    // SAFETY: by the first condition; one number is written.
    let failed = unsafe { dlinfo(handle, RTLD_DI_LMID, (&raw mut namespace).cast()) };
    (failed == 0).then_some(namespace)
}

/// The hook of our copy in the namespace of `handle` for what was `found` there by a name; none in the
/// first namespace, in one without a copy, and for what is not the driver's.
///
/// # Safety
/// 1. `real_dlsym` is the C library's.
/// 2. `handle` is a handle of the dynamic linker's, of an object that is loaded.
/// 3. `name` is a text that a NUL ends.
#[cold]
pub(super) unsafe fn hook_elsewhere(
    real_dlsym: Dlsym,
    (handle, name): (*mut c_void, *const c_char),
    (index, found): (usize, *mut c_void),
) -> Option<*mut c_void> {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: 1. by the second condition.
    let namespace = unsafe { namespace_of(handle) }.filter(|namespace| *namespace != LM_ID_BASE)?;
    let address = resolve::in_c_library(&REAL, b"dladdr")?;
    // SAFETY: the C library's function of that name.
    let dladdr = unsafe { core::mem::transmute::<usize, Dladdr>(address) };
    // SAFETY: null pointers are valid there.
    let mut information: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: an address, and a place for what is known of it.
    let known = unsafe { dladdr(found, &raw mut information) };
    if known == 0 || information.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the path of a loaded object.
    let path = unsafe { CStr::from_ptr(information.dli_fname) };
    if !resolve::is_path_of(index, path) {
        return None;
    }
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: asks for what is loaded already.
    let copy = unsafe { real()?(namespace, resolve::own_path()?.as_ptr(), flags) };
    if copy.is_null() {
        return None;
    }
    // SAFETY: by the first and the third condition; the handle was just given.
    let hook = unsafe { real_dlsym(copy, name) };
    (!hook.is_null()).then_some(hook)
}
