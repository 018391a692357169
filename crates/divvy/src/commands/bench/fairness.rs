//! `divvy bench fairness`: several programs on one card.
//!
//! On the bare driver they get what its time slices give; Divvy's daemon divides by turns. Every
//! figure of ours is taken with a daemon of the benchmark's own, unless its name says otherwise.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::busy::{self, Ran, RunLength, Work};
use super::daemon::{Daemon, Watch};
use super::kernel::{Kernel, Kernels, ROUNDS, text};
use super::report::{Figure, Goal};
use super::running::Bench;
use super::series::{jain, mean, variation};
use super::side::{Side, Tenancy, TenantTerms};
use super::timing::Timing;

const MS: u64 = 1_000_000;
const US_100: u64 = 100_000;

/// What is measured; the names are those that `--only` finds.
const CAPPED: [[u32; 2]; 2] = [[30, 70], [20, 80]];
const EQUAL_NS: [u64; 3] = [20_000, US_100, MS];
const NO_DAEMON: &str = ", without a daemon";
const LEAVES: &str = "that leave the card idle";
const GAPS: [&str; 3] = [PAUSES, PACED, COPIES];
const PAUSES: &str = "1 ms kernels and 2 ms pauses";
const PACED: &str = "5 us kernels every 20 us";
const COPIES: &str = "4 MiB copies and 200 us kernels";
const FOUR: &str = "4 equal tenants";
const TWO: &str = "2 equal tenants, variation";
const NOISY: &str = "one that synchronises beside 3 floods";
const HALF: &str = "one that idles half the time";
const COST: &str = "daemon with 8 busy tenants";
/// How fast a program is that waits for each of its kernels is the host's doing too where they are no
/// longer than this, and differs by some percent from process to process.
const HOST_BOUND_NS: u64 = US_100;

fn rounds_of_sync(kernel_ns: u64) -> usize {
    if kernel_ns <= HOST_BOUND_NS { ROUNDS } else { 1 }
}

/// Tenants that come make the daemon ask NVML who else is there, some seconds after at the latest: that
/// is a figure of its own, and no part of what the daemon takes while they run.
const COME: Duration = Duration::from_secs(4);
const ASKING: &str = "daemon asking NVML as 8 tenants come, of a processor";

/// Programs that leave the card idle, one or two of them, each kind.
fn gaps() -> impl Iterator<Item = (usize, &'static str, String)> {
    let each = GAPS.into_iter().flat_map(|what| [1, 2].map(|tenants| (tenants, what)));
    each.map(|(tenants, what)| (tenants, what, format!("{tenants} {LEAVES}: {what}, sum")))
}

fn capped(caps: [u32; 2]) -> String {
    format!("tenants of {} and {} %", caps[0], caps[1])
}

fn equal(tenants: usize, kernel_ns: u64) -> String {
    format!("{tenants} equal tenants, {} sync", text(kernel_ns))
}

pub(super) fn measure(bench: &mut Bench, timing: &Timing) -> Result<()> {
    let pairs = if timing.quick { &CAPPED[..1] } else { &CAPPED };
    let lengths = if timing.quick { &EQUAL_NS[1..2] } else { &EQUAL_NS };
    bench.expect(runs(bench, timing.quick, pairs, lengths));
    let mut hall = Hall::new(bench, timing)?;
    for caps in pairs {
        if hall.bench.wants(&(capped(*caps) + NO_DAEMON)) {
            let name = capped(*caps) + NO_DAEMON;
            hall.attempt(&name, |hall| hall.measure_capped(*caps, NO_DAEMON));
        }
    }
    hall.start_daemon();
    for caps in pairs {
        if hall.bench.wants(&capped(*caps)) {
            hall.attempt(&capped(*caps), |hall| hall.measure_capped(*caps, ""));
        }
    }
    for kernel_ns in lengths {
        for tenants in [2, 3] {
            if hall.bench.wants(&equal(tenants, *kernel_ns)) {
                let name = equal(tenants, *kernel_ns);
                hall.attempt(&name, |hall| hall.measure_equal(tenants, *kernel_ns));
            }
        }
    }
    if timing.quick {
        return hall.end();
    }
    type Part<'a> = fn(&mut Hall<'a>) -> Result<()>;
    hall.measure_gaps();
    let parts: [(&str, Part<'_>); 5] = [
        (FOUR, Hall::measure_four),
        (TWO, Hall::measure_two),
        (NOISY, Hall::measure_noisy),
        (HALF, Hall::measure_half),
        (COST, Hall::measure_cost),
    ];
    for (name, part) in parts {
        if hall.bench.wants(name) {
            hall.attempt(name, part);
        }
    }
    hall.end()
}

