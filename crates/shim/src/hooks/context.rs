//! Contexts of every kind: each is charged a constant before the driver makes it.
//!
//! Two first contexts at a full limit are one context and one out-of-memory, since the ledger is
//! asked first. A context that was made where nobody looked (a private table of the driver's) is
//! charged at the first hooked call that finds it current. The primary context is charged while it
//! is active, however often it is retained; green contexts share it and take a little more until it
//! ends. With a context goes everything charged to it.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUcontext, CUctxCreateParams, CUdevResourceDesc, CUdevice, CUexecAffinityParam, CUgreenCtx,
    CUresult, VdpDevice, VdpGetProcAddress,
};

use super::charge::{Next, Place, SUCCESS, ask, at};
use super::{array, capture, external, heap, memory, module};
use crate::sys::map::Map;
use crate::sys::{Out, driver, real};
use crate::tenant::device::Device;

/// Charged contexts by handle.
static CONTEXTS: Map = Map::new(2);

/// Green contexts by handle: device and 1.
static GREENS: Map = Map::new(3);

/// What a green context takes, measured (4 to 6 MiB in turn); it goes back when the primary context
/// ends, not before: the next one takes as much again.
const GREEN_BYTES: u64 = 6 << 20;

/// What is known of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    ordinal: CUdevice,
    /// A view of the primary context through a green one, with nothing of its own.
    green: bool,
    /// `cuCtxCreate` and `cuCtxAttach` less `cuCtxDetach`.
    references: u32,
    /// Bytes charged; for a view, the green context's handle.
    bytes: u64,
}

impl Record {
    fn pack(self) -> [u64; 2] {
        let ordinal = u64::from(self.ordinal.cast_unsigned() & 0xf);
        let word = ordinal | u64::from(self.green) << 8 | u64::from(self.references) << 16;
        [word, self.bytes]
    }

    fn unpack([word, bytes]: [u64; 2]) -> Self {
        Self {
            ordinal: CUdevice::try_from(word & 0xf).unwrap_or(0),
            green: word >> 8 & 1 != 0,
            references: u32::try_from(word >> 16 & 0xffff_ffff).unwrap_or(u32::MAX),
            bytes,
        }
    }
}

/// The place of the context with handle `context`, which is current.
pub(crate) fn place_of(context: u64) -> Next<Place> {
    let Some(record) = CONTEXTS.get(context).map(Record::unpack) else { return adopt(context) };
    match at(record.ordinal) {
        Next::Count(device) if record.green => {
            Next::Count(Place { device, context: device.primary.load(SeqCst) })
        }
        Next::Count(device) => Next::Count(Place { device, context }),
        Next::Forward => Next::Forward,
        Next::Refuse(code) => Next::Refuse(code),
    }
}

/// Charges a current context that nobody has seen being made.
#[cold]
fn adopt(context: u64) -> Next<Place> {
    let Ok(ordinal) = driver::ctx_device() else { return Next::Forward };
    let device = match at(ordinal) {
        Next::Count(device) => device,
        Next::Forward => return Next::Forward,
        Next::Refuse(code) => return Next::Refuse(code),
    };
    let held = match ask(device, device.context_bytes, Kind::Context) {
        Ok(held) => held,
        Err(code) => return Next::Refuse(code),
    };
    let record = Record { ordinal, green: false, references: 1, bytes: device.context_bytes };
    if !record_new(context, record) {
        drop(held);
    } else {
        held.keep();
        let is_primary =
            capture::relaxed(|| primary_handle(ordinal)).is_some_and(|primary| primary == context);
        if is_primary {
            device.primary.store(context, SeqCst);
        }
    }
    Next::Count(Place { device, context })
}

/// Handle of the device's primary context, if it is active.
fn primary_handle(ordinal: CUdevice) -> Option<u64> {
    let (_, active) = driver::primary_ctx_state(ordinal).ok()?;
    if !active {
        return None;
    }
    let primary = driver::primary_retain(ordinal).ok()?;
    let _ = driver::primary_release(ordinal);
    Some(primary.0.addr() as u64)
}

/// Records a context; false if it was known. Without memory for the record it counts as recorded:
/// the charge stays until the process ends, which errs on the safe side.
fn record_new(context: u64, record: Record) -> bool {
    let mut known = false;
    let _ = CONTEXTS.update(context, |old| {
        known = old.is_some();
        old.or(Some(record.pack()))
    });
    !known
}

/// Everything charged to a context that is gone goes back.
fn forget(context: u64, record: Record) {
    if record.green {
        return;
    }
    if let Next::Count(device) = at(record.ordinal) {
        memory::forget_context(context, device);
        array::forget_context(context, device);
        module::forget_context(context, device);
        external::forget_context(context, device);
        heap::forget_context(context, device);
        device.give_back(record.bytes, Kind::Context);
    }
}

