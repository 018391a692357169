//! A share, a weight, a priority and a class, each as it is written, in the grammar of [`super`].
//!
//! Promises: what is not in the grammar is an error that names the text. No allocation, no panic. Does not know which
//! device a share is for: rules do.

use divvy_abi::config::{class, priority};

use crate::limit::RuleError;
use crate::limit::{ShareError, ShareReason};
use crate::size::{Limit, digits_to_u64};

/// The largest weight that can be written.
pub const MAX_WEIGHT: u32 = 10_000;

/// A whole, in millionths.
pub(super) const WHOLE_PPM: u64 = 1_000_000;

/// Reads one share: [`Limit::Ppm`] below 1,000,000, or [`Limit::Unlimited`].
///
/// # Errors
/// [`ShareError`] for everything outside the grammar in the head of [`super`].
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

pub(super) fn value(text: &str) -> Result<Limit, RuleError<'_>> {
    parse(text).map_err(RuleError::Share)
}

pub(super) fn peer_value(text: &str) -> Result<Limit, RuleError<'_>> {
    parse_peer(text).map_err(RuleError::Share)
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
