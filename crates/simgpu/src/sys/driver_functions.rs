//! Functions of the program's that the driver calls, each with what it is to be called with.
//!
//! Promises: what can be called is what the program passed for that, and it gets the datum that the
//! program passed with it. When it is called is the driver's part of the contract.
#![allow(unsafe_code, reason = "calls functions that C callers pass")]

use super::driver::{Address, Pass};
use super::driver_given::Given;
use core::ffi::c_void;
use divvy_driver_api::types::*;

/// A function of the program's, and its datum.
#[derive(Clone, Copy, Debug)]
pub struct Called<F> {
    function: Option<F>,
    data: Address,
}

/// A host function.
pub type HostFunction = Called<unsafe extern "C" fn(*mut c_void)>;

/// A stream's callback.
pub type StreamFunction = Called<unsafe extern "C" fn(CUstream, CUresult, *mut c_void)>;

impl<F> Pass<Called<F>> for (Option<F>, *mut c_void) {
    unsafe fn pass(self) -> Called<F> {
        Called { function: self.0, data: Address(self.1.expose_provenance()) }
    }
}

impl<F> Called<F> {
    /// Whether there is nothing to call.
    pub fn is_none(&self) -> bool {
        self.function.is_none()
    }
}

impl Given<'_, CUDA_HOST_NODE_PARAMS> {
    /// The function that the node is to call.
    pub fn function(&self) -> HostFunction {
        // SAFETY: the structure is the program's own, which keeps the conditions with it.
        unsafe { (self.fn_, self.userData).pass() }
    }
}

impl Given<'_, CUDA_HOST_NODE_PARAMS_v2> {
    /// As in the first version.
    pub fn function(&self) -> HostFunction {
        // SAFETY: the structure is the program's own, which keeps the conditions with it.
        unsafe { (self.fn_, self.userData).pass() }
    }
}

impl HostFunction {
    /// Calls it.
    pub fn call(self) {
        if let Some(function) = self.function {
            // SAFETY: the program passed this function to be called with this datum.
            unsafe { function(self.data.pointer()) }
        }
    }

    /// Both as a node's parameters, for the program to read.
    pub fn params(self) -> CUDA_HOST_NODE_PARAMS {
        CUDA_HOST_NODE_PARAMS { fn_: self.function, userData: self.data.pointer() }
    }
}

impl StreamFunction {
    /// Calls it.
    pub fn call(self, stream: CUstream, status: CUresult) {
        if let Some(function) = self.function {
            // SAFETY: the program passed this function to be called with this datum.
            unsafe { function(stream, status, self.data.pointer()) }
        }
    }
}

/// A function that says how much dynamic shared memory a block needs.
#[derive(Clone, Copy, Debug)]
pub struct BlockFunction(CUoccupancyB2DSize);

impl Pass<BlockFunction> for CUoccupancyB2DSize {
    unsafe fn pass(self) -> BlockFunction {
        BlockFunction(self)
    }
}

impl BlockFunction {
    /// The bytes for a block of so many threads; none where the program has no such function.
    pub fn call(self, threads: i32) -> Option<usize> {
        // SAFETY: the program passed this function to be called with a block size.
        self.0.map(|function| unsafe { function(threads) })
    }
}
