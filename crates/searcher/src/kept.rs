//! Cases that are kept, each with the fault that it once found and its judge.
//!
//! One is a file of `cases/`. The judgement comes from the case alone: that nothing breaks, that no cap is passed, or the
//! parts of each tenant from [`crate::case::Knobs::heal_ns`] on, which lies behind all deviations and changes.
//!
//! Promises: a file with a field that this version does not know is refused; tolerances are [`crate::oracle`]'s. A share is
//! judged from below where others are there, and from above where there is a cap, as [`crate::judge::together`] does; a
//! tenant below others in priority, or killed or stopped for good, is not judged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::case::{Case, Fault, Knobs, ProcessPlan, TenantPlan};
use crate::due::{self, Claim};
use crate::program::{self, Change, Op, Ops};
use crate::world::{self, Code, Report, World};
use crate::{SECOND, gated, judge, mixed, oracle};

/// Judge of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oracle {
    /// [`judge::broken`], as in all cases.
    Broken,
    /// [`mixed::above_cap`].
    AboveCap,
    /// [`share`].
    Share,
}

/// A case with what is known of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The fault that it once found.
    pub found: String,
    /// In the gates of which commit, or with which fault planted in them.
    pub commit: String,
    /// The planted fault with which it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Its judge.
    pub oracle: Oracle,
    /// The case.
    pub case: Case,
}

impl Kept {
    /// Reads what [`Kept::write`] wrote.
    ///
    /// # Errors
    /// The file's name, and what in it is no kept case.
    pub fn read(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        serde_json::from_str(&text).map_err(|error| named(&error))
    }

    /// Writes it as text that is read line by line.
    ///
    /// # Errors
    /// Why it cannot be written.
    ///
    /// # Panics
    /// Never: a case is plain data.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_string_pretty(self).expect("plain data has a form");
        std::fs::write(path, text + "\n")
    }

    /// The files of `cases/`, in the order of their names.
    ///
    /// # Errors
    /// Why the folder cannot be read.
    pub fn files() -> std::io::Result<Vec<PathBuf>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let entries = std::fs::read_dir(folder)?;
        let mut files: Vec<_> =
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        Ok(files)
    }
}

/// How a case was.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// 1 is at a tolerance; without end where something broke.
    pub off: f64,
    /// The result, for readers.
    pub text: String,
}

impl Verdict {
    /// Whether it is within its tolerance.
    pub fn holds(&self) -> bool {
        self.off <= 1.0
    }

    fn broken(text: String) -> Self {
        Self { off: f64::INFINITY, text }
    }
}

/// An oracle's verdict on a case with the shipped code.
pub fn verdict(case: &Case, oracle: Oracle) -> Verdict {
    if oracle == Oracle::Share {
        return share(case);
    }
    let report = world::run(case, &gated::shipped());
    let above = || mixed::above_cap(case, &report).filter(|_| oracle == Oracle::AboveCap);
    match judge::broken(&report).or_else(above) {
        Some(what) => Verdict::broken(what),
        None => Verdict { off: 0.0, text: format!("{} events", report.events) },
    }
}

/// Parts of each device while it was judged, in percent.
struct Had {
    /// Of each tenant and device.
    tenants: Vec<Vec<f64>>,
    /// Of each tenant, device and process.
    processes: Vec<Vec<Vec<f64>>>,
}

fn looks(world: &World, case: &Case) -> Vec<Vec<Vec<u64>>> {
    let devices = || 0..case.knobs.devices.max(1) as usize;
    let of = |tenant: u32, device| {
        world.had_by_process(tenant, device).iter().map(|had| had.busy_ns).collect()
    };
    let tenants = (0..).zip(&case.tenants);
    tenants.map(|(tenant, _)| devices().map(|device| of(tenant, device)).collect()).collect()
}

