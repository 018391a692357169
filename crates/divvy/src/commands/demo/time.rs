//! The second act: two programs that would each take all of the GPU's time, under caps and priorities that change.
//!
//! Promises: shares are of what the device has counted, not of what Divvy says; each phase is judged after its first part, in
//! which what was queued before still runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::check::Check;
use super::plot::{self, PlotTrack};
use super::worker::{FixedKernel, Worker};
use crate::output::progress::Progress;
use crate::pause::pause;
use crate::stage::ClientStage;
use crate::wire::LimitChange;

/// The programs.
pub(super) const NAMES: [&str; 2] = ["serve", "train"];
/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(100);
/// Part of a phase that is not judged.
const SETTLING: f64 = 0.4;
/// Points by which a share may exceed what is due.
const ABOVE_POINTS: f64 = 5.0;
/// Points by which a program's part of what both had may miss what is due. On a busy machine a simulated GPU does less, and both
/// have less than is due.
const PART_POINTS: f64 = 10.0;
/// About as long as it takes to find the kernel.
const FINDING: Duration = Duration::from_secs(2);
/// Length of the run on the bare driver.
const BARE: Duration = Duration::from_secs(3);

/// Limits that hold for a while.
struct Plan {
    what: &'static str,
    /// Shares in percent that are due.
    due: [f64; 2],
    /// Changes that begin it, by program.
    changes: [LimitChange; 2],
    /// The same as command lines.
    commands: &'static [&'static str],
}

fn plans() -> [Plan; 3] {
    let cap = |cap: &str| LimitChange { compute: vec![cap.to_owned()], ..LimitChange::default() };
    let first = LimitChange { priority: Some("high".to_owned()), ..cap("0") };
    [
        Plan {
            what: "caps of 30 and 70 %",
            due: [30.0, 70.0],
            changes: [cap("30%"), cap("70%")],
            commands: &[],
        },
        Plan {
            what: "the caps change places",
            due: [70.0, 30.0],
            changes: [cap("70%"), cap("30%")],
            commands: &["divvy set serve --compute 70%", "divvy set train --compute 30%"],
        },
        Plan {
            what: "no caps, serve is first",
            due: [100.0, 0.0],
            changes: [first, cap("0")],
            commands: &[
                "divvy set serve --compute 0 --priority high",
                "divvy set train --compute 0",
            ],
        },
    ]
}

/// A phase that is over.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Phase {
    what: &'static str,
    /// Command lines that would have begun it.
    commands: &'static [&'static str],
    begun_seconds: f64,
    due_percent: [f64; 2],
    /// By what the device has counted; absent where the programs did not run long enough.
    reached_percent: Option<[f64; 2]>,
}

/// All that was seen.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct TimeSeen {
    names: [&'static str; 2],
    kernel_ns: f64,
    pub(super) phases: Vec<Phase>,
    /// Seconds, and both shares since the look before.
    samples: Vec<(f64, [f64; 2])>,
    /// Shares of the same programs without Divvy; absent on a simulated GPU, which says nothing about a real one.
    pub(super) bare_percent: Option<[f64; 2]>,
    /// Whether every kernel that was launched was counted.
    is_all_counted: bool,
}

/// Two programs side by side, and a look at their counters.
struct Race {
    workers: [Worker; 2],
    begun: Instant,
    last: (f64, [f64; 2]),
}

impl Race {
    fn begin(mut workers: [Worker; 2]) -> Result<Self> {
        for worker in &mut workers {
            worker.go()?;
        }
        Ok(Self { workers, begun: Instant::now(), last: (0.0, [0.0; 2]) })
    }

    /// The time, and shares since the last look.
    fn look(&mut self) -> Result<(f64, [f64; 2])> {
        let work = [self.workers[0].work_ns()?, self.workers[1].work_ns()?];
        let at = self.begun.elapsed().as_secs_f64();
        let (before, work_before) = self.last;
        let over_ns = (at - before).max(1e-6) * 1e9;
        self.last = (at, work);
        Ok((at, [0, 1].map(|one| (work[one] - work_before[one]) / over_ns)))
    }

    /// Ends both programs, one as soon as the other.
    fn end(mut self) -> Result<bool> {
        self.workers.iter_mut().for_each(Worker::stop);
        let mut is_all = true;
        for worker in &mut self.workers {
            is_all &= worker.is_all_counted()?;
        }
        Ok(is_all)
    }
}

