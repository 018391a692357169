//! Limit rules: which limit applies to which device, read from a command line or an environment.
//!
//! One rule is `[selector "="] size`; the selector is a device index (`0`) or a UUID (`GPU-` and 36
//! characters, as the driver prints it), none means every device. Several rules are separated by
//! commas. Rules of the compute share have a share in place of the size: see [`crate::share`]. An
//! environment variable names its device by a suffix: `DIVVY_MEMORY`, `DIVVY_MEMORY_1`; the same for
//! `CUDA_DEVICE_MEMORY_LIMIT`, whose numbers without a unit are bytes however small.
//!
//! An index is the device's on the machine, in NVML's order. A rule by index may carry the UUID of the device that has
//! the index, which then decides.
//!
//! Promises: UUID beats index beats "every device", whatever the order; two rules for one selector,
//! a comma that was meant as a decimal point, an index out of range or an unknown selector are errors; a
//! rule read from a file that no version of this code would write is an error too, never "no limit";
//! storage is fixed, nothing panics.
//!
//! Does not: read any environment itself, nor know which devices exist.

mod share_error;

use core::fmt::{self, Write as _};

use divvy_abi::config::{MAX_RULES, Rule, quantity, selector};
use divvy_abi::{MAX_DEVICES, Uuid};

pub use share_error::{ShareError, ShareReason};

use crate::size::{self, Limit, SizeError};
use crate::variables::PEER_MEMORY;

/// Which devices a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Every device without a closer rule.
    All,
    /// The device with this index.
    Index(u32),
    /// The device with this UUID.
    Uuid(Uuid),
}

/// Why a text is not a rule, or cannot join the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError<'a> {
    /// The part after `=` (or all of it) is not a size.
    Size(SizeError<'a>),
    /// The same, where a share of the device's time is meant.
    Share(ShareError<'a>),
    /// The part before `=` is neither an index below 16 nor a UUID.
    Selector(&'a str),
    /// A comma between digits that was meant as a decimal point: "1,5g".
    DecimalComma(&'a str),
    /// Another rule names the same devices.
    Twice(Selector),
    /// More than [`MAX_RULES`] rules.
    TooMany,
}

impl fmt::Display for RuleError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Size(error) => error.fmt(f),
            RuleError::Share(error) => error.fmt(f),
            RuleError::Selector(text) => write!(
                f,
                "\"{text}\" names no device: write an index from 0 to {} or a UUID such as \
                 GPU-00112233-4455-6677-8899-aabbccddeeff",
                MAX_DEVICES - 1
            ),
            RuleError::DecimalComma(text) => {
                write!(f, "\"{text}\" has a decimal comma, and a comma separates limits: write ")?;
                text.chars().try_for_each(|c| f.write_char(if c == ',' { '.' } else { c }))
            }
            RuleError::Twice(selector) => write!(f, "two limits for {selector}: keep one"),
            RuleError::TooMany => write!(f, "more than {MAX_RULES} limits: keep one per device"),
        }
    }
}

impl core::error::Error for RuleError<'_> {}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::All => f.write_str("every device"),
            Selector::Index(index) => write!(f, "device {index}"),
            Selector::Uuid(uuid) => write!(f, "{}", UuidText(uuid)),
        }
    }
}

/// A UUID as the driver's tools print it: `GPU-00112233-4455-…`.
#[derive(Clone, Copy, Debug)]
pub struct UuidText<'a>(pub &'a Uuid);

impl fmt::Display for UuidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 0 | 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Reads a UUID as the driver's tools print it: `GPU-` or `MIG-`, then 8-4-4-4-12 hexadecimal digits.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    let digits = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-"))?;
    if digits.len() != 36 {
        return None;
    }
    let mut uuid = [0_u8; 16];
    let mut nibbles = 0_usize;
    for (i, b) in digits.bytes().enumerate() {
        if matches!(i, 8 | 13 | 18 | 23) {
            if b != b'-' {
                return None;
            }
            continue;
        }
        let nibble = char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok())?;
        let byte = uuid.get_mut(nibbles / 2)?;
        *byte = (*byte << 4) | nibble;
        nibbles += 1;
    }
    Some(uuid)
}

fn parse_index(text: &str) -> Option<u32> {
    let plain = text == "0" || (!text.is_empty() && !text.starts_with('0'));
    let value = size::digits_to_u64(text).filter(|_| plain)?;
    u32::try_from(value).ok().filter(|index| (*index as usize) < MAX_DEVICES)
}

/// The text before and after the first `mark`, an ASCII character. `str::split_once` does the same but
/// holds a panic, which must not be linked into the shim.
fn cut(text: &str, mark: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == mark)?;
    let (before, rest) = text.split_at_checked(at)?;
    Some((before, rest.get(1..)?))
}