fn had(case: &Case, code: &Code, from_ns: u64) -> Result<(Had, Report), String> {
    let (mut first, mut last) = (None, Vec::new());
    let report = world::run_with(case, code, |world, now_ns| {
        if now_ns >= from_ns && first.is_none() {
            first = Some((now_ns, looks(world, case)));
        }
        if now_ns >= case.knobs.run_ns {
            last = looks(world, case);
        }
    });
    if let Some(what) = judge::broken(&report) {
        return Err(what);
    }
    let (first_ns, first) = first.ok_or("it ended before it was judged")?;
    let wall_ns = report.wall_ns.saturating_sub(first_ns).max(1) as f64;
    let percent = |now: &u64, before: u64| 100.0 * (now - before) as f64 / wall_ns;
    let processes: Vec<Vec<Vec<f64>>> = last
        .iter()
        .zip(&first)
        .map(|pair| {
            let devices = pair.0.iter().zip(pair.1).map(|(now, before)| {
                // A process that came later had nothing before.
                let before = before.iter().copied().chain(std::iter::repeat(0));
                now.iter().zip(before).map(|(now, before)| percent(now, before)).collect()
            });
            devices.collect()
        })
        .collect();
    let sum = |devices: &Vec<Vec<f64>>| devices.iter().map(|all| all.iter().sum()).collect();
    Ok((Had { tenants: processes.iter().map(sum).collect(), processes }, report))
}

/// Tenants as they are once all changes of a case have been made, and whether each is paused then.
fn in_the_end(case: &Case) -> Vec<(TenantPlan, bool)> {
    let mut all: Vec<_> = case.tenants.iter().map(|tenant| (tenant.clone(), false)).collect();
    for process in case.tenants.iter().flat_map(|tenant| &tenant.processes) {
        program::each(&process.ops, &mut |op| {
            let Op::Set { tenant, change } = op else { return };
            let Some((plan, paused)) = all.get_mut(*tenant as usize) else { return };
            match change {
                Change::Priority(priority) => plan.priority = *priority,
                Change::Weight(weight) => plan.weight = *weight,
                Change::Cap(ppm) => plan.share_ppm = *ppm,
                Change::Pause(is_paused) => *paused = *is_paused,
            }
        });
    }
    all
}

fn launches(ops: &Ops) -> bool {
    program::longest_ns(ops) != 0
}

/// Part of a device that a tenant reaches with its processes there and no other beside it, in percent of the time judged.
fn alone(case: &Case, plan: &TenantPlan, device: u32) -> Result<f64, String> {
    let mut plan = plan.clone();
    plan.processes.retain(|process| process.device == device && launches(&process.ops));
    plan.processes.iter_mut().for_each(|process| process.device = 0);
    let knobs = Knobs { devices: 1, ..case.knobs.clone() };
    let case = Case { knobs, tenants: vec![plan], devs: Vec::new() };
    let mut first = None;
    let report = world::run_with(&case, &world::native(), |world, now_ns| {
        if now_ns >= case.knobs.heal_ns && first.is_none() {
            first = Some(world.had(0, 0).busy_ns);
        }
    });
    let all_ns = report.had.iter().flatten().map(|had| had.busy_ns).sum::<u64>();
    let judged_ns = case.knobs.run_ns.saturating_sub(case.knobs.heal_ns).max(1);
    Ok(100.0 * first.map_or(0, |first| all_ns - first) as f64 / judged_ns as f64)
}

/// Processes that are killed, or stopped for as long as the case runs.
fn gone(case: &Case) -> BTreeSet<(u32, u32)> {
    let is_gone = |what: Fault| match what {
        Fault::Kill => true,
        Fault::Stop(ns) => ns >= case.knobs.run_ns,
        _ => false,
    };
    let devs = case.devs.iter().filter(|dev| is_gone(dev.what));
    devs.map(|dev| (dev.who.tenant, dev.who.process)).collect()
}

