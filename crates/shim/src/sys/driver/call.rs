//! How a function of the driver is called: found, with `errno` kept, and its answer told apart.
//!
//! Promises: the address is that of the driver's own function, and its type the table's. Knows no
//! entry point: the files beside it name them.

use divvy_driver_api::types::CUresult;

/// The call succeeded.
pub(crate) const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;

/// Calls `$function` with arguments that are evaluated outside of the unsafe block, each under a name of its own.
macro_rules! call_with {
    ($function:ident [$($bound:ident)*]) => {
        // SAFETY: `$function` is the library's function of the type it has here (`ask!`, `ask_nvml!`). The pointers
        // among the arguments are to places of their caller's, as long as the call says; everything else is a value
        // that the library checks.
        unsafe { $function($($bound),*) }
    };
    ($function:ident [$($bound:ident)*] $argument:expr $(, $rest:expr)*) => {
        match $argument {
            argument => {
                $crate::sys::driver::call::call_with!($function [$($bound)* argument] $($rest),*)
            }
        }
    };
}
pub(super) use call_with;

/// Calls the driver's `$name`; the arguments must be values, or pointers to places of ours.
macro_rules! ask {
    ($name:ident $arguments:tt) => {
        $crate::sys::driver::call::ask_found!(function_by_call, $name $arguments)
    };
}
pub(super) use ask;

/// The same, for what each launch asks.
macro_rules! ask_often {
    ($name:ident $arguments:tt) => {
        $crate::sys::driver::call::ask_found!(function, $name $arguments)
    };
}
pub(super) use ask_often;

/// The same, with the function's address from `$find`.
macro_rules! ask_found {
    ($find:ident, $name:ident($($argument:expr),* $(,)?)) => {
        match $crate::sys::resolve::$find($crate::sys::tables::index::$name) {
            None => Err(divvy_driver_api::types::CUresult::CUDA_ERROR_NOT_FOUND),
            Some(address) => {
                let _errno = $crate::sys::errno::Keep::new();
                // SAFETY: the address is that of the driver's function of this name.
                let function = unsafe {
                    core::mem::transmute::<usize, divvy_driver_api::sig::$name>(address.get())
                };
                $crate::sys::driver::call::done(
                    $crate::sys::driver::call::call_with!(function [] $($argument),*)
                )
            }
        }
    };
}
pub(super) use ask_found;

/// The driver's answer, as a result.
pub(super) fn done(result: CUresult) -> Result<(), CUresult> {
    if result == SUCCESS { Ok(()) } else { Err(result) }
}

/// Length of the text in a buffer that the driver wrote a string to.
pub(super) fn text_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())
}
