//! `divvy trace`: what the gates of tenants did, as a file for chrome://tracing and Perfetto.
//!
//! Nothing is built into the library for it: the tenants' files are read from outside, some thousand
//! times a second, so a trace costs the traced program nothing and a tenant that is not traced has
//! nothing to switch off. What is shorter than the period between two readings may be missed; its time
//! is not, since the counters hold it.
//!
//! [`recorder`] makes events of readings, with [`memory`]'s part; this module takes them.

mod memory;
mod recorder;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use divvy_abi::MAX_DEVICES;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE};
use divvy_page::reader::{UsageFile, read_config};
use divvy_page::{AttachError, Directory, now_ns};
use divvy_policy::limit::UuidText;

use self::recorder::{Reading, Recorder};
use crate::commands::set;
use crate::machine::gpus;
use crate::output::failure::usage;
use crate::output::progress::Progress;
use crate::output::{json, out};
use crate::tenants::dir::Dir;
use crate::{daemon, signals};

/// Record what the gates of tenants do, for chrome://tracing or ui.perfetto.dev.
///
/// For each tenant and device the file shows when its gate was free, timed or closed and in which turn,
/// when it was throttled by its own cap, when it waited for a turn, when it had work on the device, and
/// how fast device time was charged and work submitted. Of a tenant that oversubscribes it also shows when memory left the
/// card and came back, how fast, where it was, and when a call waited for it. Name several tenants to see their turns one
/// below the other; times are of one clock.
///
/// The tenants' files are read from outside: a traced program pays nothing, nor does any other.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The tenants: names, or directories
    #[arg(required = true)]
    tenant: Vec<String>,

    /// How long, in seconds; an interrupt ends it earlier and keeps what was recorded
    #[arg(long, short, default_value_t = 5.0, value_name = "N")]
    seconds: f64,

    /// The file to write
    #[arg(long, short, default_value = "divvy-trace.json", value_name = "FILE")]
    out: PathBuf,

    /// Microseconds between two readings
    #[arg(long, default_value_t = 200, value_name = "N")]
    period_us: u64,

    /// Another directory of tenants, as for `divvy ps`; may be repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Say what was recorded as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy trace train
  divvy trace train serve --seconds 10 --out turns.json";

/// The longest trace, and the periods that make sense.
const MOST_SECONDS: f64 = 600.0;
const PERIODS_US: std::ops::RangeInclusive<u64> = 50..=100_000;
/// Time between two looks for new devices of a tenant.
const LOOK_NS: u64 = 100_000_000;

/// Output of `--json`.
#[derive(Debug, serde::Serialize)]
struct Report {
    file: PathBuf,
    tenants: Vec<String>,
    seconds: f64,
    readings: u64,
    /// Readings that came more than a period late: the machine was busy.
    late: u64,
    events: usize,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    if !(args.seconds > 0.0 && args.seconds <= MOST_SECONDS) {
        return Err(usage(format!(
            "--seconds {}: give more than 0 and at most {MOST_SECONDS}",
            args.seconds
        )));
    }
    if !PERIODS_US.contains(&args.period_us) {
        return Err(usage(format!(
            "--period-us {}: give {} to {}",
            args.period_us,
            PERIODS_US.start(),
            PERIODS_US.end()
        )));
    }
    let mut traced = Vec::new();
    for name in &args.tenant {
        let (tenant, directory) = set::find(name, &args.root)?;
        traced.push(Traced::open(tenant, &directory)?);
    }
    let stop = signals::end_flag()?;
    // Before the wait: a file that cannot be written is known now.
    let file = std::fs::File::create(&args.out)
        .with_context(|| format!("--out {} cannot be written", args.out.display()))?;
    let end_ns = (args.seconds * 1e9) as u64;
    let progress = Progress::timed("recording", Duration::from_nanos(end_ns));
    let taken = take(&mut traced, args.period_us * 1000, end_ns, &stop);
    drop(progress);
    let events: usize = traced.iter().map(|one| one.recorder.events().len()).sum();
    let mut to = BufWriter::new(file);
    write(&mut to, &traced)
        .with_context(|| format!("--out {} cannot be written", args.out.display()))?;
    let report = Report {
        file: args.out.clone(),
        tenants: traced.into_iter().map(|one| one.name).collect(),
        seconds: taken.ns as f64 / 1e9,
        readings: taken.readings,
        late: taken.late,
        events,
    };
    out::after(&format!("{} was written", report.file.display()), || match args.json {
        true => json::print(&report),
        false => out::text(&words(&report)),
    })?;
    Ok(0)
}

