//! One program under one cap: its share beside what was asked, over a run and in windows of a second.
//!
//! The target is the cap, or what the program reaches alone on the bare driver where that is less. Where
//! that is so, and where kernels are so short that processes differ, both are measured anew, by turns, and
//! their middle rounds compared. What is asked of a figure, and what kernels a program has, its family says.

use anyhow::{Context, Result};

use super::busy::{self, RunLength, Work};
use super::kernel::ROUNDS;
use super::report::{Figure, Goal, median};
use super::running::Bench;
use super::side::{Side, TenantTerms};
use super::timing::SECOND_NS;

/// Meaning of all of the device, in percent of wall time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Full {
    /// Wall time: kernels run one after another.
    Wall,
    /// The program's share alone, which keeps the card full: where kernels overlap it does more of them.
    Alone,
    /// The same where that is more, of a program that need not keep the card full.
    More,
}

/// A measurement.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Its figure's name, and what finds it.
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) cap: u32,
    /// A run under the cap.
    pub(super) length: RunLength,
    /// A run alone on the bare driver.
    pub(super) alone: RunLength,
    pub(super) full: Full,
    /// Whether peers are measured too.
    pub(super) compared: bool,
    /// Points that the run may miss its target by.
    pub(super) mean_points: f64,
    /// Points that each window may; `None` where there is no goal.
    pub(super) window_points: Option<f64>,
}

/// Its result. Lists are by side.
#[derive(Debug)]
pub(super) struct Found {
    /// The share.
    pub(super) reached: Figure,
    /// The worst window.
    pub(super) worst: Figure,
    /// The share that is due.
    pub(super) target: f64,
    /// Shares.
    pub(super) shares: Vec<(String, f64)>,
    /// Shares of all windows.
    pub(super) windows: Vec<(String, f64)>,
}

impl Found {
    /// How far the worst window of each side is off.
    pub(super) fn off(&self) -> impl Iterator<Item = (String, f64)> {
        self.worst.medians.iter().map(|(side, off)| (side.clone(), *off))
    }
}

impl Cell {
    /// The program's share alone on the bare driver, in percent of wall time.
    pub(super) fn measure_alone(&self, bench: &Bench) -> Result<f64> {
        let tenancy = bench.native()?.tenancy(&bench.stage, bench.limit_bytes())?;
        bench.say(&format!("{}, alone on the bare driver", self.name));
        busy::run(bench, &[(&tenancy, self.work.clone())], self.alone)
            .and_then(|ran| ran.shares()?.first().copied().context("nothing ran"))
    }

    /// The sides that it is measured on.
    pub(super) fn sides(&self, bench: &Bench) -> Vec<Side> {
        let asked = |side: &&Side| !side.is_native() && (self.compared || !side.is_peer());
        bench.sides.iter().filter(asked).cloned().collect()
    }

    /// Measures it, once it is known what the program reaches `alone`.
    pub(super) fn measure(&self, bench: &mut Bench, alone: f64) -> Found {
        let name = format!("share, {}", self.name);
        let mut reached = Figure::new(name.clone(), "%", Goal::None);
        let judged = self.window_points.map_or(Goal::None, Goal::AtMost);
        let mut worst = Figure::new(format!("{name}, worst 1 s window off by"), "points", judged);
        let sides = self.sides(bench);
        let is_host_bound = self.full != Full::Alone && f64::from(self.cap) > alone;
        let rounds = if is_host_bound || self.work.differs() { ROUNDS } else { 1 };
        let mut natively = vec![Ok(alone)];
        let mut ran: Vec<(&Side, Outcome)> = Vec::new();
        for round in 0..rounds {
            if round > 0 {
                natively.push(self.measure_alone(bench));
            }
            for side in &sides {
                let doing = format!("{name} on {}", side.name);
                if round == 0 {
                    bench.step(&doing)
                } else {
                    bench.say(&doing)
                }
                ran.push((side, self.measure_once(bench, side)));
            }
        }
        let reaches: Vec<f64> = natively.iter().flatten().copied().collect();
        let middle = median(&reaches).unwrap_or(alone);
        let full = match self.full {
            Full::Wall => 100.0,
            Full::Alone => middle,
            Full::More => middle.max(100.0),
        };
        let of_full = |share: f64| share * 100.0 / full;
        natively.into_iter().for_each(|share| reached.take("native", share.map(of_full)));
        let mut windows = Vec::new();
        for (side, outcome) in ran {
            if let Ok((_, seconds)) = &outcome {
                let seconds = seconds.iter().map(|window| of_full(*window));
                windows.extend(seconds.map(|window| (side.name.clone(), window)));
            }
            reached.take(&side.name, outcome.map(|(share, _)| of_full(share)));
        }
        let alone = reached.medians.get("native").copied().unwrap_or(of_full(alone));
        let target = f64::from(self.cap).min(alone);
        reached.goal = Goal::Within(target, self.mean_points);
        let mut shares = Vec::new();
        for side in &sides {
            let Some(share) = reached.medians.get(&side.name).copied() else { continue };
            shares.push((side.name.clone(), share));
            let own = windows.iter().filter(|(of, _)| *of == side.name);
            if let Some(off) = own.map(|(_, window)| (window - target).abs()).reduce(f64::max) {
                worst.take(&side.name, Ok(off));
            }
        }
        Found { reached, worst, target, shares, windows }
    }

    fn measure_once(&self, bench: &Bench, side: &Side) -> Outcome {
        let terms = TenantTerms::memory(bench.limit_bytes()).share(self.cap);
        let tenancy = side.tenancy_of(&bench.stage, &terms)?;
        let ran = busy::run(bench, &[(&tenancy, self.work.clone())], self.length)?;
        let share = ran.shares()?.first().copied().context("nothing ran")?;
        Ok((share, ran.windows(SECOND_NS).concat()))
    }
}

/// A program's share over a whole run and in each window of a second, in percent.
type Outcome = Result<(f64, Vec<f64>)>;
