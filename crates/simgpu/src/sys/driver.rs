//! The border between C callers and the safe driver: out-pointers, in-pointers, text and handles.
//!
//! Promises: only [`Pass::pass`], which the exported functions call, makes a pointer that can be
//! followed, and the type that it makes goes no further than the call: it has the call's lifetime, and
//! an array its length. A null pointer becomes `CUDA_ERROR_INVALID_VALUE` (or nothing, where the call
//! allows null), and every read and write is unaligned, so a caller's odd buffer cannot break us.
//! Does not check that a non-null pointer is mapped: neither does the driver.
//!
//! Structures with pointers in them are in [`super::driver_given`], pointers to what another argument
//! describes in [`super::driver_untyped`], and the program's functions in [`super::driver_functions`].
#![allow(unsafe_code, reason = "reads and writes through pointers that C callers pass")]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::marker::PhantomData;
use divvy_driver_api::nvml_types::{
    nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessInfo_t,
};
use divvy_driver_api::types::*;

/// Answer of every driver call inside the simulator.
pub type Answer<T = ()> = Result<T, CUresult>;

const INVALID_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// How an argument of an exported function reaches its safe implementation, or several that belong
/// together: an array and its count.
pub trait Pass<To> {
    /// Wraps the argument.
    ///
    /// # Safety
    /// 1. `To` is what the driver's documentation says of this argument and of those passed with it.
    /// 2. A pointer is null or leads to what that documentation says the call reads and writes: one
    ///    value, as many as the count says, or a text that ends with NUL.
    /// 3. It does so during the lifetime of `To`; a function of the program's with its datum can be
    ///    called when and as often as that documentation says.
    /// 4. Structures that it leads to keep 2 and 3 with the pointers in them, and have no byte that was
    ///    never written.
    unsafe fn pass(self) -> To;
}

impl<T> Pass<T> for T {
    unsafe fn pass(self) -> T {
        self
    }
}

/// A pointer through which a call answers one value.
#[derive(Debug)]
pub struct Out<'a, T> {
    pointer: *mut T,
    call: PhantomData<&'a mut T>,
}

/// A pointer from which a call reads one value.
#[derive(Debug)]
pub struct In<'a, T> {
    pointer: *const T,
    call: PhantomData<&'a T>,
}

/// An array that a call answers, with the length that the call itself says.
#[derive(Debug)]
pub struct OutArray<'a, T> {
    pointer: *mut T,
    length: usize,
    call: PhantomData<&'a mut T>,
}

/// An array that a call reads, with the length that the call itself says.
#[derive(Debug)]
pub struct InArray<'a, T> {
    pointer: *const T,
    length: usize,
    call: PhantomData<&'a T>,
}

/// A NUL-terminated string of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pointer: *const c_char,
    call: PhantomData<&'a c_char>,
}

/// An address in the caller's process: a number, behind which nothing can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(pub usize);

macro_rules! copied {
    ($($pointer:ident)*) => {$(
        impl<T> Clone for $pointer<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $pointer<'_, T> {}
    )*};
}
copied! { Out In OutArray InArray }

impl<'a, T> Pass<Out<'a, T>> for *mut T {
    unsafe fn pass(self) -> Out<'a, T> {
        Out { pointer: self, call: PhantomData }
    }
}
impl<'a, T> Pass<In<'a, T>> for *const T {
    unsafe fn pass(self) -> In<'a, T> {
        In { pointer: self, call: PhantomData }
    }
}
impl<'a, T> Pass<In<'a, T>> for *mut T {
    unsafe fn pass(self) -> In<'a, T> {
        In { pointer: self, call: PhantomData }
    }
}
impl<'a> Pass<Text<'a>> for *const c_char {
    unsafe fn pass(self) -> Text<'a> {
        Text { pointer: self, call: PhantomData }
    }
}
impl Pass<Address> for *mut c_void {
    unsafe fn pass(self) -> Address {
        Address(self.expose_provenance())
    }
}
impl Pass<Address> for *const c_void {
    unsafe fn pass(self) -> Address {
        Address(self.expose_provenance())
    }
}

/// The length of an array, as a call says it.
pub trait Length {
    /// The number of elements.
    ///
    /// # Safety
    /// 1. A pointer is null or leads to the number.
    unsafe fn length(self) -> usize;
}

