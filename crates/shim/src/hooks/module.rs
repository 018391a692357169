//! Modules and libraries: unloaded, and asked for functions; they are loaded by rows of `around.txt`. Their charge is
//! [`crate::account::module`]'s.

use core::ffi::{c_char, c_uint};

use divvy_driver_api::types::{CUfunction, CUkernel, CUlibrary, CUmodule, CUresult};

use crate::account::global;
use crate::account::holdings::{LIBRARIES, MODULES};
use crate::account::module::{drop_copies, obtained_function, obtained_kernel, spread};
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Out, OutArray, driver, real};

/// Unloads a module.
pub(crate) fn cuModuleUnload(real: real::cuModuleUnload, module: CUmodule) -> CUresult {
    let handle = module.0.addr() as u64;
    let result = MODULES.destroy(handle, || real.call(module));
    if result == SUCCESS {
        global::forget(handle);
    }
    result
}

/// Unloads a library.
pub(crate) fn cuLibraryUnload(real: real::cuLibraryUnload, library: CUlibrary) -> CUresult {
    let handle = library.0.addr() as u64;
    let result = LIBRARIES.destroy(handle, || real.call(library));
    if result == SUCCESS {
        global::forget(handle);
        drop_copies(handle);
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
    functions: OutArray<'_, CUfunction>,
    count: c_uint,
    module: CUmodule,
) -> CUresult {
    let result = real.call(functions, count, module);
    if result != SUCCESS {
        return result;
    }
    let there = driver::module_function_count(module).unwrap_or(0).min(count);
    for index in 0..usize::try_from(there).unwrap_or(0) {
        let code = obtained_function(functions.get(index));
        if code != SUCCESS {
            return code;
        }
    }
    result
}

/// Hands out all kernels of a library.
pub(crate) fn cuLibraryEnumerateKernels(
    real: real::cuLibraryEnumerateKernels,
    kernels: OutArray<'_, CUkernel>,
    count: c_uint,
    library: CUlibrary,
) -> CUresult {
    let result = real.call(kernels, count, library);
    if result != SUCCESS {
        return result;
    }
    let there = driver::library_kernel_count(library).unwrap_or(0).min(count);
    for index in 0..usize::try_from(there).unwrap_or(0) {
        let code = obtained_kernel(kernels.get(index));
        if code != SUCCESS {
            return code;
        }
    }
    result
}
