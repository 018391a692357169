//! Legacy IPC: memory and events shared between processes by a 64-byte handle; how such memory is
//! charged is [`crate::account::ipc`]'s.

use core::ffi::c_uint;

use divvy_driver_api::types::{CUdeviceptr, CUevent, CUipcEventHandle, CUipcMemHandle, CUresult};

use crate::account::ipc::{close, exported, join, open};
use crate::gate::submit::shared_event;
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, real};

/// Exports a block.
pub(crate) fn cuIpcGetMemHandle(
    real: real::cuIpcGetMemHandle,
    handle: Out<'_, CUipcMemHandle>,
    dptr: CUdeviceptr,
) -> CUresult {
    let result = real.call(handle, dptr);
    if let Some(handle) = handle.get().filter(|_| result == SUCCESS) {
        exported(&handle, dptr);
    }
    result
}

/// Exports an event.
pub(crate) fn cuIpcGetEventHandle(
    real: real::cuIpcGetEventHandle,
    handle: Out<'_, CUipcEventHandle>,
    event: CUevent,
) -> CUresult {
    join();
    shared_event();
    real.call(handle, event)
}

/// Opens another process's event.
pub(crate) fn cuIpcOpenEventHandle(
    real: real::cuIpcOpenEventHandle,
    event: Out<'_, CUevent>,
    handle: CUipcEventHandle,
) -> CUresult {
    join();
    shared_event();
    real.call(event, handle)
}

/// Opens another process's block.
pub(crate) fn cuIpcOpenMemHandle_v2(
    real: real::cuIpcOpenMemHandle_v2,
    dptr: Out<'_, CUdeviceptr>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> CUresult {
    open(&handle, dptr, || real.call(dptr, handle, flags))
}

/// The first form.
pub(crate) fn cuIpcOpenMemHandle(
    real: real::cuIpcOpenMemHandle,
    dptr: Out<'_, CUdeviceptr>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> CUresult {
    open(&handle, dptr, || real.call(dptr, handle, flags))
}

/// Closes another process's block; the last close of it lets go. The entry is taken out before the
/// driver is called, which may give the address out anew at once.
pub(crate) fn cuIpcCloseMemHandle(real: real::cuIpcCloseMemHandle, dptr: CUdeviceptr) -> CUresult {
    close(dptr, || real.call(dptr))
}
