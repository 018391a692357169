//! The calls on functions of modules, and on kernels of libraries where those stand for functions.

use core::ffi::c_int;

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::library::function_key;
use super::module::{attribute, parameter};
use super::state::begin_free;
use crate::sys::driver::{Answer, Handle, Out};

pub fn cuFuncGetModule(_: Call, module: Out<CUmodule>, function: CUfunction) -> Answer {
    let (_, state) = begin_free()?;
    module.put(CUmodule::from_key(state.functions.of(function)?.module))
}

pub fn cuFuncGetName(_: Call, name: Out<*const core::ffi::c_char>, function: CUfunction) -> Answer {
    let (_, state) = begin_free()?;
    name.put(state.functions.of(function)?.name.as_ptr())
}

pub fn cuFuncIsLoaded(_: Call, out: Out<CUfunctionLoadingState>, function: CUfunction) -> Answer {
    let (_, state) = begin_free()?;
    state.functions.of(function)?;
    out.put(CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
}

pub fn cuFuncLoad(_: Call, function: CUfunction) -> Answer {
    let (_, state) = begin_free()?;
    state.functions.of(function).map(|_| ())
}

pub fn cuFuncGetParamInfo(
    _: Call,
    function: CUfunction,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> Answer {
    let (_, state) = begin_free()?;
    let (at, bytes) = parameter(&state.functions.of(function)?.entry, index)?;
    offset.put(at)?;
    size.offer(bytes);
    Ok(())
}

pub fn cuFuncGetAttribute(
    _: Call,
    value: Out<c_int>,
    which: CUfunction_attribute,
    function: CUfunction,
) -> Answer {
    let (_, mut state) = begin_free()?;
    value.check()?;
    let key = function_key(&mut state, function)?;
    let found = state.functions.get(key)?;
    value.put(attribute(&found.entry, &found.settings, found.max_dynamic_shared, which)?)
}

pub fn cuFuncSetAttribute(
    _: Call,
    function: CUfunction,
    which: CUfunction_attribute,
    value: c_int,
) -> Answer {
    let (_, mut state) = begin_free()?;
    let key = function_key(&mut state, function)?;
    let found = state.functions.get_mut(key)?;
    match which.0 {
        8 if (0..=232_448).contains(&value) => found.max_dynamic_shared = value,
        id @ (9 | 11..=15) => {
            found.settings.insert(id, value);
        }
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

pub fn cuFuncSetCacheConfig(_: Call, function: CUfunction, _config: CUfunc_cache) -> Answer {
    let (_, state) = begin_free()?;
    state.functions.of(function).map(|_| ())
}

pub fn cuFuncSetSharedMemConfig(_: Call, function: CUfunction, _config: CUsharedconfig) -> Answer {
    let (_, state) = begin_free()?;
    state.functions.of(function).map(|_| ())
}
