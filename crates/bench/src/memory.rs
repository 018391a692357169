//! `divvy bench memory`: allocating at the same moment, and the exactness of the limit.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::client::{self, StageClient, number};
use super::report::{Figure, Goal};
use super::running::Bench;
use super::side::{Side, Tenancy};

const GIB: u64 = 1 << 30;
const MIB: f64 = 1048576.0;
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes that allocate at once, what each takes, how often.
const BURST: [u64; 3] = [8, 256 << 20, 10];
/// Limits and how many processes fill each.
const FILLS: [(u64, u32); 3] = [(4 * GIB, 1), (20 * GIB, 1), (20 * GIB, 4)];

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    if bench.wants("at once") {
        measure_burst(bench)?;
    }
    for (limit_bytes, processes) in FILLS {
        let name = format!("limit {} GiB, {processes} process(es)", limit_bytes / GIB);
        if bench.wants(&name) {
            measure_fill(bench, &name, limit_bytes, processes)?;
        }
    }
    Ok(())
}

fn measure_burst(bench: &mut Bench) -> Result<()> {
    let burst = bench.client("burst")?;
    let mut longest = Figure::new("8 allocating 256 MiB at once, longest", "us", Goal::Ratio(2.0));
    let mut middle = Figure::new("8 allocating 256 MiB at once, median", "us", Goal::None);
    for round in 0..bench.rounds {
        for side in bench.turn(round) {
            if longest.has_failed(&side.name) {
                continue;
            }
            bench.say(&format!("allocating at once: round {} on {}", round + 1, side.name));
            let tenancy = side.tenancy(&bench.stage, 16 * GIB)?;
            let mut command = tenancy.command(&bench.stage, &burst);
            command.args(BURST.map(|number| number.to_string()));
            match client::run(command, PATIENCE) {
                Ok(answer) => {
                    longest.take(&side.name, number(&answer, "max_ns").map(|ns| ns / 1e3));
                    middle.take(&side.name, number(&answer, "median_ns").map(|ns| ns / 1e3));
                }
                Err(error) => longest.take(&side.name, Err(error)),
            }
        }
    }
    bench.report.figures.extend([longest, middle]);
    Ok(())
}

/// State when `processes` have taken all they were given.
struct Filled {
    got_bytes: f64,
    ledger: Option<(f64, f64)>,
    card_bytes: Option<f64>,
}

fn measure_fill(bench: &mut Bench, name: &str, limit_bytes: u64, processes: u32) -> Result<()> {
    let limit = limit_bytes as f64;
    let figure = |what: &str, unit, goal| Figure::new(format!("{name}, {what}"), unit, goal);
    let mut charged = figure("charged of it", "%", Goal::AtLeast(99.5));
    let mut above = figure("ledger above it", "bytes", Goal::AtMost(0.0));
    let mut card = figure(
        "NVML above it",
        "MiB",
        // The memory of a context is the driver's own business; the drift is bounded.
        Goal::AtMost(64.0 * f64::from(processes)),
    );
    let mut got = figure("got by the program(s)", "MiB", Goal::None);
    for round in 0..bench.rounds.min(3) {
        for side in bench.turn(round).into_iter().filter(|side| !side.is_native()) {
            if got.has_failed(&side.name) {
                continue;
            }
            bench.say(&format!("{name}: round {} on {}", round + 1, side.name));
            match fill(bench, &side, limit_bytes, processes) {
                Ok(filled) => {
                    got.take(&side.name, Ok(filled.got_bytes / MIB));
                    if let Some((held, peak)) = filled.ledger {
                        charged.take(&side.name, Ok(held / limit * 100.0));
                        above.take(&side.name, Ok((peak - limit).max(0.0)));
                    }
                    if let Some(bytes) = filled.card_bytes {
                        card.take(&side.name, Ok((bytes - limit) / MIB));
                    }
                }
                Err(error) => got.take(&side.name, Err(error)),
            }
        }
    }
    let has_values = |figure: &Figure| !figure.medians.is_empty() || !figure.failures.is_empty();
    bench.report.figures.extend([charged, above, card, got].into_iter().filter(has_values));
    Ok(())
}

fn fill(bench: &Bench, side: &Side, limit_bytes: u64, processes: u32) -> Result<Filled> {
    let tenancy = side.tenancy(&bench.stage, limit_bytes)?;
    let program = bench.client("fill")?;
    let mut clients = (0..processes)
        .map(|_| StageClient::start(tenancy.command(&bench.stage, &program)))
        .collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        client.answer(PATIENCE)?;
    }
    for client in &mut clients {
        client.go()?;
    }
    let mut got_bytes = 0.0;
    for client in &mut clients {
        got_bytes += number(&client.answer(PATIENCE)?, "got_bytes")?;
    }
    let ledger = read_ledger(&tenancy, side)?;
    let card_bytes = if bench.stage.is_simulated() {
        None
    } else {
        let pids: Vec<u32> = clients.iter().map(StageClient::pid).collect();
        card_bytes(bench.stage.command("nvidia-smi".as_ref()), &pids)
    };
    for client in clients {
        client.finish();
    }
    Ok(Filled { got_bytes, ledger, card_bytes })
}

fn read_ledger(tenancy: &Tenancy, side: &Side) -> Result<Option<(f64, f64)>> {
    let Some(tenant) = tenancy.ledger()? else { return Ok(None) };
    let device = tenant
        .devices
        .first()
        .with_context(|| format!("{} shows no device in its ledger", side.name))?;
    Ok(Some((device.held_bytes as f64, device.peak_bytes as f64)))
}

/// Bytes that `pids` have by NVML; `None` if it does not name them (other pid namespaces).
fn card_bytes(mut command: Command, pids: &[u32]) -> Option<f64> {
    command.args(["--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits"]);
    let output = command.output().ok()?;
    let used = used_by_pid(&String::from_utf8_lossy(&output.stdout));
    pids.iter().map(|pid| used.get(pid)).sum()
}

/// `123, 4567` a line: pid and MiB, in bytes.
fn used_by_pid(text: &str) -> BTreeMap<u32, f64> {
    text.lines()
        .filter_map(|line| {
            let (pid, mib) = line.split_once(',')?;
            Some((pid.trim().parse().ok()?, mib.trim().parse::<f64>().ok()? * MIB))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvml_lists_are_read() {
        let used = used_by_pid("12, 518\n13, [N/A]\n x\n 14 , 2\n");
        assert_eq!(used, [(12, 518.0 * MIB), (14, 2.0 * MIB)].into());
        let sum: Option<f64> = [12, 13].iter().map(|pid| used.get(pid)).sum();
        assert_eq!(sum, None);
    }
}
