//! The files of tenants by id that are removed, taken when nobody lives in them any more.
//!
//! A thread of the daemon, which sleeps while there is nothing to take. Promises: nobody who asks waits for it; what a
//! daemon that was killed has left is taken by the next one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;

use super::place::DaemonHome;
use super::thread::thread;
use crate::pause::pause;
use crate::tenants::by_id::TenantsById;

/// Time between two looks at tenants that are removed and in which somebody lives.
const PERIOD: Duration = Duration::from_secs(2);

/// State that the requests for tenants by id and the sweeper share.
#[derive(Debug, Default)]
pub(super) struct TenantDesk {
    /// Held while a tenant is made or removed.
    pub(super) changing: Mutex<()>,
    /// True while there may be something to take.
    to_take: Mutex<bool>,
    told: Condvar,
}

impl TenantDesk {
    /// Has the sweeper look.
    pub(super) fn tell(&self) {
        *self.to_take.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_one();
    }

    fn wait(&self) {
        let mut to_take = self.to_take.lock().unwrap_or_else(PoisonError::into_inner);
        while !*to_take {
            to_take = self.told.wait(to_take).unwrap_or_else(PoisonError::into_inner);
        }
        *to_take = false;
    }
}

/// Takes what a daemon that was killed was making, and starts the thread, which ends with the process. For a daemon that
/// answers nobody yet.
pub(super) fn start(home: &DaemonHome, desk: &Arc<TenantDesk>) -> Result<()> {
    if let Ok(Some(tenants)) = TenantsById::open(home.directory()) {
        tenants.sweep_unfinished();
        desk.tell();
    }
    let (home, desk) = (home.clone(), Arc::clone(desk));
    thread("divvy sweeper", move || sweep(&home, &desk))
}

fn sweep(home: &DaemonHome, desk: &TenantDesk) {
    loop {
        desk.wait();
        while let Ok(Some(tenants)) = TenantsById::open(home.directory())
            && tenants.sweep()
        {
            pause(PERIOD);
        }
    }
}
