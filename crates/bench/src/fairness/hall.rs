//! Where `divvy bench fairness` measures: the card, its kernels, and a daemon of the benchmark's own.
//!
//! A *job* is what is measured by itself. Promises: one that fails ends no other; those without a daemon come
//! before it is started; a figure whose kernels are no longer as long as they were is void.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::busy::{self, Comes, Part, Ran, RunLength, Work};
use crate::daemon::Daemon;
use crate::kernel::{Kernel, Kernels};
use crate::report::Figure;
use crate::running::Bench;
use crate::side::{Side, Tenancy, TenantTerms};
use crate::timing::Timing;

/// A microsecond, a millisecond, in nanoseconds.
pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;

/// Windows of what is drawn.
const DRAWN_NS: u64 = 100 * MS;

type Measure = Box<dyn Fn(&mut Hall<'_>) -> Result<()>>;

/// Something that is measured by itself.
pub(super) struct Job {
    /// Its figures' names up to the comma, and what finds them.
    pub(super) name: String,
    /// How many runs it takes.
    pub(super) runs: usize,
    has_daemon: bool,
    measure: Measure,
}

impl Job {
    /// A hall for `measure`, in so many `runs` under a daemon.
    pub(super) fn new(
        name: impl Into<String>,
        runs: usize,
        measure: impl Fn(&mut Hall<'_>) -> Result<()> + 'static,
    ) -> Self {
        Self { name: name.into(), runs, has_daemon: true, measure: Box::new(measure) }
    }

    /// The same without one.
    pub(super) fn without_daemon(self) -> Self {
        Self { has_daemon: false, ..self }
    }
}

/// A tenant's terms, and what its one program does.
pub(super) type Program = (TenantTerms, Work);

/// The card, its kernels, and a daemon.
pub(super) struct Hall<'a> {
    pub(super) bench: &'a mut Bench,
    pub(super) timing: Timing,
    kernels: Kernels,
    pub(super) daemon: Option<Result<Daemon>>,
}

impl<'a> Hall<'a> {
    pub(super) fn new(bench: &'a mut Bench, timing: &Timing) -> Self {
        Self { bench, timing: *timing, kernels: Kernels::default(), daemon: None }
    }

    /// Measures all `jobs`, each of which may fail for itself.
    pub(super) fn play(mut self, mut jobs: Vec<Job>) {
        self.bench.expect(jobs.iter().map(|job| job.runs).sum());
        jobs.sort_by_key(|job| job.has_daemon);
        for Job { name, has_daemon, measure, .. } in jobs {
            if has_daemon && self.daemon.is_none() {
                self.daemon = Some(Daemon::start(&self.bench.stage));
            }
            if let Err(error) = measure(&mut self) {
                self.bench.fails(&name, error);
            }
        }
        self.kernels.check(self.bench);
    }

    /// How long a run lasts where nothing else is said.
    pub(super) fn length(&self) -> RunLength {
        RunLength::seconds(self.timing.seconds)
    }

    pub(super) fn kernel(&mut self, nominal_ns: u64) -> Result<Kernel> {
        self.kernels.get(self.bench, nominal_ns)
    }

    /// Terms of a tenant with nothing but memory.
    pub(super) fn terms(&self) -> TenantTerms {
        // Eight of them at once, and a card of 80 GB.
        TenantTerms::memory(self.bench.limit_bytes() / 2)
    }

    pub(super) fn sides(&self, with_peers: bool) -> Vec<Side> {
        let sides = self.bench.sides.iter();
        sides.filter(|side| with_peers || !side.is_peer()).cloned().collect()
    }

    /// Divvy alone: nobody else knows weights and priorities.
    pub(super) fn ours(&self) -> Vec<Side> {
        self.bench.sides.iter().filter(|side| side.is_ours()).cloned().collect()
    }

    /// The sides that cap.
    pub(super) fn capping(&self) -> Vec<Side> {
        self.bench.sides.iter().filter(|side| !side.is_native()).cloned().collect()
    }

    /// Begins the next run, which is on `side`.
    pub(super) fn step(&mut self, what: &str, side: &Side) -> Result<()> {
        self.bench.step(&format!("{what} on {}", side.name));
        if side.is_ours()
            && let Some(Err(error)) = &self.daemon
        {
            bail!("{error:#}");
        }
        Ok(())
    }

    /// Tenants of `side`, one for each program.
    pub(super) fn tenancies(&self, side: &Side, programs: &[Program]) -> Result<Vec<Tenancy>> {
        programs.iter().map(|(terms, _)| side.tenancy_of(&self.bench.stage, terms)).collect()
    }

    /// Runs programs, each a tenant of its own.
    pub(super) fn together(
        &mut self,
        what: &str,
        side: &Side,
        programs: &[Program],
    ) -> Result<Ran> {
        self.together_for(what, side, programs, self.length())
    }

    /// The same for as long as is said.
    pub(super) fn together_for(
        &mut self,
        what: &str,
        side: &Side,
        programs: &[Program],
        length: RunLength,
    ) -> Result<Ran> {
        let all_at_once = vec![Duration::ZERO; programs.len()];
        self.one_by_one(what, side, programs, &all_at_once, length)
    }

    /// The same, each so long `after` the run began.
    pub(super) fn one_by_one(
        &mut self,
        what: &str,
        side: &Side,
        programs: &[Program],
        after: &[Duration],
        length: RunLength,
    ) -> Result<Ran> {
        self.step(what, side)?;
        let tenancies = self.tenancies(side, programs)?;
        let parts = tenancies.iter().zip(programs).zip(after);
        let parts = parts.map(|((tenancy, (_, work)), after)| Part {
            tenancy,
            work: work.clone(),
            comes: Comes::Ready(*after),
        });
        busy::run_parts(self.bench, &parts.collect::<Vec<_>>(), length, |_| Ok(()))
    }

    /// Share of one program alone on the bare driver, in percent.
    pub(super) fn alone(&mut self, work: &Work) -> Result<f64> {
        let (native, terms) = (self.bench.native()?, self.terms());
        let ran = self.together("alone", &native, &[(terms, work.clone())])?;
        let share = ran.shares()?.first().copied().filter(|share| *share > 0.0);
        share.context("alone on the bare driver the program did nothing")
    }

    /// Keeps the figures that have something to say; they hold as long as these kernels do.
    pub(super) fn keep(&mut self, lengths_ns: &[u64], figures: impl IntoIterator<Item = Figure>) {
        self.kernels.keep(self.bench, lengths_ns, figures);
    }

    /// Shares of all programs over what counts, in windows of 0.1 s.
    pub(super) fn draw(&mut self, plot: &str, side: &Side, ran: &Ran) {
        self.draw_from(plot, side, ran, ran.span_ns.0);
    }

    /// The same from an earlier moment on.
    pub(super) fn draw_from(&mut self, plot: &str, side: &Side, ran: &Ran, from_ns: u64) {
        for (track, number) in ran.tracks.iter().zip(1..) {
            let windows = track.series.windows(from_ns, ran.span_ns.1, DRAWN_NS);
            let points = windows.iter().zip(0_u32..);
            let points = points.map(|(share, at)| (f64::from(at) * 0.1, *share)).collect();
            self.bench.line(plot, &format!("{}, program {number}", side.name), points);
        }
    }
}
