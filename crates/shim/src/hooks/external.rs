//! Memory of other interfaces (Vulkan, OpenGL, Direct3D): charged to the process that imports it, as imported.

use divvy_driver_api::types::{CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUexternalMemory, CUresult};

use crate::account::context::here;
use crate::account::holdings::EXTERNAL;
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Out, driver, real};

/// Imports memory of a stated size.
pub(crate) fn cuImportExternalMemory(
    real: real::cuImportExternalMemory,
    memory: Out<'_, CUexternalMemory>,
    desc: In<'_, CUDA_EXTERNAL_MEMORY_HANDLE_DESC>,
) -> CUresult {
    let bytes = desc.get().map_or(0, |desc| desc.size);
    let made = || match real.call(memory, desc) {
        SUCCESS => Ok(memory.get().map_or(0, |memory| memory.0.addr() as u64)),
        code => Err(code),
    };
    EXTERNAL.make(here(), bytes, made, || {
        if let Some(imported) = memory.get() {
            let _ = driver::external_destroy(imported);
        }
    })
}
