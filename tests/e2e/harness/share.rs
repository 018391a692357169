//! Shares of a device in windows of time: what a tenant got, and what the host can have cost it.
//!
//! Promises: who gets more than is allowed in any window is found out; who gets less on average is, but for the
//! time that the host was late or had no processor for those who were to work. Does not measure: who does
//! says what was seen.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far from what is wanted a share may be, in percent of the device's time.
pub(crate) const POINTS: f64 = 10.0;

/// The right to run a machine whose times matter: they run one at a time, and suites that run beside the tests wait.
pub(crate) struct Alone {
    _one: MutexGuard<'static, ()>,
    beside: Option<u32>,
}

/// Sends a signal to a process group, of which all may have ended.
fn tell(group: u32, signal: &str) {
    let kill = format!("kill -{signal} -{group}");
    let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
}

pub(crate) fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let one = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let group = std::env::var("DIVVY_BESIDE").ok().and_then(|text| text.parse().ok());
    let beside = group.filter(|group| *group > 1);
    if let Some(group) = beside {
        tell(group, "STOP");
    }
    Alone { _one: one, beside }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(group) = self.beside {
            tell(group, "CONT");
        }
    }
}

/// What somebody got in a window, in percent of the device's time, and what the host can have cost it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Of the device's time.
    pub(crate) percent: f64,
    /// What it would have had more if nobody had been woken late.
    pub(crate) late_percent: f64,
    /// Part of the time for which it or the device was ready and had no processor.
    pub(crate) starved: f64,
}

impl Share {
    /// What it got, and what the host may have kept from it of `wanted` percent: what it is not given a processor
    /// for it does not use, and what it saves up meanwhile is bounded.
    pub(crate) fn due(&self, wanted: f64) -> f64 {
        self.percent + self.late_percent + wanted * self.starved
    }
}

pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// They are `wanted` percent: no more in any window, and no less on average but for the host.
pub(crate) fn are(shares: &[Share], wanted: f64, points: f64) {
    for share in shares {
        assert!(share.percent <= wanted + points, "of {wanted} %: {shares:?}");
    }
    let reached = mean(shares.iter().map(|share| share.due(wanted)));
    assert!(reached >= wanted - points, "{reached:.1} of {wanted} %: {shares:?}");
}
