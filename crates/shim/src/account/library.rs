//! Libraries: images that belong to no context, and take memory in each that uses them.
//!
//! Their global arrays take device memory when a context first uses them (measured). They are
//! charged at the load, in the current context, and in any other before it can use them: when it asks
//! for a kernel, a function, a module or a variable of the library, or launches one of its kernels by
//! the kernel's own handle. A library that was loaded without a context is charged on the first
//! device, until a context uses it. Each copy's charge ends with its context, and all of them with the
//! library.
//!
//! Launches look at this while a library with large globals has been loaded; else they cost one load.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use divvy_driver_api::types::{CUfunction, CUkernel, CUlibrary, CUmodule, CUresult};
use divvy_policy::charge;

use super::context::here;
use super::global;
use super::holdings::LIBRARIES;
use super::module::{self, hand_out_function, here_or_first, obtained_kernel};
use super::place::Next;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{Out, driver};

/// Libraries by handle: the number of each, from 1, and bytes of its globals, 0 where none were read. Kernels of a library,
/// and modules that stand for it in a context: 0, and the library's handle.
static KNOWN: Map = Map::new(36);

/// How many libraries were loaded.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// How many of them have globals that granules are not shared for.
static LARGE: AtomicU64 = AtomicU64::new(0);

/// A library that is known.
#[derive(Clone, Copy)]
struct Known {
    number: u64,
    bytes: u64,
}

fn handle_of(library: CUlibrary) -> u64 {
    library.0.addr() as u64
}

fn known(handle: u64) -> Option<Known> {
    let [number, bytes] = KNOWN.get(handle)?;
    (number != 0).then_some(Known { number, bytes })
}

/// Handle of the library that a kernel is of, or that a module stands for.
fn library_of(part: u64) -> Option<u64> {
    match KNOWN.get(part)? {
        [0, library] => Some(library),
        _ => None,
    }
}

/// Notes a kernel or a module of a library.
fn note(part: usize, library: CUlibrary) {
    // Without memory for it, it counts as no library's.
    let _ = KNOWN.insert(part as u64, [0, handle_of(library)]);
}

/// The key of the library's copy in a context.
fn key(number: u64, context: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ context.rotate_left(32)
}

/// Loads a library with globals of `bytes`: `call` asks the driver.
#[inline(never)]
pub(crate) fn load(
    bytes: u64,
    library: Out<'_, CUlibrary>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    let number = LOADED.fetch_add(1, Relaxed).saturating_add(1);
    let key = |_, context| key(number, context);
    let result = LIBRARIES.make_by(here_or_first(), bytes, library, key, call);
    if let (SUCCESS, Some(library)) = (result, library.get()) {
        // Without memory for it its copies in further contexts are not counted.
        let _ = KNOWN.insert(handle_of(library), [number, bytes]);
        LARGE.fetch_add(u64::from(!charge::is_small(bytes)), Relaxed);
    }
    result
}

/// Charges a library's globals in the current context too.
#[inline(never)]
fn spread(library: u64) -> CUresult {
    let (Some(library), Next::Count(place)) = (known(library), here()) else {
        return SUCCESS;
    };
    let own = key(library.number, place.context);
    if library.bytes == 0 || LIBRARIES.get(own).is_some() {
        return SUCCESS;
    }
    LIBRARIES.drop_copy(key(library.number, 0));
    LIBRARIES.copy(place, library.bytes, own)
}

/// Asks the driver only where a library's globals fit into the current context's device.
pub(crate) fn spread_first(library: CUlibrary, call: impl FnOnce() -> CUresult) -> CUresult {
    match spread(handle_of(library)) {
        SUCCESS => call(),
        code => code,
    }
}

/// Says where a library's variable is: `found` reads address and bytes when the driver has written them.
pub(crate) fn variable(
    library: CUlibrary,
    found: impl FnOnce() -> (Option<u64>, Option<u64>),
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match spread_first(library, call) {
        SUCCESS => found_of(known(handle_of(library)), found()),
        code => code,
    }
}

