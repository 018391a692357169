//! Programs that keep the GPU busy, and a look at their work from outside.
//!
//! A program's kernels count themselves into a file, each length for itself (bench/clients/busy.c and
//! varied.c); this reads the files all 10 ms while the programs run. Promises: what a kernel is worth was
//! found natively and is the same for every side; a run whose counts, checksums or limits are not what they
//! should be has no figure, but an error that says what was wrong.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::client::{StageClient, number};
use super::kernel::Kernel;
use super::running::Bench;
use super::series::Series;
use super::side::Tenancy;

/// A client that has nothing to say for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(10);
/// Words of the file.
const FILE_BYTES: u64 = 4096;

/// Kernels below this part of a round's work may have become longer or shorter: it does not show.
const SLIGHT_PART: f64 = 0.05;

/// Work of a program.
#[derive(Clone, Debug)]
pub(super) struct Work {
    program: &'static str,
    /// The kernels, by the word they count in.
    kernels: Vec<Kernel>,
    unit_ns: f64,
    /// Nominal lengths of the kernels that its figures stand or fall with.
    lengths_ns: Vec<u64>,
    arguments: Vec<String>,
}

impl Work {
    /// Kernels of this kind, in the mode of bench/clients/busy.c.
    pub(super) fn new(mode: &str, kernel: Kernel) -> Self {
        let graph = match kernel.nominal_ns {
            0..=100_000 => 20,
            100_001..=10_000_000 => 4,
            _ => 2,
        };
        Self {
            program: "busy",
            kernels: vec![kernel],
            unit_ns: kernel.ns,
            lengths_ns: vec![kernel.nominal_ns],
            arguments: vec![
                format!("mode={mode}"),
                format!("iterations={}", kernel.iterations),
                format!("kernel={}", kernel.ns as u64),
                format!("graph={graph}"),
            ],
        }
    }

    /// Rounds of so many kernels of each length, in the mode of bench/clients/varied.c.
    pub(super) fn varied(mode: &str, round: &[(Kernel, u64)]) -> Self {
        let list = |number: fn(&(Kernel, u64)) -> u64| {
            round.iter().map(|one| number(one).to_string()).collect::<Vec<_>>().join(",")
        };
        let work = |(kernel, times): &(Kernel, u64)| kernel.ns * *times as f64;
        let unit_ns = round.iter().map(work).sum();
        let judged = round.iter().filter(|one| work(one) >= SLIGHT_PART * unit_ns);
        Self {
            program: "varied",
            kernels: round.iter().map(|(kernel, _)| *kernel).collect(),
            unit_ns,
            lengths_ns: judged.map(|(kernel, _)| kernel.nominal_ns).collect(),
            arguments: vec![
                format!("mode={mode}"),
                format!("lengths={}", list(|(kernel, _)| kernel.iterations)),
                format!("times={}", list(|(_, times)| *times)),
            ],
        }
    }

    /// Kernels that grow from one length to another in `steps`, over `over_ns`, in a mode by the clock.
    pub(super) fn growing(mode: &str, [from, to]: [Kernel; 2], steps: u32, over_ns: u64) -> Self {
        let last = f64::from(steps.max(2) - 1);
        let lengths = (0..steps).map(|step| (from.between(&to, f64::from(step) / last), 1));
        let work = Self::varied(mode, &lengths.collect::<Vec<_>>());
        let lengths_ns = vec![from.nominal_ns, to.nominal_ns];
        Self { unit_ns: to.ns, lengths_ns, ..work }.with("over", over_ns)
    }

    /// The same with a further setting of the client.
    pub(super) fn with(mut self, key: &str, value: u64) -> Self {
        self.arguments.push(format!("{key}={value}"));
        self
    }

    /// Work between two moments at which it may be looked at: a kernel, or a round.
    pub(super) fn unit_ns(&self) -> f64 {
        self.unit_ns
    }

