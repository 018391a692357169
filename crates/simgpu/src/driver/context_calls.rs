//! The calls on contexts that live: the thread's stack, questions, limits and settings.

use core::ffi::{c_int, c_uint, c_ulonglong};

use divvy_driver_api::types::*;

use super::call::Call;
use super::context::{MOST_LOCAL_BYTES, set_local};
use super::error::*;
use super::objects::context::Context;
use super::state::{State, begin, begin_free, current, driver, with_stack};
use super::worker::synchronize_context;
use crate::sys::driver::{Answer, Handle, Out};

// ---- the thread's stack ----

pub fn cuCtxPushCurrent(_: Call, context: CUcontext) -> Answer {
    let (_, state) = begin_free()?;
    if context.key() == 0 {
        return Err(INVALID_VALUE);
    }
    let found = state.contexts.get(context.key()).map_err(|_| INVALID_CONTEXT)?;
    if !found.alive {
        return Err(INVALID_CONTEXT);
    }
    drop(state);
    with_stack(|stack| stack.push(context.key()))
}
pub use cuCtxPushCurrent as cuCtxPushCurrent_v2;

pub fn cuCtxPopCurrent(_: Call, context: Out<CUcontext>) -> Answer {
    driver()?;
    let key = with_stack(|stack| stack.pop())?.ok_or(INVALID_CONTEXT)?;
    context.offer(CUcontext::from_key(key));
    Ok(())
}
pub use cuCtxPopCurrent as cuCtxPopCurrent_v2;

pub fn cuCtxSetCurrent(_: Call, context: CUcontext) -> Answer {
    let (_, state) = begin_free()?;
    let key = context.key();
    if key != 0 && !state.contexts.get(key).map_err(|_| INVALID_CONTEXT)?.alive {
        return Err(INVALID_CONTEXT);
    }
    drop(state);
    with_stack(|stack| {
        stack.pop();
        if key != 0 {
            stack.push(key);
        }
    })
}

pub fn cuCtxGetCurrent(_: Call, context: Out<CUcontext>) -> Answer {
    let key = with_stack(|stack| stack.last().copied())?.unwrap_or(0);
    context.put(CUcontext::from_key(key))
}

// ---- questions and settings ----

fn chosen(context: CUcontext) -> Answer<u64> {
    if context.key() == 0 { current() } else { Ok(context.key()) }
}

/// The live context of a question: the one that is named, or the current one.
fn asked(state: &State, context: CUcontext) -> Answer<&Context> {
    if context.key() == 0 {
        state.current_context(current()?)
    } else {
        state.context(context.key())
    }
}

pub fn cuCtxGetDevice(_: Call, device: Out<CUdevice>) -> Answer {
    let (_, state) = begin_free()?;
    let context = state.contexts.get(current()?).map_err(|_| INVALID_CONTEXT)?;
    device.put(context.device)
}

pub fn cuCtxGetDevice_v2(_: Call, device: Out<CUdevice>, context: CUcontext) -> Answer {
    let (_, state) = begin_free()?;
    let context = state.contexts.get(chosen(context)?).map_err(|_| INVALID_CONTEXT)?;
    device.put(context.device)
}

pub fn cuCtxGetFlags(_: Call, flags: Out<c_uint>) -> Answer {
    let (_, state, key) = begin()?;
    flags.put(state.context(key)?.flags)
}

pub fn cuCtxSetFlags(_: Call, flags: c_uint) -> Answer {
    let (_, mut state, key) = begin()?;
    state.context_mut(key)?.flags = flags;
    Ok(())
}

pub fn cuCtxGetId(_: Call, context: CUcontext, id: Out<c_ulonglong>) -> Answer {
    let (_, state) = begin_free()?;
    id.put(asked(&state, context)?.id)
}

pub fn cuCtxGetApiVersion(_: Call, context: CUcontext, version: Out<c_uint>) -> Answer {
    let (_, state) = begin_free()?;
    version.put(asked(&state, context)?.version)
}

