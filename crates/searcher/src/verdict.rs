//! The verdict on a drawn case.
//!
//! Does not judge: that is [`crate::judge`].

/// How a seed's run was.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Of which seed.
    pub seed: u64,
    /// Points by which the farthest tenant is off what it is due, in parts of its tolerance; without end where
    /// something broke.
    pub off: f64,
    /// Points above what it is due; below it is less than 0. Of the farthest tenant.
    pub points: f64,
    /// All launches that are judged come on one stream.
    pub is_one_stream: bool,
    /// The due and the result, for readers.
    pub text: String,
}

impl Verdict {
    /// Whether it is within its tolerance.
    pub fn holds(&self) -> bool {
        self.off <= 1.0
    }
}
