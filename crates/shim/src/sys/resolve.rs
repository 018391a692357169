//! Where the real functions are: the driver's, and the C library's `dlsym` and `dlvsym`.
//!
//! The driver's library is found among the loaded objects by its name, and all functions we know are
//! taken from its symbol table in one pass of about 20 µs. Words of the tables are written only with
//! addresses that are right, so threads may do it at once, and a child forked meanwhile may do it
//! again. Never loads a library.

use core::ffi::{CStr, c_char, c_void};
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::elf::{self, Object};
use super::loaded;
use super::tables::{self, KNOWN};

/// The C library's `dlsym`.
pub(super) type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Address of each known function, 0 while not found.
static REAL: [AtomicUsize; KNOWN] = [const { AtomicUsize::new(0) }; KNOWN];

/// The address map, driver's function to position: open addressing, `address << 10 | position`.
static ADDRESSES: [AtomicU64; 2048] = [const { AtomicU64::new(0) }; 2048];
const POSITION_BITS: u32 = 10;
const PROBES: usize = 64;
const _: () = assert!(KNOWN < 1 << POSITION_BITS);

/// The libraries whose functions we look up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Library {
    Cuda,
    Nvml,
}

impl Library {
    fn of(index: usize) -> Self {
        if tables::is_nvml(index) { Self::Nvml } else { Self::Cuda }
    }

    /// How its file's name begins.
    fn stem(self) -> &'static [u8] {
        match self {
            Self::Cuda => b"libcuda.so",
            Self::Nvml => b"libnvidia-ml.so",
        }
    }

    fn is(self, object: &Object<'_>) -> bool {
        let stem = self.stem();
        let is_soname = object.name().strip_prefix(stem) == Some(b".1");
        is_soname || object.file_name().starts_with(stem)
    }
}

/// Whether an object with this path is the library that the function at `index` is of.
pub(super) fn is_path_of(index: usize, path: &CStr) -> bool {
    elf::last_part(path.to_bytes()).starts_with(Library::of(index).stem())
}

/// The driver's function at `index`, or none if the driver lacks it or is not loaded. For calls that a launch makes: each
/// use is a load and a test of its own.
#[inline(always)]
pub(super) fn function(index: usize) -> Option<NonZeroUsize> {
    at(index).or_else(|| find(index))
}

/// The same as one call, for the hundred places that ask the driver something: 2 ns, and 7 kB less of the library.
#[inline(never)]
pub(super) fn function_by_call(index: usize) -> Option<NonZeroUsize> {
    function(index)
}

#[inline(always)]
fn at(index: usize) -> Option<NonZeroUsize> {
    NonZeroUsize::new(REAL.get(index)?.load(Relaxed))
}

#[cold]
#[inline(never)]
fn find(index: usize) -> Option<NonZeroUsize> {
    fill(Library::of(index), None);
    at(index)
}

/// Whether `address`, just found by name, is the driver's function at `index`: then a hook may stand
/// for it. A library loaded anew is taken note of.
pub(super) fn is_drivers(index: usize, address: usize) -> bool {
    let known = || REAL.get(index).is_some_and(|word| word.load(Relaxed) == address);
    if known() {
        return true;
    }
    fill(Library::of(index), Some(address));
    known()
}

/// Whether RTLD_NEXT, asked for the function at `index` by code that comes behind this library, means the
/// driver's: nothing behind the caller but the driver has one.
pub(super) fn is_next_for(index: usize, name: &[u8], caller: usize) -> bool {
    let own = (&raw const REAL).addr();
    let (mut behind_us, mut behind_caller, mut is_others) = (false, false, false);
    loaded::walk(|object| {
        let library = Library::of(index);
        is_others = behind_caller && !library.is(object) && object.function(name).is_some();
        behind_us |= object.contains(own);
        behind_caller |= object.contains(caller);
        is_others || (behind_caller && !behind_us)
    });
    behind_us && behind_caller && !is_others && function(index).is_some()
}

/// Takes the functions of the first library of this kind, or of the one that holds `address`.
fn fill(library: Library, address: Option<usize>) {
    loaded::walk(|object| {
        if address.is_some_and(|address| !object.contains(address)) || !library.is(object) {
            return false;
        }
        object.for_each_function(|hash, name, address| {
            if let Some(index) = tables::position(hash, name)
                && let Some(word) = REAL.get(index)
                && Library::of(index) == library
            {
                word.store(address, Relaxed);
                enter(index, address);
            }
        });
        true
    });
}

fn slots(address: usize) -> impl Iterator<Item = &'static AtomicU64> {
    let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..PROBES).filter_map(move |probe| {
        ADDRESSES.get((hash as usize).wrapping_add(probe) % ADDRESSES.len())
    })
}

fn entry(word: u64) -> (usize, usize) {
    let position = word & ((1 << POSITION_BITS) - 1);
    ((word >> POSITION_BITS) as usize, position as usize)
}

fn is_current(address: usize, position: usize) -> bool {
    REAL.get(position).is_some_and(|word| word.load(Relaxed) == address)
}

fn enter(index: usize, address: usize) {
    let value = (address as u64) << POSITION_BITS | index as u64;
    for slot in slots(address) {
        let word = slot.load(Relaxed);
        let (old_address, old_index) = entry(word);
        if word == value {
            return;
        }
        // An entry of a library that has been unloaded since gives way.
        let free = word == 0 || !is_current(old_address, old_index);
        if free && slot.compare_exchange(word, value, Relaxed, Relaxed).is_ok() {
            return;
        }
    }
}

/// The known function at `address`, preferring one that `fits` where several share an address.
pub(super) fn position_of(address: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let mut found = None;
    for slot in slots(address) {
        let word = slot.load(Relaxed);
        if word == 0 {
            break;
        }
        let (at, position) = entry(word);
        if at == address && is_current(at, position) {
            found = match found {
                Some(other) if fits(other) => return found,
                _ => Some(position),
            };
        }
    }
    found
}

/// The C library's own function `name`.
pub(super) fn c_library(name: &[u8]) -> Option<usize> {
    let mut found = None;
    loaded::walk(|object| {
        if object.is_c_library() {
            found = object.function(name);
        }
        found.is_some()
    });
    found
}

/// The C library's own function `name`, remembered in `word`.
pub(super) fn in_c_library(word: &AtomicUsize, name: &[u8]) -> Option<usize> {
    if word.load(Relaxed) == 0 {
        word.store(c_library(name).unwrap_or(0), Relaxed);
    }
    Some(word.load(Relaxed)).filter(|address| *address != 0)
}

/// The file this library was loaded from, as the dynamic linker has it. It is never unloaded.
pub(super) fn own_path() -> Option<&'static CStr> {
    let own = (&raw const REAL).addr();
    let mut path = None;
    loaded::walk(|object| {
        if object.contains(own) {
            path = Some(object.path());
        }
        path.is_some()
    });
    // SAFETY: the dynamic linker's string, which lives as long as this library is loaded.
    path.map(|path| unsafe { CStr::from_ptr(path) })
}

/// Whether another copy of this library stands before us among the loaded objects.
pub(super) fn is_second_copy() -> bool {
    let own = (&raw const REAL).addr();
    let mut second = false;
    loaded::walk(|object| {
        if object.contains(own) {
            return true;
        }
        second = object.name() == b"libdivvy.so";
        second
    });
    second
}
