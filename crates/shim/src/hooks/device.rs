//! The start.

use core::ffi::c_uint;

use divvy_driver_api::types::CUresult;

use crate::sys::driver::SUCCESS;
use crate::sys::real;
use crate::tenant;

/// Starts the driver, and then joins the tenant: a failure to join is known before memory is asked
/// for.
pub(crate) fn cuInit(real: real::cuInit, flags: c_uint) -> CUresult {
    let result = real.call(flags);
    if result == SUCCESS {
        let _ = tenant::membership();
    }
    result
}
