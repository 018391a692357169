//! Contexts of the program's own: each is charged a constant before the driver makes it.
//!
//! With a context goes everything charged to it. Primary and green contexts are in [`super::primary`].

use divvy_driver_api::types::{CUcontext, CUdevice, CUresult};

use super::context::{Granted, grant};
use super::gone::forget;
use super::place::{Next, at};
use super::primary;
use crate::gate::GATES;
use crate::residence::state;
use crate::sys::Out;
use crate::sys::driver::SUCCESS;
use crate::tenant::context::{CONTEXTS, Record};

/// Makes a context of the program's own.
pub(crate) fn create(
    ordinal: CUdevice,
    out: Out<'_, CUcontext>,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
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
        state::await_end(context);
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
pub(crate) fn destroy(context: CUcontext, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = context.0.addr() as u64;
    if let Some(ordinal) = primary::is_of(handle) {
        return primary::may_end(ordinal, call);
    }
    let _ending = state::enter_to_end(handle);
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

/// One reference more.
pub(crate) fn attach(pctx: Out<'_, CUcontext>, call: impl FnOnce() -> CUresult) -> CUresult {
    let result = call();
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
pub(crate) fn detach(ctx: CUcontext, call: impl FnOnce() -> CUresult) -> CUresult {
    let handle = ctx.0.addr() as u64;
    if let Some(ordinal) = primary::is_of(handle) {
        return primary::may_end(ordinal, call);
    }
    let _ending = state::enter_to_end(handle);
    let before = CONTEXTS.get(handle).map(Record::unpack);
    let retiring = GATES.retire(&|retired| retired == handle);
    let result = call();
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
