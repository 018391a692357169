//! Ways in which memory moves: their times and rates, beside the link's.

use crate::matrices::WrongValue;
use crate::report::{Figure, Goal};
use crate::room::Room;
use crate::running::Bench;
use crate::side::Side;

pub(super) const GIB: u64 = 1 << 30;
pub(super) const MIB: u64 = 1 << 20;
/// Beside a size, on a card that two do not fit.
pub(super) const SPARE_BYTES: u64 = 32 * MIB;
const PLOT: &str = "link";

/// Rates of the link, in bytes for each nanosecond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) inward: f64,
    pub(super) outward: f64,
    /// Of both ways together.
    pub(super) both: f64,
}

impl Link {
    /// Part of the time in which it would have moved these bytes, in percent.
    pub(super) fn percent(&self, out_bytes: u64, in_bytes: u64, ns: f64) -> f64 {
        let (out, back) = (out_bytes as f64, in_bytes as f64);
        let one_way = (out / self.outward).max(back / self.inward);
        one_way.max((out + back) / self.both) / ns * 100.0
    }
}

/// A way in which memory moves: its time, its rate, and what that is beside the link.
pub(super) struct Way {
    pub(super) time: Figure,
    worst: Figure,
    rate: Figure,
    of_link: Figure,
}

impl Way {
    pub(super) fn new(name: &str) -> Self {
        Self {
            time: Figure::new(name, "ms", Goal::None),
            worst: Figure::new(format!("{name}: worst"), "ms", Goal::None),
            rate: Figure::new(format!("{name}: rate"), "GB/s", Goal::None),
            of_link: Figure::new(format!("{name}: of the link"), "%", Goal::None),
        }
    }

    /// The same whose median should be at most so much.
    pub(super) fn within(mut self, goal: Goal) -> Self {
        self.time.goal = goal;
        self
    }

    pub(super) fn take(&mut self, side: &str, link: &Link, [out, back]: [u64; 2], ns: f64) {
        self.time.take(side, Ok(ns / 1e6));
        self.rate.take(side, Ok((out + back) as f64 / ns));
        self.of_link.take(side, Ok(link.percent(out, back, ns)));
    }

    pub(super) fn keep(mut self, bench: &mut Bench, side: &str) {
        let parts = self.of_link.samples.get(side).cloned().unwrap_or_default();
        if !parts.is_empty() {
            bench.row(PLOT, &self.time.name, &parts, None);
        }
        let times = self.time.samples.get(side).into_iter().flatten().copied();
        if let Some(worst) = times.reduce(f64::max) {
            self.worst.take(side, Ok(worst));
        }
        let Self { time, worst, rate, of_link } = self;
        bench.keep_told([time, worst, rate, of_link]);
    }
}

/// Of a card on which one of two tenants fits.
pub(super) fn capacity(room: &Room, bytes: u64) -> u64 {
    room.capacity_for(bytes, 2) + SPARE_BYTES
}

/// Stores why a figure has no value, or no more of them.
pub(super) fn fails(bench: &mut Bench, figure: &mut Figure, side: &Side, error: anyhow::Error) {
    if error.downcast_ref::<WrongValue>().is_some() {
        bench.wrong.push(format!("{}: {error}", figure.name));
    }
    figure.take(&side.name, Err(error));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_judged_by_the_slowest_way() {
        let link = Link { inward: 50.0, outward: 40.0, both: 80.0 };
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-6, "{value}");
        close(link.percent(400, 0, 10.0), 100.0);
        close(link.percent(0, 400, 16.0), 50.0);
        close(link.percent(400, 400, 20.0), 50.0);
        close(link.percent(400, 40, 10.0), 100.0);
    }
}
