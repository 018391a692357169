//! A tenant without processes, held so that none joins while its files are removed.
//!
//! Promises: while a [`Vacancy`] is held no process gets a slot of the usage file, and one that had it open by then finds
//! that it has no name any more once it has a slot ([`crate::slot`]), and begins again. So what is removed in this time
//! was no process's. Does not remove anything.

use divvy_abi::{layout, usage};

use crate::admission::AdmissionGuard;
use crate::directory::Directory;
use crate::error::TenantFile;
use crate::file;
use crate::sys::{self, Fd, Lock};

/// All liveness locks of a tenant, until it is dropped.
#[derive(Debug)]
pub struct Vacancy {
    _usage: Fd,
}

impl Directory {
    /// Holds the tenant, of whatever version its files are; `None` where a process of it lives, or is just joining.
    pub fn hold_vacant(&self) -> Option<Vacancy> {
        let fd = self.open_judged(TenantFile::Usage, libc::O_RDWR).ok().flatten()?;
        let stat = sys::stat(&fd).ok()?;
        let held = AdmissionGuard::at_once(&fd)?;
        let slots = sys::set_locks(&fd, usage::SLOT_LOCKS_AT, layout::SLOT_LOCKS, Lock::Write);
        let is_vacant = slots.is_ok_and(|got| got)
            && file::reopen_usage_in(self, stat.device, stat.inode).is_ok();
        drop(held);
        is_vacant.then_some(Vacancy { _usage: fd })
    }
}