/// How many runs there will be.
fn runs(bench: &Bench, quick: bool, pairs: &[[u32; 2]], lengths: &[u64]) -> usize {
    let mut all = Vec::new();
    let sides = bench.sides.len();
    all.extend(pairs.iter().map(|caps| (capped(*caps) + NO_DAEMON, 2)));
    all.extend(pairs.iter().map(|caps| (capped(*caps), 1 + sides)));
    let of_sync = |ns: u64| (1 + 2) * rounds_of_sync(ns);
    all.extend(
        lengths.iter().flat_map(|ns| [2, 3].map(|tenants| (equal(tenants, *ns), of_sync(*ns)))),
    );
    if !quick {
        let rest = [(FOUR, 2), (TWO, 2), (NOISY, of_sync(US_100)), (HALF, 3), (COST, 1)];
        all.extend(rest.map(|(name, runs)| (name.to_owned(), runs)));
        all.extend(gaps().map(|(_, _, name)| (name, 2)));
    }
    all.iter().filter(|(name, _)| bench.wants(name)).map(|(_, runs)| runs).sum()
}

/// The card, its kernels, and a daemon.
struct Hall<'a> {
    bench: &'a mut Bench,
    length: RunLength,
    kernels: Kernels,
    daemon: Option<Result<Daemon>>,
}

impl<'a> Hall<'a> {
    fn new(bench: &'a mut Bench, timing: &Timing) -> Result<Self> {
        let length = RunLength::seconds(timing.seconds);
        Ok(Self { bench, length, kernels: Kernels::default(), daemon: None })
    }

    /// Measures one thing, which may fail for itself.
    fn attempt(&mut self, name: &str, measure: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = measure(self) {
            self.bench.fails(name, error);
        }
    }

    fn start_daemon(&mut self) {
        self.daemon = Some(Daemon::start(&self.bench.stage));
    }

    fn kernel(&mut self, nominal_ns: u64) -> Result<Kernel> {
        self.kernels.get(self.bench, nominal_ns)
    }

    /// All kernels must still be as long as they were.
    fn end(self) -> Result<()> {
        self.kernels.check(self.bench);
        Ok(())
    }

    fn terms(&self) -> TenantTerms {
        // Eight of them at once, and a card of 80 GB.
        TenantTerms::memory(self.bench.limit_bytes() / 2)
    }

    fn sides(&self, with_peers: bool) -> Vec<Side> {
        let sides = self.bench.sides.iter();
        sides.filter(|side| with_peers || !side.is_peer()).cloned().collect()
    }

    /// Runs programs, each a tenant of its own.
    fn together(
        &mut self,
        what: &str,
        side: &Side,
        programs: &[(TenantTerms, Work)],
    ) -> Result<Ran> {
        self.bench.step(&format!("{what} on {}", side.name));
        if side.is_ours()
            && let Some(Err(error)) = &self.daemon
        {
            bail!("{error:#}");
        }
        let tenancies = programs
            .iter()
            .map(|(terms, _)| side.tenancy_of(&self.bench.stage, terms))
            .collect::<Result<Vec<Tenancy>>>()?;
        let works = programs.iter().map(|(_, work)| work.clone());
        let programs: Vec<_> = tenancies.iter().zip(works).collect();
        busy::run(self.bench, &programs, self.length)
    }

    /// What one program reaches alone on the bare driver, in percent.
    fn alone(&mut self, work: &Work) -> Result<f64> {
        let (native, terms) = (self.bench.native()?, self.terms());
        let ran = self.together("alone", &native, &[(terms, work.clone())])?;
        let share = ran.shares()?.first().copied().filter(|share| *share > 0.0);
        share.context("alone on the bare driver the program did nothing")
    }

    /// Keeps the figures that have something to say.
    fn keep(&mut self, kernel_ns: u64, figures: impl IntoIterator<Item = Figure>) {
        self.kernels.keep(self.bench, &[kernel_ns], figures);
    }

    fn draw(&mut self, plot: &str, side: &Side, ran: &Ran) {
        for (windows, number) in ran.windows(100 * MS).iter().zip(1..) {
            let points = windows.iter().zip(0_u32..);
            let points = points.map(|(share, at)| (f64::from(at) * 0.1, *share)).collect();
            self.bench.line(plot, &format!("{} {number}", side.name), points);
        }
    }