/// The same of a module, which may stand for a library.
pub(crate) fn module_variable(
    module: CUmodule,
    found: impl FnOnce() -> (Option<u64>, Option<u64>),
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let module = module.0.addr() as u64;
    match (call(), library_of(module).and_then(known)) {
        (SUCCESS, None) => match (here(), found()) {
            (Next::Count(place), (Some(address), Some(bytes))) => {
                module::found(module, place, address, bytes)
            }
            _ => SUCCESS,
        },
        (SUCCESS, library) => found_of(library, found()),
        (code, _) => code,
    }
}

/// A variable of a library was found: charged with its image, where that could be read.
#[inline(never)]
fn found_of(library: Option<Known>, found: (Option<u64>, Option<u64>)) -> CUresult {
    match (library, here(), found) {
        (Some(Known { number, bytes: 0 }), Next::Count(place), (Some(address), Some(bytes))) => {
            let key = key(number, place.context);
            let keep = |bytes| LIBRARIES.grow(key, place, bytes);
            global::found(key, place, address, bytes, keep)
        }
        _ => SUCCESS,
    }
}

/// Hands out the module that stands for a library in the current context.
pub(crate) fn hand_out_module(
    module: Out<'_, CUmodule>,
    library: CUlibrary,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = spread_first(library, call);
    if let (SUCCESS, Some(module)) = (result, module.get()) {
        note(module.0.addr(), library);
    }
    result
}

/// Hands out a library's kernel.
pub(crate) fn hand_out_kernel(
    kernel: Out<'_, CUkernel>,
    library: CUlibrary,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match spread_first(library, call) {
        SUCCESS => kernel.get().map_or(SUCCESS, |kernel| obtained(kernel, library)),
        code => code,
    }
}

/// A library's kernel was handed out.
pub(crate) fn obtained(kernel: CUkernel, library: CUlibrary) -> CUresult {
    note(kernel.0.addr(), library);
    obtained_kernel(kernel)
}

/// Hands out the function that stands for a kernel in the current context, and with it its library's module.
pub(crate) fn hand_out_function_of(
    function: Out<'_, CUfunction>,
    kernel: CUkernel,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let library = library_of(kernel.0.addr() as u64);
    let result = match library.map_or(SUCCESS, spread) {
        SUCCESS => hand_out_function(function, call),
        code => code,
    };
    if let (SUCCESS, Some(function), Some(library)) = (result, function.get(), library)
        && let Ok(module) = driver::func_module(function)
    {
        let _ = KNOWN.insert(module.0.addr() as u64, [0, library]);
    }
    result
}

/// Launches a function, which may be a kernel's own handle, where its library's globals fit.
///
/// Cost: one load where no library has large ones.
#[inline(always)]
pub(crate) fn launched(function: CUfunction, call: impl FnOnce() -> CUresult) -> CUresult {
    match LARGE.load(Relaxed) {
        0 => call(),
        _ => match spread_of(function) {
            SUCCESS => call(),
            code => code,
        },
    }
}

#[cold]
#[inline(never)]
fn spread_of(kernel: CUfunction) -> CUresult {
    library_of(kernel.0.addr() as u64).map_or(SUCCESS, spread)
}

/// Unloads a library, and with it its copies: `call` asks the driver.
pub(crate) fn unload(library: CUlibrary, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = handle_of(library);
    let before = KNOWN.take(handle);
    let result = call();
    match before {
        Some([number, _]) if result == SUCCESS => {
            LIBRARIES.drop_all(|of, context| of == key(number, context));
            KNOWN.take_if(|_, words| words == [0, handle]);
        }
        Some(words) => {
            // The table had room for it a moment ago.
            let _ = KNOWN.insert(handle, words);
        }
        None => {}
    }
    result
}
