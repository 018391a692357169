//! Contexts of every kind: each is charged a constant before the driver makes it.
//!
//! Two first contexts at a full limit are one context and one out-of-memory, since the ledger is
//! asked first. A context that was made where nobody looked (a private table of the driver's) is
//! charged at the first hooked call that finds it current. With a context goes everything charged to
//! it. Primary and green contexts are in [`super::primary`].

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUresult, VdpDevice,
    VdpGetProcAddress,
};

use super::charge::{Next, Place, SUCCESS, ask, at};
use super::{array, external, heap, ipc, memory, module, primary, stream};
use crate::gate::{GATES, capture, relaxed};
use crate::sys::map::Map;
use crate::sys::{Out, driver, real};
use crate::tenant::device::Device;

/// Charged contexts by handle.
pub(super) static CONTEXTS: Map = Map::new(2);

/// What is known of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// The driver's number of its device.
    pub(super) ordinal: CUdevice,
    /// A view of the primary context through a green one, with nothing of its own.
    pub(super) green: bool,
    /// `cuCtxCreate` and `cuCtxAttach` less `cuCtxDetach`.
    pub(super) references: u32,
    /// Tells it from an earlier one of the same handle.
    pub(super) generation: u16,
    /// Bytes charged; for a view, the green context's handle.
    pub(super) bytes: u64,
}