    fn measure_capped(&mut self, caps: [u32; 2], how: &str) -> Result<()> {
        let work = Work::new("async", self.kernel(US_100)?);
        let alone = self.alone(&work)?;
        let name = format!("{}{how}", capped(caps));
        let judged = how.is_empty();
        let mut shares = caps.map(|cap| {
            Figure::new(format!("{name}, {cap} %'s share"), "%", Goal::None).known_as("IS-003")
        });
        // Both together cannot reach all of the device: what was asked is a ratio.
        let mut parts = caps.map(|cap| {
            let goal = Goal::Within(f64::from(cap), if judged { 1.0 } else { 5.0 });
            Figure::new(format!("{name}, {cap} %'s part of both"), "%", goal)
        });
        let goal = if judged { Goal::AtLeast(97.0) } else { Goal::None };
        let mut sum = Figure::new(format!("{name}, sum of one alone"), "%", goal);
        for side in self.sides(judged) {
            // On the bare driver nobody is capped; it stands beside one of the two rows.
            if side.is_native() && !judged {
                continue;
            }
            let programs = caps.map(|cap| (self.terms().share(cap), work.clone()));
            let ran = match self.together(&name, &side, &programs) {
                Ok(ran) => ran,
                Err(error) => {
                    sum.take(&side.name, Err(error));
                    continue;
                }
            };
            let got = ran.shares()?;
            let both: f64 = got.iter().sum();
            for ((share, part), got) in shares.iter_mut().zip(&mut parts).zip(&got) {
                share.take(&side.name, Ok(*got));
                part.take(&side.name, Ok(got / both * 100.0));
            }
            sum.take(&side.name, Ok(both / alone * 100.0));
            self.draw(&name, &side, &ran);
        }
        self.keep(US_100, shares.into_iter().chain(parts).chain([sum]));
        Ok(())
    }

    fn measure_equal(&mut self, tenants: usize, kernel_ns: u64) -> Result<()> {
        let work = Work::new("sync", self.kernel(kernel_ns)?);
        let name = equal(tenants, kernel_ns);
        let mut sum = Figure::new(format!("{name}, sum of one alone"), "%", Goal::AtLeast(95.0));
        let mut off = Figure::new(format!("{name}, furthest from equal"), "%", Goal::AtMost(1.0));
        for _ in 0..rounds_of_sync(kernel_ns) {
            let alone = self.alone(&work)?;
            for side in self.sides(false) {
                let programs = vec![(self.terms(), work.clone()); tenants];
                match self.together(&name, &side, &programs) {
                    Ok(ran) => {
                        let got = ran.shares()?;
                        let all = Some(got.iter().sum::<f64>()).filter(|all| *all > 0.0);
                        let all = all.context("nothing ran")?;
                        sum.take(&side.name, Ok(all / alone * 100.0));
                        let equal = 100.0 / got.len() as f64;
                        let most = got.iter().map(|share| (share / all * 100.0 - equal).abs());
                        off.take(&side.name, most.reduce(f64::max).context("nothing ran"));
                    }
                    Err(error) => sum.take(&side.name, Err(error)),
                }
            }
        }
        self.keep(kernel_ns, [sum, off]);
        Ok(())
    }

    /// Programs that leave the card idle at times: one under a cap above its need, and two in turns.
    fn measure_gaps(&mut self) {
        for (tenants, what, name) in gaps() {
            if self.bench.wants(&name) {
                self.attempt(&name, |hall| hall.measure_gap(tenants, what, &name));
            }
        }
    }

    fn measure_gap(&mut self, tenants: usize, what: &str, name: &str) -> Result<()> {
        let kernel_ns = match what {
            PAUSES => MS,
            PACED => 5_000,
            _ => 200_000,
        };
        let kernel = self.kernel(kernel_ns)?;
        let work = match what {
            PAUSES => Work::new("gap", kernel).with("pause", 2 * MS),
            PACED => Work::new("paced", kernel).with("period", 20_000),
            _ => Work::new("copy", kernel),
        };
        let terms = if tenants == 1 { self.terms().share(90) } else { self.terms() };
        // A run differs from the next by about a percent.
        let mut sum = Figure::new(name, "%", Goal::Kept(0.98));
        for side in self.sides(false) {
            let programs = vec![(terms, work.clone()); tenants];
            let ran = self.together(name, &side, &programs);
            sum.take(&side.name, ran.and_then(|ran| Ok(ran.shares()?.iter().sum())));
        }
        self.keep(kernel_ns, [sum]);
        Ok(())
    }

    /// Equal programs with queues; what `judge` makes of their windows.
    fn measure_windows(
        &mut self,
        tenants: usize,
        width_ns: u64,
        figure: Figure,
        judge: impl Fn(&[Vec<f64>]) -> Option<f64>,
    ) -> Result<()> {
        let mut figure = figure;
        let work = Work::new("async", self.kernel(US_100)?);
        for side in self.sides(false) {
            let programs = vec![(self.terms(), work.clone()); tenants];
            let name = figure.name.clone();
            match self.together(&name, &side, &programs) {
                Ok(ran) => {
                    let found = judge(&ran.windows(width_ns)).context("there was no window");
                    figure.take(&side.name, found);
                    self.draw(&name, &side, &ran);
                }
                Err(error) => figure.take(&side.name, Err(error)),
            }
        }
        self.keep(US_100, [figure]);
        Ok(())
    }

