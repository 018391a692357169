//! Answers to questions about a pointer: places for values whose type an attribute says.
//!
//! Promises: a value is written only where the attribute is one of those whose type is known here, as the driver documents
//! them, and the program gave a place.

use core::ffi::c_void;
use core::marker::PhantomData;

use divvy_driver_api::types::CUpointer_attribute;

use super::OutArray;

/// A place for the value of one attribute.
#[derive(Clone, Copy)]
pub(crate) struct OutAttribute<'a> {
    place: *mut c_void,
    attribute: CUpointer_attribute,
    call: PhantomData<&'a mut c_void>,
}

impl OutAttribute<'_> {
    /// # Safety
    /// 1. `place` is null, or valid for writes of a value of the type that the driver's documentation gives the attribute,
    ///    during the lifetime.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(
        place: *mut c_void,
        attribute: CUpointer_attribute,
    ) -> Self {
        Self { place, attribute, call: PhantomData }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *mut c_void {
        self.place
    }

    /// The attribute that is asked for.
    pub(crate) fn which(self) -> CUpointer_attribute {
        self.attribute
    }

    /// Writes a value, where the attribute is a pointer, a size or a number of 64 bits.
    pub(crate) fn set_word(self, value: u64) {
        let is_word = matches!(
            self.attribute,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT
                | CUpointer_attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID
                | CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
                | CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE
                | CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER
        );
        if is_word && !self.place.is_null() {
            // SAFETY: not null, and a place of eight bytes by the attribute (`from_raw`).
            unsafe { self.place.cast::<u64>().write_unaligned(value) };
        }
    }
}

impl OutAttribute<'_> {
    /// Writes whether it is so, where the attribute is a truth: over the one byte in which the driver has written 0 or 1, since
    /// programs give places of one byte and of four.
    pub(crate) fn set_truth(self, is_so: bool) {
        let is_truth = matches!(
            self.attribute,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED
                | CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        );
        if is_truth && !self.place.is_null() {
            // SAFETY: not null, and a place of one byte at least by the attribute (`from_raw`).
            unsafe { self.place.cast::<u8>().write(u8::from(is_so)) };
        }
    }
}

/// Places for the values of several attributes.
pub(crate) struct OutAttributes<'a> {
    places: OutArray<'a, *mut c_void>,
    attributes: OutArray<'a, CUpointer_attribute>,
}

impl<'a> OutAttributes<'a> {
    /// # Safety
    /// 1. Both are null, or arrays of `count` elements that are valid for reads during the lifetime.
    /// 2. Each place is as [`OutAttribute::from_raw`] wants it for the attribute of the same number.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(
        places: *mut *mut c_void,
        attributes: *mut CUpointer_attribute,
        count: usize,
    ) -> Self {
        // SAFETY: 1. by the first condition.
        let places = unsafe { OutArray::from_raw(places, count) };
        // SAFETY: 1. by the first condition.
        let attributes = unsafe { OutArray::from_raw(attributes, count) };
        Self { places, attributes }
    }

    #[inline(always)]
    pub(super) const fn raw(&self) -> *mut *mut c_void {
        self.places.raw()
    }

    /// Calls `each` with every place.
    pub(crate) fn for_each(&self, mut each: impl FnMut(OutAttribute<'a>)) {
        for index in 0..self.places.length() {
            if let (Some(place), Some(attribute)) =
                (self.places.get(index), self.attributes.get(index))
            {
                // SAFETY: 1. by the second condition of `from_raw`.
                each(unsafe { OutAttribute::from_raw(place, attribute) });
            }
        }
    }
}
