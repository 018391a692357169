//! `divvy demo`: two tenants share a GPU under different limits, and one of them is greedy.
//!
//! Nothing is staged: the clients are ordinary programs, the numbers are the ledger's, and the exit code is 0
//! only if each expected event was seen.

mod part;

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::machine::install;
use crate::output::table::TextTable;
use crate::output::{exit_codes, json, out, sizes};
use crate::stage::{ClientStage, Simulation, there_is_a_gpu};
use part::{DemoTenant, Role, Seen};

/// Show two tenants sharing a GPU, one of them greedy.
///
/// Starts two programs under different memory limits. "steady" stays within its limit and computes;
/// "greedy" takes more and more until it is refused with CUDA's own out-of-memory error, gives some
/// back and goes on. Prints a live table and then what was expected and whether it happened. Uses the
/// machine's GPU where there is one, else the simulated one, and says which. Takes about six seconds.
///
/// The exit code is 0 only if everything expected happened.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use the simulated GPU, even where there is a real one
    #[arg(long, conflicts_with = "gpu")]
    sim: bool,

    /// Use the machine's GPU, and fail where there is none
    #[arg(long)]
    gpu: bool,

    /// How long the tenants run
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(4..=60))]
    seconds: u64,

    /// Print the summary as JSON and no table
    #[arg(long)]
    json: bool,
}

const GIB: u64 = 1 << 30;
const STEADY: Role = Role { name: "steady", limit: "4GiB", wanted_bytes: 3 * GIB };
const GREEDY: Role = Role { name: "greedy", limit: "2GiB", wanted_bytes: 8 * GIB };
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// How often the table is made anew.
const TICK: Duration = Duration::from_millis(250);

/// One thing expected, and whether it happened.
#[derive(Debug, serde::Serialize)]
struct Check {
    expected: String,
    happened: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    let library = install::library()?;
    let stage = if args.gpu || (!args.sim && there_is_a_gpu()) {
        ClientStage::machine("demo")?
    } else {
        ClientStage::simulated("demo", Simulation { mode: "calibrated", memory: "16GiB" })?
    };
    let kind = if stage.is_simulated() { "a SIMULATED GPU" } else { "this machine's GPU" };
    if !args.json {
        out::text(&format!(
            "Two tenants share {kind} (driver: {}).\n\
             steady may have {}, greedy {}; greedy tries to take {}.\n\n",
            stage.driver(),
            STEADY.limit,
            GREEDY.limit,
            sizes::text(GREEDY.wanted_bytes)
        ))?;
    }
    let milliseconds = args.seconds * 1000;
    let mut steady = DemoTenant::start(&stage, &library, &STEADY, milliseconds)?;
    let mut greedy = DemoTenant::start(&stage, &library, &GREEDY, milliseconds)?;

    // A context can take a second on a real card; a hung driver must not hang the demonstration.
    let deadline = Instant::now() + Duration::from_secs(args.seconds + 20);
    let mut screen = Screen::new(args.json);
    let mut rounds_at_refusal = None;
    loop {
        let running = [steady.look()?, greedy.look()?];
        if rounds_at_refusal.is_none() && !greedy.seen.codes.is_empty() {
            rounds_at_refusal = Some(steady.seen.rounds);
        }
        screen.show(&[&steady.seen, &greedy.seen])?;
        if running == [false, false] || Instant::now() > deadline {
            break;
        }
        std::thread::sleep(TICK);
    }
    let (steady, greedy) = (steady.finish(), greedy.finish());
    let checks = checks(&steady, &greedy, rounds_at_refusal);
    let good = checks.iter().all(|check| check.happened);
    if args.json {
        json::print(&serde_json::json!({
            "simulated": stage.is_simulated(),
            "driver": stage.driver(),
            "tenants": [steady, greedy],
            "checks": checks,
            "as_expected": good,
        }))?;
    } else {
        let heard = |seen: &Seen| -> String {
            seen.said.iter().map(|line| format!("{} heard: {line}\n", seen.name)).collect()
        };
        let answer = |check: &Check| {
            format!("{}  {}\n", if check.happened { "yes" } else { "NO " }, check.expected)
        };
        let verdict = if good { "Everything expected happened" } else { "NOT as expected" };
        out::text(&format!(
            "\n{}{}\n{}\n{verdict}, on {kind}.\n",
            heard(&steady),
            heard(&greedy),
            checks.iter().map(answer).collect::<String>()
        ))?;
    }
    Ok(if good { 0 } else { exit_codes::NOT_AS_EXPECTED })
}

