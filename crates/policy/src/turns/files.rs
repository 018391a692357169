//! A tenant's two files, as its daemon reads and writes them: the words of its processes, and its gates.
//!
//! In production they are files; over memory, with a clock that is made up, the same code runs in a test
//! or in a search of schedules. Says nothing of who may write them, nor of how they are found.

use divvy_abi::config::{Config, GateLine};

use super::entry::{CapEntry, GateEntry};

/// A tenant's files. Words of its processes are claims; no call here waits for a tenant.
pub trait Files {
    /// Why something could not be read or written. The tenant is nobody's to divide then.
    type Error;

    /// The slots that are somebody's, in their order, as they were last looked at, and whether their
    /// processes live.
    fn processes(&self) -> impl Iterator<Item = (usize, bool)> + Clone;

    /// Calls `each` with the lines of slot 0 and of `slots`, which are in order, on device `row`; the cap's
    /// clock. `None`, and no call, where no process has joined.
    fn gates(
        &self,
        row: usize,
        slots: impl Iterator<Item = usize>,
        each: impl FnMut(usize, GateEntry),
    ) -> Option<CapEntry>;

    /// Whether one of `slots`, which are in order, holds memory of device `row`.
    fn holds_any(&self, row: usize, slots: impl Iterator<Item = usize>) -> bool;

    /// The limits and gates as they stand.
    ///
    /// # Errors
    /// [`Self::Error`].
    fn read(&self) -> Result<Config, Self::Error>;

    /// Writes the gate line of device `row`, its state last, and wakes those who wait when it opens.
    ///
    /// # Errors
    /// [`Self::Error`].
    fn set_gate(&mut self, row: usize, line: &GateLine) -> Result<(), Self::Error>;

    /// Writes the gate line of device `row` but for its state, which stands there already.
    ///
    /// # Errors
    /// [`Self::Error`].
    fn describe_gate(&mut self, row: usize, line: &GateLine) -> Result<(), Self::Error>;

    /// Writes the lease of device `row` alone.
    ///
    /// # Errors
    /// [`Self::Error`].
    fn renew(&mut self, row: usize, lease_ns: u64) -> Result<(), Self::Error>;

    /// Wakes all who wait at the gate of device `row`.
    fn wake(&mut self, row: usize);

    /// Makes launches look at their gates.
    ///
    /// # Errors
    /// [`Self::Error`].
    fn raise_any_gate(&mut self) -> Result<(), Self::Error>;

    /// Lets launches pass without a look at their gates, unless limits or gates that stand need one; the
    /// limits as they are then, which may be others than those that were read. `None` while somebody
    /// changes limits, and nothing is changed.
    ///
    /// # Errors
    /// [`Self::Error`].
    fn lower_any_gate(&mut self) -> Result<Option<Config>, Self::Error>;
}