impl TimeSeen {
    /// Plays it for so long; `show` gets what was seen so far, and what holds now.
    pub(super) fn play(
        stage: &ClientStage,
        library: &Path,
        seconds: f64,
        mut show: impl FnMut(&Self, &str) -> Result<()>,
    ) -> Result<Self> {
        let progress = Progress::timed("finding a kernel of 1 ms", FINDING);
        let kernel = FixedKernel::find(stage)?;
        drop(progress);
        let plans = plans();
        let each = seconds / plans.len() as f64;
        let start = |name, cap| Worker::in_tenant(stage, library, name, cap, kernel);
        let workers = [start(NAMES[0], "30%")?, start(NAMES[1], "70%")?];
        let mut seen = Self { names: NAMES, kernel_ns: kernel.ns, ..Self::default() };
        let mut race = Race::begin(workers)?;
        for (at, plan) in plans.iter().enumerate() {
            if at > 0 {
                for (worker, change) in race.workers.iter().zip(&plan.changes) {
                    worker.change(change)?;
                }
            }
            let begun_seconds = race.begun.elapsed().as_secs_f64();
            seen.phases.push(Phase {
                what: plan.what,
                commands: plan.commands,
                begun_seconds,
                due_percent: plan.due,
                reached_percent: None,
            });
            let until = (at + 1) as f64 * each;
            while race.begun.elapsed().as_secs_f64() < until {
                pause(LOOK);
                seen.samples.push(race.look()?);
                show(&seen, plan.what)?;
            }
            let judged = seen.mean_percent(begun_seconds + each * SETTLING, race.last.0);
            if let Some(phase) = seen.phases.last_mut() {
                phase.reached_percent = judged;
            }
        }
        seen.is_all_counted = race.end()?;
        if !stage.is_simulated() {
            seen.bare_percent = Some(bare(stage, kernel)?);
        }
        Ok(seen)
    }

    /// Shares of both over a time, in percent.
    fn mean_percent(&self, from: f64, until: f64) -> Option<[f64; 2]> {
        let (mut sums, mut length) = ([0.0; 2], 0.0);
        for pair in self.samples.windows(2) {
            let [(before, _), (at, shares)] = pair else { continue };
            if *before >= from && *at <= until {
                let over = at - before;
                sums = [0, 1].map(|one| sums[one] + shares[one] * over);
                length += over;
            }
        }
        (length > 0.0).then(|| sums.map(|sum| sum / length * 100.0))
    }

    /// The shares over the last second, in percent.
    pub(super) fn now_percent(&self) -> [f64; 2] {
        let at = self.samples.last().map_or(0.0, |(at, _)| *at);
        self.mean_percent(at - 1.0, at).unwrap_or_default()
    }

    /// Seconds that have passed.
    pub(super) fn seconds(&self) -> f64 {
        self.samples.last().map_or(0.0, |(at, _)| *at)
    }

    /// The plot of so many seconds.
    pub(super) fn plot(&self, seconds: f64) -> String {
        let of = |one: usize| -> Vec<(f64, f64)> {
            self.samples.iter().map(|(at, shares)| (*at, shares[one])).collect()
        };
        let (a, b) = (of(0), of(1));
        let tracks =
            [PlotTrack { letter: 's', samples: &a }, PlotTrack { letter: 't', samples: &b }];
        let changes: Vec<f64> =
            self.phases.iter().skip(1).map(|phase| phase.begun_seconds).collect();
        plot::text(&tracks, seconds, &changes)
    }

    /// The phases and what the bare driver gave, as lines of at most 80 columns.
    pub(super) fn summary(&self) -> String {
        let percent = |shares: Option<[f64; 2]>| {
            let cell = |one: usize| {
                shares.map_or_else(|| "-".to_owned(), |shares| format!("{:.1} %", shares[one]))
            };
            [cell(0), cell(1)]
        };
        let mut text = format!("{:<28}{:>10}{:>10}\n", "", NAMES[0], NAMES[1]);
        let mut row = |what: &str, shares: Option<[f64; 2]>| {
            let [first, second] = percent(shares);
            text.push_str(&format!("{what:<28}{first:>10}{second:>10}\n"));
        };
        for phase in &self.phases {
            row(phase.what, phase.reached_percent);
        }
        if self.bare_percent.is_some() {
            row("the bare driver, no limits", self.bare_percent);
        }
        text
    }

