//! How long measurements of device time last.
//!
//! Pure.

/// Windows in which shares are judged.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// How long measurements last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) seconds: f64,
    pub(super) long_seconds: f64,
    pub(super) quick: bool,
    pub(super) asked: Option<f64>,
}

impl Timing {
    /// Seconds of what usually lasts `usual`.
    pub(super) fn seconds_or(&self, usual: f64) -> f64 {
        self.asked.unwrap_or(usual).min(if self.quick { QUICK_SECONDS } else { f64::MAX })
    }
}

/// Length of measurements that only show that everything works.
pub(super) const QUICK_SECONDS: f64 = 1.5;