impl Record {
    /// A context with one reference.
    pub(super) fn new(ordinal: CUdevice, bytes: u64) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let generation = LAST.fetch_add(1, SeqCst) as u16;
        Self { ordinal, green: false, references: 1, generation, bytes }
    }

    /// The two words a map holds.
    pub(super) fn pack(self) -> [u64; 2] {
        let ordinal = u64::from(self.ordinal.cast_unsigned() & 0xf);
        let generation = u64::from(self.generation) << 48;
        let references = u64::from(self.references) << 16;
        [ordinal | u64::from(self.green) << 8 | references | generation, self.bytes]
    }

    /// Reads the two words.
    pub(super) fn unpack([word, bytes]: [u64; 2]) -> Self {
        Self {
            ordinal: CUdevice::try_from(word & 0xf).unwrap_or(0),
            green: word >> 8 & 1 != 0,
            references: u32::try_from(word >> 16 & 0xffff_ffff).unwrap_or(u32::MAX),
            generation: (word >> 48) as u16,
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
    let granted = match grant(device) {
        Ok(granted) => granted,
        Err(code) => return Next::Refuse(code),
    };
    if granted.keep(context) {
        let is_primary =
            relaxed(|| primary::handle_of(ordinal)).is_some_and(|primary| primary == context);
        if is_primary {
            device.primary.store(context, SeqCst);
        }
    }
    Next::Count(Place { device, context })
}

/// What a new context takes, granted before it is made: its constant, and local memory for the
/// libraries' kernels. Goes back when dropped.
#[derive(Debug)]
pub(super) struct Granted {
    device: &'static Device,
    local_bytes: u32,
}

/// Asks for a new context.
#[inline(never)]
pub(super) fn grant(device: &'static Device) -> Result<Granted, CUresult> {
    let local_bytes = heap::kernels_local_bytes();
    let base = ask(device, device.context_bytes, Kind::Context)?;
    ask(device, heap::bytes_of_local(device, local_bytes), Kind::Heap)?.keep();
    base.keep();
    Ok(Granted { device, local_bytes })
}

impl Granted {
    /// The context was made: it is recorded and stays charged. False, and nothing is charged, if it
    /// was known.
    #[inline(never)]
    pub(super) fn keep(self, context: u64) -> bool {
        let device = self.device;
        let bytes = device.context_bytes;
        let record = Record::new(device.ordinal, bytes);
        let is_new = record_new(context, record);
        if is_new {
            heap::begin_context(context, device, self.local_bytes);
            core::mem::forget(self);
        }
        is_new
    }
}

impl Drop for Granted {
    #[inline(never)]
    fn drop(&mut self) {
        self.device.give_back(self.device.context_bytes, Kind::Context);
        self.device.give_back(heap::bytes_of_local(self.device, self.local_bytes), Kind::Heap);
    }
}

/// Records a context; false if it was known. Without memory for the record it counts as recorded:
/// the charge stays until the process ends, which errs on the safe side.
pub(super) fn record_new(context: u64, record: Record) -> bool {
    let mut known = false;
    let _ = CONTEXTS.update(context, |old| {
        known = old.is_some();
        old.or(Some(record.pack()))
    });
    !known
}

/// Everything charged to a context that is gone goes back.
pub(super) fn forget(context: u64, record: Record) {
    if record.green {
        return;
    }
    if let Next::Count(device) = at(record.ordinal) {
        memory::forget_context(context, device);
        array::forget_context(context, device);
        module::forget_context(context, device);
        external::forget_context(context, device);
        heap::forget_context(context, device);
        ipc::forget_context(context);
        stream::forget_context(context, device);
        capture::forget_context(context);
        device.give_back(record.bytes, Kind::Context);
    }
}

/// Makes a context of the program's own.
fn create(ordinal: CUdevice, out: Out<'_, CUcontext>, call: impl FnOnce() -> CUresult) -> CUresult {
    match announce(ordinal) {
        Next::Count(granted) => created(granted, out, call()),
        Next::Forward => call(),
        Next::Refuse(code) => code,
    }
}

#[inline(never)]
fn announce(ordinal: CUdevice) -> Next<Granted> {
    match at(ordinal) {
        Next::Count(device) => grant(device).map_or_else(Next::Refuse, Next::Count),
        Next::Forward => Next::Forward,
        Next::Refuse(code) => Next::Refuse(code),
    }
}

#[inline(never)]
fn created(granted: Granted, out: Out<'_, CUcontext>, result: CUresult) -> CUresult {
    let made = out.get().filter(|context| result == SUCCESS && !context.0.is_null());
    if let Some(context) = made {
        // A handle that was used before belongs to a context that ended unseen.
        let context = context.0.addr() as u64;
        GATES.retire(&|handle| handle == context).gone();
        if let Some(stale) = CONTEXTS.take(context) {
            forget(context, Record::unpack(stale));
        }
        granted.keep(context);
    }
    result
}

/// Ends a context: the record is taken out, its events are let go, the driver called, and the record put
/// back if it refused. Of the primary one only the driver says whether it has ended.
fn destroy(context: CUcontext, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = context.0.addr() as u64;
    if let Some(ordinal) = primary::is_of(handle) {
        return primary::may_end(ordinal, call);
    }
    let taken = CONTEXTS.take(handle);
    let retiring = GATES.retire(&|retired| retired == handle);
    let result = call();
    if result == SUCCESS {
        retiring.gone();
    }
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

/// One reference less; the last one ends the context. A driver takes it of the primary one as well,
/// which lives on: there it alone says what has ended.
pub(crate) fn cuCtxDetach(real: real::cuCtxDetach, ctx: CUcontext) -> CUresult {
    let handle = ctx.0.addr() as u64;
    if let Some(ordinal) = primary::is_of(handle) {
        return primary::may_end(ordinal, || real.call(ctx));
    }
    let before = CONTEXTS.get(handle).map(Record::unpack);
    let retiring = GATES.retire(&|retired| retired == handle);
    let result = real.call(ctx);
    if let Some(before) = before.filter(|record| result == SUCCESS && !record.green)
        && let Some(record) = detached(handle, before)
    {
        retiring.gone();
        forget(handle, record);
    }
    result
}

/// Takes a reference of a context that was `before`; what it was, where that was the last one.
fn detached(handle: u64, before: Record) -> Option<Record> {
    let mut ended = None;
    let _ = CONTEXTS.update(handle, |old| {
        let record = Record::unpack(old?);
        // The driver may have given the handle to another thread's new context meanwhile.
        if record.generation == before.generation && record.references <= 1 {
            ended = Some(record);
            return None;
        }
        let less = u32::from(record.generation == before.generation);
        Some(Record { references: record.references.saturating_sub(less), ..record }.pack())
    });
    ended
}
