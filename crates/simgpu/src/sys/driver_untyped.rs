//! Pointers to what something else describes: another argument, the bytes there, a kernel's code.
//!
//! Promises: a value is written and read only where the argument that says its size leaves room for it;
//! an image is read as far as its own header says. A kernel's arguments are read as long as the caller
//! says its parameters are, which no argument of the call says.
#![allow(unsafe_code, reason = "reads and writes through untyped pointers that C callers pass")]

use super::driver::{Answer, In, InArray, Length, Pass, Plain, Text};
use core::ffi::{c_int, c_uint, c_void};
use core::marker::PhantomData;
use divvy_driver_api::types::*;
use std::os::fd::{IntoRawFd, OwnedFd};

const INVALID_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// A pointer to one value, whose size another argument says.
#[derive(Clone, Copy, Debug)]
pub struct Untyped<'a> {
    pointer: *mut c_void,
    room_bytes: usize,
    call: PhantomData<&'a mut u8>,
}

/// An argument that says how large the value behind another one is.
pub trait Room {
    /// The value's size.
    fn room_bytes(self) -> usize;
}

impl Room for usize {
    fn room_bytes(self) -> usize {
        self
    }
}
impl Room for CUpointer_attribute {
    fn room_bytes(self) -> usize {
        match self.0 {
            1 | 3 | 4 | 7 | 11 | 12 | 14 | 17..=20 => 8,
            _ => 4,
        }
    }
}
impl Room for CUmemPool_attribute {
    fn room_bytes(self) -> usize {
        if matches!(self.0, 1..=3) { 4 } else { 8 }
    }
}
impl Room for CUgraphMem_attribute {
    fn room_bytes(self) -> usize {
        8
    }
}
impl Room for CUmemAllocationHandleType {
    /// Of a descriptor; other handles are not made.
    fn room_bytes(self) -> usize {
        if self == Self::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR { 4 } else { 0 }
    }
}
impl Room for CUmemRangeHandleType {
    fn room_bytes(self) -> usize {
        if self == Self::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD { 4 } else { 0 }
    }
}

impl<'a, R: Room> Pass<Untyped<'a>> for (*mut c_void, R) {
    unsafe fn pass(self) -> Untyped<'a> {
        Untyped { pointer: self.0, room_bytes: self.1.room_bytes(), call: PhantomData }
    }
}

impl<'a> Pass<In<'a, c_uint>> for (*const c_void, CUpointer_attribute) {
    /// The attribute that can be set is a number, and none is smaller.
    unsafe fn pass(self) -> In<'a, c_uint> {
        // SAFETY: this function's own conditions.
        unsafe { self.0.cast::<c_uint>().pass() }
    }
}

impl Untyped<'_> {
    /// Whether the caller passed nothing.
    pub fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// The pointer, if a `T` lies there.
    fn of<T>(self) -> Answer<*mut T> {
        if self.is_null() || size_of::<T>() > self.room_bytes {
            return Err(INVALID_VALUE);
        }
        Ok(self.pointer.cast())
    }

    /// Writes the value; null is an invalid value, and so is one for which there is no room.
    pub fn put<T: Copy>(self, value: T) -> Answer {
        let pointer = self.of::<T>()?;
        // SAFETY: not null and with room for a `T`, by the second condition of `Pass::pass`.
        unsafe { pointer.write_unaligned(value) };
        Ok(())
    }

    /// The size of the value.
    pub fn room_bytes(self) -> usize {
        self.room_bytes
    }

    /// Writes as many of the values, one behind the other, as there is room for; null is an invalid value.
    pub fn put_list<T: Copy>(self, values: impl IntoIterator<Item = T>) -> Answer {
        let pointer = self.of::<T>()?;
        for (index, value) in (0..self.room_bytes / size_of::<T>()).zip(values) {
            // SAFETY: not null and with room for so many, by the second condition of `Pass::pass`.
            unsafe { pointer.wrapping_add(index).write_unaligned(value) };
        }
        Ok(())
    }

    /// Writes the number of a descriptor, which is the program's from here on.
    pub fn put_descriptor(self, descriptor: OwnedFd) -> Answer {
        self.of::<c_int>()?;
        self.put(descriptor.into_raw_fd())
    }

    /// Reads the value; null is an invalid value.
    pub fn get<T: Plain>(self) -> Answer<T> {
        let pointer = self.of::<T>()?;
        // SAFETY: not null and with as many bytes as a `T` has, any of which are one.
        Ok(unsafe { pointer.read_unaligned() })
    }
}

