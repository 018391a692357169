//! Rules: which calls of an entry point they are for, and what is to happen at those.
//!
//! Promises: a rule counts the calls of its entry point from 1, by whichever thread; which ones are drawn a seed says. Carries
//! nothing out.

use crate::machine::notation::parse_duration;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Return this code.
    Fail(u32),
    /// Wait, then go on.
    Delay(Duration),
    /// Never return.
    Hang,
    /// Kill the process before the call.
    KillBefore,
    /// Kill it after the call.
    KillAfter,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(code) => write!(f, "fail:{code}"),
            Self::Delay(duration) => write!(f, "delay:{}ns", duration.as_nanos()),
            Self::Hang => f.write_str("hang"),
            Self::KillBefore => f.write_str("kill-before"),
            Self::KillAfter => f.write_str("kill-after"),
        }
    }
}

/// Which calls a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// The n-th.
    Nth(u64),
    /// The n-th and later ones.
    From(u64),
    /// Each n-th.
    Each(u64),
    /// One in so many, drawn with a seed.
    OneIn(u64, u64),
    /// Every call.
    Every,
}

impl When {
    /// Whether the `call`-th is one of them.
    fn is_due(self, call: u64) -> bool {
        match self {
            Self::Nth(n) => call == n,
            Self::From(n) => call >= n,
            Self::Each(n) => call.is_multiple_of(n),
            Self::OneIn(n, seed) => mixed(call ^ mixed(seed)).is_multiple_of(n),
            Self::Every => true,
        }
    }
}

/// A number that looks drawn: the finalizer of SplitMix64.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// One rule.
#[derive(Debug)]
pub(super) struct FaultRule {
    entry: String,
    when: When,
    action: Action,
    calls: AtomicU64,
}

/// A rule that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("SIMGPU_FAULTS: {rule:?}: {problem}")]
pub(super) struct BadRule {
    /// The rule.
    pub(super) rule: String,
    /// Its fault.
    pub(super) problem: &'static str,
}

impl FaultRule {
    /// Counts a call of `entry`: its number and what is to happen at it, where this rule is for it.
    pub(super) fn due(&self, entry: &str) -> Option<(u64, Action)> {
        if self.entry != entry {
            return None;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.when.is_due(call).then_some((call, self.action))
    }
}

impl BadRule {
    /// Tells the user.
    pub(super) fn tell(&self) {
        eprintln!("simgpu: {self}; every call fails until it is corrected");
    }
}

/// Reads a list of rules.
pub(super) fn parse(text: &str) -> Result<Vec<FaultRule>, BadRule> {
    text.split(';')
        .map(str::trim)
        .filter(|rule| !rule.is_empty())
        .map(|rule| parse_rule(rule).map_err(|problem| BadRule { rule: rule.into(), problem }))
        .collect()
}

fn parse_rule(rule: &str) -> Result<FaultRule, &'static str> {
    let (name, action) = rule.split_once('=').ok_or("write entry@n=action")?;
    let (entry, when) = name.split_once('@').ok_or("write entry@n=action")?;
    if divvy_driver_api::find(entry).is_none() {
        return Err("the driver and NVML have no such entry point");
    }
    let number = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err("count calls from 1, or write * for every call"),
        Ok(n) => Ok(n),
    };
    let drawn = when.split_once('~');
    let when = match (when.strip_suffix('+'), when.strip_prefix('/'), drawn) {
        (Some(first), ..) => When::From(number(first)?),
        (_, Some(each), _) => When::Each(number(each)?),
        (.., Some((one_in, seed))) => {
            let seed = seed.parse().map_err(|_| "give the seed as a number")?;
            When::OneIn(number(one_in)?, seed)
        }
        _ if when == "*" => When::Every,
        _ => When::Nth(number(when)?),
    };
    let action = match action.split_once(':') {
        Some(("fail", code)) => {
            Action::Fail(code.parse().map_err(|_| "give the code to fail with as a number")?)
        }
        Some(("delay", duration)) => {
            Action::Delay(parse_duration(duration).ok_or("give the delay with ns, us, ms or s")?)
        }
        None if action == "hang" => Action::Hang,
        None if action == "kill-before" => Action::KillBefore,
        None if action == "kill-after" => Action::KillAfter,
        _ => return Err("the action is fail:code, delay:time, hang, kill-before or kill-after"),
    };
    Ok(FaultRule { entry: entry.into(), when, action, calls: AtomicU64::new(0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn misspelt_rules_name_themselves() {
        for rule in [
            "cuMemAlloc_v2",
            "cuMemAlloc_v2=fail:2",
            "cuMemAlloc_v2@0=fail:2",
            "cuMemAlloc_v2@/0=fail:2",
            "cuMemAlloc_v2@/=fail:2",
            "cuMemAlloc_v2@0~7=fail:2",
            "cuMemAlloc_v2@10~=fail:2",
            "cuMemAlloc_v2@~7=fail:2",
            "cuMemAlloc_v2@1=fail",
            "cuMemAlloc_v2@1=fail:oom",
            "cuMemAlloc_v2@1=delay:5",
            "cuMemAlloc_v2@1=explode",
            "cuMemAllok@1=hang",
            "@1=hang",
        ] {
            assert_eq!(parse(rule).unwrap_err().rule, rule);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_well_formed_is_read_as_written(
            n in 1u64.., open in any::<bool>(), code in any::<u32>(), ms in 0u64..1_000_000
        ) {
            let plus = if open { "+" } else { "" };
            let rules = parse(&format!(
                "cuMemAlloc_v2@{n}{plus}=fail:{code};nvmlInit_v2@{n}{plus}=delay:{ms}ms"
            )).unwrap();
            let when = if open { When::From(n) } else { When::Nth(n) };
            prop_assert_eq!((rules[0].when, rules[0].action), (when, Action::Fail(code)));
            let delay = Action::Delay(Duration::from_millis(ms));
            prop_assert_eq!((rules[1].when, rules[1].action), (when, delay));
        }
    }
}
