//! `divvy bench share --family processes`: a tenant of several processes, which has one cap for all of them.
//!
//! All of a tenant's processes do the same. Figures are what they have in sum, the least of them beside the
//! most, and the longest time that one of them made no progress, the first second included. Promises: a run
//! lasts until each could have done a hundred kernels, or rounds, of what the cap leaves it. Tenants of several
//! processes beside other tenants are not measured here.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use divvy_policy::gate::TURN_NS;

use super::busy::{self, Comes, Part, Ran, RunLength, Work};
use super::daemon::Daemon;
use super::kernel::{Kernels, ROUNDS, text};
use super::report::{Figure, Goal, median};
use super::running::Bench;
use super::side::{Side, TenantTerms};
use super::timing::{SECOND_NS, Timing};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Least seconds of a run, unless the command line says otherwise.
const SECONDS: f64 = 5.0;
/// Units of work that each process has time for.
const UNITS: f64 = 100.0;
/// Points that the sum may be off by.
const SUM_POINTS: f64 = 1.0;
/// How long each may be without progress where it is due sooner.
const LEAST_WAIT_MS: f64 = 500.0;

/// Work of each process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    mode: &'static str,
    /// Its kernels' lengths: one, or several by turns.
    lengths_ns: &'static [u64],
}

const SHORT: Load = Load { mode: "sync", lengths_ns: &[20 * US] };
const SYNC: Load = Load { mode: "sync", lengths_ns: &[100 * US] };
const LONG_QUEUE: Load = Load { mode: QUEUE, lengths_ns: &[5 * MS] };
const TURNS: Load = Load { mode: "by turns", lengths_ns: &[50 * US, 2 * MS] };
const QUEUE: &str = "async";
const LOADS: [Load; 4] = [
    SYNC,
    Load { mode: QUEUE, lengths_ns: &[100 * US] },
    Load { mode: "sync", lengths_ns: &[5 * MS] },
    LONG_QUEUE,
];
const PROCESSES: [usize; 4] = [2, 4, 8, 16];
const CAPS: [u32; 2] = [25, 50];

/// A tenant.
#[derive(Clone, Copy, Debug)]
struct Case {
    processes: usize,
    load: Load,
    cap: Option<u32>,
    has_daemon: bool,
    /// Whether there was one more, which has ended by the time that is judged.
    one_ends: bool,
}

/// All of them, those without a daemon first.
fn cases(quick: bool) -> Vec<Case> {
    let capped = |processes, load, cap| Case {
        processes,
        load,
        cap: Some(cap),
        has_daemon: false,
        one_ends: false,
    };
    let free = |load| Case { cap: None, has_daemon: true, ..capped(4, load, 0) };
    if quick {
        return vec![capped(2, SYNC, 50), capped(4, LONG_QUEUE, 50), free(SYNC)];
    }
    let pairs = LOADS.iter().flat_map(|load| CAPS.map(|cap| (*load, cap)));
    let mut all: Vec<Case> = pairs
        .flat_map(|(load, cap)| PROCESSES.map(|processes| capped(processes, load, cap)))
        .collect();
    // A daemon sees one tenant: what it adds shows in some of them.
    let some = [4, 16].into_iter().flat_map(|processes| {
        CAPS.into_iter()
            .flat_map(move |cap| [SYNC, LONG_QUEUE].map(|load| capped(processes, load, cap)))
    });
    let more = [capped(4, TURNS, 50), capped(4, SYNC, 90)];
    all.extend(some.chain(more).map(|case| Case { has_daemon: true, ..case }));
    let left = [4, 16].map(|processes| Case { one_ends: true, ..capped(processes, SHORT, 50) });
    all.extend(left.map(|case| Case { has_daemon: true, ..case }));
    all.extend([free(SHORT), free(SYNC)]);
    all
}

impl Case {
    fn name(&self) -> String {
        let lengths: Vec<String> = self.load.lengths_ns.iter().map(|ns| text(*ns)).collect();
        let mut name = format!("{} processes of {}", self.processes, lengths.join(" and "));
        name += &format!(" {}", self.load.mode);
        if let Some(cap) = self.cap {
            name += &format!(" at {cap} %");
        }
        name += if self.has_daemon { " under a daemon" } else { "" };
        name + if self.one_ends { ", of which one more has ended" } else { "" }
    }

