//! Answers of NVML's calls: success, or a code, which some functions have no room for.

use crate::client::ClientError;
use divvy_driver_api::nvml_types::*;
use divvy_driver_api::types::CUresult;
use std::ffi::c_char;

/// Answer of a call inside this module.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

/// A code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) u32);

impl Failure {
    pub(crate) const UNINITIALIZED: Self = Self(1);
    pub(crate) const INVALID_ARGUMENT: Self = Self(2);
    pub(crate) const NOT_SUPPORTED: Self = Self(3);
    pub(crate) const NOT_FOUND: Self = Self(6);
    pub(crate) const INSUFFICIENT_SIZE: Self = Self(7);
    pub(crate) const DRIVER_NOT_LOADED: Self = Self(9);
    pub(crate) const GPU_IS_LOST: Self = Self(15);
    pub(crate) const VERSION_MISMATCH: Self = Self(25);
    pub(crate) const UNKNOWN: Self = Self(999);
}

impl From<CUresult> for Failure {
    /// The only thing the pointer wrappers complain of is a null pointer.
    fn from(_: CUresult) -> Self {
        Self::INVALID_ARGUMENT
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Gone | ClientError::Forked => Self::GPU_IS_LOST,
            ClientError::Unknown | ClientError::Invalid => Self::INVALID_ARGUMENT,
            ClientError::Setting(_) | ClientError::Start(_) => Self::DRIVER_NOT_LOADED,
            _ => Self::UNKNOWN,
        }
    }
}

/// Return type of an exported function, with its value for a call that did nothing.
pub trait Returned {
    /// This code.
    fn from_code(code: u32) -> Self;
}

impl Returned for nvmlReturn_t {
    fn from_code(code: u32) -> Self {
        Self(code)
    }
}

impl Returned for *const c_char {
    fn from_code(_: u32) -> Self {
        std::ptr::null()
    }
}
