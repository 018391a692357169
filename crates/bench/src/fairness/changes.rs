//! `divvy bench fairness --family changes`: a weight, a priority or a cap that changes while programs run, and back.
//!
//! Two queues side by side; the limits of the first change as by `divvy set`. Promises: what is judged begins with the
//! end of the command; a part is one of what both have, since turns take some of the device, but a cap is one of the
//! device; no half second behind a change is left out until the next.

use std::time::Duration;

use anyhow::{Context, Result};

use super::hall::{Hall, Job, MS, US};
use crate::busy::{self, Ran, RunLength, Work};
use crate::kernel::text;
use crate::report::{Figure, Goal};
use crate::side::Side;
use divvy_command::wire::LimitChange;

const LENGTHS_NS: [u64; 2] = [100 * US, MS];
/// Between a change and the next, unless the command line says otherwise; and the least that is judged.
const SECONDS: f64 = 1.7;
const LEAST_SECONDS: f64 = 1.2;
/// Stretch behind a change that is judged by its mean.
const JUDGED_NS: (u64, u64) = (100 * MS, 1100 * MS);
/// Points that it may be off by.
const POINTS: f64 = 2.0;
/// In each time of this length, wherever it begins, everybody has this part of its due.
const WINDOW_NS: u64 = 500 * MS;
const STEP_NS: u64 = 10 * MS;
const LEAST_OF_DUE: f64 = 0.5;
/// Gives back what a tenant was started with.
const BACK: &str = "default";

/// The limit that changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ChangedLimit {
    Weight(u32),
    Priority(&'static str),
    Cap(u32),
}

const LIMITS: [ChangedLimit; 4] = [
    ChangedLimit::Weight(3),
    ChangedLimit::Priority("high"),
    ChangedLimit::Priority("low"),
    ChangedLimit::Cap(20),
];
/// A weight of one in the limits, which is that of a tenant that is given none.
const WEIGHT: u32 = 100;

impl ChangedLimit {
    fn words(self) -> String {
        match self {
            Self::Weight(weight) => format!("weight {weight}"),
            Self::Priority(word) => format!("priority {word}"),
            Self::Cap(percent) => format!("a cap of {percent} %"),
        }
    }

    fn there(self) -> LimitChange {
        self.to(match self {
            Self::Weight(weight) => (weight * WEIGHT).to_string(),
            Self::Priority(word) => word.to_owned(),
            Self::Cap(percent) => format!("{percent}%"),
        })
    }

    fn back(self) -> LimitChange {
        self.to(BACK.to_owned())
    }

    fn to(self, word: String) -> LimitChange {
        match self {
            Self::Weight(_) => LimitChange { weight: Some(word), ..LimitChange::default() },
            Self::Priority(_) => LimitChange { priority: Some(word), ..LimitChange::default() },
            Self::Cap(_) => LimitChange { compute: vec![word], ..LimitChange::default() },
        }
    }

    /// Due of the first, in percent, once it has changed.
    fn due(self) -> f64 {
        match self {
            Self::Weight(weight) => f64::from(weight) / f64::from(weight + 1) * 100.0,
            Self::Priority("high") => 100.0,
            Self::Priority(_) => 0.0,
            Self::Cap(percent) => f64::from(percent),
        }
    }
}

fn name(limit: ChangedLimit, kernel_ns: u64) -> String {
    format!("queues of {} and {} for one", text(kernel_ns), limit.words())
}

pub(super) fn jobs(quick: bool) -> Vec<Job> {
    let lengths = if quick { &LENGTHS_NS[1..] } else { &LENGTHS_NS };
    let each = lengths.iter().flat_map(|ns| LIMITS.map(|limit| (limit, *ns)));
    let job = |(limit, ns)| Job::new(name(limit, ns), 1, move |hall| measure(hall, limit, ns));
    each.map(job).collect()
}

/// Stretch that is judged behind one of the changes.
struct Behind {
    what: &'static str,
    /// The change, and the next.
    from_ns: u64,
    until_ns: u64,
    /// Due of the first, in percent.
    due: f64,
    of_both: bool,
}

