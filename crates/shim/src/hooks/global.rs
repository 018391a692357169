//! The address of a library's variable, which may be what shows that it is there ([`crate::account::global`]). Those of
//! modules are rows of `around.txt`.

use core::ffi::c_char;

use divvy_driver_api::types::{CUdeviceptr, CUlibrary, CUresult};

use crate::account::library;
use crate::sys::{In, Out, real};

/// A library's variable.
pub(crate) fn cuLibraryGetGlobal(
    real: real::cuLibraryGetGlobal,
    dptr: Out<'_, CUdeviceptr>,
    bytes: Out<'_, usize>,
    of: CUlibrary,
    name: In<'_, c_char>,
) -> CUresult {
    let mut own_bytes = 0_usize;
    let place = if bytes.is_null() { Out::to(&mut own_bytes) } else { bytes };
    let found = || (dptr.get(), place.get().map(|bytes| bytes as u64));
    library::variable(of, found, || real.call(dptr, place, of, name))
}
