//! Figures of one set of copies, on each way to run them.

use anyhow::Error;

use super::copies::Ran;
use super::plan::Plan;
use crate::report::{Figure, Goal, LEFT_OUT};

/// Part of what one copy does alone that copies do together which are always busy.
pub(super) const GOAL_PERCENT: f64 = 97.0;
/// Longest wait of a copy whose memory is away.
const GOAL_WAIT_S: f64 = 30.0;
/// Makespan of two copies, of that of one after the other.
const GOAL_MAKESPAN_PERCENT: f64 = 110.0;
const GIB: f64 = 1_073_741_824.0;

/// Measures that runs are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) alone_per_s: f64,
    pub(super) serial_s: f64,
    /// Bytes that have to come back for one turn at least.
    pub(super) turn_bytes: f64,
}

/// The figures of one set of copies.
pub(super) struct Cells {
    measure: Measure,
    steady: Figure,
    together: Figure,
    per_s: Figure,
    makespan: Figure,
    of_serial: Figure,
    longest: Figure,
    out: Figure,
    back: Figure,
    of_bound: Figure,
    out_rate: Figure,
    in_rate: Figure,
    away: Figure,
    host: Figure,
}

impl Cells {
    pub(super) fn new(plan: &Plan, measure: Measure) -> Self {
        let figure =
            |what: &str, unit, goal| Figure::new(format!("{}, {what}", plan.name), unit, goal);
        let busy = |goal| if plan.is_always_busy() { goal } else { Goal::None };
        let of_two =
            if plan.copies == 2 { Goal::AtMost(GOAL_MAKESPAN_PERCENT) } else { Goal::None };
        Self {
            measure,
            steady: figure(
                "steady steps of all, of one alone",
                "%",
                busy(Goal::AtLeast(GOAL_PERCENT)),
            ),
            together: figure("steps of all, of one alone", "%", Goal::None),
            per_s: figure("steps of all", "1/s", Goal::None),
            makespan: figure("makespan", "s", Goal::None),
            of_serial: figure("makespan, of one after the other", "%", busy(of_two)),
            longest: figure("longest wait between two steps", "s", busy(Goal::AtMost(GOAL_WAIT_S))),
            out: figure("left the card", "GiB", Goal::None),
            back: figure("came back", "GiB", Goal::None),
            of_bound: figure("came back, of the least for its turns", "%", Goal::None),
            out_rate: figure("rate of a leave", "GB/s", Goal::None),
            in_rate: figure("rate of a return", "GB/s", Goal::None),
            away: figure("on the host at most", "GiB", Goal::None),
            host: figure("host memory taken at most", "GiB", Goal::None),
        }
    }

    /// Adds why a way to run them was not tried.
    pub(super) fn leave_out(&mut self, side: &str, why: &str) {
        self.together.take(side, Err(anyhow::anyhow!("{LEFT_OUT}{why}")));
    }

    /// Adds what a run of `side` gave.
    pub(super) fn take(&mut self, side: &str, ran: Result<&Ran, &Error>) {
        let Measure { alone_per_s, serial_s, turn_bytes } = self.measure;
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => {
                self.together.take(side, Err(anyhow::anyhow!("{error:#}")));
                return;
            }
        };
        self.together.take(side, Ok(ran.steps_per_s() / alone_per_s * 100.0));
        self.per_s.take(side, Ok(ran.steps_per_s()));
        self.makespan.take(side, Ok(ran.makespan_s));
        self.longest.take(side, Ok(ran.longest_s));
        if let Some(taken) = ran.host_taken_bytes {
            self.host.take(side, Ok(taken as f64 / GIB));
        }
        if ran.turns.len() > 1 {
            self.of_serial.take(side, Ok(ran.makespan_s / serial_s * 100.0));
        }
        let Some(moved) = &ran.moved else { return };
        self.out.take(side, Ok(moved.out_bytes as f64 / GIB));
        self.back.take(side, Ok(moved.in_bytes as f64 / GIB));
        self.away.take(side, Ok(moved.away_most_bytes as f64 / GIB));
        // For the first turn of all nothing need come back.
        let turns = ran.turns.iter().map(Vec::len).sum::<usize>().saturating_sub(1);
        if turn_bytes > 0.0 && turns > 0 {
            let least_bytes = turn_bytes * turns as f64;
            self.of_bound.take(side, Ok(moved.in_bytes as f64 / least_bytes * 100.0));
        }
        moved.outs.iter().for_each(|rate| self.out_rate.take(side, Ok(*rate)));
        moved.ins.iter().for_each(|rate| self.in_rate.take(side, Ok(*rate)));
    }

    /// Adds the measure of all makespans.
    pub(super) fn take_serial(&mut self, side: &str) {
        self.of_serial.take(side, Ok(100.0));
    }

    /// Adds what all copies did while each of them took its turns.
    pub(super) fn take_steady(&mut self, side: &str, ran: &Ran) {
        let steady = ran.steady().map(|window| window.steps_per_s() / self.measure.alone_per_s);
        let too_short = || {
            anyhow::anyhow!(
                "{LEFT_OUT}some copy had no second turn while all had work; ask for more --seconds"
            )
        };
        self.steady.take(side, steady.map(|part| part * 100.0).ok_or_else(too_short));
    }

    pub(super) fn into_figures(self) -> [Figure; 13] {
        let Self { steady, together, per_s, makespan, of_serial, longest, out, back, .. } = self;
        let Self { of_bound, out_rate, in_rate, away, host, .. } = self;
        [
            steady, together, per_s, makespan, of_serial, longest, out, back, of_bound, out_rate,
            in_rate, away, host,
        ]
    }
}
