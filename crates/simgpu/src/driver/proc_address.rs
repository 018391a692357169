//! `cuGetProcAddress`: which exported symbol a base name, a CUDA version and flags mean.
//!
//! Promises: the newest version of the name that the asked CUDA version knows; with the flag for
//! per-thread default streams its `_ptds` or `_ptsz` form where there is one; always the address of
//! an exported symbol. Does not know any private table: every id is unknown.

use core::ffi::{c_int, c_void};
use std::sync::OnceLock;

use divvy_driver_api::types::*;
use divvy_driver_api::{Entry, find};

use super::call::Call;
use super::error::*;
use crate::sys::driver::{Address, Answer, In, Out, Text};

/// Where the library finds its own exports.
pub type Exports = fn(&str) -> Option<usize>;

static EXPORTS: OnceLock<Exports> = OnceLock::new();

/// Tells the driver where its exported symbols are; the library does at its first call.
pub fn set_exports(exports: Exports) {
    EXPORTS.get_or_init(|| exports);
}

/// Result for a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Symbol(&'static str),
    Unknown,
    TooNew,
}

/// Names without a public prototype that are answered too, and since which version.
const UNDOCUMENTED: &[(&str, u32)] = &[("cuProfilerInitialize", 4000)];

/// The symbol a name means under a CUDA version.
pub(crate) fn symbol(name: &str, version: u32, per_thread: bool) -> Found {
    if let Some((name, from)) = UNDOCUMENTED.iter().find(|(known, _)| *known == name) {
        return if *from <= version { Found::Symbol(name) } else { Found::TooNew };
    }
    let mut best: Option<&'static Entry> = None;
    let mut all: Vec<&'static Entry> = Vec::new();
    for number in 1..=9 {
        let full = if number == 1 { name.to_owned() } else { format!("{name}_v{number}") };
        let Some(entry) =
            find(&full).filter(|entry| entry.in_driver_580 && entry.name == entry.base)
        else {
            continue;
        };
        all.push(entry);
        // Versions of a name were introduced in their order.
        if entry.introduced <= version {
            best = Some(entry);
        }
    }
    // A name with its version spelt out is no base name.
    let is_spelt_out = name.rsplit_once("_v").is_some_and(|(_, n)| n.parse::<u8>().is_ok());
    let has_own_form = |entry: &Entry| {
        ["_ptsz", "_ptds"].iter().any(|suffix| find(&format!("{}{suffix}", entry.name)).is_some())
    };
    match best {
        _ if is_spelt_out || all.is_empty() => Found::Unknown,
        // Per-thread default streams came with CUDA 7.
        Some(_) if per_thread && version < 7000 && all.iter().any(|entry| has_own_form(entry)) => {
            Found::TooNew
        }
        None => Found::TooNew,
        Some(entry) if per_thread => {
            let own = ["_ptsz", "_ptds"].into_iter().find_map(|suffix| {
                find(&format!("{}{suffix}", entry.name)).filter(|entry| entry.in_driver_580)
            });
            Found::Symbol(own.unwrap_or(entry).name)
        }
        Some(entry) => Found::Symbol(entry.name),
    }
}

fn answer(
    name: Text,
    out: Out<*mut c_void>,
    version: c_int,
    flags: u64,
    status: Out<CUdriverProcAddressQueryResult>,
) -> Answer {
    out.check()?;
    let name = name.read()?;
    let version = u32::try_from(version).unwrap_or(0);
    // A version the driver does not know yet, or flags it does not know.
    if flags > 2 || version > super::device::DRIVER_VERSION.unsigned_abs() {
        return Err(INVALID_VALUE);
    }
    let found = symbol(&name, version, flags == 2);
    let address = match found {
        Found::Symbol(name) => EXPORTS.get().and_then(|exports| exports(name)),
        _ => None,
    };
    out.put(Address(address.unwrap_or(0)).pointer())?;
    let code = match found {
        Found::Symbol(_) => 0,
        Found::Unknown => 1,
        Found::TooNew => 2,
    };
    status.offer(CUdriverProcAddressQueryResult(code));
    // Nothing found is no error, whether or not the caller wants to be told.
    Ok(())
}

pub fn cuGetProcAddress(
    _: Call,
    name: Text,
    out: Out<*mut c_void>,
    version: c_int,
    flags: cuuint64_t,
) -> Answer {
    answer(name, out, version, flags, Out::null())?;
    if out.get()?.is_null() { Err(NOT_FOUND) } else { Ok(()) }
}

pub fn cuGetProcAddress_v2(
    _: Call,
    name: Text,
    out: Out<*mut c_void>,
    version: c_int,
    flags: cuuint64_t,
    status: Out<CUdriverProcAddressQueryResult>,
) -> Answer {
    answer(name, out, version, flags, status)
}

pub fn cuGetExportTable(_: Call, out: Out<*const c_void>, id: In<CUuuid>) -> Answer {
    out.put(core::ptr::null())?;
    id.get()?;
    // The driver's answer for an id it does not know.
    Err(INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_flags_choose_the_symbol() {
        let found = |name, version, own| symbol(name, version, own);
        assert_eq!(found("cuMemAlloc", 12000, false), Found::Symbol("cuMemAlloc_v2"));
        assert_eq!(found("cuMemAlloc", 2000, false), Found::Symbol("cuMemAlloc"));
        assert_eq!(found("cuMemcpyHtoD", 12000, true), Found::Symbol("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(found("cuLaunchKernel", 12000, true), Found::Symbol("cuLaunchKernel_ptsz"));
        assert_eq!(found("cuLaunchKernelEx", 11000, false), Found::TooNew);
        assert_eq!(found("cuMemAlloc_v2", 12000, false), Found::Unknown);
        assert_eq!(found("cuNothing", 12000, false), Found::Unknown);
        assert_eq!(found("cuCtxCreate", 13000, false), Found::Symbol("cuCtxCreate_v4"));
        assert_eq!(found("cuGetProcAddress", 12000, false), Found::Symbol("cuGetProcAddress_v2"));
    }
}