    /// Nominal lengths of its kernels, less those that are too little of it to show.
    pub(super) fn lengths_ns(&self) -> &[u64] {
        &self.lengths_ns
    }

    /// Whether it differs from process to process by more than is asked of a figure.
    pub(super) fn differs(&self) -> bool {
        let judged = |kernel: &&Kernel| self.lengths_ns.contains(&kernel.nominal_ns);
        self.kernels.iter().filter(judged).any(Kernel::differs)
    }
}

/// A program that is ready or runs.
#[derive(Debug)]
struct Program {
    client: StageClient,
    counter: File,
    path: PathBuf,
    work: Work,
    limit_bytes: Option<u64>,
    /// The device's memory as it was shown to the program; unknown until that is ready.
    total_bytes: Option<u64>,
}

impl Program {
    fn start(bench: &Bench, at: usize, tenancy: &Tenancy, work: &Work) -> Result<Self> {
        let path = bench.stage.scratch().join(format!("counter-{at}"));
        let counter =
            File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let counter = counter.with_context(|| format!("{} cannot be made", path.display()))?;
        counter.set_len(FILE_BYTES)?;
        let mut command = tenancy.command(&bench.stage, &bench.client(work.program)?);
        let place = if bench.stage.is_simulated() { "mapped" } else { "mirror" };
        command.args(&work.arguments);
        command.args([format!("file={}", path.display()), format!("place={place}")]);
        Ok(Self {
            client: StageClient::start(command)?,
            counter,
            path,
            work: work.clone(),
            limit_bytes: tenancy.limit_bytes(),
            total_bytes: None,
        })
    }

    /// Takes what it says when it is ready.
    fn is_ready(&mut self, said: &Value) -> Result<()> {
        self.total_bytes = Some(number(said, "total_bytes")? as u64);
        Ok(())
    }

    /// The work that its kernels say is done.
    fn work_ns(&self) -> Result<f64> {
        let mut words = vec![[0; 8]; self.work.kernels.len()];
        let bytes = words.as_flattened_mut();
        self.counter.read_exact_at(bytes, 0).context("the counter cannot be read")?;
        let counts = words.into_iter().map(u64::from_le_bytes);
        Ok(counts.zip(&self.work.kernels).map(|(count, kernel)| count as f64 * kernel.ns).sum())
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
            let shown = self.total_bytes.unwrap_or(0);
            ensure!(
                shown == limit,
                "void: limited to {limit} bytes, the program was shown {shown}: it ran without the library"
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

/// A program's part in a run.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    /// Its tenant.
    pub(super) tenancy: &'a Tenancy,
    /// Its work.
    pub(super) work: Work,
    /// When.
    pub(super) comes: Comes,
}

/// When a program begins, after the run does, or ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comes {
    /// It has its context before the run, and works from then on.
    Ready(Duration),
    /// Its process is started then, and works as soon as it can.
    Started(Duration),
    /// The same, but it never does anything with its context.
    Idle(Duration),
    /// It has its context before the run, works from the beginning on, and ends then.
    Leaves(Duration),
}

impl Comes {
    fn after(self) -> Duration {
        match self {
            Self::Ready(after) | Self::Started(after) | Self::Idle(after) => after,
            Self::Leaves(_) => Duration::ZERO,
        }
    }
}

/// A part while it is played.
struct Player<'a> {
    part: &'a Part<'a>,
    program: Option<Program>,
    /// When it was told to work, or had its context where it does nothing.
    began_ns: Option<u64>,
    samples: Vec<(u64, f64)>,
}

impl<'a> Player<'a> {
    fn new(bench: &Bench, at: usize, part: &'a Part<'a>) -> Result<Self> {
        let is_there = matches!(part.comes, Comes::Ready(_) | Comes::Leaves(_));
        let program = is_there.then(|| Program::start(bench, at, part.tenancy, &part.work));
        Ok(Self { part, program: program.transpose()?, began_ns: None, samples: Vec::new() })
    }

