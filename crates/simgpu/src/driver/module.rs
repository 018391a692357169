//! Modules: images loaded into a context, their functions and globals.
//!
//! Promises: a module's globals are taken from the card when it is loaded and given back when it is
//! unloaded; obtaining a function or a global takes nothing. PTX text is read; binary images are
//! accepted as opaque, with the PTX text inside them where it is not compressed.

use core::ffi::{c_int, c_uint, c_void};
use std::collections::HashMap;
use std::sync::Arc;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::machine::Purpose;
use super::objects::code::{Function, Module};
use super::objects::launch::Body;
use super::ptx::{BadText, Image, PtxEntry, parse};
use super::space::{Kind, Range, part};
use super::state::{DriverState, State, begin, begin_free};
use crate::sys::driver::{Answer, Handle, In, Out, OutArray, Text};
use crate::sys::driver_untyped::{Content, ImageAt};

/// Reads an image of the program's.
pub(crate) fn image_at(image: ImageAt) -> Answer<Arc<Image>> {
    match image.read()? {
        Content::Elf => Ok(Arc::default()),
        Content::Binary(content) => Ok(embedded(&content)),
        Content::Text(text) => image_of(text.as_bytes()),
    }
}

/// The PTX text inside a binary image, if it is there in the clear.
fn embedded(content: &[u8]) -> Arc<Image> {
    let start = content.windows(8).position(|window| window == b".version");
    let text = start.map(|start| &content[start..]).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    Arc::new(parse(&String::from_utf8_lossy(&text[..end])).unwrap_or_default())
}

/// Reads an image held in memory.
pub(crate) fn image_of(content: &[u8]) -> Answer<Arc<Image>> {
    if content.starts_with(b"\x7fELF") || content.starts_with(&0xba55_ed50_u32.to_le_bytes()) {
        return Ok(embedded(content));
    }
    let text = String::from_utf8_lossy(content);
    parse(&text).map(Arc::new).map_err(|bad| match bad {
        BadText::NotPtx => INVALID_IMAGE,
        BadText::BadPtx => CUresult::CUDA_ERROR_INVALID_PTX,
    })
}

/// Loads an image into a context: its globals take memory now.
pub(crate) fn load(
    driver: &DriverState,
    state: &mut State,
    context: u64,
    image: Arc<Image>,
) -> Answer<u64> {
    let device = state.context(context)?.device;
    // Contexts of the first calls have addresses that fit those calls.
    let is_low = state.context(context)?.version < 3020;
    let machine_index = state.device(device)?.machine_index;
    let mut globals: HashMap<String, (u64, u64)> = HashMap::new();
    for global in &image.globals {
        let mut range = Range::new(0, global.bytes.max(1), Kind::Global, context, device);
        range.is_low = is_low;
        let take = |bytes| driver.machine.allocate(machine_index, bytes, Purpose::Data);
        match state.space.place(range, take) {
            Ok(base) => {
                globals.insert(global.name.clone(), (base, global.bytes));
                set_initial(state, base, &global.initial, global.bytes)?;
            }
            Err(error) => {
                for (base, _) in globals.values() {
                    state.space.remove(*base)?;
                }
                return Err(error);
            }
        }
    }
    let functions = HashMap::new();
    Ok(state.modules.insert(Module { context, image, globals, functions, of_library: 0 }))
}

fn set_initial(state: &State, base: u64, initial: &[u8], length: u64) -> Answer {
    let pieces = state.space.pieces(base, length.max(1))?;
    if let Some((Some(span), _)) = part(&pieces, base, length) {
        // A packed block may have been another's before.
        span.fill(&[0]);
        span.write(initial);
    }
    Ok(())
}

pub(crate) fn unload(state: &mut State, key: u64) -> Answer {
    let module = state.modules.remove(key)?;
    for (base, _) in module.globals.values() {
        state.space.remove(*base)?;
    }
    state.functions.extract(|_, function| function.module == key);
    Ok(())
}

fn load_into_current(out: Out<CUmodule>, image: Answer<Arc<Image>>) -> Answer {
    let (driver, mut state, context) = begin()?;
    out.check()?;
    let key = load(driver, &mut state, context, image?)?;
    out.put(CUmodule::from_key(key))
}

pub fn cuModuleLoadData(_: Call, module: Out<CUmodule>, image: ImageAt) -> Answer {
    load_into_current(module, image_at(image))
}

pub fn cuModuleLoadDataEx(
    _: Call,
    module: Out<CUmodule>,
    image: ImageAt,
    _options: c_uint,
    _names: In<CUjit_option>,
    _values: In<*mut c_void>,
) -> Answer {
    load_into_current(module, image_at(image))
}

pub fn cuModuleLoadFatBinary(_: Call, module: Out<CUmodule>, image: ImageAt) -> Answer {
    load_into_current(module, image_at(image))
}

pub fn cuModuleLoad(_: Call, module: Out<CUmodule>, path: Text) -> Answer {
    load_into_current(module, image_in_file(path))
}

/// Reads the image in a file.
pub(crate) fn image_in_file(path: Text) -> Answer<Arc<Image>> {
    let content = std::fs::read(path.read()?).map_err(|_| FILE_NOT_FOUND)?;
    image_of(&content)
}

