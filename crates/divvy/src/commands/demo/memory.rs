//! The first act: two tenants under memory limits, of which one takes more and more until it is refused.
//!
//! The programs are ordinary ones, and the numbers the ledger's.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::check::Check;
use super::part::{DemoTenant, Role, Seen};
use crate::output::sizes;
use crate::output::table::TextTable;
use crate::pause::pause;
use crate::stage::ClientStage;

const GIB: u64 = 1 << 30;
pub(super) const STEADY: Role = Role { name: "steady", limit: "4GiB", wanted_bytes: 3 * GIB };
pub(super) const GREEDY: Role = Role { name: "greedy", limit: "2GiB", wanted_bytes: 8 * GIB };
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// Between two looks.
const TICK: Duration = Duration::from_millis(250);

/// Both tenants at the end.
#[derive(Debug)]
pub(super) struct MemorySeen {
    pub(super) tenants: [Seen; 2],
    rounds_at_refusal: Option<u64>,
}

impl MemorySeen {
    /// Plays it for so long; `show` gets the table as it is now.
    pub(super) fn play(
        stage: &ClientStage,
        library: &Path,
        seconds: u64,
        mut show: impl FnMut(&str) -> Result<()>,
    ) -> Result<Self> {
        let mut steady = DemoTenant::start(stage, library, &STEADY, seconds * 1000)?;
        let mut greedy = DemoTenant::start(stage, library, &GREEDY, seconds * 1000)?;
        // A context can take a second on a real card; a hung driver must not hang the demonstration.
        let deadline = Instant::now() + Duration::from_secs(seconds + 20);
        let mut rounds_at_refusal = None;
        loop {
            let running = [steady.look()?, greedy.look()?];
            if rounds_at_refusal.is_none() && !greedy.seen.codes.is_empty() {
                rounds_at_refusal = Some(steady.seen.rounds);
            }
            show(&table(&[&steady.seen, &greedy.seen]))?;
            if running == [false, false] || Instant::now() > deadline {
                break;
            }
            pause(TICK);
        }
        Ok(Self { tenants: [steady.finish(), greedy.finish()], rounds_at_refusal })
    }

    /// Expectations of the act.
    pub(super) fn checks(&self) -> Vec<Check> {
        let [steady, greedy] = &self.tenants;
        checks(steady, greedy, self.rounds_at_refusal)
    }

    /// Lines that the library wrote to the programs' standard error.
    pub(super) fn heard(&self) -> impl Iterator<Item = String> {
        let said = |seen: &Seen| -> Vec<String> {
            seen.said.iter().map(|line| format!("{} heard: {line}", seen.name)).collect()
        };
        self.tenants.iter().flat_map(said).collect::<Vec<_>>().into_iter()
    }
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

/// Cells of the bar that shows how full a limit is.
const BAR: u64 = 16;

fn table(seen: &[&Seen]) -> String {
    let mut table =
        TextTable::new(&["TENANT", ">LIMIT", ">HELD", "", ">PEAK", ">REFUSED", ">ROUNDS"]);
    for seen in seen {
        let full = (seen.held_bytes * BAR / seen.limit_bytes.max(1)).min(BAR) as usize;
        let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(BAR as usize - full));
        table.row([
            seen.name.clone(),
            sizes::text(seen.limit_bytes),
            format!("{:>8}", sizes::text(seen.held_bytes)),
            bar,
            format!("{:>8}", sizes::text(seen.peak_bytes)),
            seen.refusals.to_string(),
            format!("{:>7}", seen.rounds),
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
TENANT  LIMIT      HELD                          PEAK  REFUSED   ROUNDS
steady  4 GiB     3 GiB  [############....]     2 GiB        0       10
greedy  2 GiB         0  [................]     1 GiB        1       10
"
        );
    }
}
