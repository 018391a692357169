//! Verdicts on drawn cases: what a seed's run broke, or how far its shares are off.
//!
//! Promises: a verdict is of its seed and of the gates that ship alone; what is 1 off is at its tolerance
//! ([`crate::oracle`]), and what hangs, or breaks a capture, is farther off than any share.

use crate::case::{Case, Knobs};
use crate::due::{self, Claim};
pub use crate::verdict::Verdict;
use crate::world::{self, Code, End, Report};
use crate::{SECOND, beside, draw, gated, lone, oracle, program};

/// Device time of each tenant's first process from `first_ns` on, in percent, and the first tenant's charge as a part
/// of its own.
///
/// # Panics
/// Where the run is not longer.
fn had(case: &Case, code: &Code, first_ns: u64) -> Result<(Vec<f64>, f64), String> {
    let tenants = 0..u32::try_from(case.tenants.len()).unwrap_or(0);
    let (mut first, mut charged) = (None, 0);
    let report = world::run_with(case, code, |world, now_ns| {
        charged = world.charged_ns(0, 0);
        if now_ns >= first_ns && first.is_none() {
            let had_ns = tenants.clone().map(|tenant| world.had(tenant, 0).busy_ns);
            first = Some((now_ns, had_ns.collect::<Vec<_>>(), charged));
        }
    });
    if let Some(what) = broken(&report) {
        return Err(what);
    }
    let (first_ns, first_had_ns, first_charged_ns) = first.expect("the run is longer");
    let of = |(had, first): (&Vec<crate::card::Had>, u64)| {
        had.first().map_or(0, |had| had.busy_ns) - first
    };
    let had_ns: Vec<u64> = report.had.iter().zip(first_had_ns).map(of).collect();
    let of_charged = had_ns.first().copied().unwrap_or(0).max(1);
    let charged = (charged - first_charged_ns) as f64 / of_charged as f64;
    let wall_ns = (report.wall_ns - first_ns) as f64;
    Ok((had_ns.iter().map(|had_ns| 100.0 * *had_ns as f64 / wall_ns).collect(), charged))
}

/// A fault of a run that its shares have no part in.
pub fn broken(report: &Report) -> Option<String> {
    if report.end == End::Deadlock {
        return Some("threads are left that nothing wakes".to_owned());
    }
    if let Some(violation) = report.violations.first() {
        return Some(format!("{violation:?}"));
    }
    let unbalanced = report.books.iter().enumerate().find(|(device, books)| {
        let of_device = report.had.iter().filter_map(|had| had.get(*device));
        let busy_ns: u64 = of_device.map(|had| had.busy_ns).sum();
        books.wall_ns() != report.wall_ns || books.busy_ns != busy_ns
    });
    unbalanced.map(|(device, books)| format!("device {device}: {books:?}"))
}

fn broke(seed: u64, text: String) -> Verdict {
    Verdict { seed, off: f64::INFINITY, points: 0.0, is_one_stream: true, text }
}

/// A short case with its deviations, which are drawn from what it does without any.
pub fn short_case(seed: u64) -> Case {
    let mut case = draw::case(seed, draw::Size::Micro);
    let plain = world::run(&case, &gated::shipped());
    case.devs = draw::devs(&case, &plain.visits, seed);
    case
}

/// Whether a short case hangs, breaks a capture, or leaves books that do not add up.
pub fn short(seed: u64) -> Verdict {
    let report = world::run(&short_case(seed), &gated::shipped());
    match broken(&report) {
        Some(what) => broke(seed, what),
        None => Verdict { off: 0.0, ..broke(seed, String::new()) },
    }
}

