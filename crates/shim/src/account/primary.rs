//! Primary and green contexts.
//!
//! The primary context is charged while it is active, however often it is retained; what retained it
//! does not matter, only whether the driver says that it is active. Green contexts share it, retain
//! it, and take a little more until it ends.

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{CUcontext, CUdevice, CUgreenCtx, CUresult};

use super::charge::ask;
use super::context::{grant, handle_of, here};
use super::gone::forget;
use super::place::{CallPlace, Next, at};
use super::unused;
use crate::gate::{GATES, Retiring, relaxed};
use crate::residence::state;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Pair;
use crate::sys::{Out, driver};
use crate::tenant::context::{CONTEXTS, GREENS, Record, record_new};

/// Memory of a green context, measured (4 to 6 MiB in turn); it goes back when the primary context
/// ends, not before: the next one takes as much again.
const GREEN_BYTES: u64 = 6 << 20;

/// Retains the primary context; the first one pays.
pub(crate) fn retain(
    pctx: Out<'_, CUcontext>,
    dev: CUdevice,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device = match at(dev) {
        Next::Count(device) => device,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    if device.primary.load(SeqCst) != 0 {
        return call();
    }
    let granted = match grant(device) {
        Ok(granted) => granted,
        Err(code) => return code,
    };
    let result = call();
    if result == SUCCESS
        && let Some(context) = pctx.get()
    {
        let context = context.0.addr() as u64;
        state::await_end(context);
        granted.keep(context);
        device.primary.store(context, SeqCst);
    }
    result
}

/// A `call` that may end the primary context, and with it its views through green ones: nobody is at
/// their events meanwhile.
#[inline(always)]
pub(crate) fn may_end(ordinal: CUdevice, call: impl FnOnce() -> CUresult) -> CUresult {
    let primary = match at(ordinal) {
        Next::Count(device) => device.primary.load(SeqCst),
        Next::Forward | Next::Refuse(_) => 0,
    };
    let _ending = state::enter_to_end(primary);
    let retiring = retire_all(ordinal, primary);
    let result = call();
    end(ordinal, retiring);
    result
}

#[inline(never)]
fn retire_all(ordinal: CUdevice, primary: u64) -> Retiring {
    let is_view = |words| is_view(words, |record| record.ordinal == ordinal);
    GATES.retire(&|context| context == primary || CONTEXTS.get(context).is_some_and(is_view))
}

/// Where the driver says that the primary context has ended, its charges go.
#[inline(never)]
fn end(ordinal: CUdevice, retiring: Retiring) {
    let Next::Count(device) = at(ordinal) else { return };
    let context = device.primary.load(SeqCst);
    if context == 0 || driver::primary_ctx_state(ordinal).is_ok_and(|(_, active)| active) {
        return;
    }
    retiring.gone();
    if device.primary.compare_exchange(context, 0, SeqCst, SeqCst).is_ok()
        && let Some(words) = CONTEXTS.take(context)
    {
        forget(context, Record::unpack(words));
        forget_views(|record| record.ordinal == ordinal);
        GREENS.take_if(|_, [of, _]| of == u64::from(ordinal.cast_unsigned()));
        // The reserves of the device's own pool and its graphs went with it.
        unused::settle_all(device);
    }
}

/// The device whose active primary context has this handle: one of those that this process has met.
pub(super) fn is_of(handle: u64) -> Option<CUdevice> {
    let record = Record::unpack(CONTEXTS.get(handle)?);
    let is_known = match at(record.ordinal) {
        Next::Count(device) => device.primary.load(SeqCst) == handle,
        Next::Forward | Next::Refuse(_) => false,
    };
    (is_known && !record.green).then_some(record.ordinal)
}

/// Whether a record is of a view through a green context as asked.
fn is_view(words: Pair, which: impl Fn(Record) -> bool) -> bool {
    let record = Record::unpack(words);
    record.green && which(record)
}

/// Forgets views through green contexts that are gone.
fn forget_views(which: impl Fn(Record) -> bool) {
    CONTEXTS.take_if(|_, words| is_view(words, &which));
}

/// A green context: it retains the primary one, which is charged with it if it is the first.
pub(crate) fn create_green(
    green: Out<'_, CUgreenCtx>,
    dev: CUdevice,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let device = match at(dev) {
        Next::Count(device) => device,
        Next::Forward => return call(),
        Next::Refuse(code) => return code,
    };
    let is_first = device.primary.load(SeqCst) == 0;
    let granted = match is_first.then(|| grant(device)).transpose() {
        Ok(granted) => granted,
        Err(code) => return code,
    };
    let held_piece = match ask(device, GREEN_BYTES, MemoryKind::Context) {
        Ok(held) => held,
        Err(code) => return code,
    };
    let result = call();
    let made = green.get().filter(|handle| !handle.0.is_null());
    let Some(made) = made.filter(|_| result == SUCCESS) else { return result };
    if let Some(granted) = granted
        && let Some(primary) = relaxed(|| handle_of(dev))
    {
        granted.keep(primary);
        device.primary.store(primary, SeqCst);
    }
    state::await_end(made.0.addr() as u64);
    let piece = held_piece.keep();
    let primary = device.primary.load(SeqCst);
    let _ = CONTEXTS.update(primary, |old| {
        old.map(Record::unpack).map(|r| Record { bytes: r.bytes.saturating_add(piece), ..r }.pack())
    });
    let _ = GREENS.insert(made.0.addr() as u64, [u64::from(dev.cast_unsigned()), 1]);
    result
}

/// Where a green context's memory is charged; the current place for one that nobody saw made.
pub(crate) fn place_of(green: CUgreenCtx) -> Next<CallPlace> {
    let Some([ordinal, _]) = GREENS.get(green.0.addr() as u64) else { return here() };
    match at(CUdevice::try_from(ordinal).unwrap_or(0)) {
        Next::Count(device) => {
            Next::Count(CallPlace { device, context: device.primary.load(SeqCst) })
        }
        Next::Forward => Next::Forward,
        Next::Refuse(code) => Next::Refuse(code),
    }
}

/// Ends a green context, and the primary one if nothing else retained it.
pub(crate) fn destroy_green(green: CUgreenCtx, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = green.0.addr() as u64;
    let Some([ordinal, _]) = GREENS.get(handle) else { return call() };
    let ordinal = CUdevice::try_from(ordinal).unwrap_or(0);
    let is_its = |record: Record| record.bytes == handle;
    let _named = state::name_ending(handle);
    let views =
        GATES.retire(&|view| CONTEXTS.get(view).is_some_and(|words| is_view(words, is_its)));
    // Within the call: until then its work is waited for before memory moves.
    let result = may_end(ordinal, || {
        let taken = GREENS.take(handle);
        let result = call();
        if let Some(words) = taken.filter(|_| result != SUCCESS) {
            let _ = GREENS.insert(handle, words);
        }
        result
    });
    if result == SUCCESS {
        views.gone();
        forget_views(is_its);
    }
    result
}

/// A context handle for a green context: a view of the primary one, with no memory of its own.
pub(crate) fn view(
    pctx: Out<'_, CUcontext>,
    green: CUgreenCtx,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = call();
    if result == SUCCESS
        && let Some(context) = pctx.get()
        && let Some([ordinal, _]) = GREENS.get(green.0.addr() as u64)
    {
        let ordinal = CUdevice::try_from(ordinal).unwrap_or(0);
        let view = Record { green: true, ..Record::new(ordinal, green.0.addr() as u64) };
        record_new(context.0.addr() as u64, view);
    }
    result
}
