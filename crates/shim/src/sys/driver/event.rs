//! Timing events.

use divvy_driver_api::types::*;

use super::call::ask;

/// A timing event of the current context.
pub(crate) fn event_create() -> Result<CUevent, CUresult> {
    let mut event = CUevent(core::ptr::null_mut());
    ask!(cuEventCreate(&mut event, 0))?;
    Ok(event)
}

/// An event without a time, whose waits sleep.
pub(crate) fn event_create_for_waits() -> Result<CUevent, CUresult> {
    let flags = CUevent_flags::CU_EVENT_BLOCKING_SYNC.0 | CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
    let mut event = CUevent(core::ptr::null_mut());
    ask!(cuEventCreate(&mut event, flags))?;
    Ok(event)
}

/// Waits until an event has completed.
pub(crate) fn event_wait(event: CUevent) -> Result<(), CUresult> {
    ask!(cuEventSynchronize(event))
}

/// Records an event on a stream of the current context; `per_thread` says what the null stream means.
pub(crate) fn event_record(
    event: CUevent,
    stream: CUstream,
    per_thread: bool,
) -> Result<(), CUresult> {
    if per_thread {
        ask!(cuEventRecord_ptsz(event, stream))
    } else {
        ask!(cuEventRecord(event, stream))
    }
}

/// Records an event behind all work of a context (drivers from 12.5 on). It breaks a capture of that
/// context.
pub(crate) fn ctx_record_event(context: CUcontext, event: CUevent) -> Result<(), CUresult> {
    ask!(cuCtxRecordEvent(context, event))
}

/// Whether an event has completed. It breaks a capture that watches the calling thread.
pub(crate) fn event_is_done(event: CUevent) -> bool {
    event_has_ended(event) != Ok(false)
}

/// The same, told apart from an answer that says nothing of the event.
pub(crate) fn event_has_ended(event: CUevent) -> Result<bool, CUresult> {
    match ask!(cuEventQuery(event)) {
        Err(CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
        answered => answered.map(|()| true),
    }
}

/// Milliseconds from one completed event to another.
pub(crate) fn event_elapsed_ms(from: CUevent, to: CUevent) -> Result<f32, CUresult> {
    let mut ms = 0.0;
    ask!(cuEventElapsedTime(&mut ms, from, to))?;
    Ok(ms)
}

/// Whether a pointer is to device memory.
pub(crate) fn pointer_is_device(pointer: CUdeviceptr) -> bool {
    let mut kind = 0_u32;
    let which = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let asked = ask!(cuPointerGetAttribute((&raw mut kind).cast(), which, pointer));
    asked.is_ok() && kind == CUmemorytype::CU_MEMORYTYPE_DEVICE.0
}
