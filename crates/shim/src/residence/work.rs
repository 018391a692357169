//! Work of a context, and of the green contexts that share its memory: an event behind all of it.
//!
//! Promises: what was submitted before has ended when the event has. Does not wait but where a program's call has to.

use core::sync::atomic::Ordering::SeqCst;

use divvy_driver_api::types::{CUcontext, CUevent, CUresult};

use crate::sys::driver;
use crate::tenant::context::Handles;
use crate::tenant::device::{self, Device};

/// An event behind all work of `context`, which is current; it breaks captures there. The caller destroys it.
///
/// # Errors
/// The driver's; [`CUresult::CUDA_ERROR_NOT_FOUND`] where a wait for the context is all there is.
pub(crate) fn event_behind(context: CUcontext) -> Result<CUevent, CUresult> {
    let handle = context.0.addr() as u64;
    let is_its = |device: &&Device| device.primary.load(SeqCst) == handle;
    match device::all_met().find(is_its).map(|device| Handles::greens(device.ordinal)) {
        Some(None) => Err(CUresult::CUDA_ERROR_NOT_FOUND),
        Some(Some(greens)) => driver::event_behind(context, greens.iter()),
        None => driver::event_behind(context, core::iter::empty()),
    }
}

/// Waits until all work of a context has ended. `held` keeps captures out, and is dropped as soon as they may begin; `None`
/// where one is under way, and the thread's mode is relaxed.
///
/// # Errors
/// The driver's, of that work.
pub(crate) fn await_work<H>(context: CUcontext, held: Option<H>) -> Result<(), CUresult> {
    driver::within(context, || match held.as_ref().map(|_| event_behind(context)) {
        None => driver::ctx_wait_beside_captures(),
        // Drivers before 12.5. A later one (580) that synchronises a context while other threads destroy pools never
        // returns, as measured without this library.
        Some(Err(CUresult::CUDA_ERROR_NOT_FOUND)) => driver::ctx_wait(),
        Some(Err(code)) => Err(code),
        Some(Ok(event)) => {
            drop(held);
            let waited = driver::event_wait(event);
            let _ = driver::event_destroy(event);
            waited
        }
    })
}
