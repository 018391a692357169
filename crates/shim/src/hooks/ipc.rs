//! Legacy IPC: a block is exported by a 64-byte handle ([`crate::account::ipc`]). The other calls are rows of
//! `around.txt`.

use divvy_driver_api::types::{CUdeviceptr, CUipcMemHandle, CUresult};

use crate::account::ipc;
use crate::residence::backed;
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, real};

/// Exports a block.
pub(crate) fn cuIpcGetMemHandle(
    real: real::cuIpcGetMemHandle,
    handle: Out<'_, CUipcMemHandle>,
    dptr: CUdeviceptr,
) -> CUresult {
    // The driver exports no such memory.
    if backed::is_ours(dptr) {
        return ipc::pass(handle, dptr);
    }
    let result = real.call(handle, dptr);
    if let Some(handle) = handle.get().filter(|_| result == SUCCESS) {
        ipc::exported(&handle, dptr);
    }
    result
}
