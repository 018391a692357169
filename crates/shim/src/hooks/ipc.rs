//! Legacy IPC: a block is exported by a 64-byte handle ([`crate::account::ipc`]). The other calls are rows of
//! `around.txt`.

use divvy_driver_api::types::{CUdeviceptr, CUipcMemHandle, CUresult};

use crate::account::ipc::exported;
use crate::residence::backed;
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, real};
use crate::tenant::reason::{self, Reason};

/// Exports a block.
pub(crate) fn cuIpcGetMemHandle(
    real: real::cuIpcGetMemHandle,
    handle: Out<'_, CUipcMemHandle>,
    dptr: CUdeviceptr,
) -> CUresult {
    // The driver exports no such memory, and what it says of that is right.
    if backed::block(dptr).is_some() {
        reason::tell(
            Reason::Unshared,
            format_args!(
                "cuIpcGetMemHandle: memory that may leave the card is not shared by handle"
            ),
        );
    }
    let result = real.call(handle, dptr);
    if let Some(handle) = handle.get().filter(|_| result == SUCCESS) {
        exported(&handle, dptr);
    }
    result
}