fn words(report: &Report) -> String {
    let Report { file, events, seconds, readings, late, tenants: _ } = report;
    format!(
        "{}: {events} events of {seconds:.1} s, {readings} readings, {late} late; open it in \
         ui.perfetto.dev\n",
        file.display()
    )
}

/// How a recording went.
#[derive(Debug, Default)]
struct Taken {
    ns: u64,
    readings: u64,
    late: u64,
}

/// Reads all tenants every `period_ns` for `length_ns`, or until `stop`.
fn take(traced: &mut [Traced], period_ns: u64, length_ns: u64, stop: &AtomicBool) -> Taken {
    // Else the kernel wakes us up to 50 us late.
    let _ = nix::sys::prctl::set_timerslack(1);
    let start_ns = now_ns();
    let end_ns = start_ns.saturating_add(length_ns);
    let mut taken = Taken::default();
    let mut next_ns = start_ns;
    for one in traced.iter_mut() {
        one.recorder.begin(start_ns);
    }
    while next_ns < end_ns && !stop.load(Relaxed) {
        daemon::sleep_until(next_ns);
        for one in traced.iter_mut() {
            one.read();
        }
        taken.readings += 1;
        next_ns = next_ns.saturating_add(period_ns);
        let now = now_ns();
        if now > next_ns.saturating_add(period_ns) {
            taken.late += 1;
            next_ns = now;
        }
    }
    let now = now_ns();
    for one in traced.iter_mut() {
        one.recorder.end(now);
    }
    taken.ns = now.saturating_sub(start_ns);
    taken
}

/// Writes a JSON array of events, one a line.
fn write(to: &mut impl Write, traced: &[Traced]) -> Result<()> {
    to.write_all(b"[\n")?;
    let mut is_first = true;
    for (at, one) in traced.iter().enumerate() {
        // A process of the trace is a tenant on a device.
        let first = u32::try_from(at * MAX_DEVICES + 1).unwrap_or(1);
        for event in one.recorder.events() {
            if !is_first {
                to.write_all(b",\n")?;
            }
            is_first = false;
            serde_json::to_writer(&mut *to, &event.placed(first))?;
        }
    }
    to.write_all(b"\n]\n")?;
    to.flush()?;
    Ok(())
}

/// A tenant under trace.
#[derive(Debug)]
struct Traced {
    name: String,
    dir: Directory,
    usage: Option<UsageFile>,
    rows: Vec<usize>,
    looked_ns: u64,
    recorder: Recorder,
}

impl Traced {
    fn open(name: String, directory: &Path) -> Result<Self> {
        let recorder = Recorder::default();
        let opened = || {
            let dir = Dir::open(directory)?.tenant()?;
            Ok::<_, AttachError>((UsageFile::within(&dir)?, dir))
        };
        let (usage, dir) =
            opened().with_context(|| format!("{} cannot be read", directory.display()))?;
        Ok(Self { name, dir, usage, rows: Vec::new(), looked_ns: 0, recorder })
    }

    /// Takes one reading. Cost: the config, and for each device a `pread` a process and one more; as many again where the
    /// tenant oversubscribes.
    fn read(&mut self) {
        let now = now_ns();
        if now >= self.looked_ns.saturating_add(LOOK_NS) {
            self.looked_ns = now;
            self.look();
        }
        // A tenant that is gone is traced no further; what was recorded stays.
        let (Ok(Some(config)), Some(usage)) = (read_config(&self.dir), &self.usage) else {
            return;
        };
        for row in &self.rows {
            let reading = reading(&config, usage, *row);
            self.recorder.push(*row, now_ns(), &reading);
        }
    }

    /// Finds devices that have come.
    fn look(&mut self) {
        if self.usage.is_none() {
            self.usage = UsageFile::within(&self.dir).ok().flatten();
        }
        let Some(usage) = &self.usage else { return };
        for row in 0..MAX_DEVICES {
            let Some(device) = usage.device(row).filter(|_| !self.rows.contains(&row)) else {
                continue;
            };
            self.rows.push(row);
            let uuid = UuidText(&device.uuid).to_string();
            let index = device.index.or_else(|| gpus::index_of(&uuid));
            let gpu = index.map_or(uuid, |index| index.to_string());
            self.recorder.name(row, &format!("{} on GPU {gpu}", self.name));
        }
    }
}

fn reading(config: &Config, usage: &UsageFile, row: usize) -> Reading {
    let line = config.gates.get(row).copied().unwrap_or_default();
    Reading {
        is_paused: config.paused != 0,
        line,
        closed_until_ns: usage.cap(row).closed_until_ns,
        sum: usage.gate_sum(row),
        memory: match config.flags & FLAG_OVERSUBSCRIBE {
            0 => None,
            _ => Some(usage.residence_sum(row)),
        },
    }
}

#[cfg(test)]
mod tests;
