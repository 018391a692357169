//! Caps for devices: rules with a share in place of a size, and what they come to.
//!
//! Promises: a rule that no version of this code would write is an error when it is resolved, never "no cap". Does not
//! keep any rule.

use divvy_abi::Uuid;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE, Rule, gate, quantity};

use super::grammar::{WHOLE_PPM, value};
use crate::change::Steps;
use crate::limit::{self, BadRule, RuleError, Rules};
use crate::size::Limit;

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

/// True if launches of the tenant must look at their gates: it has a cap, a pause, memory that may leave the card, or
/// a gate that is not free. Every writer of one of these writes the answer into [`Config::any_gate`].
pub fn needs_gate(config: &Config) -> bool {
    let caps = config.compute_rules().iter().any(|rule| rule.quantity != quantity::UNLIMITED);
    let moves = config.flags & FLAG_OVERSUBSCRIBE != 0;
    caps || moves || config.paused != 0 || config.gates.iter().any(|line| line.gate != gate::FREE)
}
