//! The linker of PTX text.
//!
//! Promises: what was added is linked by putting one text behind another, and what comes out can be
//! loaded as a module. Does not link binary images: their code is nothing here.

use core::ffi::{c_char, c_uint, c_void};

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::objects::code::Link;
use super::state::{State, begin, begin_free};
use crate::sys::driver::{Address, Answer, Handle, In, InArray, Out, Text};

pub fn cuLinkCreate(
    _: Call,
    _: c_uint,
    _: In<CUjit_option>,
    _: In<*mut c_void>,
    out: Out<CUlinkState>,
) -> Answer {
    let (_, mut state, _) = begin()?;
    out.check()?;
    let key = state.links.insert(Link::default());
    out.put(CUlinkState::from_key(key))
}
pub use cuLinkCreate as cuLinkCreate_v2;

fn add(state: &mut State, link: CUlinkState, content: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(content);
    if super::ptx::parse(text.trim_end_matches('\0')).is_err() {
        return Err(CUresult::CUDA_ERROR_INVALID_PTX);
    }
    let link = state.links.of_mut(link)?;
    link.text.extend_from_slice(text.trim_end_matches('\0').as_bytes());
    link.text.push(b'\n');
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the driver's signature")]
pub fn cuLinkAddData(
    _: Call,
    link: CUlinkState,
    kind: CUjitInputType,
    data: InArray<u8>,
    _: usize,
    _: In<c_char>,
    _: c_uint,
    _: In<CUjit_option>,
    _: In<*mut c_void>,
) -> Answer {
    let (_, mut state) = begin_free()?;
    // CU_JIT_INPUT_PTX.
    if kind.0 != 1 {
        return Err(NOT_SUPPORTED);
    }
    add(&mut state, link, &data.list()?)
}
pub use cuLinkAddData as cuLinkAddData_v2;

pub fn cuLinkAddFile(
    _: Call,
    link: CUlinkState,
    kind: CUjitInputType,
    path: Text,
    _: c_uint,
    _: In<CUjit_option>,
    _: In<*mut c_void>,
) -> Answer {
    let (_, mut state) = begin_free()?;
    if kind.0 != 1 {
        return Err(NOT_SUPPORTED);
    }
    let content = std::fs::read(path.read()?).map_err(|_| FILE_NOT_FOUND)?;
    add(&mut state, link, &content)
}
pub use cuLinkAddFile as cuLinkAddFile_v2;

pub fn cuLinkComplete(
    _: Call,
    link: CUlinkState,
    image: Out<*mut c_void>,
    size: Out<usize>,
) -> Answer {
    let (_, mut state) = begin_free()?;
    image.check()?;
    let link = state.links.of_mut(link)?;
    if link.text.is_empty() {
        return Err(INVALID_VALUE);
    }
    link.text.push(0);
    size.offer(link.text.len());
    // Owned by the link, as the driver's is: it ends with cuLinkDestroy.
    image.put(Address(link.text.as_ptr().expose_provenance()).pointer())
}

pub fn cuLinkDestroy(_: Call, link: CUlinkState) -> Answer {
    let (_, mut state) = begin_free()?;
    state.links.remove(link.key()).map(|_| ())
}
