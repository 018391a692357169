//! The library's state in this process: who initialised it, its connection, and the handles of devices.
//!
//! Promises: the connection is there while somebody has the library initialised; a forked child makes
//! its own; a handle leads nowhere but to its device.

use super::failure::{Answer, Failure, Returned};
use crate::client::Client;
use crate::fault;
use crate::machine::description::Device;
use divvy_driver_api::nvml_types::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The library's state in this process.
#[derive(Debug)]
pub struct Library {
    session: Mutex<Session>,
}

#[derive(Debug)]
struct Session {
    initialised: u64,
    client: Option<Client>,
}

/// The one library of this process.
pub static LIBRARY: Library = Library::new();

/// Runs `body` as the entry point `entry`, with whatever fault is due.
pub fn call<R: Returned>(entry: &str, body: impl FnOnce(&Library) -> R) -> R {
    fault::guard(entry, R::from_code, || body(&LIBRARY))
}

impl Library {
    /// A library that is not initialised.
    pub(super) const fn new() -> Self {
        Self { session: Mutex::new(Session { initialised: 0, client: None }) }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more user of the library; the first connects.
    pub(crate) fn initialise(&self) -> Answer {
        let mut session = self.session();
        session.connect()?;
        session.initialised += 1;
        Ok(())
    }

    /// One user less; the last disconnects.
    pub(crate) fn shut_down(&self) -> Answer {
        let mut session = self.session();
        session.initialised = session.initialised.checked_sub(1).ok_or(Failure::UNINITIALIZED)?;
        if session.initialised == 0 {
            session.client = None;
        }
        Ok(())
    }

    /// Runs `body` with the connection, if the library is initialised.
    pub(crate) fn with<T>(&self, body: impl FnOnce(&Client) -> Answer<T>) -> Answer<T> {
        let mut session = self.session();
        if session.initialised == 0 {
            return Err(Failure::UNINITIALIZED);
        }
        body(session.connect()?)
    }

    /// Runs `body` for the device behind a handle.
    pub(crate) fn device<T>(
        &self,
        handle: nvmlDevice_t,
        body: impl FnOnce(&Handle<'_>) -> Answer<T>,
    ) -> Answer<T> {
        self.with(|client| {
            let index = index_of(handle).ok_or(Failure::INVALID_ARGUMENT)?;
            let device = client.devices().get(index as usize).ok_or(Failure::INVALID_ARGUMENT)?;
            body(&Handle { client, index, card: device.card(index), device })
        })
    }
}

impl Session {
    /// The connection; a forked child makes its own, as NVML does.
    fn connect(&mut self) -> Answer<&Client> {
        if self.client.as_ref().is_some_and(Client::forked) {
            self.client = None;
        }
        if self.client.is_none() {
            let client = Client::connect().inspect_err(|problem| eprintln!("simgpu: {problem}"))?;
            self.client = Some(client);
        }
        self.client.as_ref().ok_or(Failure::UNKNOWN)
    }
}

/// A device a call is about.
pub(crate) struct Handle<'a> {
    pub(crate) client: &'a Client,
    pub(crate) index: u32,
    /// The index of its card, which is its own unless it is an instance.
    pub(crate) card: u32,
    pub(crate) device: &'a Device,
}

/// Handles are addresses that lead nowhere: this one and the next ones by index.
const FIRST_HANDLE: usize = 0x7e11_0000_0000;
const HANDLE_STEP: usize = 0x100;

/// The handle of a device.
pub(crate) fn handle_of(index: u32) -> nvmlDevice_t {
    std::ptr::without_provenance_mut(FIRST_HANDLE + index as usize * HANDLE_STEP)
}

/// The device of a handle.
pub(crate) fn index_of(handle: nvmlDevice_t) -> Option<u32> {
    let offset = handle.addr().checked_sub(FIRST_HANDLE)?;
    let index = offset / HANDLE_STEP;
    (offset % HANDLE_STEP == 0).then_some(index).and_then(|index| u32::try_from(index).ok())
}

#[cfg(test)]
impl Library {
    /// An initialised library with this connection.
    pub(super) fn with_client(client: Client) -> Self {
        Self { session: Mutex::new(Session { initialised: 1, client: Some(client) }) }
    }
}
