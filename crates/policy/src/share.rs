//! The share grammar: how a cap on device time, a weight, a priority and a class are written.
//!
//! ```text
//! share    = "0" | number "%"          0, and 100% or more: no cap
//! number   = digits without a leading zero, optionally "." and 1 to 4 digits
//! weight   = 1 to 10000
//! priority = "high" | "normal" | "low"
//! class    = "latency" | "normal"
//! ```
//!
//! A rule is `[selector "="] share`, as for memory. HAMi-core's variables are read too:
//! `CUDA_DEVICE_SM_LIMIT` and `CUDA_DEVICE_SM_LIMIT_<i>` (percent, `%` optional),
//! `GPU_CORE_UTILIZATION_POLICY` (`disable` lifts those caps, `default` and `force` keep them) and
//! `CUDA_TASK_PRIORITY` (0 high, larger low). Where a `DIVVY_` variable of the same meaning is set,
//! the peer's is read and then ignored.
//!
//! Promises: what is not in the grammar is an error that names the text, so a typing error is never
//! "no cap"; a rule that no version of this code would write is an error when it is resolved. No
//! allocation, no panic.
//!
//! Does not: read any environment itself, nor decide how a cap and a weight work together.

use core::fmt;

use divvy_abi::Uuid;
use divvy_abi::config::{Config, Rule, class, gate, priority, quantity};

use crate::change::Steps;
use crate::limit::{self, BadRule, RuleError, Rules};
use crate::size::{Limit, digits_to_u64};

/// The largest weight that can be written.
pub const MAX_WEIGHT: u32 = 10_000;

/// A whole, in millionths.
const WHOLE_PPM: u64 = 1_000_000;

/// Why a text is not a share, a weight, a priority or a class. `Display` names the text and the fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareError<'a> {
    /// The text as it was given.
    pub text: &'a str,
    /// What is wrong with it.
    pub reason: ShareReason,
}

/// What is wrong with a text of the compute share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareReason {
    /// A share: nothing was written, or it does not begin with a digit.
    NotAShare,
    /// A share: a number without `%`.
    NoPercent,
    /// A share: a number of several digits begins with 0.
    LeadingZero,
    /// A share: a point without digits after it, or finer than a millionth of the device's time.
    BadFraction,
    /// A share of nothing.
    Zero,
    /// Not a whole percentage.
    NotWhole,
    /// Not a weight.
    BadWeight,
    /// Not a priority.
    BadPriority,
    /// Not a priority in HAMi-core's numbers.
    BadTaskPriority,
    /// Not a class.
    BadClass,
    /// Not one of HAMi-core's policies.
    BadPolicy,
}

impl fmt::Display for ShareError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ShareReason as Why;
        let is_share = matches!(
            self.reason,
            Why::NotAShare | Why::NoPercent | Why::LeadingZero | Why::BadFraction | Why::Zero
        );
        let what = if is_share { "a share of time: " } else { "" };
        write!(f, "\"{}\" is not {what}", self.text)?;
        f.write_str(match self.reason {
            ShareReason::NotAShare => "write for example 30%, or 0 for no cap",
            ShareReason::NoPercent => "it must end in %; write for example 30%, or 0 for no cap",
            ShareReason::LeadingZero => "drop the leading zero",
            ShareReason::BadFraction => "write 1 to 4 digits after the point, as in 12.5%",
            ShareReason::Zero => {
                "it must be above 0%; write 0 for no cap, and use `divvy set TENANT --pause` to \
                 stop a tenant"
            }
            ShareReason::NotWhole => "a whole percentage: write digits such as 30, or 0 for no cap",
            ShareReason::BadWeight => "a weight: write a whole number from 1 to 10000",
            ShareReason::BadPriority => "a priority: write high, normal or low",
            ShareReason::BadTaskPriority => "a task priority: write 0 (high) or 1 (low)",
            ShareReason::BadClass => "a class: write latency or normal",
            ShareReason::BadPolicy => "a utilization policy: write default, force or disable",
        })
    }
}

impl core::error::Error for ShareError<'_> {}

/// Reads one share: [`Limit::Ppm`] below 1,000,000, or [`Limit::Unlimited`].
///
/// # Errors
/// [`ShareError`] for everything outside the grammar in the module's head.
pub fn parse(text: &str) -> Result<Limit, ShareError<'_>> {
    let error = |reason| ShareError { text, reason };
    if text == "0" {
        return Ok(Limit::Unlimited);
    }
    let ppm = match without_percent(text) {
        Some(number) => number_ppm(number).map_err(error)?,
        None => {
            // Wrong in any case; the first thing that is wrong is the one to name.
            number_ppm(text).map_err(error)?;
            return Err(error(ShareReason::NoPercent));
        }
    };
    capped(ppm).ok_or(error(ShareReason::Zero))
}

/// A percentage as HAMi-core's variables have it: 0, and 100 or more, is no cap.
fn parse_peer(text: &str) -> Result<Limit, ShareError<'_>> {
    let digits = without_percent(text).unwrap_or(text);
    let plain = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    if !plain || !is_number {
        return Err(ShareError { text, reason: ShareReason::NotWhole });
    }
    // So many digits that they do not fit are 100 or more.
    let ppm = digits_to_u64(digits).unwrap_or(u64::MAX).saturating_mul(10_000);
    Ok(capped(ppm).unwrap_or(Limit::Unlimited))
}