/// Makes a context of the program's own.
fn create(ordinal: CUdevice, out: Out<'_, CUcontext>, call: impl FnOnce() -> CUresult) -> CUresult {
    let device = match at(ordinal) {
        Next::Count(device) => device,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    let held = match ask(device, device.context_bytes, Kind::Context) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = call();
    let made = out.get().filter(|context| !context.0.is_null());
    if result == SUCCESS
        && let Some(context) = made
    {
        let record = Record { ordinal, green: false, references: 1, bytes: device.context_bytes };
        // A handle that was used before belongs to a context that ended unseen.
        let context = context.0.addr() as u64;
        if let Some(stale) = CONTEXTS.take(context) {
            forget(context, Record::unpack(stale));
        }
        record_new(context, record);
        held.keep();
    }
    result
}

/// Ends a context: the record is taken out, the driver called, and put back if it refused.
fn destroy(context: CUcontext, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = context.0.addr() as u64;
    let taken = CONTEXTS.take(handle);
    let result = call();
    match taken {
        Some(words) if result == SUCCESS => forget(handle, Record::unpack(words)),
        Some(words) => {
            let _ = CONTEXTS.insert(handle, words);
        }
        None => {}
    }
    result
}

/// `cuCtxCreate` of CUDA 2 and later.
pub(crate) fn cuCtxCreate_v2(
    real: real::cuCtxCreate_v2,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// The first form.
pub(crate) fn cuCtxCreate(
    real: real::cuCtxCreate,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// With execution affinity.
pub(crate) fn cuCtxCreate_v3(
    real: real::cuCtxCreate_v3,
    pctx: Out<'_, CUcontext>,
    affinity: Out<'_, CUexecAffinityParam>,
    count: c_int,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, affinity, count, flags, dev))
}

/// With parameters.
pub(crate) fn cuCtxCreate_v4(
    real: real::cuCtxCreate_v4,
    pctx: Out<'_, CUcontext>,
    params: Out<'_, CUctxCreateParams>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, params, flags, dev))
}

/// For OpenGL.
pub(crate) fn cuGLCtxCreate_v2(
    real: real::cuGLCtxCreate_v2,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// The first form.
pub(crate) fn cuGLCtxCreate(
    real: real::cuGLCtxCreate,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev))
}

/// For VDPAU.
pub(crate) fn cuVDPAUCtxCreate_v2(
    real: real::cuVDPAUCtxCreate_v2,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
    vdp: VdpDevice,
    get: VdpGetProcAddress,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev, vdp, get))
}

/// The first form.
pub(crate) fn cuVDPAUCtxCreate(
    real: real::cuVDPAUCtxCreate,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
    dev: CUdevice,
    vdp: VdpDevice,
    get: VdpGetProcAddress,
) -> CUresult {
    create(dev, pctx, || real.call(pctx, flags, dev, vdp, get))
}

/// Ends a context.
pub(crate) fn cuCtxDestroy_v2(real: real::cuCtxDestroy_v2, ctx: CUcontext) -> CUresult {
    destroy(ctx, || real.call(ctx))
}

/// The first form.
pub(crate) fn cuCtxDestroy(real: real::cuCtxDestroy, ctx: CUcontext) -> CUresult {
    destroy(ctx, || real.call(ctx))
}

/// One reference more.
pub(crate) fn cuCtxAttach(
    real: real::cuCtxAttach,
    pctx: Out<'_, CUcontext>,
    flags: c_uint,
) -> CUresult {
    let result = real.call(pctx, flags);
    if result == SUCCESS
        && let Some(context) = pctx.get()
    {
        let _ = CONTEXTS.update(context.0.addr() as u64, |old| {
            old.map(Record::unpack)
                .map(|r| Record { references: r.references.saturating_add(1), ..r }.pack())
        });
    }
    result
}

/// One reference less; the last one ends the context.
pub(crate) fn cuCtxDetach(real: real::cuCtxDetach, ctx: CUcontext) -> CUresult {
    let result = real.call(ctx);
    if result == SUCCESS {
        let handle = ctx.0.addr() as u64;
        let mut ended = None;
        let _ = CONTEXTS.update(handle, |old| {
            let record = Record::unpack(old?);
            if record.references <= 1 {
                ended = Some(record);
                return None;
            }
            Some(Record { references: record.references.saturating_sub(1), ..record }.pack())
        });
        if let Some(record) = ended {
            forget(handle, record);
        }
    }
    result
}

/// Retains the primary context; the first one pays.
pub(crate) fn cuDevicePrimaryCtxRetain(
    real: real::cuDevicePrimaryCtxRetain,
    pctx: Out<'_, CUcontext>,
    dev: CUdevice,
) -> CUresult {
    let device = match at(dev) {
        Next::Count(device) => device,
        Next::Forward => return real.call(pctx, dev),
        Next::Refuse(code) => return code,
    };
    if device.primary.load(SeqCst) != 0 {
        return real.call(pctx, dev);
    }
    let held = match ask(device, device.context_bytes, Kind::Context) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = real.call(pctx, dev);
    if result == SUCCESS
        && let Some(context) = pctx.get()
        && record_primary(device, context.0.addr() as u64)
    {
        held.keep();
    }
    result
}

