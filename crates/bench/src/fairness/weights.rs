//! `divvy bench fairness --family weights`: tenants of unlike weights, from the moment on at which all have begun.
//!
//! Queues of kernels that are alike or are not, which begin at once or one after the other. Promises: each start has
//! tenants and processes of its own, and of all starts the one that is furthest from its due is judged; a tenant's due
//! is a part of what all of them have, since turns take some of the device; the first second is judged by itself.

use std::time::Duration;

use anyhow::{Context, Result};

use super::hall::{Hall, Job, MS, Program, US};
use crate::busy::{Ran, RunLength, Work};
use crate::report::{Figure, Goal};
use crate::side::Side;
use crate::timing::SECOND_NS;

const SETS: [&[u32]; 3] = [&[1, 3], &[1, 9], &[2, 1, 1]];
/// A weight of one in the limits, whose default is a hundred.
const WEIGHT: u32 = 100;
/// Lengths of the tenants' kernels, by turns from start to start.
const MIXES_NS: [[u64; 3]; 4] =
    [[MS; 3], [100 * US, MS, 100 * US], [5 * MS; 3], [MS, 100 * US, 5 * MS]];
/// Milliseconds that each tenant begins behind the one before, likewise; which of them is the first changes, too.
const APART_MS: [u64; 5] = [0, 40, 150, 20, 90];
/// Judged seconds behind the first, unless the command line says otherwise.
const SECONDS: f64 = 5.0;
/// Points that a part may be off by; in the first second beside a unit of work.
const POINTS: f64 = 1.0;
const FIRST_POINTS: f64 = 3.0;

fn name(weights: &[u32]) -> String {
    let words: Vec<String> = weights.iter().map(u32::to_string).collect();
    format!("weights {}", words.join(":"))
}

/// The `at`-th of a list that is gone through again and again.
fn by_turns<T: Copy>(list: &[T], at: usize) -> Option<T> {
    list.iter().copied().cycle().nth(at % list.len().max(1))
}

pub(super) fn jobs(quick: bool, starts: u32) -> Vec<Job> {
    let (sets, starts) = if quick { (&SETS[..1], 1) } else { (&SETS[..], starts as usize) };
    let job = |weights: &&'static [u32]| {
        let weights = *weights;
        Job::new(name(weights), starts, move |hall| measure(hall, weights, starts))
    };
    sets.iter().map(job).collect()
}

/// A start: what it is made of.
#[derive(Clone, Debug, PartialEq)]
struct Start {
    lengths_ns: Vec<u64>,
    after: Vec<Duration>,
}

impl Start {
    /// The `nth` with so many tenants.
    fn nth(nth: usize, tenants: usize) -> Self {
        let mix = by_turns(&MIXES_NS, nth).unwrap_or_default();
        let apart = Duration::from_millis(by_turns(&APART_MS, nth).unwrap_or(0));
        let mut after: Vec<Duration> = (0..).take(tenants).map(|at| apart * at).collect();
        if nth % 2 == 1 {
            after.reverse();
        }
        Self { lengths_ns: mix.into_iter().take(tenants).collect(), after }
    }

    /// The longest kernel, in points of a second.
    fn unit_points(&self) -> f64 {
        let longest = self.lengths_ns.iter().copied().max().unwrap_or(0);
        longest as f64 / SECOND_NS as f64 * 100.0
    }
}

/// Result of a start.
struct Came {
    /// Parts of all, in percent, in the first second and behind it.
    first: Vec<f64>,
    behind: Vec<f64>,
    /// Sum of all behind it.
    sum: f64,
    unit_points: f64,
}

impl Came {
    fn of(start: &Start, ran: &Ran) -> Result<Self> {
        let (begun, until) = ran.span_ns;
        let shares = ran.shares_within(begun + SECOND_NS, until)?;
        let sum = shares.iter().sum();
        Ok(Self {
            first: parts(&ran.shares_within(begun, begun + SECOND_NS)?)?,
            behind: parts(&shares)?,
            sum,
            unit_points: start.unit_points(),
        })
    }
}

/// Shares as parts of what all have together.
fn parts(shares: &[f64]) -> Result<Vec<f64>> {
    let all = Some(shares.iter().sum::<f64>()).filter(|all| *all > 0.0).context("nothing ran")?;
    Ok(shares.iter().map(|share| share / all * 100.0).collect())
}

/// Due of each, in percent.
fn due(weights: &[u32]) -> Vec<f64> {
    let all = f64::from(weights.iter().sum::<u32>());
    weights.iter().map(|weight| f64::from(*weight) / all * 100.0).collect()
}

