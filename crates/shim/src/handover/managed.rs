//! Managed memory for a block that is being made: the owner's leave to have it, before the driver is asked.
//!
//! Managed memory of all tenants together is bounded ([`divvy_policy::residence::divide_managed`]): beyond what the card has,
//! the driver moves pages at every fault, for everybody on it.
//!
//! Promises: one thread of a process asks at a time; without an owner for [`PATIENCE_NS`] there is none to be had, which is said
//! with its reason. Does not decide who gets any.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use divvy_page::Tenant;
use divvy_policy::charge::whole_granules;

use crate::residence::addresses::NewBlock;
use crate::residence::state;
use crate::sys::{clock, wait, wake};
use crate::tenant::device::{self, Device};
use crate::tenant::reason::{Reason, Size, tell};

/// How long an owner is waited for: one that is started for a tenant, or in the place of another.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Between two looks whether there is an owner, or whether another thread still asks.
const LOOK_NS: u64 = 50_000_000;

/// A call that may ask for managed memory.
pub(super) struct Reserving {
    tenant: &'static Tenant,
    device: &'static Device,
    asks: bool,
}

/// Answer of the owner.
enum Leave {
    Given,
    Refused,
    /// There is no owner.
    Nobody,
}

impl Reserving {
    pub(super) fn new(tenant: &'static Tenant, device: &'static Device) -> Self {
        Self { tenant, device, asks: false }
    }

    /// Waits for leave to have `bytes` more for the block `new`, of which a slab is made smaller where that helps; false if it
    /// is not to be had.
    pub(super) fn wait(&mut self, bytes: u64, new: &mut NewBlock) -> bool {
        let Some(asker) = state::get().map(|state| &state.asker) else { return false };
        self.begin(asker);
        let refused = match self.ask(bytes) {
            Leave::Given => return true,
            Leave::Nobody => {
                "no daemon answers, and managed memory wants one; start `divvy daemon`"
            }
            Leave::Refused => {
                let least_bytes = whole_granules(new.bytes);
                if bytes > least_bytes && new.most_slab_bytes > least_bytes {
                    new.most_slab_bytes = (bytes / 2).max(least_bytes);
                    return true;
                }
                "the --managed-limit of the daemon does not leave so much"
            }
        };
        let device = self.device.number();
        tell(
            Reason::NoManaged,
            format_args!("device {device}: {} of managed memory refused: {refused}", Size(bytes)),
        );
        false
    }

    /// Becomes the one that asks.
    fn begin(&mut self, asker: &AtomicU32) {
        while !self.asks {
            self.asks = asker.compare_exchange(0, 1, SeqCst, SeqCst).is_ok();
            if !self.asks {
                wait(asker, 1, LOOK_NS);
            }
        }
    }

    fn ask(&self, bytes: u64) -> Leave {
        let Some(words) = self.device.residence() else { return Leave::Refused };
        words.ask_managed(bytes);
        let mut nobody_from_ns = 0;
        loop {
            // Read before what is looked at: a change in between is not slept through.
            let number = self.tenant.orders();
            let ordinal = self.device.ordinal;
            let had_bytes = state::get().map_or(0, |state| state.chunks.managed_bytes(ordinal));
            let wanted_bytes = had_bytes.saturating_add(bytes);
            let now_ns = clock::now_ns();
            match device::memory_order(ordinal) {
                Some(order) if wanted_bytes <= order.managed_bytes() => return Leave::Given,
                Some(order) if order.refuses_managed(wanted_bytes) => return Leave::Refused,
                Some(_) => nobody_from_ns = 0,
                None if nobody_from_ns == 0 => nobody_from_ns = now_ns,
                None if now_ns.saturating_sub(nobody_from_ns) >= PATIENCE_NS => {
                    return Leave::Nobody;
                }
                None => {}
            }
            self.tenant.wait_orders(number, now_ns.saturating_add(LOOK_NS));
        }
    }
}

impl Drop for Reserving {
    fn drop(&mut self) {
        if !self.asks {
            return;
        }
        if let Some(words) = self.device.residence() {
            words.ask_managed(0);
        }
        if let Some(state) = state::get() {
            state.asker.store(0, SeqCst);
            wake(&state.asker);
        }
    }
}
