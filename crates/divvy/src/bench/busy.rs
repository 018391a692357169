//! Programs that keep the GPU busy, and a look at their work from outside.
//!
//! A program's kernels count themselves into a file (bench/clients/busy.c); this reads the files all
//! 10 ms while the programs run. Promises: how long a kernel takes is found natively and is the same
//! for every side; a run whose counts, checksums or limits are not what they should be has no figure,
//! but an error that says what was wrong.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Bench;
use super::client::{self, Client, number};
use super::report::median;
use super::series::Series;
use super::side::Tenancy;

/// A client that has nothing to say for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(10);
/// Words of the file.
const FILE_BYTES: u64 = 4096;

/// A kernel of fixed work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// What was asked for.
    pub(super) nominal_ns: u64,
    iterations: u64,
    /// What one takes in a saturated queue.
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

/// What a program does.
#[derive(Clone, Debug)]
pub(super) struct Work {
    mode: &'static str,
    kernel: Kernel,
    more: Vec<String>,
}

impl Work {
    /// Kernels of this kind, in the client's `mode`.
    pub(super) fn new(mode: &'static str, kernel: Kernel) -> Self {
        let graph = match kernel.nominal_ns {
            0..=100_000 => 20,
            100_001..=10_000_000 => 4,
            _ => 2,
        };
        Self { mode, kernel, more: vec![format!("graph={graph}")] }
    }

    /// How the kernels are submitted.
    pub(super) fn mode(&self) -> &'static str {
        self.mode
    }

    /// How long one is meant to take.
    pub(super) fn kernel_ns(&self) -> u64 {
        self.kernel.nominal_ns
    }

    /// The same with a further setting of the client.
    pub(super) fn with(mut self, key: &str, value: u64) -> Self {
        self.more.push(format!("{key}={value}"));
        self
    }
}

/// A program that is ready or runs.
#[derive(Debug)]
struct Program {
    client: Client,
    counter: File,
    path: PathBuf,
    kernel_ns: f64,
    limit_bytes: Option<u64>,
    total_bytes: u64,
}

impl Program {
    fn start(bench: &Bench, at: usize, tenancy: &Tenancy, work: &Work) -> Result<Self> {
        let path = bench.stage.scratch().join(format!("counter-{at}"));
        let counter =
            File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let counter = counter.with_context(|| format!("{} cannot be made", path.display()))?;
        counter.set_len(FILE_BYTES)?;
        let mut command = tenancy.command(&bench.stage, &bench.client("busy")?);
        let place = if bench.stage.is_simulated() { "mapped" } else { "mirror" };
        command.args([
            format!("mode={}", work.mode),
            format!("file={}", path.display()),
            format!("place={place}"),
            format!("iterations={}", work.kernel.iterations),
            format!("kernel={}", work.kernel.ns as u64),
        ]);
        command.args(&work.more);
        Ok(Self {
            client: Client::start(command)?,
            counter,
            path,
            kernel_ns: work.kernel.ns,
            limit_bytes: tenancy.limit_bytes(),
            total_bytes: 0,
        })
    }

    fn count(&self) -> Result<u64> {
        let mut word = [0; 8];
        self.counter.read_exact_at(&mut word, 0).context("the counter cannot be read")?;
        Ok(u64::from_le_bytes(word))
    }