fn without_percent(text: &str) -> Option<&str> {
    let (last, rest) = text.as_bytes().split_last()?;
    if *last == b'%' { text.get(..rest.len()) } else { None }
}

/// A cap of so many millionths; `None` for a share of nothing.
fn capped(ppm: u64) -> Option<Limit> {
    match ppm {
        0 => None,
        WHOLE_PPM.. => Some(Limit::Unlimited),
        below => u32::try_from(below).ok().map(Limit::Ppm),
    }
}

/// `12.5` as millionths of 100; numbers too large to count are the largest.
fn number_ppm(text: &str) -> Result<u64, ShareReason> {
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|b| !b.is_ascii_digit()).unwrap_or(bytes.len());
    let (whole, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    if whole.is_empty() {
        return Err(ShareReason::NotAShare);
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(ShareReason::LeadingZero);
    }
    let whole = digits_to_u64(whole).unwrap_or(u64::MAX);
    let parts = match rest.as_bytes().split_first() {
        None => 0,
        Some((b'.', digits)) => {
            if digits.is_empty() || digits.len() > 4 || !digits.iter().all(u8::is_ascii_digit) {
                return Err(ShareReason::BadFraction);
            }
            let places = u32::try_from(digits.len()).unwrap_or(4);
            let value = digits_to_u64(rest.get(1..).unwrap_or("")).unwrap_or(0);
            value.saturating_mul(10_u64.saturating_pow(4_u32.saturating_sub(places)))
        }
        Some(_) => return Err(ShareReason::NoPercent),
    };
    Ok(whole.saturating_mul(10_000).saturating_add(parts))
}

fn value(text: &str) -> Result<Limit, RuleError<'_>> {
    parse(text).map_err(RuleError::Share)
}

fn peer_value(text: &str) -> Result<Limit, RuleError<'_>> {
    parse_peer(text).map_err(RuleError::Share)
}

/// Adds every rule of a comma-separated list of shares: `30%,0=50%`.
///
/// # Errors
/// [`RuleError`], those of sizes excepted.
pub fn parse_into<'a>(rules: &mut Rules, text: &'a str) -> Result<(), RuleError<'a>> {
    rules.parse_into_of(text, value)
}

/// Adds every step of a comma-separated list of shares: `30%,0=default`.
///
/// # Errors
/// [`RuleError`], those of sizes excepted.
pub fn parse_steps<'a>(steps: &mut Steps, text: &'a str) -> Result<(), RuleError<'a>> {
    steps.parse_into_of(text, value)
}

/// Reads a weight.
///
/// # Errors
/// [`ShareReason::BadWeight`].
pub fn parse_weight(text: &str) -> Result<u32, ShareError<'_>> {
    let plain = !text.is_empty() && !text.starts_with('0');
    digits_to_u64(text)
        .filter(|_| plain)
        .and_then(|weight| u32::try_from(weight).ok())
        .filter(|weight| *weight <= MAX_WEIGHT)
        .ok_or(ShareError { text, reason: ShareReason::BadWeight })
}

/// Reads a priority, one of [`priority`].
///
/// # Errors
/// [`ShareReason::BadPriority`].
pub fn parse_priority(text: &str) -> Result<i32, ShareError<'_>> {
    match text {
        "high" => Ok(priority::HIGH),
        "normal" => Ok(priority::NORMAL),
        "low" => Ok(priority::LOW),
        _ => Err(ShareError { text, reason: ShareReason::BadPriority }),
    }
}

/// Reads a class, one of [`class`].
///
/// # Errors
/// [`ShareReason::BadClass`].
pub fn parse_class(text: &str) -> Result<u32, ShareError<'_>> {
    match text {
        "latency" => Ok(class::LATENCY),
        "normal" => Ok(class::NORMAL),
        _ => Err(ShareError { text, reason: ShareReason::BadClass }),
    }
}

/// A priority in words, as a file has it: what lies beyond the levels counts as the last one.
pub const fn priority_word(value: i32) -> &'static str {
    match value {
        priority::HIGH.. => "high",
        priority::NORMAL => "normal",
        _ => "low",
    }
}

/// A class in words; one that is not known counts as normal.
pub const fn class_word(value: u32) -> &'static str {
    match value {
        class::LATENCY => "latency",
        _ => "normal",
    }
}

/// The cap on one device in millionths of its time, `None` for no cap: UUID beats index beats every
/// device.
///
/// # Errors
/// [`BadRule`] when any rule makes no sense, whether it is for this device or not.
pub fn resolve(rules: &[Rule], index: Option<u32>, uuid: &Uuid) -> Result<Option<u32>, BadRule> {
    if let Some(position) = rules.iter().position(|rule| rule.quantity == quantity::BYTES) {
        return Err(BadRule(position));
    }
    Ok(match limit::closest(rules, index, uuid)? {
        Limit::Ppm(ppm) if u64::from(ppm) < WHOLE_PPM => Some(ppm),
        _ => None,
    })
}

/// Whether launches of the tenant must look at their gates: a cap, a pause, or a gate that is not
/// free. Who changes any of these writes it into [`Config::any_gate`].
pub fn needs_gate(config: &Config) -> bool {
    let caps = config.compute_rules().iter().any(|rule| rule.quantity != quantity::UNLIMITED);
    caps || config.paused != 0 || config.gates.iter().any(|line| line.gate != gate::FREE)
}

mod environment;

pub use environment::Environment;

#[cfg(test)]
mod tests;