/// How far the farthest tenant, or process of one, is off what it is due from when all is healed on.
///
/// A run of which less than a second is judged has no verdict.
pub fn share(case: &Case) -> Verdict {
    match shares(case) {
        Ok(verdict) => verdict,
        Err(what) => Verdict::broken(what),
    }
}

fn shares(case: &Case) -> Result<Verdict, String> {
    let judged_ns = case.knobs.run_ns.saturating_sub(case.knobs.heal_ns);
    let mut verdict = Verdict { off: 0.0, text: String::new() };
    if judged_ns < SECOND {
        verdict.text.push_str("too short to be judged");
        return Ok(verdict);
    }
    let (had, _) = had(case, &gated::shipped(), case.knobs.heal_ns)?;
    let (gone, plans) = (gone(case), in_the_end(case));
    let has_strangers = plans.iter().any(|(plan, _)| {
        plan.is_stranger && plan.processes.iter().any(|process| launches(&process.ops))
    });
    let beside = if has_strangers { Some(beside_strangers(case)?) } else { None };
    for device in 0..case.knobs.devices.max(1) {
        let is_at = |tenant: u32, process: &ProcessPlan, number: u32| {
            process.device % case.knobs.devices.max(1) == device
                && launches(&process.ops)
                && !gone.contains(&(tenant, number))
        };
        let here = |tenant: u32, plan: &TenantPlan| -> Vec<usize> {
            let numbered = (0..).zip(&plan.processes);
            let there = numbered.filter(|(number, process)| is_at(tenant, process, *number));
            there.map(|(number, _)| number as usize).collect()
        };
        let all = (0..).zip(&plans);
        let there: Vec<_> = all
            .filter(|(tenant, (plan, paused))| {
                !plan.is_stranger && !paused && !here(*tenant, plan).is_empty()
            })
            .map(|(tenant, (plan, _))| (tenant, plan))
            .collect();
        let highest = there.iter().map(|(_, plan)| plan.priority).max();
        let there: Vec<_> =
            there.into_iter().filter(|(_, plan)| Some(plan.priority) == highest).collect();
        let claims: Vec<Claim> = there
            .iter()
            .map(|(_, plan)| Ok(Claim::of(plan, alone(case, plan, device)?)))
            .collect::<Result<_, String>>()?;
        // A tenant that is alone hands its device on to no other.
        let due = if there.len() == 1 { due::of(&claims) } else { due::least(&claims) };
        for (((tenant, plan), claim), due) in there.iter().zip(&claims).zip(due) {
            let tenant = *tenant as usize;
            let longest_ns = plan.processes.iter().map(|one| program::longest_ns(&one.ops)).max();
            let tolerance = oracle::lone_points(longest_ns.unwrap_or(0), judged_ns);
            let had_here = had.tenants[tenant][device as usize];
            let due = match &beside {
                Some(beside) => {
                    beside.tenants[tenant][device as usize].min(claim.cap.unwrap_or(100.0))
                }
                None => due,
            };
            let above = claim.cap.map_or(0.0, |cap| had_here - cap);
            verdict.off = verdict.off.max((due - had_here).max(above) / tolerance);
            verdict.text += &format!(" {tenant} on {device}: {had_here:.2} of {due:.2};");
            let workers = here(tenant as u32, plan);
            let each: Vec<f64> =
                workers.iter().map(|at| had.processes[tenant][device as usize][*at]).collect();
            let is_alike =
                workers.iter().all(|at| plan.processes[*at].ops == plan.processes[workers[0]].ops);
            // A process that ends wants no more.
            let ends = plan.processes.iter().any(|one| program::ends(&one.ops));
            if each.len() > 1 && is_alike && !ends {
                let off = oracle::uneven(&each);
                verdict.off = verdict.off.max(off);
                verdict.text += &format!(" {each:.2?};");
            }
        }
    }
    Ok(verdict)
}

/// Parts of all without gates.
fn beside_strangers(case: &Case) -> Result<Had, String> {
    Ok(had(case, &world::native(), case.knobs.heal_ns)?.0)
}
