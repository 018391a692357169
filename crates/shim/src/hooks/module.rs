//! Modules and libraries: their global variables, and the functions they hand out.
//!
//! Global arrays take device memory when a module is loaded, and for a library when a context first
//! uses it (measured); both are charged at the load, from what the image declares (see
//! [`super::image`]). Code takes nothing that NVML would show beyond the context for images of
//! ordinary size, and is not charged. A function's local memory is charged when it is obtained.

use core::ffi::{c_char, c_uint, c_void};

use divvy_abi::MAX_DEVICES;
use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUdevice, CUfunction, CUfunction_attribute, CUjit_option, CUkernel, CUlibrary, CUlibraryOption,
    CUmodule, CUresult,
};

use super::charge::{Next, Place, SUCCESS, at, here};
use super::holdings::Holdings;
use super::{global, heap, image};
use crate::gate::relaxed;
use crate::sys::{In, Opaque, Out, driver, real};
use crate::tenant::device::Device;

/// Modules.
static MODULES: Holdings = Holdings::new(16, 23, Kind::Module);
/// Libraries, and their copies on further devices.
static LIBRARIES: Holdings = Holdings::new(17, 24, Kind::Module);

/// The current place, or the first device: a library may be loaded before there is a context.
fn here_or_first() -> Next<Place> {
    match here() {
        Next::Forward => match driver::device_get(0).map(at) {
            Ok(Next::Count(device)) => Next::Count(Place { device, context: 0 }),
            Ok(Next::Refuse(code)) => Next::Refuse(code),
            Ok(Next::Forward) | Err(_) => Next::Forward,
        },
        other => other,
    }
}

/// Whether an image's variables were charged when it was loaded.
pub(super) fn is_module_counted(module: CUmodule) -> bool {
    MODULES.get(module.0.addr() as u64).is_some()
}

/// Whether an image's variables were charged when it was loaded.
pub(super) fn is_library_counted(library: CUlibrary) -> bool {
    LIBRARIES.get(library.0.addr() as u64).is_some()
}