/// A part that was reached, and how far from its due it may be.
type Reached = (f64, f64);

/// The one that is furthest from its due beyond what it may be.
fn furthest(due: f64, reached: &[Reached]) -> Option<Reached> {
    let beyond = |(part, points): &Reached| (part - due).abs() - points;
    reached.iter().copied().max_by(|one, other| beyond(one).total_cmp(&beyond(other)))
}

fn judged(name: String, side: &Side, due: f64, reached: &[Reached]) -> Option<Figure> {
    let (part, points) = furthest(due, reached)?;
    let mut figure = Figure::new(name, "%", Goal::Within(due, points));
    figure.take_all(&side.name, reached.iter().map(|(part, _)| *part).collect(), part);
    Some(figure)
}

fn measure(hall: &mut Hall<'_>, weights: &'static [u32], starts: usize) -> Result<()> {
    let name = name(weights);
    let seconds = hall.timing.seconds_or(SECONDS);
    let length = RunLength { warm_up: Duration::ZERO, ..RunLength::seconds(1.0 + seconds) };
    let mut lengths_ns = Vec::new();
    for side in hall.ours() {
        let (mut came, mut failed) = (Vec::new(), None);
        for nth in 0..starts {
            let start = Start::nth(nth, weights.len());
            lengths_ns.extend(&start.lengths_ns);
            let mut programs: Vec<Program> = Vec::new();
            for (weight, ns) in weights.iter().zip(&start.lengths_ns) {
                let work = Work::new("async", hall.kernel(*ns)?);
                programs.push((hall.terms().weight(weight * WEIGHT), work));
            }
            let ran = hall.one_by_one(&name, &side, &programs, &start.after, length);
            match ran.and_then(|ran| Ok((Came::of(&start, &ran)?, ran))) {
                Ok((one, ran)) => {
                    if nth == 0 {
                        hall.draw(&name, &side, &ran);
                    }
                    came.push(one);
                }
                Err(error) => failed = Some(error),
            }
        }
        let sum = came.iter().map(|came| came.sum).collect::<Vec<_>>();
        let mut least = Figure::new(format!("{name}, least sum"), "%", Goal::None);
        if let Some(value) = sum.iter().copied().reduce(f64::min) {
            least.take_all(&side.name, sum, value);
        }
        if let Some(error) = failed {
            least.take(&side.name, Err(error));
        }
        let mut figures = Vec::new();
        for ((at, due), weight) in due(weights).into_iter().enumerate().zip(weights) {
            let who = format!("{name}, {} of weight {weight}", ["1st", "2nd", "3rd"][at.min(2)]);
            let of = |parts: fn(&Came) -> &Vec<f64>, points: fn(&Came) -> f64| -> Vec<Reached> {
                let reached = |came| Some((*parts(came).get(at)?, points(came)));
                came.iter().filter_map(reached).collect()
            };
            let behind = of(|came| &came.behind, |_| POINTS);
            let first = of(|came| &came.first, |came| FIRST_POINTS + came.unit_points);
            figures.extend(judged(
                format!("{who}: furthest part after the 1st s"),
                &side,
                due,
                &behind,
            ));
            figures.extend(judged(
                format!("{who}: furthest part in the 1st s"),
                &side,
                due,
                &first,
            ));
        }
        hall.keep(&lengths_ns, figures.into_iter().chain([least]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_differ_in_what_runs_and_who_begins() {
        let starts: Vec<Start> = (0..8).map(|nth| Start::nth(nth, 3)).collect();
        for (at, start) in starts.iter().enumerate() {
            assert_eq!((start.lengths_ns.len(), start.after.len()), (3, 3));
            assert!(starts.iter().skip(at + 1).all(|other| other != start), "{start:?}");
        }
        assert_eq!(Start::nth(1, 2).after, [40, 0].map(Duration::from_millis));
        assert_eq!(Start::nth(2, 2).unit_points(), 0.5);
    }

    #[test]
    fn of_all_starts_the_furthest_counts() {
        assert_eq!(due(&[2, 1, 1]), [50.0, 25.0, 25.0]);
        assert_eq!(parts(&[24.0, 72.0]).unwrap(), [25.0, 75.0]);
        assert!(parts(&[0.0, 0.0]).is_err());
        // A start of long kernels may be further off.
        assert_eq!(furthest(75.0, &[(78.2, 3.5), (71.9, 3.1), (75.0, 3.0)]), Some((71.9, 3.1)));
        assert_eq!(furthest(75.0, &[]), None);
    }
}
