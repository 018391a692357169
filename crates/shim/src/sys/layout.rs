//! Structures with unions and arrays in them, read as their tags say.
//!
//! Promises: the part of a union that is read has been initialised, since the program or the driver wrote the whole of
//! it; an array in a program's structure is as long as the structure says when the call begins, whatever is written
//! there later.

use core::ffi::c_uint;
use core::mem::offset_of;

use divvy_driver_api::nvml_types::{
    nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessUtilizationInfo_v1_t,
    nvmlProcessesUtilizationInfo_v1_t,
};
use divvy_driver_api::types::*;

use super::pointer::{In, Out, OutArray};

/// A structure that names a place for memory.
///
/// # Safety
/// 1. At [`Located::LOCATION_AT`] of it lies a [`CUmemLocation`].
pub(crate) unsafe trait Located: Copy {
    /// Offset of the place's name.
    const LOCATION_AT: usize;
}

// SAFETY: 1. the member's offset.
unsafe impl Located for CUmemAllocationProp {
    const LOCATION_AT: usize = offset_of!(Self, location);
}

// SAFETY: 1. the member's offset.
unsafe impl Located for CUmemPoolProps {
    const LOCATION_AT: usize = offset_of!(Self, location);
}

/// The device that a program's structure names, if there is one and it names one.
#[inline(always)]
pub(crate) fn device_of<T: Located>(place: In<'_, T>) -> Option<CUdevice> {
    // SAFETY: 1. by `Located`.
    let location = unsafe { place.field::<CUmemLocation>(T::LOCATION_AT) }.get()?;
    // SAFETY: 1. read from the program's memory.
    unsafe { device_at(&location) }
}

/// The device that a memory location names, if it names one.
///
/// # Safety
/// 1. All bytes of the location are initialised, also those of its union that the member which was written has not:
///    it was read from memory of the program's, or was zeroed before the driver wrote it.
pub(super) unsafe fn device_at(location: &CUmemLocation) -> Option<CUdevice> {
    if location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN {
        // SAFETY: every bit pattern is a value of its two numbers, which are initialised.
        return Some(CUdevice::from(unsafe { location.__bindgen_anon_1.localized }.deviceId));
    }
    if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
        return None;
    }
    // SAFETY: every bit pattern is an `int`, which is initialised.
    Some(unsafe { location.__bindgen_anon_1.id })
}

/// The memory handle that a sparse mapping names.
pub(crate) fn sparse_handle(map: &CUarrayMapInfo) -> CUmemGenericAllocationHandle {
    // SAFETY: a union of one member, a number, without which there is no such union.
    unsafe { map.memHandle.memHandle }
}

/// The flags of a program's request to make a graph executable.
pub(crate) fn flags(request: Out<'_, CUDA_GRAPH_INSTANTIATE_PARAMS>) -> Out<'_, cuuint64_t> {
    // SAFETY: 1. the member's offset and type. 2. Flags alone say nothing of the others.
    unsafe { request.field(offset_of!(CUDA_GRAPH_INSTANTIATE_PARAMS, flags)) }
}

/// A structure that says its version, where an array lies, and how many elements that has.
///
/// # Safety
/// 1. At [`Listed::VERSION_AT`] and [`Listed::COUNT_AT`] of it lie the version and the count, each a [`c_uint`].
/// 2. At [`Listed::ARRAY_AT`] lies a pointer to the array.
pub(crate) unsafe trait Listed: Copy {
    /// Elements of the array.
    type Element: Copy;
    /// Offset of the version.
    const VERSION_AT: usize;
    /// Offset of the count.
    const COUNT_AT: usize;
    /// Offset of the array's address.
    const ARRAY_AT: usize;
}

// SAFETY: 1. and 2. the members' offsets.
unsafe impl Listed for nvmlProcessDetailList_v1_t {
    type Element = nvmlProcessDetail_v1_t;
    const VERSION_AT: usize = offset_of!(Self, version);
    const COUNT_AT: usize = offset_of!(Self, numProcArrayEntries);
    const ARRAY_AT: usize = offset_of!(Self, procArray);
}

// SAFETY: 1. and 2. the members' offsets.
unsafe impl Listed for nvmlProcessesUtilizationInfo_v1_t {
    type Element = nvmlProcessUtilizationInfo_v1_t;
    const VERSION_AT: usize = offset_of!(Self, version);
    const COUNT_AT: usize = offset_of!(Self, processSamplesCount);
    const ARRAY_AT: usize = offset_of!(Self, procUtilArray);
}

/// A program's structure with an array in it, possibly null.
pub(crate) struct List<'a, T: Listed> {
    list: Out<'a, T>,
    /// As it was when the call began; none where the structure is null or of another version than the first.
    elements: Option<OutArray<'a, T::Element>>,
}

impl<'a, T: Listed> List<'a, T> {
    /// # Safety
    /// 1. `pointer` is as [`Out::from_raw`] wants it.
    /// 2. A list of the first version there has an array of as many elements as it says: null, or valid for reads and
    ///    writes of them during `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw(pointer: *mut T) -> Self {
        // SAFETY: 1. and 2. by the first condition.
        let list = unsafe { Out::from_raw(pointer) };
        let version_1 = size_of::<T>() as c_uint | 1 << 24;
        // SAFETY: 1. by `Listed`. 2. Nothing is written.
        let version = unsafe { list.field::<c_uint>(T::VERSION_AT) }.get();
        // SAFETY: as above.
        let array = unsafe { list.field::<*mut T::Element>(T::ARRAY_AT) };
        // SAFETY: as above.
        let count = unsafe { list.field::<c_uint>(T::COUNT_AT) };
        let elements = (version == Some(version_1)).then(|| {
            let pointer = array.get().unwrap_or(core::ptr::null_mut());
            // SAFETY: 1. null or a word of the list. 2. By the second condition.
            unsafe { OutArray::counted(pointer, count.raw()) }
        });
        Self { list, elements }
    }

    #[inline(always)]
    pub(super) const fn raw(&self) -> *mut T {
        self.list.raw()
    }

    /// The structure as it stands; none where the program passed null.
    #[inline(always)]
    pub(crate) fn head(&self) -> Option<T> {
        self.list.get()
    }

    /// The array, where the structure is of the first version.
    #[inline(always)]
    pub(crate) fn elements(&self) -> Option<OutArray<'a, T::Element>> {
        self.elements
    }

    /// Writes how many elements there are, which may be more than there is room for.
    #[inline(always)]
    pub(crate) fn set_count(&self, count: c_uint) {
        // SAFETY: 1. by `Listed`. 2. The array's length was taken when the call began.
        unsafe { self.list.field::<c_uint>(T::COUNT_AT) }.set(count);
    }
}
