//! Memory a context holds beside its blocks: local memory of its threads, the device heap and the
//! printf buffer.
//!
//! The driver takes local memory when a kernel is launched: the largest need per thread, less 1 KiB
//! that is part of every context, times all threads that can be resident; and it keeps it (measured:
//! a kernel with 64 KiB per thread takes 16.5 GiB of an H200). So it is charged when a function is
//! obtained, before it can be launched, and by the largest function a context has. A library's kernel
//! can be launched by its own handle in every context, with no call before, so it counts in all there
//! are and in all that come. Heap and printf buffer are charged when they are set above their defaults,
//! though the driver may take them later.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUlimit, CUresult};
use divvy_policy::charge;

use super::charge::ask;
use super::place::{CallPlace, Next, at};
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::tenant::context::{CONTEXTS, Record};
use crate::tenant::device::Device;

/// The largest local memory per thread of the libraries' kernels obtained; never less again.
static KERNEL_BYTES: AtomicU32 = AtomicU32::new(0);

/// Most contexts of a process that a kernel is charged in.
const MOST_CONTEXTS: usize = 256;

/// Needs of contexts beyond the default, by handle.
static NEEDS: Map = Map::new(7);

/// Local memory per thread that is part of a context.
const DEFAULT_STACK_BYTES: u32 = 1024;

/// The device heap of a fresh context.
const DEFAULT_HEAP_BYTES: u64 = 8 << 20;

/// The printf buffer of a fresh context.
const DEFAULT_PRINTF_BYTES: u64 = 8_650_752;

/// Needs of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Need {
    /// `CU_LIMIT_STACK_SIZE`.
    stack_bytes: u32,
    /// The largest local memory of the functions obtained.
    local_bytes: u32,
    heap_mib: u32,
    printf_mib: u32,
}

impl Need {
    const DEFAULT: Self =
        Self { stack_bytes: DEFAULT_STACK_BYTES, local_bytes: 0, heap_mib: 0, printf_mib: 0 };

    fn pack(self) -> [u64; 2] {
        [
            u64::from(self.stack_bytes) | u64::from(self.local_bytes) << 32,
            u64::from(self.heap_mib) | u64::from(self.printf_mib) << 32,
        ]
    }

    fn unpack([local, heap]: [u64; 2]) -> Self {
        let low = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(u32::MAX);
        let high = |word: u64| u32::try_from(word >> 32).unwrap_or(u32::MAX);
        Self {
            stack_bytes: low(local),
            local_bytes: high(local),
            heap_mib: low(heap),
            printf_mib: high(heap),
        }
    }

    /// Bytes to charge.
    fn bytes(self, device: &Device) -> u64 {
        let per_thread = self.stack_bytes.max(self.local_bytes);
        let beyond = u64::from(per_thread.saturating_sub(DEFAULT_STACK_BYTES));
        let local = charge::whole_granules(beyond.saturating_mul(device.resident_threads));
        let mib = u64::from(self.heap_mib).saturating_add(u64::from(self.printf_mib));
        local.saturating_add(charge::whole_granules(mib.saturating_mul(1 << 20)))
    }
}

fn need_of(context: u64) -> Need {
    NEEDS.get(context).map_or(Need::DEFAULT, Need::unpack)
}

/// Changes what a context needs around `call`: asks for the difference first, and settles to what
/// holds then, which another thread may have changed as well.
fn change(
    place: CallPlace,
    alter: impl Fn(Need) -> Need,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device = place.device;
    let now = need_of(place.context);
    let (before, after) = (now.bytes(device), alter(now).bytes(device));
    let asked = after.saturating_sub(before);
    let held = match ask(device, asked, MemoryKind::Heap) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = call();
    if result != SUCCESS {
        return result;
    }
    let (mut grown, mut shrunk) = (0, 0);
    let recorded = NEEDS.update(place.context, |old| {
        let old = old.map_or(Need::DEFAULT, Need::unpack);
        let new = alter(old);
        grown = new.bytes(device).saturating_sub(old.bytes(device));
        shrunk = old.bytes(device).saturating_sub(new.bytes(device));
        Some(new.pack())
    });
    if recorded.is_err() {
        // Charged until the process ends: that errs on the safe side.
        device.tell_no_table();
        held.keep();
        return result;
    }
    let held = held.keep();
    device.hold(grown.saturating_sub(held), MemoryKind::Heap);
    device.give_back(held.saturating_sub(grown).saturating_add(shrunk), MemoryKind::Heap);
    result
}

