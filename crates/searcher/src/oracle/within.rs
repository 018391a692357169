//! A tolerance, and what all of them are made of.
//!
//! Promises: it is made by the formulas of [`super`] alone.

/// How far a figure may lie below what it should be, and how far above, in its own unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Within {
    pub(super) below: f64,
    pub(super) above: f64,
}

impl Within {
    pub(crate) const fn either(points: f64) -> Self {
        Self { below: points, above: points }
    }

    /// The same, and as much more as may come.
    #[must_use]
    pub const fn or_more(self) -> Self {
        Self { above: f64::INFINITY, ..self }
    }

    /// So many parts of it.
    #[must_use]
    pub fn of(self, due: impl Into<f64>) -> Self {
        let due = due.into();
        let above = if self.above.is_finite() { self.above * due } else { self.above };
        Self { below: self.below * due, above }
    }

    /// Whether what was reached is as near as that.
    pub fn holds(self, due: f64, reached: f64) -> bool {
        due - reached <= self.below && reached - due <= self.above
    }
}

/// Points by which a share may be off for threads, for the processes of a tenant together, for ranks of a job under a cap and for weights: 1.
pub(super) const TOGETHER: f64 = 1.0;

/// Percent.
pub(super) fn part(ns: u64, of_ns: u64) -> f64 {
    100.0 * ns as f64 / of_ns.max(1) as f64
}
