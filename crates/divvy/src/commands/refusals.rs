//! Refusals of a tenant's processes, written down by the `divvy run` that made it, before it is removed.
//!
//! Where a daemon serves the tenant, it is asked to write them, and has written most by then. Without a daemon this command
//! does.

use std::path::Path;

use divvy_page::reader::{UsageFile, read_config};

use crate::daemon::client;
use crate::log;
use crate::log::change::Subject;
use crate::log::refused::{self, RefusalWatch};
use crate::tenants::dir::Dir;

/// Writes down the refusals of the tenant in `directory`; the daemon that serves it and this command write each once.
pub(crate) fn record(directory: &Path) {
    let Ok(dir) = Dir::open(directory) else { return };
    let Ok(files) = dir.tenant() else { return };
    let Ok(Some(usage)) = UsageFile::within(&files) else { return };
    let said = refused::said(&usage);
    if said.is_empty() || client::refusals(directory) {
        return;
    }
    let config = read_config(&files).ok().flatten();
    let subject = Subject::of(directory, config.as_ref(), dir.uid());
    let found = RefusalWatch::since(0).look(0, &said, true);
    let lines: Vec<_> =
        found.iter().map(|one| refused::line(&subject, Some(&usage), one)).collect();
    log::record(&lines);
}