/// Attributes of an address, each with the place of its value.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "nor has the attributes' generated type")]
pub struct PointerValues<'a> {
    attributes: InArray<'a, CUpointer_attribute>,
    data: InArray<'a, *mut c_void>,
}

/// Attributes, the places of their values, and how many there are, as a call has them.
type AskedOfPointer<N> = (*mut CUpointer_attribute, *mut *mut c_void, N);

impl<'a, N: Length + Copy> Pass<PointerValues<'a>> for AskedOfPointer<N> {
    unsafe fn pass(self) -> PointerValues<'a> {
        // SAFETY: this function's own conditions.
        let attributes = unsafe { (self.0, self.2).pass() };
        // SAFETY: this function's own conditions.
        let data = unsafe { (self.1, self.2).pass() };
        PointerValues { attributes, data }
    }
}

impl<'a> PointerValues<'a> {
    /// How many there are.
    pub fn length(self) -> usize {
        self.attributes.length()
    }

    /// The attribute of number `index`, and the place of its value.
    pub fn get(self, index: usize) -> Answer<(CUpointer_attribute, Untyped<'a>)> {
        let attribute = self.attributes.get(index)?;
        // SAFETY: a pointer of the program's, which keeps the conditions with it.
        let value = unsafe { (self.data.get(index)?, attribute).pass() };
        Ok((attribute, value))
    }
}

/// Attributes of a range of addresses, each with the place of its value and the size that it has.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "nor has the attributes' generated type")]
pub struct RangeValues<'a> {
    data: InArray<'a, *mut c_void>,
    sizes: InArray<'a, usize>,
    attributes: InArray<'a, CUmem_range_attribute>,
}

/// The places of values, their sizes, the attributes and how many there are, as a call has them.
type AskedOfRange<N> = (*mut *mut c_void, *mut usize, *mut CUmem_range_attribute, N);

impl<'a, N: Length + Copy> Pass<RangeValues<'a>> for AskedOfRange<N> {
    unsafe fn pass(self) -> RangeValues<'a> {
        // SAFETY: this function's own conditions.
        let data = unsafe { (self.0, self.3).pass() };
        // SAFETY: this function's own conditions.
        let sizes = unsafe { (self.1, self.3).pass() };
        // SAFETY: this function's own conditions.
        let attributes = unsafe { (self.2, self.3).pass() };
        RangeValues { data, sizes, attributes }
    }
}

impl<'a> RangeValues<'a> {
    /// How many there are.
    pub fn length(self) -> usize {
        self.attributes.length()
    }

    /// The attribute of number `index`, and the place of its value.
    pub fn get(self, index: usize) -> Answer<(CUmem_range_attribute, Untyped<'a>)> {
        let attribute = self.attributes.get(index)?;
        // SAFETY: a pointer of the program's with its size, which keep the conditions.
        let value = unsafe { (self.data.get(index)?, self.sizes.get(index)?).pass() };
        Ok((attribute, value))
    }
}

/// The image of a module: text, or what begins with a header of its own.
#[derive(Clone, Copy, Debug)]
pub struct ImageAt<'a> {
    pointer: *const u8,
    call: PhantomData<&'a u8>,
}

/// An image, copied.
#[derive(Debug)]
pub enum Content {
    /// A binary that is not read.
    Elf,
    /// A fat binary.
    Binary(Vec<u8>),
    /// A text.
    Text(String),
}

impl<'a> Pass<ImageAt<'a>> for *const c_void {
    unsafe fn pass(self) -> ImageAt<'a> {
        ImageAt { pointer: self.cast(), call: PhantomData }
    }
}

impl<'a> ImageAt<'a> {
    const ELF: u32 = 0x464c_457f;
    const FATBIN: u32 = 0xba55_ed50;
    const WRAPPER: u32 = 0x4662_43b1;