/// How far a tenant that is alone is off its cap, or what it can have without one.
pub fn alone(seed: u64) -> Verdict {
    let case = lone::case(seed);
    let [tenant] = &case.tenants[..] else { return broke(seed, "not one tenant".to_owned()) };
    let Some(ops) = tenant.processes.first().map(|process| &process.ops) else {
        return broke(seed, "no process".to_owned());
    };
    let longest_ns = program::longest_ns(ops);
    let first_ns = oracle::first_ns(longest_ns).min(case.knobs.run_ns / 2);
    let mut open = case.clone();
    open.tenants.iter_mut().for_each(|tenant| tenant.share_ppm = 0);
    let both = had(&open, &world::native(), first_ns)
        .and_then(|native| Ok((native, had(&case, &gated::shipped(), first_ns)?)));
    let ((native, _), (reached, charged)) = match both {
        Ok(both) => both,
        Err(what) => return broke(seed, what),
    };
    let [native, reached] = [native, reached].map(|of| of.first().copied().unwrap_or(0.0));
    let wanted = native.min(tenant.share_ppm as f64 / 10_000.0);
    let tolerance = oracle::lone_points(longest_ns, case.knobs.run_ns - first_ns);
    let points = reached - wanted;
    let text = format!(
        "{reached:6.2} of {wanted:6.2}, {points:+6.2} of {tolerance:4.2} points, charged {charged:.3}"
    );
    let is_one_stream = program::has_one_stream(ops);
    Verdict { seed, off: points.abs() / tolerance, points, is_one_stream, text }
}

/// How far tenants beside each other are below what weights and caps say, or above their caps.
pub fn together(seed: u64, has_caps: bool) -> Verdict {
    beside_each_other(seed, &beside::case(seed, has_caps))
}

/// The same where kernels of one outlast its turns.
pub fn outlasting(seed: u64, has_caps: bool) -> Verdict {
    beside_each_other(seed, &beside::outlasting(seed, has_caps))
}

/// The same where one pauses between its launches.
pub fn pausing(seed: u64, has_caps: bool) -> Verdict {
    beside_each_other(seed, &beside::pausing(seed, has_caps))
}

fn beside_each_other(seed: u64, case: &Case) -> Verdict {
    let mut claims = Vec::new();
    for tenant in &case.tenants {
        let mut alone = tenant.clone();
        alone.processes.iter_mut().for_each(|process| process.start_ns = 0);
        let knobs = Knobs { run_ns: SECOND, heal_ns: SECOND, ..Knobs::default() };
        let alone = Case { knobs, tenants: vec![alone], devs: Vec::new() };
        let reached = match had(&alone, &world::native(), SECOND / 5) {
            Ok((had, _)) => had.first().copied().unwrap_or(0.0),
            Err(what) => return broke(seed, what),
        };
        claims.push(Claim::of(tenant, reached));
    }
    let plans = case.tenants.iter().flat_map(|tenant| &tenant.processes);
    let unit_ns = plans.map(|process| program::unit_ns(&process.ops)).max().unwrap_or(0);
    let first_ns = oracle::first_beside_ns(beside::BEGUN_NS, case.tenants.len(), unit_ns);
    let had = match had(case, &gated::shipped(), first_ns) {
        Ok((had, _)) => had,
        Err(what) => return broke(seed, what),
    };
    let mut verdict = Verdict { off: 0.0, ..broke(seed, String::new()) };
    let due = due::of(&claims).into_iter().zip(due::least(&claims));
    let each = case.tenants.iter().zip(&claims).zip(had.iter().zip(due));
    for ((tenant, claim), (had, (due, least))) in each {
        let lengths = tenant.processes.iter().map(|process| program::longest_ns(&process.ops));
        let longest_ns = lengths.max().unwrap_or(0);
        let tolerance = oracle::lone_points(longest_ns, case.knobs.run_ns - first_ns);
        let below = least - had;
        let above = claim.cap.map_or(0.0, |cap| had - cap);
        if below.max(above) / tolerance > verdict.off {
            verdict.off = below.max(above) / tolerance;
            verdict.points = had - due;
        }
        let weight = claim.weight.map_or(String::new(), |weight| format!(", weight {weight:.0}"));
        verdict.text += &format!(" {had:5.2} of {due:5.2}{weight};");
    }
    verdict
}