    /// Whether the end is what the run should have led to.
    fn judge(&self, end: &Value) -> Result<()> {
        let whole = |field: &str| {
            end.get(field).and_then(Value::as_u64).with_context(|| format!("no {field} in {end}"))
        };
        let (launched, count, shown) = (whole("launched")?, whole("count")?, whole("shown")?);
        ensure!(
            launched == count && count == shown,
            "void: {launched} kernels were launched, {count} counted, {shown} shown"
        );
        let (checksum, expected) = (whole("checksum")?, whole("expected")?);
        ensure!(checksum == expected, "void: the checksum is {checksum} instead of {expected}");
        if let Some(limit) = self.limit_bytes {
            ensure!(
                self.total_bytes == limit,
                "void: limited to {limit} bytes, the program was shown {}: it ran without the library",
                self.total_bytes
            );
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What one program did in a run.
#[derive(Debug)]
pub(super) struct Track {
    /// Its counter.
    pub(super) series: Series,
    /// Latencies of its requests, in milliseconds.
    pub(super) latencies_ms: Vec<f64>,
}

/// A finished run.
#[derive(Debug)]
pub(super) struct Ran {
    /// The programs, in the order given.
    pub(super) tracks: Vec<Track>,
    /// When what counts began and ended.
    pub(super) span_ns: (u64, u64),
}

impl Ran {
    /// Shares of all programs over what counts, in percent.
    pub(super) fn shares(&self) -> Result<Vec<f64>> {
        let (from, until) = self.span_ns;
        let shares = self.tracks.iter().map(|track| track.series.share(from, until));
        shares.collect::<Option<_>>().context("nothing was sampled")
    }

    /// Shares of all programs in each window.
    pub(super) fn windows(&self, width_ns: u64) -> Vec<Vec<f64>> {
        let (from, until) = self.span_ns;
        self.tracks.iter().map(|track| track.series.windows(from, until, width_ns)).collect()
    }
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Before what counts.
    pub(super) warm_up: Duration,
    /// What counts.
    pub(super) measured: Duration,
}

impl Length {
    /// `seconds` after a warm-up of 0.3 s.
    pub(super) fn seconds(seconds: f64) -> Self {
        Self {
            warm_up: Duration::from_millis(300),
            measured: Duration::from_secs_f64(seconds.max(0.05)),
        }
    }
}

/// Runs programs together and looks at their counters meanwhile.
pub(super) fn run(bench: &Bench, programs: &[(&Tenancy, Work)], length: Length) -> Result<Ran> {
    run_with(bench, programs, length, |_| Ok(()))
}

/// The same; `during` is called every 10 ms with the time since the warm-up ended.
pub(super) fn run_with(
    bench: &Bench,
    programs: &[(&Tenancy, Work)],
    length: Length,
    mut during: impl FnMut(Duration) -> Result<()>,
) -> Result<Ran> {
    for (tenancy, _) in programs {
        tenancy.check_share()?;
    }
    let mut started = Vec::new();
    for (at, (tenancy, work)) in programs.iter().enumerate() {
        started.push(Program::start(bench, at, tenancy, work)?);
    }
    for program in &mut started {
        program.total_bytes = number(&program.client.answer(PATIENCE)?, "total_bytes")? as u64;
    }
    for program in &mut started {
        program.client.go()?;
    }
    let begun = divvy_page::now_ns();
    let from = begun + length.warm_up.as_nanos() as u64;
    let until = from + length.measured.as_nanos() as u64;
    let mut samples = vec![Vec::new(); started.len()];
    let mut next = begun;
    loop {
        for (program, samples) in started.iter().zip(&mut samples) {
            let count = program.count()?;
            samples.push((divvy_page::now_ns(), count));
        }
        let now = divvy_page::now_ns();
        if now >= until {
            break;
        }
        if now >= from {
            during(Duration::from_nanos(now - from))?;
        }
        next = (next + LOOK.as_nanos() as u64).max(now);
        std::thread::sleep(Duration::from_nanos(next.min(until).saturating_sub(now)));
    }
    let mut tracks = Vec::new();
    // All stop before any is waited for: who still ran would have the card for itself.
    for program in &mut started {
        program.client.stop();
    }
    for (program, samples) in started.iter_mut().zip(samples) {
        let end = program.client.answer(PATIENCE)?;
        program.judge(&end)?;
        let latencies = end.get("latencies_ns").and_then(Value::as_array).into_iter().flatten();
        tracks.push(Track {
            series: Series { samples, kernel_ns: program.kernel_ns },
            latencies_ms: latencies.filter_map(Value::as_f64).map(|ns| ns / 1e6).collect(),
        });
    }
    Ok(Ran { tracks, span_ns: (from, until) })
}
