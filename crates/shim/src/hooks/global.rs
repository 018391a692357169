//! Addresses of global variables, which may be what shows that a variable is there
//! ([`crate::account::global`]).

use core::ffi::{c_char, c_uint};

use divvy_driver_api::types::{CUdeviceptr, CUdeviceptr_v1, CUlibrary, CUmodule, CUresult};

use crate::account::global::found;
use crate::account::module;
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Out, real};

/// A library's variable.
pub(crate) fn cuLibraryGetGlobal(
    real: real::cuLibraryGetGlobal,
    dptr: Out<'_, CUdeviceptr>,
    bytes: Out<'_, usize>,
    library: CUlibrary,
    name: In<'_, c_char>,
) -> CUresult {
    let spread = module::spread(library);
    if spread != SUCCESS {
        return spread;
    }
    let mut own_bytes = 0_usize;
    let place = if bytes.is_null() { Out::to(&mut own_bytes) } else { bytes };
    let result = real.call(dptr, place, library, name);
    if result != SUCCESS {
        return result;
    }
    let counted = module::is_library_counted(library);
    found(library.0.addr() as u64, counted, dptr.get(), place.get().map(|bytes| bytes as u64))
}

/// A module's variable.
pub(crate) fn cuModuleGetGlobal_v2(
    real: real::cuModuleGetGlobal_v2,
    dptr: Out<'_, CUdeviceptr>,
    bytes: Out<'_, usize>,
    module: CUmodule,
    name: In<'_, c_char>,
) -> CUresult {
    let result = real.call(dptr, bytes, module, name);
    if result != SUCCESS {
        return result;
    }
    let counted = module::is_module_counted(module);
    found(module.0.addr() as u64, counted, dptr.get(), bytes.get().map(|bytes| bytes as u64))
}

/// The 32-bit form.
pub(crate) fn cuModuleGetGlobal(
    real: real::cuModuleGetGlobal,
    dptr: Out<'_, CUdeviceptr_v1>,
    bytes: Out<'_, c_uint>,
    module: CUmodule,
    name: In<'_, c_char>,
) -> CUresult {
    let result = real.call(dptr, bytes, module, name);
    if result != SUCCESS {
        return result;
    }
    let counted = module::is_module_counted(module);
    found(module.0.addr() as u64, counted, dptr.get().map(u64::from), bytes.get().map(u64::from))
}
