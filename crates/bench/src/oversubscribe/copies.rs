//! Copies while they run: started and told together, looked at until the last has ended.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::plan::{PATIENCE, Plan};
use super::steady::{Turn, Window, window};
use crate::client::number;
use crate::matrices::{Matrices, WORD, judge};
use crate::moved::Meter;
use crate::running::Bench;
use crate::side::Tenancy;
use divvy_command::machine::host_memory;

/// Between two looks at the copies and at where their memory is.
const LOOK: Duration = Duration::from_millis(10);

/// Memory that was moved in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    pub(super) out_bytes: u64,
    pub(super) in_bytes: u64,
    /// Bytes of all copies that were on the host at one moment, at most.
    pub(super) away_most_bytes: u64,
    /// Bytes for each nanosecond of each leave, and of each return.
    pub(super) outs: Vec<f64>,
    pub(super) ins: Vec<f64>,
}

/// A finished run.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    steps: u64,
    /// From the first copy's first step to the last one's last.
    work_s: f64,
    /// From the first copy's start to the last one's result, which is looked at by then.
    pub(super) makespan_s: f64,
    pub(super) longest_s: f64,
    /// Absent on the sides that are not ours.
    pub(super) moved: Option<Moved>,
    /// Bytes by which the machine's free memory fell; none on a simulated card, whose memory is the host's.
    pub(super) host_taken_bytes: Option<u64>,
    span_ns: [f64; 2],
    /// Of each copy, when it ran.
    pub(super) turns: Vec<Vec<Turn>>,
}

impl Ran {
    /// Steps of all copies in a second.
    pub(super) fn steps_per_s(&self) -> f64 {
        self.steps as f64 / self.work_s.max(1e-9)
    }

    /// Steps of all copies in a second while all of them take turns, each of which has had its first.
    pub(super) fn steady(&self) -> Option<Window> {
        let may_move = self.moved.as_ref().is_none_or(|moved| moved.in_bytes > 0);
        window(&self.turns, may_move)
    }

    /// So many like these as one run: what is between two of them is a part of it.
    pub(super) fn one_after_the_other(all: &[Self], count: u32) -> Self {
        let times = f64::from(count) / (all.len() as f64).max(1.0);
        let sum = |number: fn(&Self) -> f64| all.iter().map(number).sum::<f64>();
        let most = |number: fn(&Self) -> f64| all.iter().map(number).fold(0.0, f64::max);
        let from_ns = all.iter().map(|ran| ran.span_ns[0]).fold(f64::MAX, f64::min);
        let until_ns = most(|ran| ran.span_ns[1]);
        Self {
            steps: (sum(|ran| ran.steps as f64) * times) as u64,
            work_s: (until_ns - from_ns).max(0.0) / 1e9 * times,
            makespan_s: sum(|ran| ran.makespan_s) * times,
            longest_s: most(|ran| ran.longest_s),
            moved: None,
            host_taken_bytes: all.iter().filter_map(|ran| ran.host_taken_bytes).max(),
            span_ns: [from_ns, until_ns],
            turns: Vec::new(),
        }
    }
}

/// A copy in a run.
struct Copy<'a> {
    tenancy: &'a Tenancy,
    /// None once it has ended.
    program: Option<Matrices>,
    meter: Meter,
    steps_done: u64,
    end: Option<Value>,
}

impl Copy<'_> {
    /// Takes what it says; whether it said anything.
    fn listen(&mut self) -> Result<bool> {
        let mut has_spoken = false;
        while let Some(program) = &mut self.program {
            let Some(said) = program.says()? else { break };
            has_spoken = true;
            if let Ok(done) = number(&said, "progress") {
                self.steps_done = done as u64;
                continue;
            }
            judge(&said)?;
            self.steps_done = number(&said, "steps")? as u64;
            self.end = Some(said);
            // It leaves, as a program that is done does; what its processes have counted goes with it.
            self.meter.look(self.tenancy)?;
            self.meter.end();
            if let Some(program) = self.program.take() {
                program.finish();
            }
        }
        Ok(has_spoken)
    }
}

