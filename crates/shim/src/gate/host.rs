//! The gates over what they stand on: the driver, the clock and this process's tenant.
//!
//! Promises: no launch waits for anything but its gate; a query of ours disturbs no capture
//! ([`relaxed`]). Does not decide: that is `divvy_policy::gate`; nor does it know entry points: those
//! are the hooks'.

use divvy_driver_api::types::{CUcontext, CUevent, CUstream, CUstreamCaptureMode};
use divvy_page::{MeetFile, ShareWords};
use divvy_policy::gate::{self, Driver, Gates, Home, LaunchStream, Meeting, Terms, stripe_of};

use crate::sys::reference::Reference;
use crate::sys::{clock, driver, thread, thread_pointer};
use crate::tenant::device::{self, Device, KnownDevice};

/// The gates.
pub(crate) static GATES: Gates<Host> = Gates::new(Host);

/// A launch that the gate let go after a look at more than the credit in hand.
pub(super) type Admitted = gate::Admitted<'static, Host>;
/// Contexts that may be about to go.
pub(crate) type Retiring = gate::Retiring<'static, Host>;

/// A stream as the driver's entry points name it.
#[inline(always)]
pub(crate) fn stream(stream: CUstream, per_thread: bool) -> LaunchStream {
    LaunchStream { handle: stream.0.addr() as u64, per_thread }
}

/// Whether the stream is being captured.
///
/// Cost: one load while the process captures nothing.
#[inline(always)]
pub(crate) fn is_capturing(of: CUstream, per_thread: bool) -> bool {
    GATES.is_capturing(stream(of, per_thread))
}

/// Runs `act`, which takes microseconds, so that no capture of this process is disturbed by the driver calls in it: some
/// queries would invalidate one that is under way (measured: asking a pool for an attribute).
pub(crate) fn relaxed<T>(act: impl FnOnce() -> T) -> T {
    GATES.relaxed(act)
}

/// The same for what may take longer: captures begin meanwhile.
pub(crate) fn beside_captures<T>(act: impl FnOnce() -> T) -> T {
    GATES.beside_captures(act)
}

/// The program's thread, and the driver below it.
#[derive(Debug)]
pub(crate) struct Host;

/// The handle that a word stands for.
fn handle<T>(word: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut(usize::try_from(word).unwrap_or(0))
}

fn named(of: LaunchStream) -> CUstream {
    CUstream(handle(of.handle))
}

impl Driver for Host {
    type Device = &'static Device;
    type Home = Reference<Device>;

    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
    fn sleep_until(&self, deadline_ns: u64) {
        clock::sleep_until(deadline_ns);
    }
    fn spin(&self) {
        core::hint::spin_loop();
    }
    #[inline(always)]
    fn context(&self) -> u64 {
        driver::ctx_current().map_or(0, |context| context.0.addr() as u64)
    }
    fn context_id(&self) -> u64 {
        driver::current_ctx_id().unwrap_or(0)
    }
    fn device(&self) -> Option<&'static Device> {
        match device::look(driver::ctx_device().ok()?) {
            KnownDevice::Counted(device) => Some(device),
            _ => None,
        }
    }
    fn thread(&self) -> u32 {
        thread()
    }
    /// By the control block: any place inside a stack may lie on either side of a border.
    #[inline(always)]
    fn stripe(&self) -> usize {
        stripe_of(thread_pointer())
    }
    fn create_event(&self) -> u64 {
        driver::event_create().map_or(0, |event| event.0.expose_provenance() as u64)
    }
    #[inline(never)]
    fn record(&self, event: u64, stream: LaunchStream) -> bool {
        driver::event_record(CUevent(handle(event)), named(stream), stream.per_thread).is_ok()
    }
    fn record_context(&self, context: u64, event: u64) -> bool {
        driver::ctx_record_event(CUcontext(handle(context)), CUevent(handle(event))).is_ok()
    }
    fn is_done(&self, event: u64) -> bool {
        driver::event_is_done(CUevent(handle(event)))
    }
    #[inline(never)]
    fn elapsed_ns(&self, from: u64, to: u64) -> Option<i64> {
        let ms = driver::event_elapsed_ms(CUevent(handle(from)), CUevent(handle(to))).ok()?;
        // Saturates; not a number becomes 0.
        Some((f64::from(ms) * 1e6) as i64)
    }
    #[cold]
    #[inline(never)]
    fn is_captured(&self, stream: LaunchStream) -> bool {
        driver::stream_capturing(named(stream), stream.per_thread).unwrap_or(false)
    }
    fn relaxed<T>(&self, act: impl FnOnce() -> T) -> T {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let before = driver::exchange_capture_mode(mode);
        let result = act();
        if let Ok(before) = before {
            let _ = driver::exchange_capture_mode(before);
        }
        result
    }
}

impl Home for Reference<Device> {
    type Device = &'static Device;
    const NONE: Self = Self::none();

    #[inline(always)]
    fn get(&self) -> Option<&'static Device> {
        self.get()
    }
    fn set(&self, device: &'static Device) {
        self.set(device);
    }
}

impl gate::Device for &'static Device {
    type Words = ShareWords;
    type Board = MeetFile;

    #[inline(always)]
    fn terms(&self) -> Terms {
        Device::terms(self)
    }
    #[inline(always)]
    fn state(&self) -> u32 {
        self.gate_state()
    }
    fn meeting(&self) -> &Meeting {
        &self.meeting
    }
    #[inline(always)]
    fn words(&self) -> Option<ShareWords> {
        self.share()
    }
    fn board(&self) -> Option<MeetFile> {
        self.meet_file()
    }
    fn is(&self, other: &'static Device) -> bool {
        core::ptr::eq(*self, other)
    }
}