    /// A number of the header, so many bytes from its start.
    fn header<T: Copy + 'a>(self, offset: usize) -> Answer<T> {
        let pointer = self.pointer.wrapping_add(offset).cast::<T>();
        // SAFETY: the magic number, with which every image begins, or what lies behind that of a header
        // which has been seen there.
        let place: In<'a, T> = unsafe { pointer.pass() };
        place.get()
    }

    /// Reads it; null is an invalid value.
    pub fn read(self) -> Answer<Content> {
        if self.pointer.is_null() {
            return Err(INVALID_VALUE);
        }
        match self.header::<u32>(0)? {
            Self::ELF => Ok(Content::Elf),
            Self::WRAPPER => {
                let image = Self { pointer: self.header(8)?, call: PhantomData };
                image.read()
            }
            Self::FATBIN => {
                let bytes = usize::try_from(self.header::<u64>(8)?).ok();
                let bytes = bytes.and_then(|bytes| bytes.checked_add(16));
                let bytes = bytes.ok_or(CUresult::CUDA_ERROR_INVALID_IMAGE)?;
                // SAFETY: the header's own 16 bytes, and those that it says follow.
                let image: InArray<'a, u8> = unsafe { (self.pointer, bytes).pass() };
                image.list().map(Content::Binary)
            }
            _ => {
                // SAFETY: no binary, so a text that a NUL ends.
                let text: Text<'a> = unsafe { self.pointer.cast::<core::ffi::c_char>().pass() };
                text.read().map(Content::Text)
            }
        }
    }
}

/// The arguments of a kernel: a pointer to each, or a list that leads to a buffer of all.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    each: *mut *mut c_void,
    list: *mut *mut c_void,
    call: PhantomData<&'a u8>,
}

/// The form in which a launch has its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A pointer to each.
    Each,
    /// A buffer of all.
    Buffer,
    /// Neither form, or both.
    Unclear,
}

impl<'a> Pass<Arguments<'a>> for (*mut *mut c_void, *mut *mut c_void) {
    unsafe fn pass(self) -> Arguments<'a> {
        Arguments { each: self.0, list: self.1, call: PhantomData }
    }
}
impl<'a> Pass<Arguments<'a>> for *mut *mut c_void {
    unsafe fn pass(self) -> Arguments<'a> {
        Arguments { each: self, list: core::ptr::null_mut(), call: PhantomData }
    }
}

impl<'a> Arguments<'a> {
    /// The form they have.
    pub fn form(self) -> Form {
        match (self.each.is_null(), self.list.is_null()) {
            (false, true) => Form::Each,
            (true, false) => Form::Buffer,
            _ => Form::Unclear,
        }
    }

    /// The bytes of each argument: those its pointer leads to, as many as its parameter has by the
    /// kernel's code.
    pub fn each(self, parameters: &[usize]) -> Answer<Vec<Vec<u8>>> {
        // SAFETY: as many pointers as the kernel has parameters.
        let pointers: InArray<'a, *mut c_void> = unsafe { (self.each, parameters.len()).pass() };
        let pointers = pointers.list()?.into_iter().zip(parameters);
        pointers
            .map(|(pointer, bytes)| {
                if pointer.is_null() {
                    return Err(INVALID_VALUE);
                }
                // SAFETY: not null, so it leads to the parameter's bytes.
                let argument: InArray<'a, u8> = unsafe { (pointer, *bytes).pass() };
                argument.list()
            })
            .collect()
    }

    /// The buffer of all arguments, as the list gives it (1: pointer, 2: its size, 0: end).
    pub fn buffer(self) -> Answer<Vec<u8>> {
        let entry = |index: usize| -> Answer<*mut c_void> {
            // SAFETY: the list goes on until an entry that ends it.
            let list: InArray<'a, *mut c_void> = unsafe { (self.list, index + 1).pass() };
            list.get(index)
        };
        let (mut buffer, mut size, mut index) = (core::ptr::null_mut(), None, 0);
        loop {
            let key = entry(index)?.addr();
            if key == 0 {
                break;
            }
            let value = entry(index + 1)?;
            match key {
                1 => buffer = value,
                2 => {
                    // SAFETY: the entry behind this key leads to the buffer's size.
                    let place: In<'a, usize> = unsafe { value.cast::<usize>().pass() };
                    size = Some(place.get()?);
                }
                _ => return Err(INVALID_VALUE),
            }
            index += 2;
        }
        // SAFETY: the list gives the buffer with its size.
        let buffer: InArray<'a, u8> = unsafe { (buffer, size.ok_or(INVALID_VALUE)?).pass() };
        buffer.list()
    }
}