/// Reads one rule: `8GiB`, `0=8GiB`, `GPU-…=50%`.
///
/// # Errors
/// [`RuleError::Selector`] or [`RuleError::Size`].
pub fn parse_rule(text: &str) -> Result<Rule, RuleError<'_>> {
    parse_rule_of(text, memory)
}

/// How the part after `=` is read.
pub(crate) type Value = for<'a> fn(&'a str) -> Result<Limit, RuleError<'a>>;

pub(crate) fn memory(text: &str) -> Result<Limit, RuleError<'_>> {
    size::parse_written(text).map_err(RuleError::Size)
}

fn peer_memory(text: &str) -> Result<Limit, RuleError<'_>> {
    size::parse(text).map_err(RuleError::Size)
}

/// The number at the head of a list whose first comma is a decimal one: what stands before it is too small
/// to be a limit of its own, and what stands after it names no device.
fn decimal_comma(list: &str) -> Option<&str> {
    let (first, after) = cut(list, b',')?;
    let second = cut(after, b',').map_or(after, |(second, _)| second);
    let value = cut(first, b'=').map_or(first, |(_, value)| value);
    let number = size::digits_to_u64(value).filter(|_| size::is_plain(value))?;
    // "1=0,50%" is no limit on one device, and one on the others.
    let is_list = number == 0 && value.len() != first.len();
    let goes_on = second.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && second.bytes().all(|byte| byte != b'=');
    if number >= size::MIN_PLAIN_BYTES || is_list || !goes_on {
        return None;
    }
    let from = first.len().checked_sub(value.len())?;
    list.get(from..first.len().checked_add(1)?.checked_add(second.len())?)
}

/// Reads one rule whose values are read by `value`.
pub(crate) fn parse_rule_of(text: &str, value: Value) -> Result<Rule, RuleError<'_>> {
    let (selector, value_text) = parse_selector(text)?;
    Ok(rule(selector, value(value_text)?))
}

/// The devices of a rule, and the text of its value.
pub(crate) fn parse_selector(text: &str) -> Result<(Selector, &str), RuleError<'_>> {
    let Some((name, value_text)) = cut(text, b'=') else { return Ok((Selector::All, text)) };
    let selector = parse_uuid(name)
        .map(Selector::Uuid)
        .or_else(|| parse_index(name).map(Selector::Index))
        .ok_or(RuleError::Selector(name))?;
    Ok((selector, value_text))
}

/// Calls `take` with every part of a comma-separated list.
pub(crate) fn each<'a>(
    text: &'a str,
    mut take: impl FnMut(&'a str) -> Result<(), RuleError<'a>>,
) -> Result<(), RuleError<'a>> {
    let mut rest = Some(text);
    while let Some(text) = rest {
        if let Some(number) = decimal_comma(text) {
            return Err(RuleError::DecimalComma(number));
        }
        let (one, after) = match cut(text, b',') {
            Some((one, after)) => (one, Some(after)),
            None => (text, None),
        };
        take(one)?;
        rest = after;
    }
    Ok(())
}

/// The rule that limits `devices` to `limit`.
pub const fn rule(devices: Selector, limit: Limit) -> Rule {
    let (quantity, value) = match limit {
        Limit::Unlimited => (quantity::UNLIMITED, 0),
        Limit::Bytes(bytes) => (quantity::BYTES, bytes),
        Limit::Ppm(ppm) => (quantity::PPM, ppm as u64),
    };
    let (selector, index, uuid) = match devices {
        Selector::All => (selector::ALL, 0, [0; 16]),
        Selector::Index(index) => (selector::INDEX, index, [0; 16]),
        Selector::Uuid(uuid) => (selector::UUID, 0, uuid),
    };
    Rule { selector, index, uuid, quantity, reserved: 0, value }
}

/// A rule's devices; `None` for one no version of this code writes.
pub fn selector_of(rule: &Rule) -> Option<Selector> {
    match rule.selector {
        selector::ALL => Some(Selector::All),
        selector::INDEX => Some(Selector::Index(rule.index)),
        selector::UUID => Some(Selector::Uuid(rule.uuid)),
        _ => None,
    }
}

/// Whether a rule is for an index whose device its writer did not know.
pub fn is_bare(rule: &Rule) -> bool {
    rule.selector == selector::INDEX && rule.uuid == [0; 16]
}

/// A rule's limit; `None` for one no version of this code writes.
pub(crate) fn limit_of(rule: &Rule) -> Option<Limit> {
    match (rule.quantity, rule.value) {
        (quantity::UNLIMITED, 0) => Some(Limit::Unlimited),
        (quantity::BYTES, bytes @ 1..=size::MAX_BYTES) => Some(Limit::Bytes(bytes)),
        (quantity::PPM, ppm @ 1..=1_000_000) => u32::try_from(ppm).ok().map(Limit::Ppm),
        _ => None,
    }
}

/// A rule in a config file cannot be understood; its position. The tenant must not run unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRule(
    /// Position in the list, from 0.
    pub usize,
);

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} of the config file cannot be understood: write the limits anew", self.0)
    }
}