/// Runs a copy in each of the tenants, all at once.
pub(super) fn run(bench: &Bench, tenancies: &[Tenancy], plan: &Plan, what: &str) -> Result<Ran> {
    let free_before = host_memory::available();
    let begun = Instant::now();
    let arguments = plan.arguments();
    let copies = tenancies.iter().map(|tenancy| {
        let program = Matrices::start(bench, tenancy, "add", &arguments)?;
        Ok(Copy {
            tenancy,
            program: Some(program),
            meter: Meter::default(),
            steps_done: 0,
            end: None,
        })
    });
    let mut copies = copies.collect::<Result<Vec<_>>>()?;
    let mut watch =
        Watch { begun, heard: begun, word: begun, away_most: 0, free_least: free_before };

    let mut waiting: Vec<usize> = (0..copies.len()).collect();
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for at in waiting {
            let program = copies.get_mut(at).and_then(|copy| copy.program.as_mut());
            if program.context("the copy has ended")?.is_ready()? {
                watch.heard = Instant::now();
            } else {
                still.push(at);
            }
        }
        waiting = still;
        watch.look(bench, &mut copies, || format!("{what}: filling the matrices"), PATIENCE)?;
    }
    for program in copies.iter_mut().filter_map(|copy| copy.program.as_mut()) {
        program.go()?;
    }
    let went = Instant::now();
    let patience = PATIENCE + Duration::from_secs_f64(plan.rest_s());
    let all_steps = plan.steps * copies.len() as u64;
    while copies.iter().any(|copy| copy.end.is_none()) {
        for copy in &mut copies {
            if copy.listen()? {
                watch.heard = Instant::now();
            }
        }
        let done: u64 = copies.iter().map(|copy| copy.steps_done).sum();
        let words = || {
            let spent_s = went.elapsed().as_secs_f64();
            let left_s = spent_s * all_steps.saturating_sub(done) as f64 / done as f64;
            let left =
                if done == 0 { String::new() } else { format!(", about {left_s:.0} s left") };
            format!("{what}: {done} of {all_steps} steps{left}")
        };
        watch.look(bench, &mut copies, words, patience)?;
    }
    finish(bench, &copies, &watch, free_before)
}

/// State of all copies while they run.
struct Watch {
    begun: Instant,
    /// When one of them last said something.
    heard: Instant,
    /// When progress was last shown.
    word: Instant,
    away_most: u64,
    free_least: Option<u64>,
}

impl Watch {
    fn look(
        &mut self,
        bench: &Bench,
        copies: &mut [Copy<'_>],
        words: impl FnOnce() -> String,
        patience: Duration,
    ) -> Result<()> {
        for copy in copies.iter_mut().filter(|copy| copy.program.is_some()) {
            copy.meter.look(copy.tenancy)?;
        }
        let living = copies.iter().filter(|copy| copy.program.is_some());
        self.away_most = self.away_most.max(living.map(|copy| copy.meter.away_bytes()).sum());
        self.free_least = self.free_least.min(host_memory::available());
        let now = Instant::now();
        if now - self.heard >= patience {
            bail!("no answer within {} s", patience.as_secs());
        }
        if now - self.word >= WORD {
            self.word = now;
            bench.say(&format!("{}, {:.0} s", words(), (now - self.begun).as_secs_f64()));
        }
        std::thread::sleep(LOOK);
        Ok(())
    }
}

fn finish(
    bench: &Bench,
    copies: &[Copy<'_>],
    watch: &Watch,
    free_before: Option<u64>,
) -> Result<Ran> {
    let makespan_s = watch.begun.elapsed().as_secs_f64();
    let (mut steps, mut longest_ns, mut span_ns) = (0, 0.0_f64, [f64::MAX, 0.0_f64]);
    for end in copies.iter().filter_map(|copy| copy.end.as_ref()) {
        steps += number(end, "steps")? as u64;
        longest_ns = longest_ns.max(number(end, "longest_ns")?);
        let [from, until] = span_ns;
        span_ns = [from.min(number(end, "began_ns")?), until.max(number(end, "ended_ns")?)];
    }
    let turns = copies.iter().filter_map(|copy| copy.end.as_ref()).map(Turn::all_of).collect();
    let is_ours = copies.iter().any(|copy| copy.tenancy.is_ours());
    let moved = is_ours.then(|| {
        let mut moved = Moved { away_most_bytes: watch.away_most, ..Moved::default() };
        for meter in copies.iter().map(|copy| &copy.meter) {
            moved.out_bytes += meter.out_bytes();
            moved.in_bytes += meter.in_bytes();
            moved.outs.extend(&meter.outs);
            moved.ins.extend(&meter.ins);
        }
        moved
    });
    let taken =
        free_before.zip(watch.free_least).map(|(before, least)| before.saturating_sub(least));
    Ok(Ran {
        steps,
        work_s: (span_ns[1] - span_ns[0]).max(0.0) / 1e9,
        makespan_s,
        longest_s: longest_ns / 1e9,
        moved,
        host_taken_bytes: taken.filter(|_| !bench.stage.is_simulated()),
        span_ns,
        turns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_has_the_time_between() {
        let ran = |span_ns: [f64; 2]| Ran {
            steps: 10,
            work_s: (span_ns[1] - span_ns[0]) / 1e9,
            makespan_s: 2.0,
            longest_s: 0.5,
            moved: None,
            host_taken_bytes: None,
            span_ns,
            turns: Vec::new(),
        };
        let both = [ran([1e9, 2e9]), ran([3e9, 4e9])];
        let serial = Ran::one_after_the_other(&both, 2);
        assert_eq!((serial.steps, serial.work_s, serial.makespan_s), (20, 3.0, 4.0));
        assert!((serial.steps_per_s() - 20.0 / 3.0).abs() < 1e-9);
        let of_four = Ran::one_after_the_other(&both, 4);
        assert_eq!((of_four.steps, of_four.work_s, of_four.makespan_s), (40, 6.0, 8.0));
    }
}
