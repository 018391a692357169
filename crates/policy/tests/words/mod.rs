//! The cap's shared words as plain cells, for tests of one thread.

use std::cell::Cell;

use divvy_policy::pace::Clock;

/// The words.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) paid_at: Cell<u64>,
    pub(crate) share: Cell<u64>,
    pub(crate) closed: Cell<u64>,
    pub(crate) saves: Cell<u64>,
}

fn replace(cell: &Cell<u64>, old: u64, new: u64) -> Result<(), u64> {
    if cell.get() != old {
        return Err(cell.get());
    }
    cell.set(new);
    Ok(())
}

impl Clock for Words {
    fn paid_at_ns(&self) -> u64 {
        self.paid_at.get()
    }
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64> {
        replace(&self.paid_at, old, new)
    }
    fn share_ppm(&self) -> u64 {
        self.share.get()
    }
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64> {
        replace(&self.share, old, new)
    }
    fn closed_until_ns(&self) -> u64 {
        self.closed.get()
    }
    fn set_closed_until_ns(&self, until_ns: u64) {
        self.closed.set(until_ns);
    }
    fn saves(&self) -> u64 {
        self.saves.get()
    }
    fn set_saves(&self, word: u64) {
        self.saves.set(word);
    }
}
