//! Modules as they are loaded, and the functions that modules and libraries hand out.
//!
//! Global arrays take device memory when a module is loaded (measured), and are charged then, from what the image declares
//! (see [`super::image`]). Code takes nothing that NVML would show beyond the context for images of
//! ordinary size, and is not charged. A function's local memory is charged when it is obtained.

use core::ffi::c_uint;

use divvy_driver_api::types::{CUfunction, CUfunction_attribute, CUkernel, CUmodule, CUresult};

use super::context::here;
use super::holdings::MODULES;
use super::place::{CallPlace, Next, at};
use super::{global, heap};
use crate::gate::relaxed;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{Out, OutArray, driver};

/// Modules in whose images no variable was read; the context of each.
static UNREAD: Map = Map::new(33);

/// The current place, or the first device: a library may be loaded before there is a context.
pub(super) fn here_or_first() -> Next<CallPlace> {
    match here() {
        Next::Forward => match driver::device_get(0).map(at) {
            Ok(Next::Count(device)) => Next::Count(CallPlace { device, context: 0 }),
            Ok(Next::Refuse(code)) => Next::Refuse(code),
            Ok(Next::Forward) | Err(_) => Next::Forward,
        },
        other => other,
    }
}

/// A variable of a module was found: charged with its image, where that could be read.
pub(super) fn found(module: u64, place: CallPlace, address: u64, bytes: u64) -> CUresult {
    match UNREAD.get(module) {
        Some(_) => global::found(module, place, address, bytes, |bytes| {
            MODULES.grow(module, place, bytes);
        }),
        None => SUCCESS,
    }
}

/// Unloads a module: `call` asks the driver.
pub(crate) fn unload_module(module: CUmodule, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = module.0.addr() as u64;
    let unread = UNREAD.take(handle);
    let result = MODULES.destroy(handle, call);
    match unread {
        Some(_) if result == SUCCESS => global::forget(handle),
        Some(words) => {
            // The table had room for it a moment ago.
            let _ = UNREAD.insert(handle, words);
        }
        None => {}
    }
    result
}

/// A context is gone, and with it its modules.
pub(super) fn forget_context(context: u64) {
    UNREAD.take_if(|_, [of, _]| of == context);
}

/// Loads a module with globals of `bytes`: `call` asks the driver.
#[inline(never)]
pub(crate) fn load_module(
    bytes: u64,
    module: Out<'_, CUmodule>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    let place = here();
    let result = MODULES.make(place, bytes, module, call);
    if let (SUCCESS, 0, Next::Count(place), Some(module)) = (result, bytes, place, module.get()) {
        // Without memory for it its variables are not counted.
        let _ = UNREAD.insert(module.0.addr() as u64, [place.context, 0]);
    }
    result
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