    /// Does what is due `since` the run began.
    fn play(&mut self, bench: &Bench, at: usize, since: Duration) -> Result<()> {
        if let (Comes::Leaves(after), Some(program)) = (self.part.comes, &mut self.program)
            && since >= after
        {
            program.client.stop();
        }
        if self.began_ns.is_some() || since < self.part.comes.after() {
            return Ok(());
        }
        let program = match &mut self.program {
            Some(program) => program,
            none => none.insert(Program::start(bench, at, self.part.tenancy, &self.part.work)?),
        };
        if program.total_bytes.is_none() {
            let Some(said) = program.client.answer_by_now()? else { return Ok(()) };
            program.is_ready(&said)?;
        }
        if !matches!(self.part.comes, Comes::Idle(_)) {
            program.client.go()?;
        }
        self.began_ns = Some(divvy_page::now_ns());
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        if let Some(program) = &self.program {
            let work_ns = program.work_ns()?;
            self.samples.push((divvy_page::now_ns(), work_ns));
        }
        Ok(())
    }

    fn end(self) -> Result<Track> {
        let mut program = self.program.context("the program was never started")?;
        let end = program.client.answer(PATIENCE)?;
        program.judge(&end)?;
        let latencies = end.get("latencies_ns").and_then(Value::as_array).into_iter().flatten();
        Ok(Track {
            series: Series { samples: self.samples, unit_ns: program.work.unit_ns },
            began_ns: self.began_ns.context("the program never began")?,
            latencies_ms: latencies.filter_map(Value::as_f64).map(|ns| ns / 1e6).collect(),
        })
    }
}

/// Work of one program in a run.
#[derive(Debug)]
pub(super) struct Track {
    /// Its counter.
    pub(super) series: Series,
    /// When it was told to work.
    pub(super) began_ns: u64,
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
        self.shares_within(from, until)
    }

    /// Shares of all programs between two times, in percent.
    pub(super) fn shares_within(&self, from_ns: u64, until_ns: u64) -> Result<Vec<f64>> {
        let shares = self.tracks.iter().map(|track| track.series.share(from_ns, until_ns));
        shares.collect::<Option<_>>().context("nothing was sampled")
    }

    /// The longest time that one of the programs made no progress, from its first moment on.
    pub(super) fn longest_gap_ms(&self) -> Result<f64> {
        let gaps = self.tracks.iter().map(|track| track.series.longest_gap_ns(0, self.span_ns.1));
        let longest = gaps.flatten().max().context("nothing was sampled")?;
        Ok(longest as f64 / 1e6)
    }

    /// Shares of all programs in each window.
    pub(super) fn windows(&self, width_ns: u64) -> Vec<Vec<f64>> {
        let (from, until) = self.span_ns;
        self.tracks.iter().map(|track| track.series.windows(from, until, width_ns)).collect()
    }
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunLength {
    /// Before what counts.
    pub(super) warm_up: Duration,
    /// The part that counts.
    pub(super) measured: Duration,
}

impl RunLength {
    /// `seconds` after a warm-up of 0.3 s.
    pub(super) fn seconds(seconds: f64) -> Self {
        Self {
            warm_up: Duration::from_millis(300),
            measured: Duration::from_secs_f64(seconds.max(0.05)),
        }
    }
}

/// Runs programs together and looks at their counters meanwhile.
pub(super) fn run(bench: &Bench, programs: &[(&Tenancy, Work)], length: RunLength) -> Result<Ran> {
    run_with(bench, programs, length, |_| Ok(()))
}

/// The same; `during` is called every 10 ms with the time since the warm-up ended.
pub(super) fn run_with(
    bench: &Bench,
    programs: &[(&Tenancy, Work)],
    length: RunLength,
    during: impl FnMut(Duration) -> Result<()>,
) -> Result<Ran> {
    let parts = programs.iter().map(|(tenancy, work)| Part {
        tenancy,
        work: work.clone(),
        comes: Comes::Ready(Duration::ZERO),
    });
    run_parts(bench, &parts.collect::<Vec<_>>(), length, during)
}