/// Charges a library's globals on the current device too, if it was charged on another one.
pub(super) fn spread(library: CUlibrary) -> CUresult {
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

#[inline(never)]
fn load_module(bytes: u64, module: Out<'_, CUmodule>, call: &dyn Fn() -> CUresult) -> CUresult {
    let made = || match call() {
        SUCCESS => Ok(module.get().map_or(0, |module| module.0.addr() as u64)),
        code => Err(code),
    };
    MODULES.make(here(), bytes, made, || {
        if let Some(module) = module.get() {
            let _ = driver::module_unload(module);
        }
    })
}

#[inline(never)]
fn load_library(bytes: u64, library: Out<'_, CUlibrary>, call: &dyn Fn() -> CUresult) -> CUresult {
    let made = || match call() {
        SUCCESS => Ok(library.get().map_or(0, |library| library.0.addr() as u64)),
        code => Err(code),
    };
    LIBRARIES.make(here_or_first(), bytes, made, || {
        if let Some(library) = library.get() {
            let _ = driver::library_unload(library);
        }
    })
}

/// A context is gone, and with it its modules, and its copies of libraries' globals.
pub(crate) fn forget_context(context: u64, device: &'static Device) {
    MODULES.forget_context(context, device);
    LIBRARIES.forget_context(context, device);
}

const LOCAL_BYTES: CUfunction_attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;

/// A function was handed out: its local memory must fit before it can be launched.
fn obtained_function(function: Option<CUfunction>) -> CUresult {
    let Some(function) = function else { return SUCCESS };
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
fn obtained_kernel(kernel: Option<CUkernel>) -> CUresult {
    let Some(kernel) = kernel else { return SUCCESS };
    let ordinal = match here_or_first() {
        Next::Count(place) => place.device.ordinal,
        Next::Forward => return SUCCESS,
        Next::Refuse(code) => return code,
    };
    relaxed(|| driver::kernel_attribute(kernel, LOCAL_BYTES, ordinal))
        .map_or(SUCCESS, heap::note_kernel)
}

/// Loads a module from a file.
pub(crate) fn cuModuleLoad(
    real: real::cuModuleLoad,
    module: Out<'_, CUmodule>,
    path: In<'_, c_char>,
) -> CUresult {
    load_module(image::globals_of_file(path), module, &|| real.call(module, path))
}

/// Loads a module from memory.
pub(crate) fn cuModuleLoadData(
    real: real::cuModuleLoadData,
    module: Out<'_, CUmodule>,
    data: Opaque,
) -> CUresult {
    load_module(image::globals_of(data), module, &|| real.call(module, data))
}

/// With options for the compiler.
pub(crate) fn cuModuleLoadDataEx(
    real: real::cuModuleLoadDataEx,
    module: Out<'_, CUmodule>,
    data: Opaque,
    count: c_uint,
    options: Out<'_, CUjit_option>,
    values: Out<'_, *mut c_void>,
) -> CUresult {
    load_module(image::globals_of(data), module, &|| {
        real.call(module, data, count, options, values)
    })
}

/// Loads a module from a fat binary.
pub(crate) fn cuModuleLoadFatBinary(
    real: real::cuModuleLoadFatBinary,
    module: Out<'_, CUmodule>,
    data: Opaque,
) -> CUresult {
    load_module(image::globals_of(data), module, &|| real.call(module, data))
}

/// Unloads a module.
pub(crate) fn cuModuleUnload(real: real::cuModuleUnload, module: CUmodule) -> CUresult {
    let handle = module.0.addr() as u64;
    let result = MODULES.destroy(handle, || real.call(module));
    if result == SUCCESS {
        global::forget(handle);
    }
    result
}

/// Loads a library from memory.
pub(crate) fn cuLibraryLoadData(
    real: real::cuLibraryLoadData,
    library: Out<'_, CUlibrary>,
    data: Opaque,
    jit_options: Out<'_, CUjit_option>,
    jit_values: Out<'_, *mut c_void>,
    jit_count: c_uint,
    options: Out<'_, CUlibraryOption>,
    values: Out<'_, *mut c_void>,
    count: c_uint,
) -> CUresult {
    load_library(image::globals_of(data), library, &|| {
        real.call(library, data, jit_options, jit_values, jit_count, options, values, count)
    })
}

/// Loads a library from a file.
pub(crate) fn cuLibraryLoadFromFile(
    real: real::cuLibraryLoadFromFile,
    library: Out<'_, CUlibrary>,
    path: In<'_, c_char>,
    jit_options: Out<'_, CUjit_option>,
    jit_values: Out<'_, *mut c_void>,
    jit_count: c_uint,
    options: Out<'_, CUlibraryOption>,
    values: Out<'_, *mut c_void>,
    count: c_uint,
) -> CUresult {
    load_library(image::globals_of_file(path), library, &|| {
        real.call(library, path, jit_options, jit_values, jit_count, options, values, count)
    })
}

/// Unloads a library.
pub(crate) fn cuLibraryUnload(real: real::cuLibraryUnload, library: CUlibrary) -> CUresult {
    let handle = library.0.addr() as u64;
    let result = LIBRARIES.destroy(handle, || real.call(library));
    if result == SUCCESS {
        global::forget(handle);
        for index in 0..MAX_DEVICES {
            let key = copy_key(handle, CUdevice::try_from(index).unwrap_or(0));
            LIBRARIES.drop_copy(key);
        }
    }
    result
}

/// Hands out a function of a module.
pub(crate) fn cuModuleGetFunction(
    real: real::cuModuleGetFunction,
    function: Out<'_, CUfunction>,
    module: CUmodule,
    name: In<'_, c_char>,
) -> CUresult {
    match real.call(function, module, name) {
        SUCCESS => obtained_function(function.get()),
        code => code,
    }
}

/// Hands out a kernel of a library.
pub(crate) fn cuLibraryGetKernel(
    real: real::cuLibraryGetKernel,
    kernel: Out<'_, CUkernel>,
    library: CUlibrary,
    name: In<'_, c_char>,
) -> CUresult {
    let spread = spread(library);
    if spread != SUCCESS {
        return spread;
    }
    match real.call(kernel, library, name) {
        SUCCESS => obtained_kernel(kernel.get()),
        code => code,
    }
}

/// Hands out a library's module in the current context.
pub(crate) fn cuLibraryGetModule(
    real: real::cuLibraryGetModule,
    module: Out<'_, CUmodule>,
    library: CUlibrary,
) -> CUresult {
    match spread(library) {
        SUCCESS => real.call(module, library),
        code => code,
    }
}

/// Hands out a kernel's function in the current context.
pub(crate) fn cuKernelGetFunction(
    real: real::cuKernelGetFunction,
    function: Out<'_, CUfunction>,
    kernel: CUkernel,
) -> CUresult {
    match real.call(function, kernel) {
        SUCCESS => obtained_function(function.get()),
        code => code,
    }
}

/// Hands out all functions of a module.
pub(crate) fn cuModuleEnumerateFunctions(
    real: real::cuModuleEnumerateFunctions,
    functions: Out<'_, CUfunction>,
    count: c_uint,
    module: CUmodule,
) -> CUresult {
    let result = real.call(functions, count, module);
    if result != SUCCESS {
        return result;
    }
    let there = driver::module_function_count(module).unwrap_or(0).min(count);
    for index in 0..usize::try_from(there).unwrap_or(0) {
        let code = obtained_function(functions.get_at(index));
        if code != SUCCESS {
            return code;
        }
    }
    result
}

/// Hands out all kernels of a library.
pub(crate) fn cuLibraryEnumerateKernels(
    real: real::cuLibraryEnumerateKernels,
    kernels: Out<'_, CUkernel>,
    count: c_uint,
    library: CUlibrary,
) -> CUresult {
    let result = real.call(kernels, count, library);
    if result != SUCCESS {
        return result;
    }
    let there = driver::library_kernel_count(library).unwrap_or(0).min(count);
    for index in 0..usize::try_from(there).unwrap_or(0) {
        let code = obtained_kernel(kernels.get_at(index));
        if code != SUCCESS {
            return code;
        }
    }
    result
}
