//! Libraries: images that belong to no context until one uses them.
//!
//! Promises: loading a library takes nothing; its globals are taken in a context at the first use
//! there and given back with the library or the context.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::collections::HashMap;
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::module;
use super::objects::code::{Kernel, Library};
use super::ptx::Image;
use super::state::{DriverState, State, begin, begin_free, current};
use crate::sys::driver::{Answer, Handle, In, Out, OutArray, Text};
use crate::sys::driver_untyped::ImageAt;

fn add(out: Out<CUlibrary>, image: Answer<Arc<Image>>) -> Answer {
    let (_, mut state) = begin_free()?;
    out.check()?;
    let library = Library { image: image?, loaded: HashMap::new(), kernels: HashMap::new() };
    let key = state.libraries.insert(library);
    out.put(CUlibrary::from_key(key))
}

macro_rules! load_calls {
    ($($name:ident($from:ident: $ty:ty) = $image:expr;)*) => {$(
        #[expect(clippy::too_many_arguments, reason = "the driver's signature")]
        pub fn $name(
            _: Call,
            library: Out<CUlibrary>,
            $from: $ty,
            _names: In<CUjit_option>,
            _values: In<*mut c_void>,
            _count: c_uint,
            _options: In<CUlibraryOption>,
            _option_values: In<*mut c_void>,
            _option_count: c_uint,
        ) -> Answer {
            add(library, $image)
        }
    )*};
}

load_calls! {
    cuLibraryLoadData(code: ImageAt) = image_or_none(code);
    cuLibraryLoadFromFile(path: Text) = module::image_in_file(path);
}

/// A library is read when it is first used; what is none shows then, as a missing kernel.
fn image_or_none(code: ImageAt) -> Answer<Arc<Image>> {
    module::image_at(code).or_else(|error| match error {
        INVALID_VALUE => Err(error),
        _ => Ok(Arc::default()),
    })
}

pub fn cuLibraryUnload(_: Call, library: CUlibrary) -> Answer {
    let (driver, mut state) = begin_free()?;
    let gone = state.libraries.remove(library.key())?;
    state.kernels.extract(|_, kernel| kernel.library == library.key());
    drop(state);
    for (context, module) in gone.loaded {
        super::worker::drain_context(driver, context);
        module::unload(&mut driver.lock(), module)?;
    }
    Ok(())
}

/// The module that stands for a library in the current context.
fn loaded(driver: &DriverState, state: &mut State, library: u64) -> Answer<u64> {
    let context = current()?;
    state.context(context)?;
    let found = state.libraries.get(library)?;
    if let Some(module) = found.loaded.get(&context) {
        return Ok(*module);
    }
    let image = Arc::clone(&found.image);
    let key = module::load(driver, state, context, image)?;
    state.modules.get_mut(key)?.of_library = library;
    state.libraries.get_mut(library)?.loaded.insert(context, key);
    Ok(key)
}

fn kernel(state: &mut State, library: u64, name: &str) -> Answer<u64> {
    let found = state.libraries.get(library)?;
    if let Some(key) = found.kernels.get(name) {
        return Ok(*key);
    }
    let entry = found.image.entries.iter().find(|entry| entry.name == name).ok_or(NOT_FOUND)?;
    let entry = Arc::new(entry.clone());
    let cname = std::ffi::CString::new(name).map_err(|_| NOT_FOUND)?;
    let settings = HashMap::new();
    let made = Kernel { library, name: cname, entry, settings, max_dynamic_shared: 49_152 };
    let key = state.kernels.insert(made);
    state.libraries.get_mut(library)?.kernels.insert(name.to_owned(), key);
    Ok(key)
}

/// The function a handle means: a function, or a kernel in the current context.
pub(crate) fn function_key(state: &mut State, function: CUfunction) -> Answer<u64> {
    let key = function.key();
    if state.functions.get(key).is_ok() {
        return Ok(key);
    }
    if state.kernels.get(key).is_err() {
        return Err(INVALID_HANDLE);
    }
    kernel_function(super::state::driver()?, state, key)
}

