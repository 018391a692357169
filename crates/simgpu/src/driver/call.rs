//! Facts that an exported symbol gives its implementation, and the checks every call passes.
//!
//! Promises: no call does anything before `cuInit`, in a forked child, after the process began to
//! end, or from inside a host function; which of these errors a call gives is decided here alone.

use core::cell::Cell;

use divvy_driver_api::types::*;

use super::error::*;
use crate::sys::driver::Answer;
use crate::sys::driver_process::{Life, life};
use crate::sys::mapping::Program;

/// The symbol through which a program came.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The exported name.
    pub name: &'static str,
    /// The program that came.
    pub program: Program,
    /// Whether the default stream is the calling thread's own (`_ptds`, `_ptsz`).
    pub per_thread: bool,
    guarded: bool,
    /// Whether the call must know where the library's exports are.
    pub resolves: bool,
}

impl Call {
    /// Describes a symbol; evaluated at compile time.
    pub const fn of(name: &'static str, program: Program) -> Self {
        let bytes = name.as_bytes();
        Self {
            name,
            program,
            per_thread: ends_with(bytes, b"_ptds") || ends_with(bytes, b"_ptsz"),
            guarded: !(starts_with(bytes, b"cuGetErr")
                || starts_with(bytes, b"cuGetProcAddress")
                || starts_with(bytes, b"cuGetExportTable")
                || starts_with(bytes, b"cuDriverGetVersion")
                || starts_with(bytes, b"cuInit")),
            resolves: starts_with(bytes, b"cuGetProcAddress"),
        }
    }
}

const fn starts_with(text: &[u8], start: &[u8]) -> bool {
    if text.len() < start.len() {
        return false;
    }
    let mut index = 0;
    while index < start.len() {
        if text[index] != start[index] {
            return false;
        }
        index += 1;
    }
    true
}

const fn ends_with(text: &[u8], end: &[u8]) -> bool {
    if text.len() < end.len() {
        return false;
    }
    let mut index = 0;
    while index < end.len() {
        if text[text.len() - end.len() + index] != end[index] {
            return false;
        }
        index += 1;
    }
    true
}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function of the program's during which driver calls are not permitted.
pub(crate) fn in_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.with(|inside| {
        let before = inside.replace(true);
        function();
        inside.set(before);
    });
}

/// The checks before any guarded call.
#[inline]
pub fn enter(call: Call) -> Answer {
    if !call.guarded {
        return Ok(());
    }
    match life() {
        Life::Ready => {}
        Life::New | Life::Forked => return Err(NOT_INITIALIZED),
        Life::Ended => return Err(DEINITIALIZED),
    }
    if IN_HOST_FUNCTION.try_with(Cell::get).unwrap_or(false) {
        return Err(NOT_PERMITTED);
    }
    Ok(())
}

/// An implementation's answer as C sees it.
#[inline]
pub fn code(answer: Answer) -> CUresult {
    match answer {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(error) => error,
    }
}
