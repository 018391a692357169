//! The border between C callers and the safe driver: out-pointers, in-pointers, text and handles.
//!
//! Promises: a null pointer becomes `CUDA_ERROR_INVALID_VALUE` (or nothing, where the call allows
//! null), and every read and write is unaligned, so a caller's odd buffer cannot break us.
//! Does not check that a non-null pointer is mapped: neither does the driver; it is the caller's
//! half of the C contract, restated where the wrappers are made ([`Pass::pass`]).
#![allow(unsafe_code, reason = "reads and writes through pointers that C callers pass")]

use core::ffi::{CStr, c_char, c_void};
use divvy_driver_api::types::*;

/// Answer of every driver call inside the simulator.
pub type Answer<T = ()> = Result<T, CUresult>;

const INVALID_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// A pointer through which a call answers.
#[derive(Debug)]
pub struct Out<T>(*mut T);

/// A pointer from which a call reads.
#[derive(Debug)]
pub struct In<T>(*const T);

/// A NUL-terminated string of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

/// An untyped address of the caller's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(pub usize);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

/// How an argument of an exported function reaches its safe implementation.
pub trait Pass<To> {
    /// Wraps the argument.
    ///
    /// # Safety
    /// 1. A pointer is null, or valid for what the driver's own documentation of the call says it reads and writes,
    ///    until the call returns.
    unsafe fn pass(self) -> To;
}

impl<T> Pass<T> for T {
    unsafe fn pass(self) -> T {
        self
    }
}
impl<T> Pass<Out<T>> for *mut T {
    unsafe fn pass(self) -> Out<T> {
        Out(self)
    }
}
impl<T> Pass<In<T>> for *const T {
    unsafe fn pass(self) -> In<T> {
        In(self)
    }
}
impl<T> Pass<In<T>> for *mut T {
    unsafe fn pass(self) -> In<T> {
        In(self)
    }
}
impl Pass<Text> for *const c_char {
    unsafe fn pass(self) -> Text {
        Text(self)
    }
}
impl Pass<Address> for *mut c_void {
    unsafe fn pass(self) -> Address {
        Address(self.addr())
    }
}
impl Pass<Address> for *const c_void {
    unsafe fn pass(self) -> Address {
        Address(self.addr())
    }
}

impl<T> Out<T> {
    /// No answer wanted.
    pub fn null() -> Self {
        Self(core::ptr::null_mut())
    }

    /// A pointer found inside a struct of the caller's, under the contract of [`Pass::pass`].
    pub fn of(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Whether the caller asked for no answer here.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Refuses a null pointer before anything happened.
    pub fn check(self) -> Answer {
        if self.0.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
    }

    /// Writes the answer; null is an invalid value.
    pub fn put(self, value: T) -> Answer {
        self.check()?;
        self.put_at(0, value);
        Ok(())
    }

    /// Writes the answer if the caller wants one.
    pub fn offer(self, value: T) {
        self.put_at(0, value);
    }

    /// Writes element `index` of the caller's array; nothing when the array is null.
    pub fn put_at(self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: non-null and, by the contract of `Pass::pass`, valid for the element.
            unsafe { self.0.wrapping_add(index).write_unaligned(value) }
        }
    }

    /// Reads what the caller left there.
    pub fn get(self) -> Answer<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    /// Reads element `index` of the caller's array.
    pub fn get_at(self, index: usize) -> Answer<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get_at(index)
    }
}

impl<T: Copy> In<T> {
    /// As [`Out::of`].
    pub fn of(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// Whether the caller passed nothing.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Where it points.
    pub fn address(self) -> usize {
        self.0.addr()
    }

    /// Reads the value; null is an invalid value.
    pub fn get(self) -> Answer<T> {
        self.get_at(0)
    }

    /// Reads element `index`; a null array is an invalid value.
    pub fn get_at(self, index: usize) -> Answer<T> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: non-null and, by the contract of `Pass::pass`, valid for the element.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }

    /// Reads `count` elements.
    pub fn list(self, count: usize) -> Answer<Vec<T>> {
        (0..count).map(|index| self.get_at(index)).collect()
    }
}

impl Text {
    /// The caller's string, copied.
    pub fn read(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: non-null and, by the contract of `Pass::pass`, NUL-terminated.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

impl Out<c_char> {
    /// Writes `text` and a NUL into a buffer of `capacity` bytes, cutting what does not fit.
    pub fn put_text(self, text: &str, capacity: usize) -> Answer {
        self.check()?;
        let Some(room) = capacity.checked_sub(1) else { return Err(INVALID_VALUE) };
        let used = text.len().min(room);
        for (index, byte) in text.bytes().take(used).enumerate() {
            self.put_at(index, c_char::from_ne_bytes([byte]));
        }
        self.put_at(used, 0);
        Ok(())
    }
}

impl Address {
    /// The null address.
    pub const NULL: Self = Self(0);

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Writes a typed value there; null is an invalid value.
    pub fn put<T>(self, value: T) -> Answer {
        Out(core::ptr::with_exposed_provenance_mut::<T>(self.0)).put(value)
    }

    /// Writes element `index` of a typed array there.
    pub fn put_at<T>(self, index: usize, value: T) {
        Out(core::ptr::with_exposed_provenance_mut::<T>(self.0)).put_at(index, value);
    }

    /// Reads a typed value from there; null is an invalid value.
    pub fn get<T: Copy>(self) -> Answer<T> {
        In(core::ptr::with_exposed_provenance::<T>(self.0)).get()
    }

    /// Copies `bytes` bytes from there.
    pub fn bytes(self, bytes: usize) -> Answer<Vec<u8>> {
        In(core::ptr::with_exposed_provenance::<u8>(self.0)).list(bytes)
    }

    /// The NUL-terminated text there.
    pub fn text(self) -> Answer<String> {
        Text(core::ptr::with_exposed_provenance(self.0)).read()
    }

    /// The address as C sees it.
    pub fn pointer(self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// The arguments of a launch: for each parameter of `sizes`, the bytes its pointer leads to.
pub fn launch_arguments(params: Out<*mut c_void>, sizes: &[usize]) -> Answer<Vec<Vec<u8>>> {
    sizes
        .iter()
        .enumerate()
        .map(|(index, size)| {
            let at = params.get_at(index)?;
            if at.is_null() { Err(INVALID_VALUE) } else { Address(at.addr()).bytes(*size) }
        })
        .collect()
}

/// The parameter buffer given by the `extra` list of a launch (1: pointer, 2: size, 0: end).
pub fn launch_buffer(extra: Out<*mut c_void>) -> Answer<Vec<u8>> {
    let (mut at, mut size, mut index) = (0, None, 0);
    loop {
        let key = extra.get_at(index)?.addr();
        if key == 0 {
            break;
        }
        let value = extra.get_at(index + 1)?.addr();
        match key {
            1 => at = value,
            2 => size = Some(Address(value).get::<usize>()?),
            _ => return Err(INVALID_VALUE),
        }
        index += 2;
    }
    Address(at).bytes(size.ok_or(INVALID_VALUE)?)
}

/// Calls a host function of the program's.
pub fn call_host(function: CUhostFn, data: Address) {
    if let Some(function) = function {
        // SAFETY: the program passed this function to be called with this datum.
        unsafe { function(data.pointer()) }
    }
}

/// Calls a stream callback of the program's.
pub fn call_stream(callback: CUstreamCallback, stream: CUstream, status: CUresult, data: Address) {
    if let Some(callback) = callback {
        // SAFETY: the program passed this function to be called with these arguments.
        unsafe { callback(stream, status, data.pointer()) }
    }
}

/// Asks the program how much dynamic shared memory a block of `threads` threads needs.
pub fn call_block_size(function: CUoccupancyB2DSize, threads: i32) -> usize {
    match function {
        // SAFETY: the program passed this function to be called with a block size.
        Some(function) => unsafe { function(threads) },
        None => 0,
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
