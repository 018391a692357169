//! Kernels of fixed work, and how long they take natively.
//!
//! A kernel of each length is found once in a benchmark and measured again at its end. Promises: lengths are
//! those of a saturated queue on the bare driver, in processes of their own; what was measured between two
//! measurements that differ has no figure.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::client::{self, number};
use super::report::{Figure, median};
use super::running::Bench;

/// A client that has nothing to say for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A kernel of fixed work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// Length that was asked for.
    pub(super) nominal_ns: u64,
    /// Steps that its program is told.
    pub(super) iterations: u64,
    /// Time of one in a saturated queue.
    pub(super) ns: f64,
}

/// Rounds of what differs from process to process: native and ours are measured by turns, so often each,
/// and their middles compared.
pub(super) const ROUNDS: usize = 3;

/// How far two native measurements of one kernel may lie apart, in percent.
const DRIFT_PERCENT: f64 = 2.0;

/// Below this, what a kernel takes differs by some percent from process to process.
const DIFFERING_BELOW_NS: u64 = 20_000;
/// Processes that measure such a kernel; their middle counts.
const PROCESSES: usize = 5;

impl Kernel {
    /// Finds the work that takes `nominal_ns`, natively.
    pub(super) fn calibrate(bench: &Bench, nominal_ns: u64) -> Result<Self> {
        bench.say(&format!("finding a kernel of {}", text(nominal_ns)));
        let answer = measure(bench, nominal_ns, 0)?;
        let iterations = number(&answer, "iterations")? as u64;
        let mut kernel = Self { nominal_ns, iterations, ns: number(&answer, "ns")? };
        if kernel.differs() {
            kernel.ns = kernel.measure(bench)?;
        }
        Ok(kernel)
    }

    /// Whether processes differ in what one takes by more than is asked of a figure.
    pub(super) fn differs(&self) -> bool {
        self.nominal_ns < DIFFERING_BELOW_NS
    }

    /// One between this and a longer one, at `part` of the way; the further steps of a kernel take as long as
    /// the first.
    pub(super) fn between(&self, longer: &Self, part: f64) -> Self {
        let at = |from: f64, to: f64| from + (to - from) * part;
        let iterations = at(self.iterations as f64, longer.iterations as f64).round();
        // The part that rounding left out of the steps is left out of the time.
        let steps = longer.iterations as f64 - self.iterations as f64;
        let exact = if steps > 0.0 { (iterations - self.iterations as f64) / steps } else { part };
        Self {
            nominal_ns: at(self.nominal_ns as f64, longer.nominal_ns as f64) as u64,
            iterations: iterations as u64,
            ns: self.ns + (longer.ns - self.ns) * exact,
        }
    }

    fn measure(&self, bench: &Bench) -> Result<f64> {
        let processes = if self.differs() { PROCESSES } else { 1 };
        let once = |_| number(&measure(bench, self.nominal_ns, self.iterations)?, "ns");
        let all: Vec<f64> = (0..processes).map(once).collect::<Result<_>>()?;
        median(&all).context("nothing was measured")
    }

    /// Measures it again.
    ///
    /// # Errors
    /// When the machine is not as fast as it was.
    pub(super) fn check(&self, bench: &Bench) -> Result<()> {
        bench.say(&format!("measuring the kernel of {} again", text(self.nominal_ns)));
        let again = self.measure(bench)?;
        let drift = (again / self.ns - 1.0) * 100.0;
        ensure!(
            drift.abs() <= DRIFT_PERCENT,
            "void: natively, its kernel took {:.0} ns before and {again:.0} ns after ({drift:+.1} %)",
            self.ns
        );
        Ok(())
    }
}

fn measure(bench: &Bench, nominal_ns: u64, iterations: u64) -> Result<Value> {
    let mut command = bench.stage.command(&bench.client("kernel_time")?);
    command.args([nominal_ns.to_string(), iterations.to_string()]);
    client::run(command, PATIENCE).context("a kernel cannot be measured natively")
}

/// A length of time as people write it.
pub(super) fn text(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} us", ns / 1000),
        _ => format!("{} ms", ns / 1_000_000),
    }
}

/// Kernels that figures were made with.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    found: Vec<Kernel>,
    /// Figures, by index in the report, and the kernel that each was made with.
    made: Vec<(usize, u64)>,
}

impl Kernels {
    /// The kernel of this length, found where it has not been.
    pub(super) fn get(&mut self, bench: &Bench, nominal_ns: u64) -> Result<Kernel> {
        if let Some(kernel) = self.found.iter().find(|kernel| kernel.nominal_ns == nominal_ns) {
            return Ok(*kernel);
        }
        let kernel = Kernel::calibrate(bench, nominal_ns)?;
        self.found.push(kernel);
        Ok(kernel)
    }

    /// Stores the figures that have something to say; they hold as long as kernels of these lengths do.
    pub(super) fn keep(
        &mut self,
        bench: &mut Bench,
        lengths_ns: &[u64],
        figures: impl IntoIterator<Item = Figure>,
    ) {
        for figure in figures {
            if !figure.medians.is_empty() || !figure.failures.is_empty() {
                let at = bench.report.figures.len();
                self.made.extend(lengths_ns.iter().map(|ns| (at, *ns)));
                bench.report.figures.push(figure);
            }
        }
    }

    /// Measures all again, and takes back the figures of those that are no longer as long as they were.
    pub(super) fn check(self, bench: &mut Bench) {
        for kernel in &self.found {
            let Err(error) = kernel.check(bench) else { continue };
            for (at, _) in self.made.iter().filter(|(_, ns)| *ns == kernel.nominal_ns) {
                if let Some(figure) = bench.report.figures.get_mut(*at) {
                    figure.void(&format!("{error:#}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_between_two_takes_as_long_as_its_steps_say() {
        let short = Kernel { nominal_ns: 20_000, iterations: 8_000, ns: 21_000.0 };
        let long = Kernel { nominal_ns: 2_000_000, iterations: 888_000, ns: 2_001_000.0 };
        let middle = short.between(&long, 0.5);
        assert_eq!((middle.nominal_ns, middle.iterations), (1_010_000, 448_000));
        assert!((middle.ns - 1_011_000.0).abs() < 0.01, "{middle:?}");
        // A whole number of steps: the time is that of the steps there are.
        let third = short.between(&long, 1.0 / 3.0);
        assert_eq!(third.iterations, 301_333);
        assert!((third.ns - (21_000.0 + 293_333.0 * 2.25)).abs() < 0.01, "{third:?}");
        for (end, part) in [(short, 0.0), (long, 1.0)] {
            assert_eq!(short.between(&long, part).iterations, end.iterations);
        }
    }
}
