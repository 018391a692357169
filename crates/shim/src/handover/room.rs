//! Room on the card for a block that is being made, where the owner says how much of the tenant's memory is there.
//!
//! Promises: a call waits outside the door, so that memory may move meanwhile; it ends with a refusal where the owner
//! says so of what it asks for now, and where the driver has no room for longer than [`PATIENCE_NS`] though the owner allows it: then something
//! else than tenants has filled the card. Does not decide who gets room.

use divvy_driver_api::types::CUdevice;
use divvy_page::{HostRefusal, Tenant};

use crate::residence::chunks::Denied;
use crate::residence::state;
use crate::sys::clock;
use crate::tenant::device;

/// How long a driver without room is asked again: what others release takes a while to be there, and an owner that has
/// just begun a while to have it released.
const PATIENCE_NS: u64 = 300_000_000;
/// Between two attempts.
const RETRY_NS: u64 = 5_000_000;

/// A call that makes a block, and may wait for room.
pub(super) struct Asking {
    tenant: &'static Tenant,
    device: CUdevice,
    bytes: u64,
    /// Bytes that it asks the owner for now.
    pub(super) asked_bytes: u64,
    /// Since when the driver has refused though nobody else did; 0 for not.
    refused_ns: u64,
    /// Room that the host did not have, where the owner refused for that.
    pub(super) host: Option<HostRefusal>,
}

impl Asking {
    pub(super) fn new(tenant: &'static Tenant, device: CUdevice, bytes: u64) -> Self {
        Self { tenant, device, bytes, asked_bytes: 0, refused_ns: 0, host: None }
    }

    /// Waits until there may be room, after `denied`; false if there will be none.
    pub(super) fn wait(&mut self, denied: Denied) -> bool {
        if denied != Denied::Ceiling {
            return self.wait_for_driver();
        }
        self.refused_ns = 0;
        self.ask(self.bytes);
        // An answer is one that was given to this: a refusal that is older may still stand.
        let asked_ns = clock::now_ns();
        loop {
            // Read before what is looked at: a change in between is not slept through.
            let number = self.tenant.orders();
            let Some(order) = device::memory_order(self.device) else { return true };
            let resident_bytes = state::get().map_or(0, |s| s.chunks.resident_bytes(self.device));
            if resident_bytes.saturating_add(self.bytes) <= order.allowed_bytes {
                return true;
            }
            if order.refuses(asked_ns) {
                self.host = order.host_refusal();
                return false;
            }
            // A lease may end meanwhile.
            let until_ns = clock::now_ns().saturating_add(PATIENCE_NS);
            self.tenant.wait_orders(number, until_ns);
        }
    }

    /// Asks the owner for `bytes`, instead of what was asked for before.
    fn ask(&mut self, bytes: u64) {
        if let Some(words) = device::residence(self.device) {
            words.ask(bytes.wrapping_sub(self.asked_bytes));
            self.asked_bytes = bytes;
        }
    }

    fn wait_for_driver(&mut self) -> bool {
        let now_ns = clock::now_ns();
        if self.refused_ns == 0 {
            self.refused_ns = now_ns;
        }
        if now_ns.saturating_sub(self.refused_ns) >= PATIENCE_NS {
            return false;
        }
        clock::sleep_until(now_ns.saturating_add(RETRY_NS));
        true
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.ask(0);
    }
}
