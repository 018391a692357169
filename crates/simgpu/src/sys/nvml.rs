//! Structures of NVML whose pointers, or whose size, their type does not tell.
//!
//! Promises: as [`super::driver`] and [`super::driver_given`], for the other library.
#![allow(unsafe_code, reason = "follows pointers in structures of C")]

use super::driver::{Out, OutArray, Pass};
use super::driver_given::Given;
use core::ffi::{c_char, c_uint};
use divvy_driver_api::nvml_types::*;

/// Versions 1 and 2 of [`nvmlPciInfo_t`]: they have no long bus number, and four reserved words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OldPciInfo {
    bus_id: [c_char; 16],
    numbers: [c_uint; 5],
    reserved: [c_uint; 4],
}

impl OldPciInfo {
    /// A device as these versions describe it.
    pub fn of(info: &nvmlPciInfo_t) -> Self {
        Self {
            bus_id: info.busIdLegacy,
            numbers: [info.domain, info.bus, info.device, info.pciDeviceId, info.pciSubSystemId],
            reserved: [0; 4],
        }
    }
}

impl<'a> Pass<Out<'a, OldPciInfo>> for *mut nvmlPciInfo_t {
    unsafe fn pass(self) -> Out<'a, OldPciInfo> {
        // SAFETY: this function's own conditions: calls of these versions have room for them alone.
        unsafe { self.cast::<OldPciInfo>().pass() }
    }
}

impl<'a> Given<'a, nvmlProcessDetailList_t> {
    /// The rows there is room for.
    pub fn rows(&self) -> OutArray<'a, nvmlProcessDetail_v1_t> {
        // SAFETY: the structure is the program's own, which keeps the conditions with it.
        unsafe { (self.procArray, self.numProcArrayEntries).pass() }
    }
}

impl<'a> Given<'a, nvmlProcessesUtilizationInfo_t> {
    /// The rows there is room for.
    pub fn rows(&self) -> OutArray<'a, nvmlProcessUtilizationInfo_v1_t> {
        // SAFETY: the structure is the program's own, which keeps the conditions with it.
        unsafe { (self.procUtilArray, self.processSamplesCount).pass() }
    }
}
