//! Which limits a process that joins goes by.
//!
//! A tenant with an owner: what the owner wrote. One without: the first process writes what its
//! environment says, under the admission lock, and whoever joins while it or any other lives uses
//! that, but for those who want a tenant of their own. So limits are read anew when a tenant starts anew, and nothing is frozen in a stale file.

use divvy_abi::config::Config;
use divvy_abi::usage::state;

use crate::admission::AdmissionGuard;
use crate::error::AttachError;
use crate::source::ConfigSource;
use crate::sys::{self, Fd};
use crate::trust::Trust;
use crate::usage::Usage;
use crate::{file, liveness, renew};

/// Reads the config, or writes it where this is the first process of a tenant without an owner.
pub(crate) fn config(
    trust: &Trust,
    source: &ConfigSource<'_>,
    fd: &Fd,
    usage: &Usage,
    me: usize,
) -> Result<Config, AttachError> {
    let own = source.own();
    let wants_alone = matches!(source, ConfigSource::OnlyProcess(_));
    match file::read_config(trust) {
        // No process of another version lives in a ledger of ours: its limits are carried over, below.
        Err(AttachError::Version { .. }) => {}
        // Another first process may be writing it: under the lock it is whole.
        Err(_) if own.is_some() => {}
        Err(error) => return Err(error),
        Ok(None) if own.is_none() => return Err(AttachError::NoConfig),
        // Others are looked for under the lock where it is to be had alone: the first of them comes with it.
        Ok(Some(config))
            if own.is_none() || !wants_alone && liveness::others_live(fd, usage, me) =>
        {
            return Ok(config);
        }
        Ok(_) => {}
    }
    // A description of its own: closing it must not end the slot's lock.
    let lock_fd = {
        let stat = sys::stat(fd).map_err(AttachError::System)?;
        file::reopen_usage_in(trust.directory(), stat.device, stat.inode)?
    };
    let _held = AdmissionGuard::on(&lock_fd)?;
    renew::limits(trust, source)?;
    // Read in any case: what is no config of ours is somebody's, and is not written over.
    let before = file::read_config(trust)?;
    let Some(own) = own else { return before.ok_or(AttachError::NoConfig) };
    let others_live = liveness::others_live(fd, usage, me);
    if wants_alone && others_live {
        return Err(AttachError::Taken);
    }
    if let Some(config) = before.filter(|_| others_live) {
        return Ok(config);
    }
    file::write_config(trust, own)?;
    // From here on others may use what was written, so this process counts as the one that did.
    usage.set_slot_state(me, state::LIVE);
    Ok(own.clone())
}
