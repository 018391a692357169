//! The objects loaded in this process, without the dynamic linker's help.
//!
//! Asking `dlsym` would run through ourselves, set `dlerror` and may allocate; `dl_iterate_phdr` does neither, and holds the
//! linker's lock while an object is looked at, so that none goes away. It is the C library's that is called, and never one of
//! the program's: sanitizers, allocators and databases define `dl_iterate_phdr`, and ask `dlsym`, which is ours, for the C
//! library's. So its address is read from the data that the dynamic linker keeps for debuggers, which lists the objects of the
//! first namespace, and from the C library's own symbol table.
//!
//! That list is read without a lock and needs none: it begins with what the program was started with, the C library among it,
//! which is never unloaded; another thread's `dlopen` appends behind. Its names are weak, so that a C library without one of
//! them loads us all the same.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use divvy_page::kernel;

use super::elf::{self, LinkMap, Object};

type One = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;
type Iterate = unsafe extern "C" fn(One, *mut c_void) -> c_int;

/// Looks at every loaded object, in the order they were loaded, until `visit` returns true.
pub(super) fn walk<F: FnMut(&Object<'_>) -> bool>(mut visit: F) {
    /// # Safety
    /// 1. `info` comes from the dynamic linker, during its call.
    /// 2. `visit` is the closure of `walk`, which nothing else uses meanwhile.
    unsafe extern "C" fn one<F: FnMut(&Object<'_>) -> bool>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: by the second condition.
        let visit = unsafe { &mut *visit.cast::<F>() };
        // SAFETY: by the first condition it is valid for the call.
        let info = unsafe { &*info };
        // SAFETY: 1. by the first condition.
        let object = unsafe { Object::of(info) };
        c_int::from(object.is_some_and(|object| visit(&object)))
    }
    let address = iterate();
    if address == 0 {
        return;
    }
    // SAFETY: the C library's function of this type.
    let iterate = unsafe { core::mem::transmute::<usize, Iterate>(address) };
    // SAFETY: the callback's data is the closure it expects, alive through the call.
    unsafe { iterate(one::<F>, (&raw mut visit).cast()) };
}

/// The first words of `struct r_debug`.
#[repr(C)]
struct Debug {
    version: c_int,
    /// The program's entry, or null before the dynamic linker has one.
    map: *const LinkMap,
}

/// `struct r_debug` of the dynamic linker: glibc's by its name, musl's by the word that leads to it; null where it has neither.
fn debug() -> *const Debug {
    let glibc: *const Debug;
    let musl: *const *const Debug;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads two words of our own table of addresses, which hold zero where there is no such name.
    unsafe {
        core::arch::asm!(
            ".weak _r_debug",
            ".weak _dl_debug_addr",
            "mov {glibc}, qword ptr [rip + _r_debug@GOTPCREL]",
            "mov {musl}, qword ptr [rip + _dl_debug_addr@GOTPCREL]",
            glibc = out(reg) glibc,
            musl = out(reg) musl,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            ".weak _r_debug",
            ".weak _dl_debug_addr",
            "adrp {glibc}, :got:_r_debug",
            "ldr {glibc}, [{glibc}, :got_lo12:_r_debug]",
            "adrp {musl}, :got:_dl_debug_addr",
            "ldr {musl}, [{musl}, :got_lo12:_dl_debug_addr]",
            glibc = out(reg) glibc,
            musl = out(reg) musl,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    if glibc.is_null() && !musl.is_null() {
        // SAFETY: a word of musl's.
        return unsafe { musl.read() };
    }
    glibc
}

/// Address of the C library's `dl_iterate_phdr`, 0 where there is none.
fn iterate() -> usize {
    static ITERATE: AtomicUsize = AtomicUsize::new(0);
    let known = ITERATE.load(Relaxed);
    if known != 0 {
        return known;
    }
    let found = find();
    ITERATE.store(found, Relaxed);
    found
}

#[cold]
fn find() -> usize {
    // SAFETY: 1. the dynamic linker's, or a variable of the program's with its name.
    let found = unsafe { find_in(debug()) };
    // SAFETY: 1. the dynamic linker's own.
    found.or_else(|| unsafe { find_in(debug_of_program()?) }).unwrap_or(0)
}

/// Address of the C library's `dl_iterate_phdr`, in the list that begins there.
///
/// # Safety
/// 1. `debug` is null, the dynamic linker's word for debuggers, or begins with no version of that.
unsafe fn find_in(debug: *const Debug) -> Option<usize> {
    if debug.is_null() {
        return None;
    }
    // SAFETY: by the first condition; the dynamic linker's never goes.
    let Debug { version, mut map } = unsafe { debug.read_volatile() };
    if !(1..=2).contains(&version) {
        return None;
    }
    while !map.is_null() {
        // SAFETY: the entry of an object the program was started with: those behind the C library are not reached.
        let entry = unsafe { &*map };
        // SAFETY: 1. the entry's own.
        let object = unsafe { Object::of_map(entry) }.filter(Object::is_c_library);
        let found = object.and_then(|object| object.function(b"dl_iterate_phdr"));
        if found.is_some() {
            return found;
        }
        map = entry.next.load(Relaxed);
    }
    None
}

/// The same words by another way, for a program that has a variable of the dynamic linker's name: the kernel says where the
/// program's headers lie, and the dynamic linker writes into its dynamic section where the words are.
fn debug_of_program() -> Option<*const Debug> {
    const AT_PHDR: u64 = 3;
    const AT_PHNUM: u64 = 5;
    let file = kernel::open(None, c"/proc/self/auxv", libc::O_RDONLY, 0).ok()?;
    let mut words = [0_u8; 1024];
    let length = kernel::read_at(&file, &mut words, 0).ok()?;
    let (mut headers, mut count) = (0, 0);
    for pair in words.get(..length)?.chunks_exact(16) {
        let (kind, value) = pair.split_at_checked(8)?;
        let value = usize::from_ne_bytes(value.try_into().ok()?);
        match u64::from_ne_bytes(kind.try_into().ok()?) {
            AT_PHDR => headers = value,
            AT_PHNUM => count = value,
            _ => {}
        }
    }
    if headers == 0 {
        return None;
    }
    // SAFETY: 1. where the kernel has mapped the program's headers, so many.
    unsafe { elf::debug_entry(core::ptr::with_exposed_provenance(headers), count) }
        .map(core::ptr::with_exposed_provenance)
}
