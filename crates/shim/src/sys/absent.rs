//! Answer of a call when the driver has no such function, or there is no driver.
//!
//! A program can get here only through a symbol of ours that it found where the driver's would not
//! have been: by RTLD_DEFAULT without a driver, or with a driver older than the entry point.

use divvy_driver_api::nvml_types::nvmlReturn_t;
use divvy_driver_api::types::CUresult;

/// A result type's "there is no such function".
pub(super) trait Absent {
    /// The code.
    fn absent() -> Self;
}

impl Absent for CUresult {
    /// Answer of a machine without a GPU, which every program knows how to take.
    fn absent() -> Self {
        Self::CUDA_ERROR_NO_DEVICE
    }
}

impl Absent for nvmlReturn_t {
    fn absent() -> Self {
        Self::NVML_ERROR_FUNCTION_NOT_FOUND
    }
}
