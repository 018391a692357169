//! A benchmark that runs: its stage and sides, which figures are wanted, how far it is, what it found.
//!
//! Promises: a measurement that fails as a whole ends no other.
//!
//! Does not measure anything.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use super::plot::PlotLine;
use super::report::{Figure, Report};
use super::side::Side;
use divvy_command::output::{out, progress};
use divvy_command::stage::ClientStage;

/// Parts of names, one of which a figure's name must have; and whether any name had it.
pub(super) struct Only(Vec<(String, Cell<bool>)>);

impl Only {
    pub(super) fn parse(text: &str) -> Self {
        Self(text.split(',').map(|part| (part.trim().to_owned(), Cell::new(false))).collect())
    }

    fn has(&self, name: &str) -> bool {
        let found = self.0.iter().filter(|(part, _)| name.contains(&**part));
        found.map(|(_, is_known)| is_known.set(true)).count() > 0
    }

    /// Those that no name had, with commas between.
    pub(super) fn unknown(&self) -> String {
        let unknown = self.0.iter().filter(|(_, is_known)| !is_known.get());
        unknown.map(|(part, _)| &**part).collect::<Vec<_>>().join(",")
    }
}

/// A benchmark that runs.
pub(super) struct Bench {
    pub(super) stage: ClientStage,
    pub(super) sides: Vec<Side>,
    pub(super) rounds: u32,
    pub(super) only: Option<Only>,
    pub(super) report: Report,
    progress: Option<StepCount>,
    /// Why the first measurement that failed as a whole did.
    pub(super) failure: Option<anyhow::Error>,
    /// Results that programs should not have had: each is a failure of the benchmark, whatever its figures are.
    pub(super) wrong: Vec<String>,
}

/// How many measurements there will be, and were.
struct StepCount {
    begun: Instant,
    done: usize,
    all: usize,
}

impl Bench {
    /// One that has measured nothing yet.
    pub(super) fn new(
        report: Report,
        stage: ClientStage,
        sides: Vec<Side>,
        rounds: u32,
        only: Option<Only>,
    ) -> Self {
        Self {
            stage,
            sides,
            rounds,
            only,
            report,
            progress: None,
            failure: None,
            wrong: Vec::new(),
        }
    }

    /// Whether figures called `name` are wanted.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.has(name))
    }

    /// The sides in the order of `round`: turned, so that no side is always the first.
    pub(super) fn turn(&self, round: u32) -> Vec<Side> {
        let mut sides = self.sides.clone();
        let by = round as usize % sides.len().max(1);
        sides.rotate_left(by);
        sides
    }

    /// Progress, on standard error.
    pub(super) fn say(&self, what: &str) {
        progress::show(what);
    }

    /// Says how many measurements there will be.
    pub(super) fn expect(&mut self, all: usize) {
        self.progress = Some(StepCount { begun: Instant::now(), done: 0, all });
    }

    /// Begins the next of the measurements, with a bar on a terminal.
    pub(super) fn step(&mut self, what: &str) {
        let Some(progress) = &mut self.progress else { return self.say(what) };
        let (done, all) = (progress.done.min(progress.all), progress.all.max(1));
        progress.done += 1;
        let (what, spent) = (format!("{}/{all} {what}", done + 1), progress.begun.elapsed());
        self.say(&progress::line(&what, done as f64 / all as f64, spent));
    }

    /// Stores why there is no figure of `name`. A measurement that fails as a whole ends no other: what
    /// a busy machine spoils of one must not cost the minutes that the rest took.
    pub(super) fn fails(&mut self, name: &str, error: anyhow::Error) {
        self.say("");
        out::warn(&format!("bench: {name}: {error:#}"));
        self.report.figures.push(Figure::without_value(name, &error));
        self.failure.get_or_insert(error);
    }

    /// Keeps those figures of which there is anything to say.
    pub(super) fn keep_told(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.report.figures.extend(figures.into_iter().filter(Figure::is_told));
    }

    /// The bare driver.
    pub(super) fn native(&self) -> Result<Side> {
        let native = self.sides.iter().find(|side| side.is_native());
        native.cloned().context("the bare driver is not among the sides")
    }

    /// Memory of each tenant, in the benchmarks of device time.
    pub(super) fn limit_bytes(&self) -> u64 {
        16 << 30
    }

    /// Stores values for a plot. Lines of one plot come one after the other.
    pub(super) fn line(&mut self, plot: &str, name: &str, points: Vec<(f64, f64)>) {
        let (plot, name) = (plot.to_owned(), name.to_owned());
        self.report.lines.push(PlotLine { plot, name, points, band: None });
    }

    /// Stores values for a row of a plot of rows, and where they should lie.
    pub(super) fn row(&mut self, plot: &str, name: &str, values: &[f64], band: Option<[f64; 2]>) {
        let points = values.iter().map(|value| (*value, 0.0)).collect();
        let (plot, name) = (plot.to_owned(), name.to_owned());
        self.report.lines.push(PlotLine { plot, name, points, band });
    }

    /// A client program's path.
    pub(super) fn client(&self, name: &str) -> Result<PathBuf> {
        divvy_command::machine::install::client(name).context("the benchmark's clients are needed")
    }
}