pub fn cuCtxGetLimit(_: Call, value: Out<usize>, limit: CUlimit) -> Answer {
    let (_, state, key) = begin()?;
    value.check()?;
    let found = state.context(key)?.limits.get(limit.0 as usize).copied();
    match found {
        None => Err(INVALID_VALUE),
        Some(usize::MAX) => Err(UNSUPPORTED_LIMIT),
        Some(found) => value.put(found),
    }
}

pub fn cuCtxSetLimit(_: Call, limit: CUlimit, value: usize) -> Answer {
    let (driver, mut state, key) = begin()?;
    let index = limit.0 as usize;
    match state.context(key)?.limits.get(index).copied() {
        None => Err(INVALID_VALUE),
        Some(usize::MAX) => Err(UNSUPPORTED_LIMIT),
        Some(_) if index == 0 && value > MOST_LOCAL_BYTES => Err(INVALID_VALUE),
        Some(_) if index == 0 => set_local(driver, &mut state, key, value as u64),
        // Heap and printf buffer are taken when a kernel that uses them is launched; no simulated
        // kernel does.
        Some(_) => {
            state.context_mut(key)?.limits[index] = value;
            Ok(())
        }
    }
}

macro_rules! preferences {
    ($($get:ident, $set:ident: $ty:ty = $member:ident;)*) => {$(
        pub fn $get(_: Call, out: Out<$ty>) -> Answer {
            let (_, state, key) = begin()?;
            out.put(state.context(key)?.$member)
        }

        pub fn $set(_: Call, value: $ty) -> Answer {
            let (_, mut state, key) = begin()?;
            state.context_mut(key)?.$member = value;
            Ok(())
        }
    )*};
}

preferences! {
    cuCtxGetCacheConfig, cuCtxSetCacheConfig: CUfunc_cache = cache_config;
    cuCtxGetSharedMemConfig, cuCtxSetSharedMemConfig: CUsharedconfig = shared_config;
}

pub fn cuCtxGetStreamPriorityRange(_: Call, least: Out<c_int>, greatest: Out<c_int>) -> Answer {
    drop(begin()?);
    least.offer(0);
    greatest.offer(-5);
    Ok(())
}

pub fn cuCtxResetPersistingL2Cache(_: Call) -> Answer {
    begin().map(|_| ())
}

pub fn cuCtxGetExecAffinity(_: Call, _: Out<CUexecAffinityParam>, _: CUexecAffinityType) -> Answer {
    drop(begin()?);
    Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY)
}

pub fn cuCtxSynchronize(_: Call) -> Answer {
    let (driver, mut state, key) = begin()?;
    super::capture::refuse_in_context(&mut state, key)?;
    synchronize_context(driver, state, key)
}

pub fn cuCtxSynchronize_v2(_: Call, context: CUcontext) -> Answer {
    let (driver, mut state) = begin_free()?;
    let key = chosen(context)?;
    state.context(key)?;
    super::capture::refuse_in_context(&mut state, key)?;
    synchronize_context(driver, state, key)
}

pub fn cuCtxEnablePeerAccess(_: Call, peer: CUcontext, flags: c_uint) -> Answer {
    let (_, mut state, key) = begin()?;
    let other = state.context(peer.key()).map_err(|_| INVALID_CONTEXT)?.device;
    let context = state.context_mut(key)?;
    if flags != 0 || other == context.device {
        return Err(INVALID_VALUE);
    }
    if context.peers.insert(peer.key()) { Ok(()) } else { Err(PEER_ACCESS_ALREADY_ENABLED) }
}

pub fn cuCtxDisablePeerAccess(_: Call, peer: CUcontext) -> Answer {
    let (_, mut state, key) = begin()?;
    let context = state.context_mut(key)?;
    if context.peers.remove(&peer.key()) { Ok(()) } else { Err(PEER_ACCESS_NOT_ENABLED) }
}
