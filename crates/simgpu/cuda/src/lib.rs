//! `libcuda.so.1` of the simulated driver: exports, and nothing else.
//!
//! Promises: exactly the symbols driver 580 exports, each at an address of its own; arguments are
//! handed to `simgpu::driver` typed, its answer is handed back. Nothing happens when it is loaded.
#![allow(unsafe_code, reason = "C entry points")]
#![allow(non_snake_case, reason = "named as the driver's symbols")]
#![allow(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "the driver's calls are documented by their vendor"
)]

use divvy_driver_api::types::*;
use simgpu::driver::api;
use simgpu::driver::call::{Call, code, enter};
use simgpu::driver::eviction::settle;
use simgpu::driver::proc_address::set_exports;
use simgpu::sys::driver::{Answer, Pass};
use simgpu::sys::mapping::Program;

/// The program that calls.
// SAFETY: what loads this library takes it for the driver, whose contract it keeps.
const PROGRAM: Program = unsafe { Program::new() };

/// Steps of every export around its implementation.
#[inline]
fn run(call: Call, body: impl FnOnce() -> Answer) -> CUresult {
    if call.resolves {
        set_exports(find_export);
    }
    simgpu::fault::guard(call.name, CUresult, || {
        let answer = enter(call).and_then(|()| body());
        settle();
        code(answer)
    })
}

macro_rules! exports {
    ($(
        $name:ident = $base:ident($($argument:ident: $ty:ty),*) -> $result:ty
            { $($passed:expr),* };
    )*) => {
        $(
            /// # Safety
            /// 1. The arguments are what the driver's documentation of this function demands.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $ty),*) -> $result {
                const CALL: Call = Call::of(stringify!($name), PROGRAM);
                #[allow(unused_unsafe, reason = "a few calls have no arguments")]
                // SAFETY: by the first condition: the driver's contract for these arguments, which the
                // implementation's types and `TOGETHER` in `build.rs` repeat.
                run(CALL, || unsafe { api::$base(CALL, $($passed.pass()),*) })
            }
        )*

        /// The address of an export that a header declares.
        fn find_declared(wanted: &str) -> Option<usize> {
            $(if wanted == stringify!($name) {
                return Some($name as *const () as usize);
            })*
            None
        }
    };
}

macro_rules! undocumented {
    ($($name:ident)*) => {
        $(
            /// Exported without a public prototype; never simulated.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> CUresult {
                const CALL: Call = Call::of(stringify!($name), PROGRAM);
                run(CALL, || {
                    simgpu::unsimulated::record(CALL.name);
                    Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
                })
            }
        )*

        /// The address of an export that no header declares.
        fn find_undocumented(wanted: &str) -> Option<usize> {
            $(if wanted == stringify!($name) {
                return Some($name as *const () as usize);
            })*
            None
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// The address of an export.
fn find_export(wanted: &str) -> Option<usize> {
    find_declared(wanted).or_else(|| find_undocumented(wanted))
}