/// A function with so much local memory was obtained; the code to return if that does not fit.
///
/// Cost: two looks into maps unless it is the largest so far.
pub(super) fn note_local(place: CallPlace, local_bytes: i32) -> CUresult {
    let local_bytes = u32::try_from(local_bytes).unwrap_or(0);
    let need = need_of(place.context);
    if local_bytes <= DEFAULT_STACK_BYTES || local_bytes <= need.local_bytes {
        return SUCCESS;
    }
    let alter = |need: Need| Need { local_bytes: need.local_bytes.max(local_bytes), ..need };
    change(place, alter, || SUCCESS)
}

/// As [`note_local`] for a library's kernel, in every context of the process.
pub(super) fn note_kernel(local_bytes: i32) -> CUresult {
    let local_bytes = u32::try_from(local_bytes).unwrap_or(0);
    if local_bytes <= DEFAULT_STACK_BYTES {
        return SUCCESS;
    }
    // Contexts made from now on are charged it at once; then those that there are.
    let before = KERNEL_BYTES.fetch_max(local_bytes, SeqCst);
    if before >= local_bytes {
        return SUCCESS;
    }
    for _ in 0..MOST_CONTEXTS {
        let mut short = None;
        CONTEXTS.for_each(|context, words| {
            let record = Record::unpack(words);
            if !record.green && need_of(context).local_bytes < local_bytes {
                short = Some((context, record.ordinal));
            }
        });
        let Some((context, ordinal)) = short else { break };
        let Next::Count(device) = at(ordinal) else { break };
        let code = note_local(CallPlace { device, context }, local_bytes.cast_signed());
        if code != SUCCESS {
            let _ = KERNEL_BYTES.compare_exchange(local_bytes, before, SeqCst, SeqCst);
            return code;
        }
    }
    SUCCESS
}

/// Local memory per thread that a new context needs from the start, for the libraries' kernels.
pub(super) fn kernels_local_bytes() -> u32 {
    KERNEL_BYTES.load(SeqCst)
}

/// Charge of a context for so much local memory per thread.
pub(super) fn bytes_of_local(device: &Device, local_bytes: u32) -> u64 {
    Need { local_bytes, ..Need::DEFAULT }.bytes(device)
}

/// A context was made, and is charged for so much local memory per thread.
pub(super) fn begin_context(context: u64, device: &'static Device, local_bytes: u32) {
    // A kernel that was obtained meanwhile counts here too, whether it fits or not.
    let now_bytes = kernels_local_bytes().max(local_bytes);
    if now_bytes <= DEFAULT_STACK_BYTES {
        return;
    }
    let (asked, wanted) = (bytes_of_local(device, local_bytes), bytes_of_local(device, now_bytes));
    device.hold(wanted.saturating_sub(asked), MemoryKind::Heap);
    // So may another thread have charged it since it was recorded: the larger one counts.
    let mut twice = 0;
    let _ = NEEDS.update(context, |old| {
        let old = old.map_or(Need::DEFAULT, Need::unpack);
        twice = old.local_bytes.min(now_bytes);
        Some(Need { local_bytes: old.local_bytes.max(now_bytes), ..old }.pack())
    });
    device.give_back(bytes_of_local(device, twice), MemoryKind::Heap);
}

/// A context is gone.
pub(super) fn forget_context(context: u64, device: &'static Device) {
    if let Some(words) = NEEDS.take(context) {
        device.give_back(Need::unpack(words).bytes(device), MemoryKind::Heap);
    }
}

fn mib_beyond(bytes: u64, default_bytes: u64) -> u32 {
    let beyond = bytes.saturating_sub(default_bytes);
    u32::try_from(beyond.div_ceil(1 << 20)).unwrap_or(u32::MAX)
}

/// Sets a limit of the current context, which is at `place`: `call` asks the driver.
pub(crate) fn set_limit(
    place: CallPlace,
    limit: CUlimit,
    value: usize,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let alter = |need: Need| match limit {
        CUlimit::CU_LIMIT_STACK_SIZE => {
            Need { stack_bytes: u32::try_from(value).unwrap_or(u32::MAX), ..need }
        }
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => {
            Need { heap_mib: mib_beyond(value as u64, DEFAULT_HEAP_BYTES), ..need }
        }
        _ => Need { printf_mib: mib_beyond(value as u64, DEFAULT_PRINTF_BYTES), ..need },
    };
    change(place, alter, call)
}
