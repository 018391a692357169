//! Arrays and mipmapped arrays: charged by a computed size, since the driver tells it only for
//! arrays that are mapped later, which take nothing themselves.
//!
//! The layout is block-linear (measured): rows of 64 bytes, in blocks of a power of two of 8 rows up
//! to 128, and of a power of two of slices up to 16. Arrays of up to 1 MiB share granules, so a
//! context's small ones are charged by the whole granules of their sum.

use core::ffi::c_uint;

use divvy_driver_api::types::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY3D_DESCRIPTOR,
    CUDA_ARRAY3D_DESCRIPTOR_v1, CUarray, CUarray_format, CUmipmappedArray, CUresult,
};

use super::context::here;
use super::holdings::ARRAYS;
use crate::sys::Out;

const LAYERED: c_uint = 1;

const CUBEMAP: c_uint = 4;

/// Memory comes later, by `cuMemMapArrayAsync` or by mapping.
const SPARSE: c_uint = 0x40;

const DEFERRED: c_uint = 0x80;

/// Request for an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    width: u64,
    height: u64,
    depth: u64,
    element_bytes: u64,
    flags: c_uint,
}

/// Bytes of one channel, or of a whole element of a packed format.
fn format_bytes(format: CUarray_format, channels: c_uint) -> u64 {
    let channels = u64::from(channels.max(1));
    match format {
        CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8 | CUarray_format::CU_AD_FORMAT_SIGNED_INT8 => {
            channels
        }
        CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16
        | CUarray_format::CU_AD_FORMAT_SIGNED_INT16
        | CUarray_format::CU_AD_FORMAT_HALF => channels.saturating_mul(2),
        CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32
        | CUarray_format::CU_AD_FORMAT_SIGNED_INT32
        | CUarray_format::CU_AD_FORMAT_FLOAT => channels.saturating_mul(4),
        // Normalised and block-compressed formats take at most 16 bytes an element, planar ones at
        // most 8.
        _ => 8_u64.max(channels.saturating_mul(2)).min(16),
    }
}

impl Shape {
    /// Whether its memory comes later, by another call.
    fn takes_nothing(self) -> bool {
        self.flags & (SPARSE | DEFERRED) != 0
    }

    fn is_layered(self) -> bool {
        self.flags & (LAYERED | CUBEMAP) != 0
    }

    /// Bytes in block-linear layout.
    fn bytes(self) -> u64 {
        let block = |count: u64, unit: u64, most: u64| {
            let count = count.max(1);
            if count >= most {
                return count.checked_next_multiple_of(most).unwrap_or(u64::MAX);
            }
            count.checked_next_power_of_two().unwrap_or(most).max(unit)
        };
        let row_bytes = self.width.max(1).saturating_mul(self.element_bytes);
        let row_bytes = row_bytes.checked_next_multiple_of(64).unwrap_or(u64::MAX);
        let rows = block(self.height, 8, 128);
        let depth = match self.is_layered() {
            true => self.depth.max(1),
            false => block(self.depth, 1, 16),
        };
        row_bytes.saturating_mul(rows).saturating_mul(depth)
    }

    /// The next smaller level of a mipmap.
    fn half(self) -> Self {
        Self {
            width: (self.width / 2).max(1),
            height: (self.height / 2).max(1),
            depth: if self.is_layered() { self.depth } else { (self.depth / 2).max(1) },
            ..self
        }
    }

    /// Bytes of a mipmap of so many levels.
    fn mipmap_bytes(self, levels: c_uint) -> u64 {
        let mut shape = self;
        let mut sum = 0_u64;
        for _ in 0..levels.min(32) {
            sum = sum.saturating_add(shape.bytes());
            shape = shape.half();
        }
        sum
    }
}

impl From<CUDA_ARRAY_DESCRIPTOR> for Shape {
    fn from(desc: CUDA_ARRAY_DESCRIPTOR) -> Self {
        Self {
            width: desc.Width as u64,
            height: desc.Height as u64,
            depth: 0,
            element_bytes: format_bytes(desc.Format, desc.NumChannels),
            flags: 0,
        }
    }
}

impl From<CUDA_ARRAY_DESCRIPTOR_v1> for Shape {
    fn from(desc: CUDA_ARRAY_DESCRIPTOR_v1) -> Self {
        Self {
            width: u64::from(desc.Width),
            height: u64::from(desc.Height),
            depth: 0,
            element_bytes: format_bytes(desc.Format, desc.NumChannels),
            flags: 0,
        }
    }
}

impl From<CUDA_ARRAY3D_DESCRIPTOR> for Shape {
    fn from(desc: CUDA_ARRAY3D_DESCRIPTOR) -> Self {
        Self {
            width: desc.Width as u64,
            height: desc.Height as u64,
            depth: desc.Depth as u64,
            element_bytes: format_bytes(desc.Format, desc.NumChannels),
            flags: desc.Flags,
        }
    }
}

impl From<CUDA_ARRAY3D_DESCRIPTOR_v1> for Shape {
    fn from(desc: CUDA_ARRAY3D_DESCRIPTOR_v1) -> Self {
        Self {
            width: u64::from(desc.Width),
            height: u64::from(desc.Height),
            depth: u64::from(desc.Depth),
            element_bytes: format_bytes(desc.Format, desc.NumChannels),
            flags: desc.Flags,
        }
    }
}

/// Makes an array of the shape asked for: `call` asks the driver.
#[inline(never)]
pub(crate) fn create_array(
    shape: Option<Shape>,
    handle: Out<'_, CUarray>,
    call: &dyn Fn() -> CUresult,
) -> CUresult {
    let bytes = shape.filter(|shape| !shape.takes_nothing()).map_or(0, Shape::bytes);
    ARRAYS.make(here(), bytes, handle, call)
}

/// Makes a mipmapped array: `call` asks the driver.
pub(crate) fn create_mipmap(
    shape: Option<Shape>,
    levels: c_uint,
    handle: Out<'_, CUmipmappedArray>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let shape = shape.filter(|shape| !shape.takes_nothing());
    let bytes = shape.map_or(0, |shape| shape.mipmap_bytes(levels));
    ARRAYS.make(here(), bytes, handle, call)
}
