//! Arrays and mipmapped arrays are made and destroyed; their sizes are computed in
//! [`crate::account::array`].

use core::ffi::c_uint;

use divvy_driver_api::types::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY3D_DESCRIPTOR,
    CUDA_ARRAY3D_DESCRIPTOR_v1, CUarray, CUmipmappedArray, CUresult,
};

use crate::account::array::{Shape, create_array};
use crate::account::context::here;
use crate::account::holdings::ARRAYS;
use crate::sys::driver::SUCCESS;
use crate::sys::{In, Out, driver, real};

/// Makes an array of one or two dimensions.
pub(crate) fn cuArrayCreate_v2(
    real: real::cuArrayCreate_v2,
    handle: Out<'_, CUarray>,
    desc: In<'_, CUDA_ARRAY_DESCRIPTOR>,
) -> CUresult {
    create_array(desc.get().map(Shape::from), handle, &|| real.call(handle, desc))
}

/// The 32-bit form.
pub(crate) fn cuArrayCreate(
    real: real::cuArrayCreate,
    handle: Out<'_, CUarray>,
    desc: In<'_, CUDA_ARRAY_DESCRIPTOR_v1>,
) -> CUresult {
    create_array(desc.get().map(Shape::from), handle, &|| real.call(handle, desc))
}

/// Makes an array of three dimensions, layers or cube faces.
pub(crate) fn cuArray3DCreate_v2(
    real: real::cuArray3DCreate_v2,
    handle: Out<'_, CUarray>,
    desc: In<'_, CUDA_ARRAY3D_DESCRIPTOR>,
) -> CUresult {
    create_array(desc.get().map(Shape::from), handle, &|| real.call(handle, desc))
}

/// The 32-bit form.
pub(crate) fn cuArray3DCreate(
    real: real::cuArray3DCreate,
    handle: Out<'_, CUarray>,
    desc: In<'_, CUDA_ARRAY3D_DESCRIPTOR_v1>,
) -> CUresult {
    create_array(desc.get().map(Shape::from), handle, &|| real.call(handle, desc))
}

/// Destroys an array.
pub(crate) fn cuArrayDestroy(real: real::cuArrayDestroy, array: CUarray) -> CUresult {
    ARRAYS.destroy(array.0.addr() as u64, || real.call(array))
}

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

/// Destroys a mipmapped array.
pub(crate) fn cuMipmappedArrayDestroy(
    real: real::cuMipmappedArrayDestroy,
    array: CUmipmappedArray,
) -> CUresult {
    ARRAYS.destroy(array.0.addr() as u64, || real.call(array))
}
