//! Modules and libraries as they are loaded, and the functions that they hand out.
//!
//! Global arrays take device memory when a module is loaded, and for a library when a context first
//! uses it (measured); both are charged at the load, from what the image declares (see
//! [`super::image`]). Code takes nothing that NVML would show beyond the context for images of
//! ordinary size, and is not charged. A function's local memory is charged when it is obtained.

use core::ffi::c_uint;

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{
    CUdevice, CUfunction, CUfunction_attribute, CUkernel, CUlibrary, CUmodule, CUresult,
};

use super::context::here;
use super::global;
use super::heap;
use super::holdings::{Holdings, LIBRARIES, MODULES};
use super::place::{CallPlace, Next, at};
use crate::gate::relaxed;
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, OutArray, driver};

/// The current place, or the first device: a library may be loaded before there is a context.
fn here_or_first() -> Next<CallPlace> {
    match here() {
        Next::Forward => match driver::device_get(0).map(at) {
            Ok(Next::Count(device)) => Next::Count(CallPlace { device, context: 0 }),
            Ok(Next::Refuse(code)) => Next::Refuse(code),
            Ok(Next::Forward) | Err(_) => Next::Forward,
        },
        other => other,
    }
}

/// Says where a module's variable is, and its bytes: `found` reads both when the driver has written them.
pub(crate) fn module_variable(
    module: CUmodule,
    found: impl FnOnce() -> (Option<u64>, Option<u64>),
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match call() {
        SUCCESS => variable(&MODULES, module.0.addr() as u64, found()),
        code => code,
    }
}

/// The same of a library, whose variables take their memory when they are asked for.
pub(crate) fn library_variable(
    library: CUlibrary,
    found: impl FnOnce() -> (Option<u64>, Option<u64>),
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match spread_first(library, call) {
        SUCCESS => variable(&LIBRARIES, library.0.addr() as u64, found()),
        code => code,
    }
}

#[inline(never)]
fn variable(loaded: &Holdings, owner: u64, found: (Option<u64>, Option<u64>)) -> CUresult {
    // Charged when its image was loaded, where that could be read.
    let is_counted = loaded.get(owner).is_some();
    match found {
        (Some(address), Some(bytes)) if !is_counted => global::found(owner, address, bytes),
        _ => SUCCESS,
    }
}

/// Charges a library's globals on the current device too, if it was charged on another one.
fn spread(library: CUlibrary) -> CUresult {
    let handle = library.0.addr() as u64;
    let Some(entry) = LIBRARIES.get(handle) else { return SUCCESS };
    let Next::Count(place) = here() else { return SUCCESS };
    let key = copy_key(handle, place.device.ordinal);
    if entry.ordinal == place.device.ordinal || LIBRARIES.get(key).is_some() {
        return SUCCESS;
    }
    LIBRARIES.copy(place, entry.bytes, key)
}

/// Where a library's copy on another device is kept: no address has bits so high up.
fn copy_key(handle: u64, ordinal: CUdevice) -> u64 {
    handle.rotate_left(16) | u64::from(ordinal.cast_unsigned() & 0xf)
}

/// Asks the driver only where a library's globals fit on the current device ([`spread`]).
pub(crate) fn spread_first(library: CUlibrary, call: impl FnOnce() -> CUresult) -> CUresult {
    match spread(library) {
        SUCCESS => call(),
        code => code,
    }
}

/// Unloads a module: `call` asks the driver.
pub(crate) fn unload_module(module: CUmodule, call: impl FnOnce() -> CUresult) -> CUresult {
    unload(&MODULES, module.0.addr() as u64, call)
}

/// Unloads a library, and with it its copies on further devices.
pub(crate) fn unload_library(library: CUlibrary, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = library.0.addr() as u64;
    let result = unload(&LIBRARIES, handle, call);
    if result == SUCCESS {
        drop_copies(handle);
    }
    result
}

fn unload(loaded: &Holdings, handle: u64, call: impl FnOnce() -> CUresult) -> CUresult {
    let result = loaded.destroy(handle, call);
    if result == SUCCESS {
        global::forget(handle);
    }
    result
}

#[inline]
fn drop_copies(handle: u64) {
    for index in 0..MAX_DEVICES {
        let key = copy_key(handle, CUdevice::try_from(index).unwrap_or(0));
        LIBRARIES.drop_copy(key);
    }
}

/// Loads a module with globals of `bytes`: `call` asks the driver.
#[inline(never)]
pub(crate) fn load_module(
    bytes: u64,
    module: Out<'_, CUmodule>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    MODULES.make(here(), bytes, module, call)
}

/// Loads a library with globals of `bytes`: `call` asks the driver.
#[inline(never)]
pub(crate) fn load_library(
    bytes: u64,
    library: Out<'_, CUlibrary>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    LIBRARIES.make(here_or_first(), bytes, library, call)
}

const LOCAL_BYTES: CUfunction_attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;

/// Hands a function out: its local memory must fit before it can be launched.
pub(crate) fn hand_out_function(
    function: Out<'_, CUfunction>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match call() {
        SUCCESS => function.get().map_or(SUCCESS, obtained_function),
        code => code,
    }
}

/// Hands out a library's kernel.
pub(crate) fn hand_out_kernel(
    kernel: Out<'_, CUkernel>,
    library: CUlibrary,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    match spread_first(library, call) {
        SUCCESS => kernel.get().map_or(SUCCESS, obtained_kernel),
        code => code,
    }
}

/// Hands out all of a module's functions or a library's kernels, `there` of them as the driver says.
pub(crate) fn hand_out_all<T: Copy>(
    places: OutArray<'_, T>,
    there: impl FnOnce() -> Result<c_uint, CUresult>,
    obtained: impl Fn(T) -> CUresult,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = call();
    if result != SUCCESS {
        return result;
    }
    let there = usize::try_from(there().unwrap_or(0)).unwrap_or(0);
    let all = (0..there.min(places.length())).filter_map(|index| places.get(index));
    all.map(obtained).find(|code| *code != SUCCESS).unwrap_or(SUCCESS)
}

pub(crate) fn obtained_function(function: CUfunction) -> CUresult {
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return SUCCESS,
        Next::Refuse(code) => return code,
    };
    // A driver that does not tell is not one that we know to take it.
    relaxed(|| driver::func_attribute(function, LOCAL_BYTES))
        .map_or(SUCCESS, |bytes| heap::note_local(place, bytes))
}

/// A library's kernel was handed out, of which it is not known where it will run. Its local memory is
/// that on the current device, or on the first.
pub(crate) fn obtained_kernel(kernel: CUkernel) -> CUresult {
    let ordinal = match here_or_first() {
        Next::Count(place) => place.device.ordinal,
        Next::Forward => return SUCCESS,
        Next::Refuse(code) => return code,
    };
    relaxed(|| driver::kernel_attribute(kernel, LOCAL_BYTES, ordinal))
        .map_or(SUCCESS, heap::note_kernel)
}