impl core::error::Error for BadRule {}

/// The limit of one device in bytes, `None` for none: UUID beats index beats every device. Of a device whose index is not
/// known only rules by index that carry a UUID count.
///
/// # Errors
/// [`BadRule`] when any rule makes no sense, whether it is for this device or not.
pub fn resolve(
    rules: &[Rule],
    index: Option<u32>,
    uuid: &Uuid,
    card_bytes: u64,
) -> Result<Option<u64>, BadRule> {
    closest(rules, index, uuid).map(|limit| limit.resolve(card_bytes))
}

/// The limit of the rule that is closest to the device.
pub(crate) fn closest(rules: &[Rule], index: Option<u32>, uuid: &Uuid) -> Result<Limit, BadRule> {
    let mut best = (0_u8, Limit::Unlimited);
    for (position, rule) in rules.iter().enumerate() {
        let (Some(selector), Some(limit)) = (selector_of(rule), limit_of(rule)) else {
            return Err(BadRule(position));
        };
        let closeness = match selector {
            Selector::All => 1,
            Selector::Index(_) if !is_bare(rule) => 2 * u8::from(rule.uuid == *uuid),
            Selector::Index(i) if Some(i) == index => 2,
            Selector::Uuid(u) if u == *uuid => 3,
            _ => 0,
        };
        if closeness > best.0 {
            best = (closeness, limit);
        }
    }
    Ok(best.1)
}

/// Parses an environment variable's name: `None` if it is not of the family `base`, else the
/// devices it is for.
///
/// # Errors
/// [`RuleError::Selector`] for a suffix that is no index: `DIVVY_MEMORY_x` is a typing error, and
/// ignoring it would mean "unlimited".
pub fn env_selector<'a>(name: &'a str, base: &str) -> Option<Result<Selector, RuleError<'a>>> {
    let suffix = name.strip_prefix(base)?;
    if suffix.is_empty() {
        return Some(Ok(Selector::All));
    }
    let index = suffix.strip_prefix('_')?;
    Some(parse_index(index).map(Selector::Index).ok_or(RuleError::Selector(index)))
}

/// A list of rules under construction, in fixed storage.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: [Rule; MAX_RULES],
    count: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

impl Rules {
    /// No rules: every device is unlimited.
    pub const fn new() -> Self {
        Self { rules: [rule(Selector::All, Limit::Unlimited); MAX_RULES], count: 0 }
    }

    /// The same rules.
    ///
    /// # Errors
    /// As [`Rules::push`].
    pub fn copy_of(rules: &[Rule]) -> Result<Self, RuleError<'static>> {
        let mut copy = Self::new();
        rules.iter().try_for_each(|rule| copy.push(*rule))?;
        Ok(copy)
    }

    /// The rules in the order they came.
    pub fn as_slice(&self) -> &[Rule] {
        self.rules.get(..self.count).unwrap_or(&[])
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one rule.
    ///
    /// # Errors
    /// [`RuleError::Twice`] or [`RuleError::TooMany`].
    pub fn push(&mut self, new: Rule) -> Result<(), RuleError<'static>> {
        if let Some(selector) = selector_of(&new)
            && self.as_slice().iter().any(|r| selector_of(r) == Some(selector))
        {
            return Err(RuleError::Twice(selector));
        }
        *self.rules.get_mut(self.count).ok_or(RuleError::TooMany)? = new;
        self.count += 1;
        Ok(())
    }

    /// Adds every rule of a comma-separated list.
    ///
    /// # Errors
    /// The first error of [`parse_rule`] or [`Rules::push`].
    pub fn parse_into<'a>(&mut self, text: &'a str) -> Result<(), RuleError<'a>> {
        self.parse_into_of(text, memory)
    }

    pub(crate) fn parse_into_of<'a>(
        &mut self,
        text: &'a str,
        value: Value,
    ) -> Result<(), RuleError<'a>> {
        each(text, |one| self.push(parse_rule_of(one, value)?))
    }

    /// Adds one environment variable of the family `base`; false when `name` is not of it.
    ///
    /// A value may be a list of rules only where the name has no suffix.
    ///
    /// # Errors
    /// As [`env_selector`], [`parse_rule`] and [`Rules::push`].
    pub fn push_env<'a>(
        &mut self,
        base: &str,
        name: &'a str,
        value: &'a str,
    ) -> Result<bool, RuleError<'a>> {
        self.push_env_of(base, name, value, if base == PEER_MEMORY { peer_memory } else { memory })
    }

    pub(crate) fn push_env_of<'a>(
        &mut self,
        base: &str,
        name: &'a str,
        text: &'a str,
        value: Value,
    ) -> Result<bool, RuleError<'a>> {
        let Some(devices) = env_selector(name, base) else { return Ok(false) };
        match devices? {
            Selector::All => self.parse_into_of(text, value)?,
            devices => self.push(rule(devices, value(text)?))?,
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