    /// Expectations of the act.
    pub(super) fn checks(&self) -> Vec<Check> {
        let mut checks: Vec<Check> = self.phases.iter().map(Phase::check).collect();
        checks.push(Check {
            expected: "every kernel that was launched was done".to_owned(),
            happened: self.is_all_counted,
        });
        checks
    }
}

impl Phase {
    fn check(&self) -> Check {
        let [first, second] = self.due_percent;
        let had = match self.reached_percent {
            None => "nothing was measured".to_owned(),
            Some([serve, train]) => format!(
                "serve had {serve:.1} % (due {first:.0}), train {train:.1} % (due {second:.0})"
            ),
        };
        Check {
            expected: format!("{}: {had}", self.what),
            happened: self.reached_percent.is_some_and(|reached| self.is_kept(reached)),
        }
    }

    fn is_kept(&self, reached: [f64; 2]) -> bool {
        let above = reached.iter().zip(self.due_percent).map(|(is, due)| is - due);
        let part = reached[0] / (reached[0] + reached[1]).max(f64::MIN_POSITIVE) * 100.0;
        above.fold(f64::MIN, f64::max) <= ABOVE_POINTS
            && (part - self.due_percent[0]).abs() <= PART_POINTS
    }
}

/// Shares of the same programs where nothing divides them.
fn bare(stage: &ClientStage, kernel: FixedKernel) -> Result<[f64; 2]> {
    let _progress = Progress::timed("the same programs without Divvy", BARE + BARE / 10);
    let workers = [Worker::bare(stage, NAMES[0], kernel)?, Worker::bare(stage, NAMES[1], kernel)?];
    let mut race = Race::begin(workers)?;
    // Both have begun by then.
    pause(BARE / 10);
    race.look()?;
    pause(BARE);
    let (_, shares) = race.look()?;
    race.end()?;
    Ok(shares.map(|share| share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> TimeSeen {
        let samples = (1..=40).map(|tick| {
            let at = f64::from(tick) / 10.0;
            (at, if at <= 2.0 { [0.3, 0.7] } else { [0.7, 0.25] })
        });
        let mut seen = TimeSeen {
            names: NAMES,
            samples: samples.collect(),
            is_all_counted: true,
            ..TimeSeen::default()
        };
        for (plan, begun_seconds) in plans().into_iter().zip([0.0, 2.0]) {
            let reached_percent = seen.mean_percent(begun_seconds + 0.8, begun_seconds + 1.9);
            seen.phases.push(Phase {
                what: plan.what,
                commands: plan.commands,
                begun_seconds,
                due_percent: plan.due,
                reached_percent,
            });
        }
        seen
    }

    #[test]
    fn a_phase_is_judged_by_what_both_had() {
        let mut seen = seen();
        let happened =
            |seen: &TimeSeen| seen.checks().iter().map(|check| check.happened).collect::<Vec<_>>();
        assert_eq!(happened(&seen), [true, true, true]);
        seen.phases[1].reached_percent = Some([20.0, 9.0]);
        assert_eq!(happened(&seen), [true, true, true], "of less, their parts");
        seen.phases[1].reached_percent = Some([76.0, 30.0]);
        seen.is_all_counted = false;
        assert_eq!(happened(&seen), [true, false, false]);
        seen.phases[0].reached_percent = Some([18.0, 22.0]);
        assert!(!happened(&seen)[0], "nearly half");
        seen.phases[0].reached_percent = None;
        assert!(!happened(&seen)[0], "nothing was seen");
    }

    #[test]
    fn the_summary_has_the_bare_driver_where_there_is_one() {
        let mut seen = seen();
        assert_eq!(
            seen.summary().trim_start(),
            "\
serve     train
caps of 30 and 70 %             30.0 %    70.0 %
the caps change places          70.0 %    25.0 %
"
        );
        seen.bare_percent = Some([51.24, 48.0]);
        assert!(seen.summary().ends_with("the bare driver, no limits      51.2 %    48.0 %\n"));
        let checks = seen.checks();
        assert!(checks.iter().all(|check| check.expected.chars().count() <= 75), "{checks:?}");
        let measured = "caps of 30 and 70 %: serve had 30.0 % (due 30), train 70.0 % (due 70)";
        assert_eq!(checks[0].expected, measured);
        seen.phases[1].reached_percent = Some([40.04, 30.0]);
        let measured = "the caps change places: serve had 40.0 % (due 70), train 30.0 % (due 30)";
        assert_eq!(seen.checks()[1].expected, measured);
        assert!(seen.plot(4.0).lines().all(|line| line.chars().count() <= 80));
    }
}
