//! Why a text says no share, weight, priority or class.
//!
//! Promises: what is shown names the text as it was given, and what to write instead. Does not read any.

use core::fmt;

/// Why a text is not a share, a weight, a priority or a class. `Display` names the text and the fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareError<'a> {
    /// The text as it was given.
    pub text: &'a str,
    /// The fault in it.
    pub reason: ShareReason,
}

/// A fault in a text of the compute share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareReason {
    /// A share: nothing was written, or it does not begin with a digit.
    NotAShare,
    /// A share: a number without `%`.
    NoPercent,
    /// A share: a number of several digits begins with 0.
    LeadingZero,
    /// A share: a point without digits after it, or finer than a millionth of the device's time.
    BadFraction,
    /// A share of nothing.
    Zero,
    /// Not a whole percentage.
    NotWhole,
    /// Not a weight.
    BadWeight,
    /// Not a priority.
    BadPriority,
    /// Not a priority in HAMi-core's numbers.
    BadTaskPriority,
    /// Not a class.
    BadClass,
    /// Not one of HAMi-core's policies.
    BadPolicy,
}

impl fmt::Display for ShareError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ShareReason as Why;
        let is_share = matches!(
            self.reason,
            Why::NotAShare | Why::NoPercent | Why::LeadingZero | Why::BadFraction | Why::Zero
        );
        let what = if is_share { "a share of time: " } else { "" };
        write!(f, "\"{}\" is not {what}", self.text)?;
        f.write_str(match self.reason {
            ShareReason::NotAShare => "write for example 30%, or 0 for no cap",
            ShareReason::NoPercent => "it must end in %; write for example 30%, or 0 for no cap",
            ShareReason::LeadingZero => "drop the leading zero",
            ShareReason::BadFraction => "write 1 to 4 digits after the point, as in 12.5%",
            ShareReason::Zero => {
                "it must be above 0%; write 0 for no cap, and use `divvy set TENANT --pause` to \
                 stop a tenant"
            }
            ShareReason::NotWhole => "a whole percentage: write digits such as 30, or 0 for no cap",
            ShareReason::BadWeight => "a weight: write a whole number from 1 to 10000",
            ShareReason::BadPriority => "a priority: write high, normal or low",
            ShareReason::BadTaskPriority => "a task priority: write 0 (high) or 1 (low)",
            ShareReason::BadClass => "a class: write latency or normal",
            ShareReason::BadPolicy => "a utilization policy: write default, force or disable",
        })
    }
}

impl core::error::Error for ShareError<'_> {}
