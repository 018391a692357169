//! Cases in which many features come together, by seed, and the states that a run has reached.
//!
//! Up to four tenants for a second, of several processes, threads and streams; some with captures, some strangers; one
//! that changes the others' limits meanwhile; and deviations in all of them.
//!
//! Promises: states are read off the run and its case, and a state that is counted has been met while the
//! gates were at work: a thread that never launched is none.
//!
//! Does not judge shares: the invariants are [`crate::judge::broken`]'s, and the bound of caps is [`above_cap`]'s.

use std::collections::BTreeSet;

use crate::case::{Actor, Case, Fault, Site, TenantPlan};
use crate::choice::Choices;
use crate::program::{self, Change, Op, Ops};
use crate::world::{self, Report};
use crate::{MS, draw, gated, oracle};

/// Something that may be difficult for a gate, and more so together with another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// Two threads of a process have launched.
    Threads,
    /// A process has launched on two streams.
    Streams,
    /// Two processes of a tenant have launched.
    Processes,
    /// A process was killed.
    Death,
    /// One was stopped.
    Stop,
    /// The driver, or a file, said no.
    Refusal,
    /// Limits were changed.
    Change,
    /// A process of no tenant has launched.
    Stranger,
    /// A stream was captured.
    Capture,
    /// A tenant with a cap has launched.
    Cap,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Threads,
        Self::Streams,
        Self::Processes,
        Self::Death,
        Self::Stop,
        Self::Refusal,
        Self::Change,
        Self::Stranger,
        Self::Capture,
        Self::Cap,
    ];
}

/// The case of a seed, with its deviations.
pub fn case(seed: u64) -> Case {
    let mut case = draw::case(seed, draw::Size::Meso);
    let choices = Choices::new(seed).named("mixed");
    if choices.named("changes").is(500_000) {
        let tenants = case.tenants.len() as u64;
        let ops = (0..choices.named("count").between(1, 8))
            .flat_map(|at| changes(choices.of(at), tenants))
            .collect();
        case.tenants.push(TenantPlan { is_stranger: true, ..TenantPlan::of(ops) });
    }
    let plain = world::run(&case, &gated::shipped());
    case.devs = draw::devs(&case, &plain.visits, seed);
    case
}

/// One change, after a while.
fn changes(choices: Choices, tenants: u64) -> Ops {
    let of = |name: &str| choices.named(name);
    let change = match of("what").below(4) {
        0 => Change::Cap(of("cap").between(0, 9) * 100_000),
        1 => Change::Weight(of("weight").spread(1, 1_000) as u32),
        2 => Change::Priority(of("priority").below(3) as i32 - 1),
        _ => Change::Pause(of("pause").is(400_000)),
    };
    let tenant = of("tenant").below(tenants) as u32;
    vec![Op::Pause { ns: of("after").spread(MS, 300 * MS) }, Op::Set { tenant, change }]
}

/// States that a run of a case has reached.
pub fn reached(case: &Case, report: &Report) -> BTreeSet<State> {
    let came = |site: Site| {
        let of_site = report.visits.iter().filter(move |((_, at), _)| *at == site);
        of_site.map(|((who, _), _)| *who)
    };
    let launched: BTreeSet<_> = came(Site::Launch).chain(came(Site::Graph)).collect();
    let plan = |tenant: u32| case.tenants.get(tenant as usize);
    let mut states = BTreeSet::new();
    for who in &launched {
        let Some(plan) = plan(who.tenant) else { continue };
        let others = || launched.iter().filter(|other| other.tenant == who.tenant);
        if others().any(|other| other.process == who.process && other.thread != who.thread) {
            states.insert(State::Threads);
        }
        if others().any(|other| other.process != who.process) {
            states.insert(State::Processes);
        }
        let ops = plan.processes.get(who.process as usize).map(|process| &process.ops);
        if ops.is_some_and(|ops| !program::has_one_stream(ops)) {
            states.insert(State::Streams);
        }
        if plan.is_stranger {
            states.insert(State::Stranger);
        }
        if plan.share_ppm != 0 {
            states.insert(State::Cap);
        }
    }
    if came(Site::Capture).next().is_some() {
        states.insert(State::Capture);
    }
    if came(Site::DaemonWrite).any(|who| who != Actor::DAEMON) {
        states.insert(State::Change);
    }
    for dev in &report.met {
        states.extend(match dev.what {
            Fault::Kill => Some(State::Death),
            Fault::Stop(_) => Some(State::Stop),
            Fault::Refuse => Some(State::Refusal),
            _ => None,
        });
    }
    states
}

/// A tenant that had more than its cap allows at most, if there is one, among those whose limits were not changed and
/// whose words were not spoilt.
pub fn above_cap(case: &Case, report: &Report) -> Option<String> {
    let is_spoilt =
        |dev: &crate::case::Dev| matches!(dev.what, Fault::Garbage(_) | Fault::Longer(_));
    if report.met.iter().any(is_spoilt) || reached(case, report).contains(&State::Change) {
        return None;
    }
    let has_stranger = reached(case, report).contains(&State::Stranger);
    for (at, (tenant, had)) in case.tenants.iter().zip(&report.had).enumerate() {
        if tenant.share_ppm == 0 || tenant.is_stranger || has_stranger {
            continue;
        }
        let lengths = tenant.processes.iter().map(|process| program::longest_ns(&process.ops));
        let processes = tenant.processes.len() as u64;
        let most_ns = oracle::most_ns(
            tenant.share_ppm,
            report.wall_ns,
            lengths.max().unwrap_or(0) * processes,
        );
        for (device, had) in had.iter().enumerate() {
            if had.busy_ns > most_ns {
                let (busy_ns, wall_ns) = (had.busy_ns, report.wall_ns);
                return Some(format!(
                    "tenant {at} on {device}: {busy_ns} of {most_ns} in {wall_ns}"
                ));
            }
        }
    }
    None
}
