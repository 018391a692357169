//! A change of a running tenant's limits: how a request adds up with the rules that stand.
//!
//! A request is a list of steps, one for every device, a device by its index or by its UUID; each sets
//! a limit, or gives back what the tenant was started with:
//!
//! ```text
//! step = [selector "="] (size | share | "default")
//! ```
//!
//! Promises: a step for every device holds on every device, whatever rules stood before; a step for one
//! device holds there, whichever of the device's names the rules before used, and changes no other
//! device; `default` for one device leaves it the limit of its own that it was started with, or the one for
//! every device; `default` for every device leaves exactly what the tenant was started with. The order
//! of steps does not count: of several for one device UUID beats index beats every device, as in rules. No
//! allocation, no panic.
//!
//! Does not: know devices, which come in as pairs of an index and a UUID, nor where rules are kept.

use divvy_abi::Uuid;
use divvy_abi::config::{MAX_RULES, Rule};

use crate::limit::{self, RuleError, Rules, Selector, Value};
use crate::size::Limit;

/// The word that gives back what the tenant was started with.
pub const DEFAULT: &str = "default";

/// Limit asked for some devices; `None` gives back the one they were started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The devices.
    pub devices: Selector,
    /// Their limit.
    pub limit: Option<Limit>,
}

/// Two names of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Its index, where known.
    pub index: Option<u32>,
    /// Its UUID.
    pub uuid: Uuid,
}

impl Names {
    fn has(&self, devices: Selector) -> bool {
        match devices {
            Selector::All => false,
            Selector::Index(index) => self.index == Some(index),
            Selector::Uuid(uuid) => self.uuid == uuid,
        }
    }
}

/// Steps under construction, in fixed storage.
#[derive(Clone, Debug)]
pub struct Steps {
    /// One for each device and one for all; the limit of a step without one is not looked at.
    rules: Rules,
    /// Whether the rule of this position gives back instead.
    gives_back: [bool; MAX_RULES],
}

impl Default for Steps {
    fn default() -> Self {
        Self::new()
    }
}

impl Steps {
    /// No step: nothing changes.
    pub const fn new() -> Self {
        Self { rules: Rules::new(), gives_back: [false; MAX_RULES] }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The steps, those for every device first, then those by index, then those by UUID: the order in which
    /// they are taken.
    pub fn iter(&self) -> impl Iterator<Item = Step> {
        let ranks =
            [|s: Selector| s == Selector::All, is_index, |s| !is_index(s) && s != Selector::All];
        ranks
            .into_iter()
            .flat_map(move |is_now| self.in_order().filter(move |step| is_now(step.devices)))
    }

    /// The steps as they were asked for.
    fn in_order(&self) -> impl Iterator<Item = Step> {
        self.rules.as_slice().iter().zip(&self.gives_back).filter_map(|(rule, gives_back)| {
            let limit = if *gives_back { None } else { Some(limit::limit_of(rule)?) };
            Some(Step { devices: limit::selector_of(rule)?, limit })
        })
    }

    /// Whether a step gives back what the tenant was started with.
    pub fn gives_back(&self) -> bool {
        self.gives_back.contains(&true)
    }

    /// The steps as the rules they would be by themselves. Steps that give a limit back are among them without
    /// one, since they name devices too.
    pub fn rules(&self) -> &[Rule] {
        self.rules.as_slice()
    }

    /// Adds a step.
    ///
    /// # Errors
    /// [`RuleError::Twice`] or [`RuleError::TooMany`].
    pub fn push(&mut self, step: Step) -> Result<(), RuleError<'static>> {
        let at = self.rules.as_slice().len();
        self.rules.push(limit::rule(step.devices, step.limit.unwrap_or(Limit::Unlimited)))?;
        if let Some(gives_back) = self.gives_back.get_mut(at) {
            *gives_back = step.limit.is_none();
        }
        Ok(())
    }

    /// Adds every step of a comma-separated list of sizes.
    ///
    /// # Errors
    /// As [`Rules::parse_into`].
    pub fn parse_into<'a>(&mut self, text: &'a str) -> Result<(), RuleError<'a>> {
        self.parse_into_of(text, limit::memory)
    }

    pub(crate) fn parse_into_of<'a>(
        &mut self,
        text: &'a str,
        value: Value,
    ) -> Result<(), RuleError<'a>> {
        limit::each(text, |one| {
            let (devices, value_text) = limit::parse_selector(one)?;
            let limit = if value_text == DEFAULT { None } else { Some(value(value_text)?) };
            self.push(Step { devices, limit })
        })
    }

    /// The rules that hold when these steps are taken where `rules` stood, in a tenant that was started
    /// with `start`, on a machine where devices are known by `names`.
    ///
    /// # Errors
    /// [`RuleError::TooMany`].
    pub fn apply(
        &self,
        rules: &[Rule],
        start: &[Rule],
        names: &[Names],
    ) -> Result<Rules, RuleError<'static>> {
        let mut now = Rules::copy_of(rules)?;
        for step in self.iter() {
            now = match step.devices {
                Selector::All => match step.limit {
                    Some(limit) => Rules::copy_of(&[limit::rule(Selector::All, limit)])?,
                    None => Rules::copy_of(start)?,
                },
                one => of_one(now.as_slice(), start, names, one, step.limit)?,
            };
        }
        Ok(now)
    }
}

/// `rules` with the limit of device `one` in place of what they said of it under any of its names.
fn of_one(
    rules: &[Rule],
    start: &[Rule],
    names: &[Names],
    one: Selector,
    limit: Option<Limit>,
) -> Result<Rules, RuleError<'static>> {
    let is_one = |rule: &&Rule| {
        let Some(devices) = limit::selector_of(rule) else { return false };
        devices == one || names.iter().any(|device| device.has(one) && device.has(devices))
    };
    let mut now = Rules::new();
    for rule in rules.iter().filter(|rule| !is_one(rule)) {
        now.push(*rule)?;
    }
    match limit {
        Some(limit) => now.push(limit::rule(one, limit))?,
        None => start.iter().filter(is_one).try_for_each(|rule| now.push(*rule))?,
    }
    Ok(now)
}

fn is_index(devices: Selector) -> bool {
    matches!(devices, Selector::Index(_))
}
