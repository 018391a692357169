//! Mipmapped arrays are made; their sizes are computed in [`crate::account::array`]. Other calls of arrays are rows of
//! `around.txt`.

use core::ffi::c_uint;

use divvy_driver_api::types::{CUDA_ARRAY3D_DESCRIPTOR, CUmipmappedArray, CUresult};

use crate::account::array::Shape;
use crate::account::context::here;
use crate::account::holdings::ARRAYS;
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Out, driver, real};

/// Makes a mipmapped array.
pub(crate) fn cuMipmappedArrayCreate(
    real: real::cuMipmappedArrayCreate,
    handle: Out<'_, CUmipmappedArray>,
    desc: In<'_, CUDA_ARRAY3D_DESCRIPTOR>,
    levels: c_uint,
) -> CUresult {
    let shape = desc.get().map(Shape::from).filter(|shape| !shape.takes_nothing());
    let bytes = shape.map_or(0, |shape| shape.mipmap_bytes(levels));
    let made = || match real.call(handle, desc, levels) {
        SUCCESS => Ok(handle.get().map_or(0, |array| array.0.addr() as u64)),
        code => Err(code),
    };
    ARRAYS.make(here(), bytes, made, || {
        if let Some(array) = handle.get() {
            let _ = driver::mipmap_destroy(array);
        }
    })
}
