//! Faults on demand: fail, delay, hang or kill at the n-th call of an entry point, per process.
//!
//! `SIMGPU_FAULTS` is a list of rules separated by `;`:
//!
//! ```text
//! rule   = entry "@" when "=" action
//! when   = n        the n-th call of the process, counted from 1
//!        | n "+"    that call and every later one
//!        | "/" n    each n-th call
//!        | n "~" s  one call in n, drawn with the seed s: the same ones in each run
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
//!
//! `SIMGPU_FAULTS_FILE` names a file with such a list that may change while the process runs (`watched`): it is looked
//! at in each call, and calls count from 1 again when there is another one. What is carried out, delays apart,
//! is a line in `faults.log` in the machine's directory: `cuMemCreate@2=fail:2 pid 17`.
//! Cost when neither variable is set: one relaxed load.

mod rule;
mod watched;

use crate::unsimulated;
use rule::{Action, BadRule, FaultRule, parse};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use watched::Watched;

/// Name of the file, in the machine's directory, that says what was carried out.
pub const LOG: &str = "faults.log";

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
static RULES: OnceLock<GivenRules> = OnceLock::new();

/// Rules of the process: those of its environment, and a file with others.
#[derive(Debug)]
struct GivenRules {
    given: Result<Vec<FaultRule>, BadRule>,
    watched: Option<Watched>,
}

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
        let given = std::env::var_os("SIMGPU_FAULTS")
            .map_or(Ok(Vec::new()), |text| parse(&text.to_string_lossy()));
        let _ = given.as_ref().inspect_err(|bad| bad.tell());
        let watched = std::env::var_os("SIMGPU_FAULTS_FILE").map(Watched::new);
        let is_none = given.as_ref().is_ok_and(Vec::is_empty) && watched.is_none();
        STATE.store(if is_none { NONE } else { ARMED }, Ordering::Relaxed);
        GivenRules { given, watched }
    });
    match (verdict(&rules.given, entry), &rules.watched) {
        (Verdict::Proceed, Some(watched)) => verdict(&watched.rules(), entry),
        (verdict, _) => verdict,
    }
}

fn verdict(rules: &Result<Vec<FaultRule>, BadRule>, entry: &str) -> Verdict {
    match rules {
        Err(_) => Verdict::Fail(MISSPELT),
        Ok(rules) => carry_out(rules, entry, |line| unsimulated::append(LOG, line)),
    }
}

/// Counts the call against every rule of its name; delays add up, the first other action wins.
fn carry_out(rules: &[FaultRule], entry: &str, record: impl Fn(&str)) -> Verdict {
    let mut verdict = Verdict::Proceed;
    // Each one counts the call, whether or not another one is due.
    let due = rules.iter().filter_map(|rule| rule.due(entry));
    for (call, action) in due {
        if verdict != Verdict::Proceed {
            continue;
        }
        if !matches!(action, Action::Delay(_)) {
            record(&format!("{entry}@{call}={action}"));
        }
        match action {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(rules: &str, calls: usize) -> Vec<Verdict> {
        let rules = parse(rules).unwrap();
        (0..calls).map(|_| carry_out(&rules, "cuMemAlloc_v2", |_| ())).collect()
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
    fn each_nth_call_fails() {
        use Verdict::{Fail, Proceed};
        assert_eq!(
            verdicts("cuMemAlloc_v2@/2=fail:2", 5),
            [Proceed, Fail(2), Proceed, Fail(2), Proceed]
        );
        assert_eq!(verdicts("cuMemAlloc_v2@/1=fail:7", 2), [Fail(7), Fail(7)]);
    }

    #[test]
    fn drawn_calls_are_those_of_the_seed() {
        let failed = |rule: &str| verdicts(rule, 10_000);
        let some = failed("cuMemAlloc_v2@10~7=fail:2");
        let count = some.iter().filter(|verdict| **verdict != Verdict::Proceed).count();
        assert!((900..1_100).contains(&count), "one in ten of 10,000: {count}");
        assert_eq!(some, failed("cuMemAlloc_v2@10~7=fail:2"));
        assert_ne!(some, failed("cuMemAlloc_v2@10~8=fail:2"));
        assert_eq!(verdicts("cuMemAlloc_v2@1~0=fail:2", 1), [Verdict::Fail(2)]);
    }

    #[test]
    fn what_is_carried_out_is_recorded() {
        let rules = parse("cuInit@2=fail:2;cuInit@*=delay:1ns;cuInit@3=kill-after").unwrap();
        let said = std::cell::RefCell::new(Vec::new());
        for _ in 0..4 {
            let _ = carry_out(&rules, "cuInit", |line| said.borrow_mut().push(line.to_owned()));
        }
        assert_eq!(said.into_inner(), ["cuInit@2=fail:2", "cuInit@3=kill-after"]);
    }

    #[test]
    fn a_call_counts_for_all_rules_of_its_name() {
        use Verdict::{Fail, KillAfter, Proceed};
        assert_eq!(
            verdicts("cuMemAlloc_v2@1=fail:2; cuMemAlloc_v2@3=kill-after;", 3),
            [Fail(2), Proceed, KillAfter]
        );
    }
}
