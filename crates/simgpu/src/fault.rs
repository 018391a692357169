//! Faults on demand: fail, delay, hang or kill at the n-th call of an entry point, per process.
//!
//! `SIMGPU_FAULTS` is a list of rules separated by `;`:
//!
//! ```text
//! rule   = entry "@" when "=" action
//! when   = n        the n-th call of the process, counted from 1
//!        | n "+"    that call and every later one
//!        | "*"      every call
//! action = "fail:" code          return this code without doing anything
//!        | "delay:" duration     wait (ns, us, ms, s), then go on
//!        | "hang"                never return
//!        | "kill-before"         SIGKILL the process before the call does anything
//!        | "kill-after"          SIGKILL it when the call has done its work
//! ```
//!
//! `entry` is a symbol, version and suffix included: `cuMemAlloc_v2`, `nvmlDeviceGetMemoryInfo`.
//! A list that cannot be understood fails every call, so that no test passes on a misspelt rule.
//! Cost when the variable is not set: one relaxed load.

use crate::machine::notation::parse_duration;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
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

/// Which calls a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The n-th.
    Nth(u64),
    /// The n-th and later ones.
    From(u64),
    /// Every call.
    Every,
}

/// One rule.
#[derive(Debug)]
pub struct FaultRule {
    entry: String,
    when: When,
    action: Action,
    calls: AtomicU64,
}

/// A rule that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("SIMGPU_FAULTS: {rule:?}: {problem}")]
pub struct BadRule {
    /// The rule.
    pub rule: String,
    /// Its fault.
    pub problem: &'static str,
}

/// Order for an entry point, given by [`enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a fault that is not carried out is no fault"]
pub enum Verdict {
    /// Its work.
    Proceed,
    /// Return this code at once.
    Fail(u32),
    /// Its work, and then [`kill`].
    KillAfter,
}

/// The code for every call while the list of rules cannot be understood:
/// `CUDA_ERROR_SYSTEM_NOT_READY`.
const MISSPELT: u32 = 802;

const UNREAD: u8 = 0;
const NONE: u8 = 1;
const ARMED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNREAD);
static RULES: OnceLock<Result<Vec<FaultRule>, BadRule>> = OnceLock::new();

/// To be called first in every entry point, with its symbol.
#[inline]
pub fn enter(entry: &str) -> Verdict {
    if STATE.load(Ordering::Relaxed) == NONE {
        return Verdict::Proceed;
    }
    enter_armed(entry)
}

/// Runs `body` as the entry point `entry`, with whatever fault is due.
#[inline]
pub fn guard<R>(entry: &str, fail: impl FnOnce(u32) -> R, body: impl FnOnce() -> R) -> R {
    match enter(entry) {
        Verdict::Proceed => body(),
        Verdict::Fail(code) => fail(code),
        Verdict::KillAfter => {
            let _ = body();
            kill()
        }
    }
}

#[cold]
fn enter_armed(entry: &str) -> Verdict {
    let rules = RULES.get_or_init(|| {
        let outcome = std::env::var_os("SIMGPU_FAULTS")
            .map_or(Ok(Vec::new()), |text| parse(&text.to_string_lossy()));
        if let Err(bad) = &outcome {
            eprintln!("simgpu: {bad}; every call fails until it is corrected");
        }
        let state = if outcome.as_ref().is_ok_and(Vec::is_empty) { NONE } else { ARMED };
        STATE.store(state, Ordering::Relaxed);
        outcome
    });
    match rules {
        Err(_) => Verdict::Fail(MISSPELT),
        Ok(rules) => carry_out(rules, entry),
    }
}

/// Counts the call against every rule of its name; delays add up, the first other action wins.
fn carry_out(rules: &[FaultRule], entry: &str) -> Verdict {
    let mut verdict = Verdict::Proceed;
    for rule in rules.iter().filter(|rule| rule.entry == entry) {
        let call = rule.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let due = match rule.when {
            When::Nth(n) => call == n,
            When::From(n) => call >= n,
            When::Every => true,
        };
        if !due || verdict != Verdict::Proceed {
            continue;
        }
        match rule.action {
            Action::Fail(code) => verdict = Verdict::Fail(code),
            Action::Delay(duration) => std::thread::sleep(duration),
            Action::Hang => loop {
                std::thread::park();
            },
            Action::KillBefore => kill(),
            Action::KillAfter => verdict = Verdict::KillAfter,
        }
    }
    verdict
}

/// Ends this process as SIGKILL does.
pub fn kill() -> ! {
    loop {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Reads a list of rules.
pub fn parse(text: &str) -> Result<Vec<FaultRule>, BadRule> {
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
    let when = match when.strip_suffix('+') {
        Some(first) => When::From(number(first)?),
        None if when == "*" => When::Every,
        None => When::Nth(number(when)?),
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

    fn verdicts(rules: &str, calls: usize) -> Vec<Verdict> {
        let rules = parse(rules).unwrap();
        (0..calls).map(|_| carry_out(&rules, "cuMemAlloc_v2")).collect()
    }

    #[test]
    fn the_nth_call_alone_fails() {
        use Verdict::{Fail, Proceed};
        assert_eq!(verdicts("cuMemAlloc_v2@2=fail:2", 3), [Proceed, Fail(2), Proceed]);
        assert_eq!(verdicts("cuMemAlloc_v2@2+=fail:2", 3), [Proceed, Fail(2), Fail(2)]);
        assert_eq!(verdicts("cuMemAlloc_v2@*=fail:7", 2), [Fail(7), Fail(7)]);
        assert_eq!(verdicts("cuMemFree_v2@1=fail:2", 1), [Proceed]);
    }

    #[test]
    fn a_call_counts_for_all_rules_of_its_name() {
        use Verdict::{Fail, KillAfter, Proceed};
        assert_eq!(
            verdicts("cuMemAlloc_v2@1=fail:2; cuMemAlloc_v2@3=kill-after;", 3),
            [Fail(2), Proceed, KillAfter]
        );
    }

    #[test]
    fn misspelt_rules_name_themselves() {
        for rule in [
            "cuMemAlloc_v2",
            "cuMemAlloc_v2=fail:2",
            "cuMemAlloc_v2@0=fail:2",
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