impl Length for usize {
    unsafe fn length(self) -> usize {
        self
    }
}
impl Length for c_uint {
    unsafe fn length(self) -> usize {
        self as usize
    }
}
impl Length for c_int {
    unsafe fn length(self) -> usize {
        usize::try_from(self).unwrap_or(0)
    }
}
impl<N: Length> Length for *mut N {
    unsafe fn length(self) -> usize {
        if self.is_null() {
            return 0;
        }
        // SAFETY: not null, so it leads to a number (this function's condition).
        let number = unsafe { self.read_unaligned() };
        // SAFETY: as above, for a number that is itself behind a pointer.
        unsafe { number.length() }
    }
}

impl<'a, T, N: Length> Pass<OutArray<'a, T>> for (*mut T, N) {
    unsafe fn pass(self) -> OutArray<'a, T> {
        // SAFETY: the second condition.
        let length = unsafe { self.1.length() };
        OutArray { pointer: self.0, length, call: PhantomData }
    }
}
impl<'a, T, N: Length> Pass<InArray<'a, T>> for (*const T, N) {
    unsafe fn pass(self) -> InArray<'a, T> {
        // SAFETY: the second condition.
        let length = unsafe { self.1.length() };
        InArray { pointer: self.0, length, call: PhantomData }
    }
}
impl<'a, T, N: Length> Pass<InArray<'a, T>> for (*mut T, N) {
    unsafe fn pass(self) -> InArray<'a, T> {
        // SAFETY: this function's own conditions.
        unsafe { (self.0.cast_const(), self.1).pass() }
    }
}
impl<'a, N: Length> Pass<InArray<'a, u8>> for (*mut c_void, N) {
    unsafe fn pass(self) -> InArray<'a, u8> {
        // SAFETY: this function's own conditions; bytes are what lies at an untyped pointer.
        unsafe { (self.0.cast::<u8>().cast_const(), self.1).pass() }
    }
}

// A call that is not simulated looks at no argument.
impl<T, N> Pass<*mut T> for (*mut T, N) {
    unsafe fn pass(self) -> *mut T {
        self.0
    }
}
impl<T, N> Pass<*const T> for (*const T, N) {
    unsafe fn pass(self) -> *const T {
        self.0
    }
}

impl<T> Out<'_, T> {
    /// No answer wanted.
    pub fn null() -> Self {
        Self { pointer: core::ptr::null_mut(), call: PhantomData }
    }

    /// Whether the caller asked for no answer here.
    pub fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// Refuses a null pointer before anything happened.
    pub fn check(self) -> Answer {
        if self.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
    }

    /// Writes the answer; null is an invalid value.
    pub fn put(self, value: T) -> Answer {
        self.check()?;
        self.offer(value);
        Ok(())
    }

    /// Writes the answer if the caller wants one.
    pub fn offer(self, value: T) {
        if !self.is_null() {
            // SAFETY: not null, so it leads to one value during the lifetime (`Pass::pass`).
            unsafe { self.pointer.write_unaligned(value) }
        }
    }
}

impl<'a, T: Copy> Out<'a, T> {
    /// The same place, to read what the caller left there.
    pub fn input(self) -> In<'a, T> {
        In { pointer: self.pointer, call: PhantomData }
    }

    /// Reads what the caller left there.
    pub fn get(self) -> Answer<T> {
        self.input().get()
    }
}

impl<T: Copy> In<'_, T> {
    /// Whether the caller passed nothing.
    pub fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// Reads the value; null is an invalid value.
    pub fn get(self) -> Answer<T> {
        if self.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, so it leads to one value during the lifetime (`Pass::pass`).
        Ok(unsafe { self.pointer.read_unaligned() })
    }
}

impl<'a, T> OutArray<'a, T> {
    /// Whether the caller asked for no answer here.
    pub fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// Refuses a null pointer before anything happened.
    pub fn check(self) -> Answer {
        if self.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
    }

    /// How many elements there is room for, if there is an array at all.
    pub fn length(self) -> usize {
        self.length
    }

    /// Element `index`; null where the array is null or ends before it.
    fn at(self, index: usize) -> Out<'a, T> {
        let is_inside = !self.is_null() && index < self.length;
        let pointer =
            if is_inside { self.pointer.wrapping_add(index) } else { core::ptr::null_mut() };
        Out { pointer, call: PhantomData }
    }

    /// Writes element `index`; an invalid value where the array is null or ends before it.
    pub fn put(self, index: usize, value: T) -> Answer {
        self.at(index).put(value)
    }
}

impl<T: Copy> OutArray<'_, T> {
    /// Reads what the caller left in element `index`.
    pub fn get(self, index: usize) -> Answer<T> {
        self.at(index).get()
    }
}