    /// The longest time that a process may be without progress, in milliseconds: twice what a round of turns
    /// takes under the cap.
    fn longest_wait_ms(&self, cap: u32) -> f64 {
        let round_ms = self.processes as f64 * TURN_NS as f64 / MS as f64;
        (2.0 * round_ms * 100.0 / f64::from(cap)).max(LEAST_WAIT_MS)
    }

    /// How often it is measured: without a cap beside one alone, and both are the host's doing too.
    fn rounds(&self, quick: bool) -> usize {
        if self.cap.is_none() && !quick { ROUNDS } else { 1 }
    }

    fn sides(&self, bench: &Bench) -> Vec<Side> {
        let is_asked = |side: &&Side| match self.cap {
            // No process is capped on the bare driver, and to a peer the daemon is nothing.
            Some(_) => side.is_ours() || (side.is_peer() && !self.has_daemon),
            None => true,
        };
        bench.sides.iter().filter(is_asked).cloned().collect()
    }
}

pub(super) fn measure(bench: &mut Bench, timing: &Timing) -> Result<()> {
    let cases: Vec<Case> =
        cases(timing.quick).into_iter().filter(|case| bench.wants(&case.name())).collect();
    bench
        .expect(cases.iter().map(|case| case.sides(bench).len() * case.rounds(timing.quick)).sum());
    let mut house = House { bench, timing, kernels: Kernels::default(), daemon: None };
    let mut alone: Vec<(Load, f64)> = Vec::new();
    for case in cases {
        let known = alone.iter().find(|(load, _)| *load == case.load).map(|(_, share)| *share);
        let measured = match known {
            Some(share) => house.measure(case, share),
            None => house.alone(case.load).and_then(|share| {
                alone.push((case.load, share));
                house.measure(case, share)
            }),
        };
        if let Err(error) = measured {
            house.bench.fails(&format!("share, {}", case.name()), error);
        }
    }
    house.kernels.check(house.bench);
    Ok(())
}

/// The card, its kernels, and a daemon from the first case on that has one.
struct House<'a> {
    bench: &'a mut Bench,
    timing: &'a Timing,
    kernels: Kernels,
    daemon: Option<Result<Daemon>>,
}

