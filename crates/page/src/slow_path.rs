//! The slow path of a request at the limit: it reaps the dead, puts shared entries in order, and waits for
//! other askers.
//!
//! Promises: the wait ends at an absolute deadline, fresh for each request.
//!
//! Does not decide: that is `divvy_policy`'s ledger.

use divvy_abi::usage::SHARED_SLOT;
use divvy_policy::ledger::{Admission, Slots as _, held_bytes};

use crate::fork_page::ForkPage;
use crate::sys::{self, Fd};
use crate::usage::Usage;
use crate::{shared_table, slot};

/// Longest wait for others that ask at the limit, in nanoseconds: they may ask for ever.
const ASKERS_NS: u64 = 100_000_000;

/// Services for the ledger's slow path.
#[derive(Debug)]
pub(crate) struct SlowPath<'a> {
    /// A description for reaping, whose admission lock is held.
    fd: Option<&'a Fd>,
    usage: Usage,
    fork: &'a ForkPage,
    me: usize,
    row: usize,
    deadline_ns: u64,
}

impl<'a> SlowPath<'a> {
    pub(crate) fn new(
        fd: Option<&'a Fd>,
        usage: Usage,
        fork: &'a ForkPage,
        me: usize,
        row: usize,
    ) -> Self {
        let deadline_ns = sys::now_ns().saturating_add(ASKERS_NS);
        Self { fd, usage, fork, me, row, deadline_ns }
    }
}

impl Admission for SlowPath<'_> {
    fn reap(&mut self) {
        if let Some(fd) = self.fd {
            slot::reap(fd, &self.usage, self.me, self.row);
            if held_bytes(self.usage.line(self.row).held_word(SHARED_SLOT)) != 0 {
                shared_table::settle(&self.usage, self.fork, self.me);
            }
        }
    }
    fn pause(&mut self) -> bool {
        sys::sleep_ns(20_000);
        sys::now_ns() < self.deadline_ns
    }
}
