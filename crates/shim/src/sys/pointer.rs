//! The program's pointers, as hooks may use them.
//!
//! A program promises the driver that each pointer is null or valid for the call. These types carry
//! that promise from the exported function to the driver: they can be read and written where they
//! are not null, and are made only from the program's arguments or from references. Reads and writes
//! are unaligned: old callers pass whatever compiled. Types of the driver are numbers, pointers and unions of them, so
//! that each pattern of bits there is a value.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::marker::PhantomData;

use divvy_driver_api::nvml_types::{
    nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessDetail_v1_t, nvmlProcessInfo_v1_t,
    nvmlProcessInfo_v2_t, nvmlProcessUtilizationInfo_v1_t, nvmlProcessUtilizationSample_t,
};
use divvy_driver_api::types::{CUdriverProcAddressQueryResult, CUipcMemHandle, cuuint64_t};

use super::offsets;

/// A type of values that lead nowhere, which a hook may write to the program's places: to write one that leads
/// somewhere would take back what [`Out::from_raw`] was promised of it.
///
/// # Safety
/// 1. A value of this type holds no pointer and no handle.
pub(crate) unsafe trait Settable: Copy {}

macro_rules! settable {
    ($($type:ty)*) => {$(
        // SAFETY: 1. numbers alone.
        unsafe impl Settable for $type {}
    )*};
}
settable! {
    c_uint usize cuuint64_t CUdriverProcAddressQueryResult CUipcMemHandle
    nvmlMemory_t nvmlMemory_v2_t nvmlProcessInfo_v1_t nvmlProcessInfo_v2_t nvmlProcessDetail_v1_t
    nvmlProcessUtilizationSample_t nvmlProcessUtilizationInfo_v1_t
}

/// Where the program wants an answer: a `T *`, possibly null.
#[derive(Debug)]
pub(crate) struct Out<'a, T> {
    pointer: *mut T,
    call: PhantomData<&'a mut T>,
}

impl<T> Clone for Out<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<'_, T> {}

impl<'a, T: Copy> Out<'a, T> {
    /// # Safety
    /// 1. `pointer` is null, or valid for reads and writes of one `T` during `'a`.
    /// 2. What that `T` points to itself is valid as the entry point that takes it demands.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(pointer: *mut T) -> Self {
        Self { pointer, call: PhantomData }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *mut T {
        self.pointer
    }

    /// Whether the program passed null.
    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// The value there now.
    #[inline(always)]
    pub(crate) fn get(self) -> Option<T> {
        if self.pointer.is_null() {
            return None;
        }
        // SAFETY: not null, so valid by the promise of `from_raw` or made from a reference.
        Some(unsafe { self.pointer.read_unaligned() })
    }

    /// Writes `value`; false where the program passed null.
    #[inline(always)]
    pub(crate) fn set(self, value: T) -> bool
    where
        T: Settable,
    {
        if self.pointer.is_null() {
            return false;
        }
        // SAFETY: not null, so valid by the promise of `from_raw` or made from a reference.
        unsafe { self.pointer.write_unaligned(value) };
        true
    }

    /// The place of a part of the structure there; null where the program passed null.
    ///
    /// # Safety
    /// 1. At `offset` of a `T` lies an `F`.
    /// 2. What is written there changes nothing that a pointer of the structure was promised to lead to.
    #[inline(always)]
    pub(super) unsafe fn field<F>(self, offset: usize) -> Out<'a, F> {
        let pointer = match self.pointer.is_null() {
            true => core::ptr::null_mut(),
            // SAFETY: not null, so the place of a `T`, and by the first condition within it.
            false => unsafe { self.pointer.byte_add(offset) }.cast(),
        };
        Out { pointer, call: PhantomData }
    }
}

impl<'a> Out<'a, usize> {
    /// A place of ours. For numbers alone: what a structure of ours points to has no promise of the program's.
    #[inline(always)]
    pub(crate) const fn to(place: &'a mut usize) -> Self {
        Self { pointer: place, call: PhantomData }
    }
}

/// Where the program wants several answers: an array, possibly null, as long as the call itself says.
#[derive(Debug)]
pub(crate) struct OutArray<'a, T> {
    pointer: *mut T,
    /// 0 where the program passed null.
    count: usize,
    call: PhantomData<&'a mut T>,
}

impl<T> Clone for OutArray<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for OutArray<'_, T> {}

impl<T: Copy> OutArray<'_, T> {
    /// # Safety
    /// 1. `pointer` is null, or valid for reads and writes of `count` elements during the lifetime.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(pointer: *mut T, count: usize) -> Self {
        let count = if pointer.is_null() { 0 } else { count };
        Self { pointer, count, call: PhantomData }
    }

    /// With as many elements as stand at `count` now.
    ///
    /// # Safety
    /// 1. `count` is null or valid for a read.
    /// 2. `pointer` is null, or valid for reads and writes of so many elements during the lifetime; if `count` is null, of
    ///    none.
    #[inline(always)]
    pub(super) unsafe fn counted(pointer: *mut T, count: *const c_uint) -> Self {
        let count = if count.is_null() {
            0
        } else {
            // SAFETY: not null, so valid by the first condition.
            unsafe { count.read_unaligned() }
        };
        // SAFETY: by the second condition.
        unsafe { Self::from_raw(pointer, count as usize) }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *mut T {
        self.pointer
    }

    /// Whether the program passed null.
    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// How many elements there are: none where the program passed null.
    #[inline(always)]
    pub(crate) fn length(self) -> usize {
        self.count
    }

    /// Element `index`, if there are so many.
    #[inline(always)]
    pub(crate) fn get(self, index: usize) -> Option<T> {
        if index >= self.count {
            return None;
        }
        // SAFETY: one of the elements that `from_raw` or `counted` was promised.
        Some(unsafe { self.pointer.wrapping_add(index).read_unaligned() })
    }

    /// Writes element `index`; false where there are not so many.
    #[inline(always)]
    pub(crate) fn set(self, index: usize, value: T) -> bool
    where
        T: Settable,
    {
        if index >= self.count {
            return false;
        }
        // SAFETY: one of the elements that `from_raw` or `counted` was promised.
        unsafe { self.pointer.wrapping_add(index).write_unaligned(value) };
        true
    }
}