fn checks(steady: &Seen, greedy: &Seen, rounds_at_refusal: Option<u64>) -> Vec<Check> {
    let check = |expected: &str, happened| Check { expected: expected.to_owned(), happened };
    let both = [steady, greedy];
    let refused =
        !greedy.codes.is_empty() && greedy.codes.iter().all(|code| *code == OUT_OF_MEMORY);
    vec![
        check("each program was told its limit as the card's size", {
            both.iter().all(|seen| seen.told_total_bytes == seen.limit_bytes)
        }),
        check("greedy was refused with CUDA_ERROR_OUT_OF_MEMORY and no other code", refused),
        check("greedy gave memory back, took some again and went on", greedy.recovered),
        check("steady was never refused", steady.codes.is_empty() && steady.refusals == 0),
        check("steady went on computing after greedy was refused", {
            rounds_at_refusal.is_some_and(|rounds| steady.rounds > rounds)
        }),
        check("every word read back was right", {
            both.iter().all(|seen| seen.rounds > 0 && seen.errors == 0)
        }),
        check("the ledger never held more than a limit", {
            both.iter().all(|seen| seen.peak_bytes > 0 && seen.peak_bytes <= seen.limit_bytes)
        }),
        check("both programs ended cleanly", {
            both.iter().all(|seen| seen.ended && seen.exit_code == Some(0))
        }),
    ]
}

/// The live table: redrawn in place on a terminal, a line a second elsewhere.
struct Screen {
    quiet: bool,
    in_place: bool,
    drawn_lines: usize,
    next: Instant,
}

impl Screen {
    fn new(quiet: bool) -> Self {
        Self { quiet, in_place: out::is_terminal(), drawn_lines: 0, next: Instant::now() }
    }

    fn show(&mut self, seen: &[&Seen]) -> Result<()> {
        if self.quiet || (!self.in_place && Instant::now() < self.next) {
            return Ok(());
        }
        self.next = Instant::now() + Duration::from_secs(1);
        let mut text = table(seen);
        if self.in_place {
            let lines = text.lines().count();
            if self.drawn_lines > 0 {
                text.insert_str(0, &format!("\x1b[{}A\x1b[J", self.drawn_lines));
            }
            self.drawn_lines = lines;
        } else {
            // Without its head after the first time: a log, not a screen.
            let skip = usize::from(self.drawn_lines > 0);
            text = text.lines().skip(skip).map(|line| format!("{line}\n")).collect();
            self.drawn_lines = 1;
        }
        out::text(&text)
    }
}

/// Cells of the bar that shows how full a limit is.
const BAR: u64 = 20;

fn table(seen: &[&Seen]) -> String {
    let mut table =
        TextTable::new(&["TENANT", ">LIMIT", ">HELD", "", ">PEAK", ">REFUSED", ">ROUNDS"]);
    for seen in seen {
        let full = (seen.held_bytes * BAR / seen.limit_bytes.max(1)).min(BAR) as usize;
        let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(BAR as usize - full));
        table.row([
            format!("{:<8}", seen.name),
            format!("{:>8}", sizes::text(seen.limit_bytes)),
            format!("{:>9}", sizes::text(seen.held_bytes)),
            bar,
            format!("{:>9}", sizes::text(seen.peak_bytes)),
            seen.refusals.to_string(),
            format!("{:>8}", seen.rounds),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> (Seen, Seen) {
        let seen = |name: &str, limit_bytes| Seen {
            name: name.to_owned(),
            limit_bytes,
            told_total_bytes: limit_bytes,
            peak_bytes: limit_bytes / 2,
            rounds: 10,
            ended: true,
            exit_code: Some(0),
            ..Seen::default()
        };
        let greedy =
            Seen { codes: vec![2], refusals: 1, recovered: true, ..seen("greedy", 2 << 30) };
        (seen("steady", 4 << 30), greedy)
    }

    fn failed(change: impl Fn(&mut Seen, &mut Seen)) -> usize {
        let (mut steady, mut greedy) = good();
        change(&mut steady, &mut greedy);
        checks(&steady, &greedy, Some(3)).iter().filter(|check| !check.happened).count()
    }

    #[test]
    fn each_thing_that_goes_wrong_is_seen() {
        assert_eq!(failed(|_, _| ()), 0);
        assert_eq!(failed(|_, greedy| greedy.codes = vec![]), 1);
        assert_eq!(failed(|_, greedy| greedy.codes = vec![2, 1]), 1);
        assert_eq!(failed(|_, greedy| greedy.recovered = false), 1);
        assert_eq!(failed(|steady, _| steady.refusals = 1), 1);
        assert_eq!(failed(|steady, _| steady.rounds = 3), 1);
        assert_eq!(failed(|steady, _| steady.errors = 1), 1);
        assert_eq!(failed(|_, greedy| greedy.peak_bytes = (2 << 30) + 1), 1);
        assert_eq!(failed(|_, greedy| greedy.told_total_bytes = 16 << 30), 1);
        assert_eq!(failed(|steady, _| steady.exit_code = Some(3)), 1);
    }

    #[test]
    fn the_live_table_reads_well() {
        let (steady, greedy) = good();
        let seen = Seen { held_bytes: 3 << 30, ..steady };
        assert_eq!(
            table(&[&seen, &greedy]),
            "\
TENANT       LIMIT       HELD                               PEAK  REFUSED    ROUNDS
steady       4 GiB      3 GiB  [###############.....]      2 GiB        0        10
greedy       2 GiB          0  [....................]      1 GiB        1        10
"
        );
    }
}
