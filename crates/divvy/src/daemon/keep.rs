//! Keeping a daemon for as long as a program of `divvy run` runs.
//!
//! A daemon that was killed is missed by nobody but the tenants that compete: their gates open, and
//! they share as the driver has it. So each `divvy run` looks twice a second whether its home is
//! served, by one lock that it does not get, and starts a daemon again when it is not. Of many that
//! notice at once, one starts it ([`start::ensure`]).
//!
//! Promises: the thread takes no signal, says nothing on the program's terminal, and nobody waits for
//! it. Where the machine's daemon serves, none is started; that one has [`RESTART`] to come back.

use std::path::Path;
use std::time::Duration;

use super::place::DaemonHome;
use super::start;
use crate::pause::pause;
use crate::signals;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// Time from an attempt that failed to the next.
const RETRY: Duration = Duration::from_secs(5);
/// Time between two looks at the machine's daemon, and what it has to start again in.
const RESTART: Duration = Duration::from_secs(5);

/// Starts the thread for the tenant in `directory`, which `divvy run` made. It ends with the process,
/// or when the tenant is gone.
pub(crate) fn start(directory: &Path) {
    let Some(home) = DaemonHome::of_tenant(directory) else { return };
    let directory = directory.to_owned();
    // Without a thread everything is as it would be without this module.
    let _ = signals::quiet_thread("divvy keeper", move || keep(&home, &directory));
}

fn keep(home: &DaemonHome, directory: &Path) {
    let mut was_machines = false;
    let mut wait = PERIOD;
    loop {
        pause(wait);
        if !directory.exists() {
            return;
        }
        (wait, was_machines) = if home.is_served() {
            (PERIOD, false)
        } else if home.is_machines() {
            (RESTART, true)
        } else if was_machines {
            (RESTART, false)
        } else {
            match start::ensure(home) {
                Ok(()) => (PERIOD, false),
                Err(_) => (RETRY, false),
            }
        };
    }
}
