//! `libnvidia-ml.so.1` of the simulated machine: the exports, and nothing else.
//!
//! Every entry point of the table is exported under its own name; what it does is in `simgpu::nvml`.
#![allow(unsafe_code, reason = "exporting C functions takes unsafe attributes")]

use divvy_driver_api::nvml_types::*;
use simgpu::nvml::{call, surface};
use simgpu::sys::driver::Pass;

macro_rules! exports {
    ($(
        $name:ident($($argument:ident: $ty:ty),*) -> $result:ty { $($passed:expr),* };
    )*) => {
        $(
            /// # Safety
            /// 1. The arguments are what NVML's documentation of this function demands.
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the symbol's own shape")]
            // SAFETY: no other symbol of this library has the name; a program that links two NVMLs
            // gets the first, as with the real one.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $ty),*) -> $result {
                #[allow(unused_unsafe, reason = "a few calls have no arguments")]
                // SAFETY: the caller keeps NVML's contract for these arguments, which the
                // implementation's types and `TOGETHER` in `build.rs` repeat.
                call(stringify!($name), |library| unsafe {
                    surface::$name(library, $($passed.pass()),*)
                })
            }
        )*
    };
}
include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// The door to NVML's private tables, which `nvidia-smi` looks for; there are none behind it.
/// None of its arguments is looked at.
#[allow(non_snake_case, reason = "the symbol's own name")]
// SAFETY: no other symbol of this library has the name.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInternalGetExportTable(
    _table: *mut *const core::ffi::c_void,
    _id: *const core::ffi::c_void,
) -> nvmlReturn_t {
    simgpu::unsimulated::record("nvmlInternalGetExportTable");
    nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED
}