/// Records the primary context; false if it was known, so that its charge must not count twice.
fn record_primary(device: &'static Device, context: u64) -> bool {
    let ordinal = device.ordinal;
    let record = Record { ordinal, green: false, references: 1, bytes: device.context_bytes };
    let is_new = record_new(context, record);
    device.primary.store(context, SeqCst);
    is_new
}

/// The primary context may have ended: if so, its charges go.
fn end_primary(ordinal: CUdevice) {
    let Next::Count(device) = at(ordinal) else { return };
    let context = device.primary.load(SeqCst);
    if context == 0 || driver::primary_ctx_state(ordinal).is_ok_and(|(_, active)| active) {
        return;
    }
    if device.primary.compare_exchange(context, 0, SeqCst, SeqCst).is_ok()
        && let Some(words) = CONTEXTS.take(context)
    {
        forget(context, Record::unpack(words));
    }
}

/// Releases the primary context.
pub(crate) fn cuDevicePrimaryCtxRelease_v2(
    real: real::cuDevicePrimaryCtxRelease_v2,
    dev: CUdevice,
) -> CUresult {
    let result = real.call(dev);
    if result == SUCCESS {
        end_primary(dev);
    }
    result
}

/// The first form.
pub(crate) fn cuDevicePrimaryCtxRelease(
    real: real::cuDevicePrimaryCtxRelease,
    dev: CUdevice,
) -> CUresult {
    let result = real.call(dev);
    if result == SUCCESS {
        end_primary(dev);
    }
    result
}

/// Destroys all state of the primary context.
pub(crate) fn cuDevicePrimaryCtxReset_v2(
    real: real::cuDevicePrimaryCtxReset_v2,
    dev: CUdevice,
) -> CUresult {
    let result = real.call(dev);
    if result == SUCCESS {
        end_primary(dev);
    }
    result
}

/// The first form.
pub(crate) fn cuDevicePrimaryCtxReset(
    real: real::cuDevicePrimaryCtxReset,
    dev: CUdevice,
) -> CUresult {
    let result = real.call(dev);
    if result == SUCCESS {
        end_primary(dev);
    }
    result
}

/// A green context: it retains the primary one, which is charged with it if it is the first.
pub(crate) fn cuGreenCtxCreate(
    real: real::cuGreenCtxCreate,
    green: Out<'_, CUgreenCtx>,
    desc: CUdevResourceDesc,
    dev: CUdevice,
    flags: c_uint,
) -> CUresult {
    let device = match at(dev) {
        Next::Count(device) => device,
        Next::Forward => return real.call(green, desc, dev, flags),
        Next::Refuse(code) => return code,
    };
    let first = device.primary.load(SeqCst) == 0;
    let primary_bytes = if first { device.context_bytes } else { 0 };
    let held = match ask(device, primary_bytes, Kind::Context) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let held_piece = match ask(device, GREEN_BYTES, Kind::Context) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = real.call(green, desc, dev, flags);
    let made = green.get().filter(|handle| !handle.0.is_null());
    let Some(made) = made.filter(|_| result == SUCCESS) else { return result };
    if first
        && let Some(primary) = capture::relaxed(|| primary_handle(dev))
        && record_primary(device, primary)
    {
        held.keep();
    }
    let piece = held_piece.keep();
    let primary = device.primary.load(SeqCst);
    let _ = CONTEXTS.update(primary, |old| {
        old.map(Record::unpack).map(|r| Record { bytes: r.bytes.saturating_add(piece), ..r }.pack())
    });
    let _ = GREENS.insert(made.0.addr() as u64, [u64::from(dev.cast_unsigned()), 1]);
    result
}

/// Ends a green context, and the primary one if nothing else retained it.
pub(crate) fn cuGreenCtxDestroy(real: real::cuGreenCtxDestroy, green: CUgreenCtx) -> CUresult {
    let handle = green.0.addr() as u64;
    let taken = GREENS.take(handle);
    let result = real.call(green);
    let Some([ordinal, one]) = taken else { return result };
    if result != SUCCESS {
        let _ = GREENS.insert(handle, [ordinal, one]);
        return result;
    }
    CONTEXTS.take_if(|_, words| {
        let record = Record::unpack(words);
        record.green && record.bytes == handle
    });
    end_primary(CUdevice::try_from(ordinal).unwrap_or(0));
    result
}

/// A context handle for a green context: a view of the primary one, with no memory of its own.
pub(crate) fn cuCtxFromGreenCtx(
    real: real::cuCtxFromGreenCtx,
    pctx: Out<'_, CUcontext>,
    green: CUgreenCtx,
) -> CUresult {
    let result = real.call(pctx, green);
    if result == SUCCESS
        && let Some(context) = pctx.get()
        && let Some([ordinal, _]) = GREENS.get(green.0.addr() as u64)
    {
        let record = Record {
            ordinal: CUdevice::try_from(ordinal).unwrap_or(0),
            green: true,
            references: 1,
            bytes: green.0.addr() as u64,
        };
        record_new(context.0.addr() as u64, record);
    }
    result
}