fn kernel_function(driver: &DriverState, state: &mut State, kernel: u64) -> Answer<u64> {
    let found = state.kernels.get(kernel)?;
    let (library, name) = (found.library, found.entry.name.clone());
    let module = loaded(driver, state, library)?;
    module::function(state, module, &name)
}

module::entry_calls! {
    cuLibraryGetKernel, cuLibraryGetKernelCount, cuLibraryEnumerateKernels:
        CUlibrary = libraries, CUkernel = kernel;
}

pub fn cuLibraryGetModule(_: Call, out: Out<CUmodule>, library: CUlibrary) -> Answer {
    let (driver, mut state, _) = begin()?;
    out.check()?;
    let key = loaded(driver, &mut state, library.key())?;
    out.put(CUmodule::from_key(key))
}

pub fn cuLibraryGetGlobal(
    _: Call,
    address: Out<CUdeviceptr>,
    size: Out<usize>,
    library: CUlibrary,
    name: Text,
) -> Answer {
    let (driver, mut state, _) = begin()?;
    if address.is_null() && size.is_null() {
        return Err(INVALID_VALUE);
    }
    let name = name.read()?;
    let image = Arc::clone(&state.libraries.of(library)?.image);
    if !image.globals.iter().any(|global| global.name == name) {
        return Err(NOT_FOUND);
    }
    let module = loaded(driver, &mut state, library.key())?;
    let (at, length) = module::global(&state, module, &name)?;
    address.offer(at);
    size.offer(length as usize);
    Ok(())
}

pub fn cuLibraryGetManaged(
    call: Call,
    address: Out<CUdeviceptr>,
    size: Out<usize>,
    library: CUlibrary,
    name: Text,
) -> Answer {
    let wanted = name.read()?;
    let (_, state) = begin_free()?;
    let image = Arc::clone(&state.libraries.of(library)?.image);
    drop(state);
    if !image.globals.iter().any(|global| global.is_managed && global.name == wanted) {
        return Err(NOT_FOUND);
    }
    cuLibraryGetGlobal(call, address, size, library, name)
}

pub fn cuKernelGetFunction(_: Call, out: Out<CUfunction>, kernel: CUkernel) -> Answer {
    let (driver, mut state, _) = begin()?;
    out.check()?;
    let key = kernel_function(driver, &mut state, kernel.key())?;
    out.put(CUfunction::from_key(key))
}

pub fn cuKernelGetLibrary(_: Call, out: Out<CUlibrary>, kernel: CUkernel) -> Answer {
    let (_, state) = begin_free()?;
    out.put(CUlibrary::from_key(state.kernels.of(kernel)?.library))
}

pub fn cuKernelGetName(_: Call, out: Out<*const c_char>, kernel: CUkernel) -> Answer {
    let (_, state) = begin_free()?;
    out.put(state.kernels.of(kernel)?.name.as_ptr())
}

pub fn cuKernelGetParamInfo(
    _: Call,
    kernel: CUkernel,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> Answer {
    let (_, state) = begin_free()?;
    let (at, bytes) = module::parameter(&state.kernels.of(kernel)?.entry, index)?;
    offset.put(at)?;
    size.offer(bytes);
    Ok(())
}

pub fn cuKernelGetAttribute(
    _: Call,
    value: Out<c_int>,
    which: CUfunction_attribute,
    kernel: CUkernel,
    device: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    state.device(device)?;
    let found = state.kernels.of(kernel)?;
    value.put(module::attribute(&found.entry, &found.settings, found.max_dynamic_shared, which)?)
}

pub fn cuKernelSetAttribute(
    _: Call,
    which: CUfunction_attribute,
    value: c_int,
    kernel: CUkernel,
    device: CUdevice,
) -> Answer {
    let (_, mut state) = begin_free()?;
    state.device(device)?;
    let found = state.kernels.of_mut(kernel)?;
    match which.0 {
        8 => found.max_dynamic_shared = value,
        id => {
            found.settings.insert(id, value);
        }
    }
    Ok(())
}

pub fn cuKernelSetCacheConfig(
    _: Call,
    kernel: CUkernel,
    _: CUfunc_cache,
    device: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    state.device(device)?;
    state.kernels.of(kernel).map(|_| ())
}