/// Where the program wants a handle for other processes, possibly null: of a kind that the call says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutHandle<'a> {
    pointer: *mut c_void,
    is_descriptor: bool,
    call: PhantomData<&'a mut c_int>,
}

impl OutHandle<'_> {
    /// # Safety
    /// 1. `pointer` is null, or, if `is_descriptor`, valid for reads of an `int` during the lifetime.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(pointer: *mut c_void, is_descriptor: bool) -> Self {
        Self { pointer, is_descriptor, call: PhantomData }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *mut c_void {
        self.pointer
    }

    /// The descriptor there, if that is what the program wants.
    pub(crate) fn descriptor(self) -> Option<c_int> {
        if self.pointer.is_null() || !self.is_descriptor {
            return None;
        }
        // SAFETY: not null and a descriptor's place, so valid by the promise of `from_raw`.
        Some(unsafe { self.pointer.cast::<c_int>().read_unaligned() })
    }
}

/// Where the program wants the address of a function that it asked for by name, possibly null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutFunction<'a> {
    pointer: *mut *mut c_void,
    call: PhantomData<&'a mut *mut c_void>,
}

impl OutFunction<'_> {
    /// # Safety
    /// 1. `pointer` is null, or valid for reads and writes of a pointer during the lifetime.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(pointer: *mut *mut c_void) -> Self {
        Self { pointer, call: PhantomData }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *mut *mut c_void {
        self.pointer
    }

    /// The address there now; 0 where there is none, or the program passed null.
    pub(crate) fn address(self) -> usize {
        if self.pointer.is_null() {
            return 0;
        }
        // SAFETY: not null, so valid by the promise of `from_raw`.
        unsafe { self.pointer.read_unaligned() }.addr()
    }

    /// Puts the hook there that stands for the driver's function there, of this `name` where several share an address.
    /// True where the function is known: one that has no hook stays, as does a hook.
    pub(crate) fn put_hook(self, name: &[u8]) -> bool {
        let address = self.address();
        let Some(hook) = offsets::instead_of(address, name) else { return offsets::has(address) };
        if let Some(hook) = hook {
            self.set(hook);
        }
        true
    }

    /// Takes the address back.
    pub(crate) fn clear(self) {
        self.set(0);
    }

    fn set(self, address: usize) {
        if !self.pointer.is_null() {
            let function = core::ptr::with_exposed_provenance_mut(address);
            // SAFETY: not null, so valid by the promise of `from_raw`.
            unsafe { self.pointer.write_unaligned(function) };
        }
    }
}

/// An input of the program: a `const T *`, possibly null.
#[derive(Debug)]
pub(crate) struct In<'a, T> {
    pointer: *const T,
    call: PhantomData<&'a T>,
}

impl<T> Clone for In<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<'_, T> {}

impl<'a, T: Copy> In<'a, T> {
    /// # Safety
    /// 1. `pointer` is null, or valid for reads of one `T` during `'a`.
    /// 2. A `const char *` is null or a text that a NUL ends, as all of the driver's are.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(pointer: *const T) -> Self {
        Self { pointer, call: PhantomData }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *const T {
        self.pointer
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn get(self) -> Option<T> {
        if self.pointer.is_null() {
            return None;
        }
        // SAFETY: not null, so valid by the promise of `from_raw`.
        Some(unsafe { self.pointer.read_unaligned() })
    }

    /// The place of a part of the structure there; null where the program passed null.
    ///
    /// # Safety
    /// 1. At `offset` of a `T` lies an `F`.
    #[inline(always)]
    pub(super) unsafe fn field<F>(self, offset: usize) -> In<'a, F> {
        let pointer = match self.pointer.is_null() {
            true => core::ptr::null(),
            // SAFETY: not null, so the place of a `T`, and by the first condition within it.
            false => unsafe { self.pointer.byte_add(offset) }.cast(),
        };
        In { pointer, call: PhantomData }
    }
}

impl In<'_, c_char> {
    /// Copies a string, cut to the room there is, and returns it without its NUL.
    pub(crate) fn copy_text(self, into: &mut [u8]) -> &[u8] {
        let mut length = 0;
        if self.pointer.is_null() {
            return &[];
        }
        for place in into.iter_mut() {
            // SAFETY: a byte of the text or its NUL (`from_raw`): all before it are none.
            match unsafe { self.pointer.wrapping_add(length).read() } {
                0 => break,
                byte => *place = byte.to_ne_bytes()[0],
            }
            length += 1;
        }
        into.get(..length).unwrap_or(&[])
    }
}

/// A `void *` of the program's: an address that only the driver follows, during the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opaque<'a> {
    pointer: *mut c_void,
    call: PhantomData<&'a mut c_void>,
}

impl Opaque<'_> {
    /// # Safety
    /// 1. `pointer` is what the program passed, in the call that lasts for the lifetime.
    #[inline(always)]
    pub(super) const unsafe fn from_raw(pointer: *mut c_void) -> Self {
        Self { pointer, call: PhantomData }
    }

    #[inline(always)]
    pub(super) const fn raw(self) -> *mut c_void {
        self.pointer
    }

    /// The address as a number.
    pub(crate) fn address(self) -> usize {
        self.pointer.addr()
    }
}