impl<'a, T: Copy> InArray<'a, T> {
    /// How many elements the caller says there are.
    pub fn length(self) -> usize {
        self.length
    }

    /// Element `index`; null where the array is null or ends before it.
    pub fn at(self, index: usize) -> In<'a, T> {
        let is_inside = !self.pointer.is_null() && index < self.length;
        let pointer = if is_inside { self.pointer.wrapping_add(index) } else { core::ptr::null() };
        In { pointer, call: PhantomData }
    }

    /// Reads element `index`; an invalid value where the array is null or ends before it.
    pub fn get(self, index: usize) -> Answer<T> {
        self.at(index).get()
    }

    /// Reads all elements; a null array of any is an invalid value.
    pub fn list(self) -> Answer<Vec<T>> {
        (0..self.length).map(|index| self.get(index)).collect()
    }
}

impl Text<'_> {
    /// The caller's string, copied.
    pub fn read(self) -> Answer<String> {
        if self.pointer.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, so NUL-terminated (`Pass::pass`).
        let text = unsafe { CStr::from_ptr(self.pointer) };
        Ok(text.to_string_lossy().into_owned())
    }
}

impl OutArray<'_, c_char> {
    /// Writes `text` and a NUL, cutting what does not fit.
    pub fn put_text(self, text: &str) -> Answer {
        self.check()?;
        let Some(room) = self.length.checked_sub(1) else { return Err(INVALID_VALUE) };
        let used = text.len().min(room);
        for (index, byte) in text.bytes().take(used).enumerate() {
            self.put(index, c_char::from_ne_bytes([byte]))?;
        }
        self.put(used, 0)
    }
}

impl Address {
    /// The null address.
    pub const NULL: Self = Self(0);

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address as C sees it.
    pub fn pointer(self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// Plain data.
///
/// # Safety
/// 1. Any bytes are a value of the type.
/// 2. No pointer in it is ever followed.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($ty:ty)*) => {
        // SAFETY: integers, structures of them, and handles.
        $(unsafe impl Plain for $ty {})*
    };
}
plain! { c_char c_int c_uint u64 nvmlDevice_t nvmlMemory_t nvmlMemory_v2_t nvmlProcessInfo_t }

// Callers in Rust, which are the tests.

impl<'a, T: Plain> Out<'a, T> {
    /// A place to answer to.
    pub fn to(place: &'a mut T) -> Self {
        Self { pointer: place, call: PhantomData }
    }
}

impl<'a, T: Plain> OutArray<'a, T> {
    /// Places to answer to.
    pub fn to(places: &'a mut [T]) -> Self {
        Self { pointer: places.as_mut_ptr(), length: places.len(), call: PhantomData }
    }
}

impl<T> OutArray<'_, T> {
    /// No answer wanted.
    pub fn null() -> Self {
        Self { pointer: core::ptr::null_mut(), length: 0, call: PhantomData }
    }
}

impl<'a> Text<'a> {
    /// A text.
    pub fn of(text: &'a CStr) -> Self {
        Self { pointer: text.as_ptr(), call: PhantomData }
    }

    /// No text.
    pub fn null() -> Self {
        Self { pointer: core::ptr::null(), call: PhantomData }
    }
}

/// A handle the simulator makes: a key that looks like an address and leads nowhere.
pub trait Handle: Copy {
    /// Distinguishes the kinds, so that a handle of one kind is never found in another's table.
    const KIND: u64;
    /// The handle of a key.
    fn from_key(key: u64) -> Self;
    /// The key of a handle.
    fn key(self) -> u64;
}

macro_rules! handles {
    ($($handle:ident = $kind:literal;)*) => {$(
        impl Handle for $handle {
            const KIND: u64 = $kind;
            fn from_key(key: u64) -> Self {
                Self(core::ptr::without_provenance_mut(key as usize))
            }
            fn key(self) -> u64 {
                self.0.addr() as u64
            }
        }
    )*};
}

handles! {
    CUcontext = 1;
    CUstream = 2;
    CUevent = 3;
    CUmodule = 4;
    CUfunction = 5;
    CUlibrary = 6;
    CUkernel = 7;
    CUmemoryPool = 8;
    CUarray = 9;
    CUmipmappedArray = 10;
    CUgraph = 11;
    CUgraphNode = 12;
    CUgraphExec = 13;
    CUgreenCtx = 14;
    CUdevResourceDesc = 15;
    CUuserObject = 16;
    CUlinkState = 17;
    CUexternalMemory = 18;
}
