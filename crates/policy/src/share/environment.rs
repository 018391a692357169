//! The compute share as an environment says it, variable by variable.
//!
//! A `DIVVY_` variable beats the peer's of the same meaning, in whatever order they come; both must
//! be understood.

use divvy_abi::config::{Config, MAX_RULES, Rule, class, priority};

use super::grammar::{parse_class, parse_priority, parse_weight, peer_value, value};
use super::rules::needs_gate;
use crate::limit::{RuleError, Rules};
use crate::limit::{ShareError, ShareReason};
use crate::size::digits_to_u64;
use crate::variables;

/// Variables found so far.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    own: Rules,
    peer: Rules,
    is_own: bool,
    is_peer_off: bool,
    weight: u32,
    priority: Option<i32>,
    peer_priority: Option<i32>,
    class: Option<u32>,
}

impl Environment {
    /// Nothing set: no cap, and the defaults.
    pub const fn new() -> Self {
        Self {
            own: Rules::new(),
            peer: Rules::new(),
            is_own: false,
            is_peer_off: false,
            weight: 0,
            priority: None,
            peer_priority: None,
            class: None,
        }
    }

    /// Takes one variable; false when `name` is none of the compute share's.
    ///
    /// # Errors
    /// [`RuleError`] for a value or a suffix that is not understood: the program must not run
    /// without the limit that was meant.
    pub fn push<'a>(&mut self, name: &'a str, text: &'a str) -> Result<bool, RuleError<'a>> {
        match name {
            variables::WEIGHT => self.weight = parse_weight(text).map_err(RuleError::Share)?,
            variables::PRIORITY => {
                self.priority = Some(parse_priority(text).map_err(RuleError::Share)?);
            }
            variables::CLASS => self.class = Some(parse_class(text).map_err(RuleError::Share)?),
            variables::PEER_PRIORITY => {
                self.peer_priority = Some(task_priority(text).map_err(RuleError::Share)?);
            }
            variables::PEER_POLICY => {
                self.is_peer_off = is_disabled(text).map_err(RuleError::Share)?;
            }
            _ => {
                let is_own = self.own.push_env_of(variables::COMPUTE, name, text, value)?;
                self.is_own |= is_own;
                return Ok(is_own
                    || self.peer.push_env_of(variables::PEER_COMPUTE, name, text, peer_value)?);
            }
        }
        Ok(true)
    }

    /// The caps that hold.
    pub fn rules(&self) -> &[Rule] {
        match (self.is_own, self.is_peer_off) {
            (true, _) => self.own.as_slice(),
            (false, false) => self.peer.as_slice(),
            (false, true) => &[],
        }
    }

    /// 0 where none is set, which is the default.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// One of [`priority`].
    pub fn priority(&self) -> i32 {
        self.priority.or(self.peer_priority).unwrap_or(priority::NORMAL)
    }

    /// One of [`class`].
    pub fn class(&self) -> u32 {
        self.class.unwrap_or(class::NORMAL)
    }

    /// Writes what was found into a config, [`Config::any_gate`] included.
    pub fn apply(&self, config: &mut Config) {
        for (to, from) in config.compute_rules.iter_mut().zip(self.rules()) {
            *to = *from;
        }
        let count = self.rules().len().min(MAX_RULES);
        config.compute_rule_count = u32::try_from(count).unwrap_or(0);
        config.weight = self.weight();
        config.priority = self.priority();
        config.class = self.class();
        config.any_gate = u32::from(needs_gate(config));
    }
}

fn task_priority(text: &str) -> Result<i32, ShareError<'_>> {
    match digits_to_u64(text).filter(|_| !text.is_empty()) {
        Some(0) => Ok(priority::HIGH),
        Some(_) => Ok(priority::LOW),
        None => Err(ShareError { text, reason: ShareReason::BadTaskPriority }),
    }
}

fn is_disabled(text: &str) -> Result<bool, ShareError<'_>> {
    if text.eq_ignore_ascii_case("disable") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("default") || text.eq_ignore_ascii_case("force") {
        Ok(false)
    } else {
        Err(ShareError { text, reason: ShareReason::BadPolicy })
    }
}