pub fn cuModuleUnload(_: Call, module: CUmodule) -> Answer {
    let (driver, state) = begin_free()?;
    let found = state.modules.of(module)?;
    if found.of_library != 0 {
        return Err(NOT_PERMITTED);
    }
    let context = found.context;
    drop(state);
    super::worker::drain_context(driver, context);
    unload(&mut driver.lock(), module.key())
}

/// The function of an entry, made at its first mention.
pub(crate) fn function(state: &mut State, module_key: u64, name: &str) -> Answer<u64> {
    let module = state.modules.get(module_key)?;
    if let Some(key) = module.functions.get(name) {
        return Ok(*key);
    }
    let entry = module.image.entries.iter().find(|entry| entry.name == name).ok_or(NOT_FOUND)?;
    let function = Function {
        context: module.context,
        module: module_key,
        entry: Arc::new(entry.clone()),
        body: Body::of(entry),
        max_dynamic_shared: 49_152,
        settings: HashMap::new(),
        name: std::ffi::CString::new(name).map_err(|_| NOT_FOUND)?,
        block: [1; 3],
        shared_bytes: 0,
        buffer: Vec::new(),
    };
    let key = state.functions.insert(function);
    state.modules.get_mut(module_key)?.functions.insert(name.to_owned(), key);
    Ok(key)
}

/// Calls that answer an image's entries: the one of a name, how many there are, and all of them.
macro_rules! entry_calls {
    ($get:ident, $count:ident, $enumerate:ident:
        $owner:ty = $table:ident, $entry:ident = $made:ident;) => {
        pub fn $get(_: Call, out: Out<$entry>, owner: $owner, name: Text) -> Answer {
            let (_, mut state) = begin_free()?;
            out.check()?;
            let key = $made(&mut state, owner.key(), &name.read()?)?;
            out.put($entry::from_key(key))
        }

        pub fn $count(_: Call, count: Out<c_uint>, owner: $owner) -> Answer {
            let (_, state) = begin_free()?;
            count.put(state.$table.of(owner)?.image.entries.len() as c_uint)
        }

        pub fn $enumerate(_: Call, out: OutArray<$entry>, _: c_uint, owner: $owner) -> Answer {
            let (_, mut state) = begin_free()?;
            out.check()?;
            let image = Arc::clone(&state.$table.of(owner)?.image);
            for (index, entry) in image.entries.iter().take(out.length()).enumerate() {
                let key = $made(&mut state, owner.key(), &entry.name)?;
                out.put(index, $entry::from_key(key))?;
            }
            Ok(())
        }
    };
}
pub(crate) use entry_calls;

entry_calls! {
    cuModuleGetFunction, cuModuleGetFunctionCount, cuModuleEnumerateFunctions:
        CUmodule = modules, CUfunction = function;
}

/// Address and size of a module's global.
pub(crate) fn global(state: &State, module: u64, name: &str) -> Answer<(u64, u64)> {
    state.modules.get(module)?.globals.get(name).copied().ok_or(NOT_FOUND)
}

pub fn cuModuleGetGlobal_v2(
    _: Call,
    address: Out<CUdeviceptr>,
    size: Out<usize>,
    module: CUmodule,
    name: Text,
) -> Answer {
    let (_, state) = begin_free()?;
    if address.is_null() && size.is_null() {
        return Err(INVALID_VALUE);
    }
    let (at, length) = global(&state, module.key(), &name.read()?)?;
    address.offer(at);
    size.offer(length as usize);
    Ok(())
}

pub fn cuModuleGetGlobal(
    _: Call,
    address: Out<CUdeviceptr_v1>,
    size: Out<c_uint>,
    module: CUmodule,
    name: Text,
) -> Answer {
    let (_, state) = begin_free()?;
    let (at, length) = global(&state, module.key(), &name.read()?)?;
    address.offer(c_uint::try_from(at).map_err(|_| NOT_SUPPORTED)?);
    size.offer(length as c_uint);
    Ok(())
}

pub fn cuModuleGetLoadingMode(_: Call, mode: Out<CUmoduleLoadingMode>) -> Answer {
    let eager = std::env::var("CUDA_MODULE_LOADING").is_ok_and(|mode| mode == "EAGER");
    mode.put(if eager {
        CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING
    } else {
        CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING
    })
}

/// Offset and size of a parameter.
pub(crate) fn parameter(entry: &PtxEntry, index: usize) -> Answer<(usize, usize)> {
    let mut offset = 0_usize;
    for (at, size) in entry.parameters.iter().enumerate() {
        offset = offset.next_multiple_of((*size).clamp(1, 8).next_power_of_two());
        if at == index {
            return Ok((offset, *size));
        }
        offset += size;
    }
    Err(INVALID_VALUE)
}

/// The attributes of an entry; `settings` are those a program set.
pub(crate) fn attribute(
    entry: &PtxEntry,
    settings: &HashMap<u32, i32>,
    max_dynamic_shared: i32,
    which: CUfunction_attribute,
) -> Answer<c_int> {
    Ok(match which.0 {
        0 => entry.max_threads.unwrap_or(1024) as c_int,
        1 => entry.shared_bytes as c_int,
        2 => 0,
        3 => entry.local_bytes as c_int,
        4 => entry.registers as c_int,
        5 | 6 => 90,
        7 => 0,
        8 => max_dynamic_shared,
        9 => settings.get(&9).copied().unwrap_or(-1),
        id @ 10..=15 => settings.get(&id).copied().unwrap_or(0),
        _ => return Err(INVALID_VALUE),
    })
}