/// The same with programs that begin one after the other; the warm-up begins with the last of them.
pub(super) fn run_parts(
    bench: &Bench,
    parts: &[Part<'_>],
    length: RunLength,
    mut during: impl FnMut(Duration) -> Result<()>,
) -> Result<Ran> {
    for part in parts {
        part.tenancy.check_share()?;
    }
    let players = parts.iter().enumerate().map(|(at, part)| Player::new(bench, at, part));
    let mut players = players.collect::<Result<Vec<_>>>()?;
    for program in players.iter_mut().filter_map(|player| player.program.as_mut()) {
        let said = program.client.answer(PATIENCE)?;
        program.is_ready(&said)?;
    }
    let begun = divvy_page::now_ns();
    let mut next = begun;
    let span_ns = loop {
        let since = Duration::from_nanos(divvy_page::now_ns() - begun);
        for (at, player) in players.iter_mut().enumerate() {
            player.play(bench, at, since)?;
        }
        players.iter_mut().try_for_each(Player::look)?;
        let now = divvy_page::now_ns();
        let span = span(&players, length);
        let until = span.map_or(u64::MAX, |(_, until)| until);
        if now >= until {
            break span.unwrap_or((begun, now));
        }
        match span {
            Some((from, _)) if now >= from => during(Duration::from_nanos(now - from))?,
            Some(_) => {}
            None => ensure!(since < longest_wait(parts), "void: a program did not begin in time"),
        }
        next = (next + LOOK.as_nanos() as u64).max(now);
        std::thread::sleep(Duration::from_nanos(next.min(until).saturating_sub(now)));
    };
    // All stop before any is waited for: who still ran would have the card for itself.
    for program in players.iter_mut().filter_map(|player| player.program.as_mut()) {
        program.client.stop();
    }
    let tracks = players.into_iter().map(Player::end).collect::<Result<_>>()?;
    Ok(Ran { tracks, span_ns })
}

/// When what counts begins and ends; unknown until all have begun.
fn span(players: &[Player<'_>], length: RunLength) -> Option<(u64, u64)> {
    let began = players.iter().map(|player| player.began_ns).collect::<Option<Vec<_>>>()?;
    let from = began.into_iter().max()? + length.warm_up.as_nanos() as u64;
    Some((from, from + length.measured.as_nanos() as u64))
}

/// The longest that is waited for the last program to begin.
fn longest_wait(parts: &[Part<'_>]) -> Duration {
    let last = parts.iter().map(|part| part.comes.after()).max();
    last.unwrap_or_default() + PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(nominal_ns: u64) -> Kernel {
        Kernel { nominal_ns, iterations: nominal_ns / 2, ns: nominal_ns as f64 }
    }

    #[test]
    fn a_round_is_told_to_the_client_and_stands_by_what_shows_in_it() {
        let work = Work::varied("burst", &[(kernel(5_000), 200), (kernel(40_000_000), 4)]);
        assert_eq!(work.arguments, ["mode=burst", "lengths=2500,20000000", "times=200,4"]);
        assert_eq!(work.unit_ns(), 161e6);
        assert_eq!(work.lengths_ns(), [40_000_000]);
        assert!(!work.differs() && Work::new("sync", kernel(5_000)).differs());
    }

    #[test]
    fn kernels_that_grow_are_between_those_that_were_measured() {
        let work = Work::growing("grow", [kernel(20_000), kernel(2_000_000)], 3, 7);
        let lengths = "lengths=10000,505000,1000000";
        assert_eq!(work.arguments, ["mode=grow", lengths, "times=1,1,1", "over=7"]);
        assert_eq!((work.unit_ns(), work.lengths_ns()), (2e6, &[20_000, 2_000_000][..]));
    }
}