impl Behind {
    fn figures(&self, name: &str, side: &Side, ran: &Ran) -> Result<[Figure; 2]> {
        let at = |ns: u64| self.from_ns + ns;
        let shares = ran.shares_within(at(JUDGED_NS.0), at(JUDGED_NS.1))?;
        let (first, all) = (shares.first().context("nothing ran")?, shares.iter().sum::<f64>());
        let reached =
            if self.of_both { first / all.max(f64::MIN_POSITIVE) * 100.0 } else { *first };
        let what = if self.of_both { "part of both" } else { "share" };
        let mut share = Figure::new(
            format!("{name}, {}: {what} from 0.1 to 1.1 s", self.what),
            "%",
            Goal::Within(self.due, POINTS),
        );
        share.take(&side.name, Ok(reached));
        let mut least = Figure::new(
            format!("{name}, {}: least of its due in 0.5 s", self.what),
            "",
            Goal::AtLeast(LEAST_OF_DUE),
        );
        least.take(&side.name, self.least_of_due(ran).context("there was no half second"));
        Ok([share, least])
    }

    /// Least part of its due that one had in a half second.
    fn least_of_due(&self, ran: &Ran) -> Option<f64> {
        let due = [self.due, 100.0 - self.due];
        let of_due = ran.tracks.iter().zip(due).filter(|(_, due)| *due > 0.0);
        let windows = of_due.flat_map(|(track, due)| {
            let (from, until) = (self.from_ns, self.until_ns);
            let windows = track.series.windows_each(from, until, WINDOW_NS, STEP_NS);
            windows.into_iter().map(move |window| window / due)
        });
        windows.reduce(f64::min)
    }
}

fn measure(hall: &mut Hall<'_>, limit: ChangedLimit, kernel_ns: u64) -> Result<()> {
    let name = name(limit, kernel_ns);
    let work = Work::new("async", hall.kernel(kernel_ns)?);
    let between = Duration::from_secs_f64(hall.timing.seconds_or(SECONDS).max(LEAST_SECONDS));
    let length = RunLength { warm_up: Duration::from_secs(1), measured: between * 2 };
    for side in hall.ours() {
        hall.step(&name, &side)?;
        let programs = [(hall.terms(), work.clone()), (hall.terms(), work.clone())];
        let tenancies = hall.tenancies(&side, &programs)?;
        let first = tenancies.first().context("there is no tenant")?;
        let parts: Vec<_> = tenancies.iter().map(|tenancy| (tenancy, work.clone())).collect();
        // When each of the two changes was made.
        let mut made = Vec::new();
        let changes = [(Duration::ZERO, limit.there()), (between, limit.back())];
        let ran = busy::run_with(hall.bench, &parts, length, |since| {
            if let Some((at, change)) = changes.get(made.len())
                && since >= *at
            {
                first.change(change)?;
                made.push(divvy_page::now_ns());
            }
            Ok(())
        })?;
        let [there_ns, back_ns] = made[..] else { anyhow::bail!("a change was not made") };
        let of_both = !matches!(limit, ChangedLimit::Cap(_));
        let behind = [
            Behind {
                what: "there",
                from_ns: there_ns,
                until_ns: back_ns,
                due: limit.due(),
                of_both,
            },
            Behind { what: "back", from_ns: back_ns, until_ns: u64::MAX, due: 50.0, of_both: true },
        ];
        for behind in behind {
            let until_ns = behind.until_ns.min(ran.span_ns.1);
            let figures = Behind { until_ns, ..behind }.figures(&name, &side, &ran)?;
            hall.keep(&[kernel_ns], figures);
        }
        let mut sum = Figure::new(format!("{name}, sum"), "%", Goal::None);
        sum.take(&side.name, ran.shares().map(|shares| shares.iter().sum()));
        hall.keep(&[kernel_ns], [sum]);
        hall.draw_from(&name, &side, &ran, there_ns.saturating_sub(WINDOW_NS));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_goes_there_and_back_by_the_words_of_set() {
        let there = LIMITS.map(|limit| (limit.there(), limit.due()));
        assert_eq!((there[0].0.weight.as_deref(), there[0].1), (Some("300"), 75.0));
        assert_eq!((there[1].0.priority.as_deref(), there[1].1), (Some("high"), 100.0));
        assert_eq!((there[2].0.priority.as_deref(), there[2].1), (Some("low"), 0.0));
        assert_eq!((&there[3].0.compute[..], there[3].1), (&["20%".to_owned()][..], 20.0));
        assert_eq!(ChangedLimit::Cap(20).back().compute, ["default"]);
        assert_eq!(jobs(false).len(), 8);
    }
}