impl House<'_> {
    fn work(&mut self, load: Load) -> Result<Work> {
        let mut round = Vec::new();
        for ns in load.lengths_ns {
            round.push((self.kernels.get(self.bench, *ns)?, 1));
        }
        Ok(match round.as_slice() {
            [(kernel, _)] => Work::new(load.mode, *kernel),
            _ => Work::varied("each", &round),
        })
    }

    /// Share of one process alone on the bare driver, in percent of wall time.
    fn alone(&mut self, load: Load) -> Result<f64> {
        let work = self.work(load)?;
        let tenancy = self.bench.native()?.tenancy(&self.bench.stage, self.bench.limit_bytes())?;
        self.bench.say("one process alone on the bare driver");
        let length = RunLength::seconds(self.timing.seconds.min(1.5));
        let ran = busy::run(self.bench, &[(&tenancy, work)], length)?;
        let share = ran.shares()?.first().copied().filter(|share| *share > 0.0);
        share.context("alone on the bare driver the program did nothing")
    }

    fn measure(&mut self, case: Case, alone: f64) -> Result<()> {
        if case.has_daemon && self.daemon.is_none() {
            self.daemon = Some(Daemon::start(&self.bench.stage));
        }
        match case.cap {
            Some(cap) => self.measure_capped(case, cap, alone),
            None => self.measure_free(case),
        }
    }

    fn together(&mut self, case: Case, side: &Side) -> Result<Ran> {
        self.bench.step(&format!("share, {} on {}", case.name(), side.name));
        if side.is_ours()
            && case.has_daemon
            && let Some(Err(error)) = &self.daemon
        {
            bail!("{error:#}");
        }
        let work = self.work(case.load)?;
        let terms = TenantTerms::memory(self.bench.limit_bytes());
        let tenancy =
            side.tenancy_of(&self.bench.stage, &case.cap.map_or(terms, |cap| terms.share(cap)))?;
        let units = if self.timing.quick { UNITS / 10.0 } else { UNITS };
        let part = f64::from(case.cap.unwrap_or(100)) / 100.0;
        let least = units * work.unit_ns() * case.processes as f64 / part / SECOND_NS as f64;
        let seconds = self.timing.seconds_or(SECONDS).max(least);
        // Kernels are met for the first time.
        let warm_up = Duration::from_secs(1);
        let length = RunLength { warm_up, ..RunLength::seconds(seconds) };
        let part = |comes| Part { tenancy: &tenancy, work: work.clone(), comes };
        let mut parts = vec![part(Comes::Ready(Duration::ZERO)); case.processes];
        parts.extend(case.one_ends.then(|| part(Comes::Leaves(warm_up / 2))));
        let mut ran = busy::run_parts(self.bench, &parts, length, |_| Ok(()))?;
        ran.tracks.truncate(case.processes);
        Ok(ran)
    }

    fn measure_capped(&mut self, case: Case, cap: u32, alone: f64) -> Result<()> {
        // A queue keeps the card full, whatever a single kernel takes.
        let full = if case.load.mode == QUEUE { alone } else { 100.0 };
        let target = f64::from(cap).min(alone * 100.0 / full);
        let name = format!("share, {}", case.name());
        let goal = Goal::Within(target, SUM_POINTS);
        let mut sum = Figure::new(format!("{name}, sum"), "%", goal);
        let mut least = Figure::new(format!("{name}, least of most"), "", Goal::AtLeast(0.9));
        let wait = Goal::AtMost(case.longest_wait_ms(cap));
        let mut longest = Figure::new(format!("{name}, longest without progress"), "ms", wait);
        for side in case.sides(self.bench) {
            let ran = match self.together(case, &side) {
                Ok(ran) => ran,
                Err(error) => {
                    sum.take(&side.name, Err(error));
                    continue;
                }
            };
            let shares = ran.shares()?;
            sum.take(&side.name, Ok(shares.iter().sum::<f64>() * 100.0 / full));
            let most = shares.iter().copied().reduce(f64::max).filter(|most| *most > 0.0);
            let part = shares.iter().copied().reduce(f64::min).zip(most);
            least.take(&side.name, part.map(|(least, most)| least / most).context("nothing ran"));
            longest.take(&side.name, ran.longest_gap_ms());
        }
        self.keep(case, [sum, least, longest])
    }

    /// Measures their sum without caps, as a part of one alone.
    fn measure_free(&mut self, case: Case) -> Result<()> {
        let name = format!("share, {}", case.name());
        let goal = Goal::AtLeast(95.0);
        let mut sum = Figure::new(format!("{name}, sum of one alone"), "%", goal);
        let mut alone = Vec::new();
        for _ in 0..case.rounds(self.timing.quick) {
            alone.push(self.alone(case.load)?);
            for side in case.sides(self.bench) {
                if sum.has_failed(&side.name) {
                    continue;
                }
                let middle = median(&alone).context("nothing ran")?;
                let ran = self.together(case, &side);
                let all = ran.and_then(|ran| Ok(ran.shares()?.iter().sum::<f64>()));
                sum.take(&side.name, all.map(|all| all / middle * 100.0));
            }
        }
        self.keep(case, [sum])
    }

    fn keep(&mut self, case: Case, figures: impl IntoIterator<Item = Figure>) -> Result<()> {
        let work = self.work(case.load)?;
        self.kernels.keep(self.bench, work.lengths_ns(), figures);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_those_with_a_daemon_come_last() {
        for quick in [false, true] {
            let cases = cases(quick);
            let mut names: Vec<String> = cases.iter().map(Case::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), cases.len());
            assert!(cases.is_sorted_by_key(|case| case.has_daemon));
        }
        let case =
            Case { processes: 4, load: TURNS, cap: Some(50), has_daemon: true, one_ends: false };
        let name = "4 processes of 50 us and 2 ms by turns at 50 % under a daemon";
        assert_eq!(case.name(), name);
        let waits = [(4, 50), (16, 25), (16, 50)];
        let waits = waits.map(|(processes, cap)| Case { processes, ..case }.longest_wait_ms(cap));
        assert_eq!(waits, [500.0, 1280.0, 640.0]);
    }
}