    fn measure_four(&mut self) -> Result<()> {
        let figure = Figure::new(format!("{FOUR}, Jain's index of 1 s"), "", Goal::AtLeast(0.999));
        self.measure_windows(4, 1000 * MS, figure.known_as("IS-008"), |windows| {
            let count = windows.iter().map(Vec::len).min()?;
            let of = |at: usize| -> Option<f64> {
                jain(&windows.iter().filter_map(|one| one.get(at).copied()).collect::<Vec<_>>())
            };
            mean(&(0..count).map(of).collect::<Option<Vec<_>>>()?)
        })
    }

    fn measure_two(&mut self) -> Result<()> {
        let figure = Figure::new(format!("{TWO} of 200 ms"), "", Goal::AtMost(0.05));
        self.measure_windows(2, 200 * MS, figure.known_as("IS-007"), |windows| {
            windows
                .iter()
                .map(|one| variation(one))
                .collect::<Option<Vec<_>>>()
                .and_then(|all| all.into_iter().reduce(f64::max))
        })
    }

    fn measure_noisy(&mut self) -> Result<()> {
        let kernel = self.kernel(US_100)?;
        let victim = Work::new("sync", kernel);
        let mut kept = Figure::new(format!("{NOISY}, of a quarter"), "%", Goal::AtLeast(98.0))
            .known_as("IS-009");
        for _ in 0..rounds_of_sync(US_100) {
            let alone = self.alone(&victim)?;
            for side in self.sides(false) {
                let mut programs = vec![(self.terms(), Work::new("async", kernel)); 3];
                programs.insert(0, (self.terms(), victim.clone()));
                let ran = self.together(NOISY, &side, &programs);
                let of = |ran: Ran| ran.shares()?.first().copied().context("nothing ran");
                kept.take(&side.name, ran.and_then(of).map(|share| share / alone * 400.0));
            }
        }
        self.keep(US_100, [kept]);
        Ok(())
    }

    fn measure_half(&mut self) -> Result<()> {
        let kernel = self.kernel(US_100)?;
        let busy = Work::new("async", kernel);
        let alone = self.alone(&busy)?;
        let half = Work::new("half", kernel).with("period", 100 * MS);
        let mut sum = Figure::new(
            format!("{HALF} beside a busy one, sum of one alone"),
            "%",
            Goal::AtLeast(98.0),
        );
        for side in self.sides(false) {
            let programs = [(self.terms(), busy.clone()), (self.terms(), half.clone())];
            let ran = self.together(HALF, &side, &programs);
            let of = |ran: Ran| Ok(ran.shares()?.iter().sum::<f64>() / alone * 100.0);
            sum.take(&side.name, ran.and_then(of));
        }
        self.keep(US_100, [sum]);
        Ok(())
    }

    fn measure_cost(&mut self) -> Result<()> {
        let work = Work::new("async", self.kernel(US_100)?);
        let mut cpu = Figure::new(format!("{COST}, of a processor"), "%", Goal::AtMost(2.0));
        let mut asking = Figure::new(ASKING, "ms", Goal::None);
        let mut memory = Figure::new(format!("{COST}, resident"), "MiB", Goal::AtMost(20.0));
        for side in self.sides(false).into_iter().filter(Side::is_ours) {
            self.bench.step(COST);
            let Some(Ok(daemon)) = &self.daemon else {
                cpu.take(&side.name, Err(anyhow::anyhow!("no daemon runs")));
                continue;
            };
            let tenancies = (0..8)
                .map(|_| side.tenancy_of(&self.bench.stage, &self.terms()))
                .collect::<Result<Vec<Tenancy>>>()?;
            let programs: Vec<_> =
                tenancies.iter().map(|tenancy| (tenancy, work.clone())).collect();
            let mut watch = Watch::default();
            let before = daemon.usage()?.children;
            let length = RunLength { warm_up: COME, ..self.length };
            let look = |since| watch.look(daemon, since);
            match busy::run_with(self.bench, &programs, length, look) {
                Ok(_) => {
                    cpu.take(&side.name, watch.cpu_percent());
                    let after = watch.children();
                    let ms = after.map(|after| after.saturating_sub(before).as_secs_f64() * 1e3);
                    asking.take(&side.name, ms);
                    memory.take(&side.name, watch.resident_mib());
                }
                Err(error) => cpu.take(&side.name, Err(error)),
            }
        }
        self.keep(US_100, [cpu, asking, memory]);
        Ok(())
    }
}
