//! `divvy demo`: tenants share a GPU under limits of memory and of time, live.
//!
//! Nothing is staged: the clients are ordinary programs, the numbers are the ledger's and the device's, and the exit code is 0
//! only if each expected event was seen. Fits 80 columns.

mod check;
mod memory;
mod part;
mod plot;
mod screen;
mod time;
mod worker;

use anyhow::Result;

use crate::machine::install;
use crate::output::options::{self, Meaning, Stream};
use crate::output::{exit_codes, json, out, plain, sizes};
use crate::stage::{ClientStage, Simulation, there_is_a_gpu};
use check::Check;
use memory::{GREEDY, MemorySeen, STEADY};
use screen::Screen;
use time::{NAMES, TimeSeen};

/// Show tenants sharing a GPU: memory, of which one wants too much, and time.
///
/// In the first act two programs run under memory limits. "steady" stays within its limit and computes;
/// "greedy" takes more and more until it is refused with CUDA's own out-of-memory error, gives some
/// back and goes on. In the second, "serve" and "train" would each take all of the GPU's time: they have caps of 30 and
/// 70 %, the caps change places, and at last serve goes first. Prints live tables, a plot of the shares, and then what was
/// expected and whether it happened.
///
/// Uses the machine's GPU where there is one, else the simulated one, and says which. On the machine's GPU the two programs
/// of the second act also run without Divvy, for comparison. Takes about twenty seconds.
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

    /// How long the tenants run, both acts together
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u64).range(8..=120))]
    seconds: u64,

    /// Print the summary as JSON and no tables
    #[arg(long)]
    json: bool,
}

/// The least that the first act takes: to be refused, to wait, and to go on.
const MEMORY_SECONDS: u64 = 4;
/// Columns that everything fits.
const WIDTH: usize = 80;

pub(crate) fn run(args: &Args) -> Result<u8> {
    let library = install::library()?;
    let stage = if args.gpu || (!args.sim && there_is_a_gpu()) {
        ClientStage::machine("demo")?
    } else {
        ClientStage::simulated("demo", Simulation { mode: "calibrated", memory: "16GiB" })?
    };
    let kind = if stage.is_simulated() { "a SIMULATED GPU" } else { "this machine's GPU" };
    let mut screen = Screen::new(args.json || options::is_quiet());
    let memory_seconds = (args.seconds / 4).max(MEMORY_SECONDS);
    screen.say(&format!(
        "Tenants share {kind} (driver: {}).\n\n\
         1. Memory. steady may have {}, greedy {}; greedy tries to take {}.\n",
        stage.driver(),
        STEADY.limit,
        GREEDY.limit,
        sizes::text(GREEDY.wanted_bytes)
    ))?;
    let memory =
        MemorySeen::play(&stage, &library, memory_seconds, |table| screen.show(table, table))?;
    screen.say(&memory.heard().map(|line| wrapped(&line)).collect::<String>())?;
    let [serve, train] = NAMES;
    screen.say(&format!(
        "\n2. Time. {serve} (s) and {train} (t) would each take all of it; caps of 30 and 70 %.\n"
    ))?;
    let seconds = (args.seconds - memory_seconds) as f64;
    let time = TimeSeen::play(&stage, &library, seconds, |seen, what| {
        let [first, second] = seen.now_percent();
        let at = seen.seconds();
        let line =
            format!("{at:>4.0} s  {serve} {first:>5.1} %  {train} {second:>5.1} %  {what}\n");
        screen.show(&format!("{}{line}", seen.plot(seconds)), &line)
    })?;
    if !out::is_terminal() {
        screen.say(&format!("\n{}", time.plot(seconds)))?;
    }
    screen.say(&format!("\n{}", time.summary()))?;
    let checks: Vec<Check> = memory.checks().into_iter().chain(time.checks()).collect();
    let good = checks.iter().all(|check| check.happened);
    if args.json {
        json::print(&serde_json::json!({
            "simulated": stage.is_simulated(),
            "driver": stage.driver(),
            "tenants": memory.tenants,
            "time": time,
            "checks": checks,
            "as_expected": good,
        }))?;
    } else {
        out::text(&format!("\n{}\n{}, on {kind}.\n", answers(&checks), verdict(good)))?;
    }
    Ok(if good { 0 } else { exit_codes::NOT_AS_EXPECTED })
}

fn answers(checks: &[Check]) -> String {
    let answer = |check: &Check| {
        let (word, meaning) = match check.happened {
            true => ("yes", Meaning::Good),
            false => ("NO ", Meaning::Bad),
        };
        format!("{}  {}\n", options::paint(Stream::Out, meaning, word), check.expected)
    };
    checks.iter().map(answer).collect()
}

fn verdict(good: bool) -> &'static str {
    if good { "Everything expected happened" } else { "NOT as expected" }
}

/// A line in as many as its words need, those after the first indented.
fn wrapped(line: &str) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for word in plain::line(line).split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > WIDTH {
            text.push_str("\n   ");
            used = 3;
        }
        if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_wrapped_at_words() {
        assert_eq!(wrapped("short"), "short\n");
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().count() > 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("    ")), "{text}");
    }
}
