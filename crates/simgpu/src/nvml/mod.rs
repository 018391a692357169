//! `libnvidia-ml.so.1` of the simulated machine.
//!
//! What NVML tells of devices, memory, processes and utilisation comes from the daemon; the rest are
//! the card's constants. `surface` says which calls answer; every other one returns
//! NVML_ERROR_NOT_SUPPORTED and is recorded, so a test that reaches it fails. Calls the hardware itself
//! answers that way are listed there too, and are not recorded.
//!
//! Pointers follow NVML's contract (null is an invalid argument); nothing here changes the machine, and
//! no setter is simulated.

mod card;
mod device;
mod processes;
mod surface;
mod system;

pub use surface::Surface;

use crate::client::{Client, ClientError};
use crate::fault;
use crate::machine::description::Device;
use divvy_driver_api::nvml_types::*;
use divvy_driver_api::types::CUresult;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a call inside this module answers.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

/// A code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) u32);

impl Failure {
    pub(crate) const UNINITIALIZED: Self = Self(1);
    pub(crate) const INVALID_ARGUMENT: Self = Self(2);
    pub(crate) const NOT_SUPPORTED: Self = Self(3);
    pub(crate) const NOT_FOUND: Self = Self(6);
    pub(crate) const INSUFFICIENT_SIZE: Self = Self(7);
    pub(crate) const DRIVER_NOT_LOADED: Self = Self(9);
    pub(crate) const GPU_IS_LOST: Self = Self(15);
    pub(crate) const VERSION_MISMATCH: Self = Self(25);
    pub(crate) const UNKNOWN: Self = Self(999);
}

impl From<CUresult> for Failure {
    /// The only thing the pointer wrappers complain of is a null pointer.
    fn from(_: CUresult) -> Self {
        Self::INVALID_ARGUMENT
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Gone | ClientError::Forked => Self::GPU_IS_LOST,
            ClientError::Unknown | ClientError::Invalid => Self::INVALID_ARGUMENT,
            ClientError::Setting(_) | ClientError::Start(_) => Self::DRIVER_NOT_LOADED,
            _ => Self::UNKNOWN,
        }
    }
}

/// What an exported function returns, and how it says that it did nothing.
pub trait Returned {
    /// This code.
    fn from_code(code: u32) -> Self;
}

impl Returned for nvmlReturn_t {
    fn from_code(code: u32) -> Self {
        Self(code)
    }
}

impl Returned for *const c_char {
    fn from_code(_: u32) -> Self {
        std::ptr::null()
    }
}

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
pub static LIBRARY: Library =
    Library { session: Mutex::new(Session { initialised: 0, client: None }) };

/// Runs `body` as the entry point `entry`, with whatever fault is due.
pub fn call<R: Returned>(entry: &str, body: impl FnOnce(&Library) -> R) -> R {
    fault::guard(entry, R::from_code, || body(&LIBRARY))
}

impl Library {
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
            body(&Handle { client, index, device })
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
mod tests;
