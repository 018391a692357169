//! `cuGetProcAddress`: the driver chooses by name, version and flags; we replace the address it gives.
//!
//! Every answer of a driver is the address of one of its exports (measured over all names, versions
//! and flags of driver 580), so what is hooked is told by the address alone. An address that is no
//! export we know is handed through and named once (UNCOVERED): the sign of a newer driver. In a
//! strict tenant such a name is refused if it belongs to a family that can take memory or submit
//! work.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use divvy_driver_api::types::{CUdriverProcAddressQueryResult, CUresult, cuuint64_t};

use crate::sys::{In, Out, OutFunction, log, name_hash, real};
use crate::tenant;

/// How names begin that are refused in a strict tenant when we do not know them. One text: a table would
/// be pointers that the loader must move.
const FAMILIES: &[u8] =
    b"cuArray cuCtx cuDevicePrimaryCtx cuGraph cuGreen cuImport cuIpc cuKernel \
cuLaunch cuLibrary cuLogicalEndpoint cuMem cuMipmappedArray cuModule cuMulticast";

/// Bytes of a name that are looked at; the driver's longest has 46.
const NAME_BYTES: usize = 96;

static UNCOVERED: AtomicU32 = AtomicU32::new(0);
/// Hashes of the names that were told.
static TOLD: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

pub(crate) fn cuGetProcAddress(
    real: real::cuGetProcAddress,
    symbol: In<'_, c_char>,
    pfn: OutFunction<'_>,
    version: c_int,
    flags: cuuint64_t,
) -> CUresult {
    let result = real.call(symbol, pfn, version, flags);
    if replace(result, symbol, pfn) { CUresult::CUDA_ERROR_NOT_FOUND } else { result }
}

pub(crate) fn cuGetProcAddress_v2(
    real: real::cuGetProcAddress_v2,
    symbol: In<'_, c_char>,
    pfn: OutFunction<'_>,
    version: c_int,
    flags: cuuint64_t,
    status: Out<'_, CUdriverProcAddressQueryResult>,
) -> CUresult {
    let result = real.call(symbol, pfn, version, flags, status);
    if replace(result, symbol, pfn) {
        status.set(CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        return CUresult::CUDA_ERROR_NOT_FOUND;
    }
    result
}

/// Replaces the driver's answer by the hook that stands for it, if one does; true where it is taken back instead.
fn replace(result: CUresult, symbol: In<'_, c_char>, pfn: OutFunction<'_>) -> bool {
    if result != CUresult::CUDA_SUCCESS || pfn.address() == 0 {
        return false;
    }
    let mut bytes = [0_u8; NAME_BYTES];
    let name = symbol.copy_text(&mut bytes);
    // A driver that takes its own names from the dynamic linker gives our exports.
    let is_refused = !pfn.put_hook(name) && refuse_uncovered(name);
    if is_refused {
        pfn.clear();
    }
    is_refused
}

/// Tells of a name that the table does not know; true where it is refused.
#[cold]
fn refuse_uncovered(name: &[u8]) -> bool {
    let count = UNCOVERED.fetch_add(1, Relaxed).saturating_add(1);
    // The family first: asking for the tenant joins it.
    let mut families = FAMILIES.split(|byte| *byte == b' ');
    let refused = families.any(|family| name.starts_with(family)) && tenant::is_strict();
    if is_news(name) {
        tell(name, count, refused);
    }
    refused
}

// Not inlined: it would be there twice, for each end of a name.
#[inline(never)]
fn tell(name: &[u8], count: u32, refused: bool) {
    let text = core::str::from_utf8(name).unwrap_or("(not a name)");
    let end = if refused { "refused, the tenant is strict" } else { "handed through" };
    log!(Warn, "UNCOVERED: {text} is not in Divvy's table: {end} ({count} so far)");
}

/// Whether `name` is told for the first time.
fn is_news(name: &[u8]) -> bool {
    let hash = name_hash(name) | 1;
    for slot in &TOLD {
        match slot.compare_exchange(0, hash, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(other) if other == hash => return false,
            Err(_) => {}
        }
    }
    false
}
