//! Where a process's memory is to be: by the owner's orders, and by his wish that all of it leave.
//!
//! Promises: levels, read anew each time; without an owner whose lease lasts everything may be on the card. A wish has a
//! number and is fulfilled once: what a call has brought back since stays until the next wish. Does not move anything.

use divvy_driver_api::types::CUdevice;
use divvy_page::{LockedOutWords, Tenant};

use crate::residence::state::State;
use crate::sys::clock;
use crate::tenant::device::{self, Device};
use crate::tenant::reason::{self, Reason, Size};

/// The last wish of the owner's, and whether it is fulfilled.
pub(super) struct Wish {
    fulfilled: u32,
    /// Until when it is not tried again: calls or work have kept memory on the card.
    rests_until_ns: u64,
}

impl Wish {
    /// A wish from before this process was there is not about its memory.
    pub(super) fn before(tenant: &Tenant) -> Self {
        Self { fulfilled: tenant.config().frozen, rests_until_ns: 0 }
    }

    /// The number of a wish that all leave, if one stands.
    pub(super) fn standing(&self, tenant: &Tenant) -> Option<u32> {
        let wish = tenant.frozen();
        (!wish.is_multiple_of(2) && wish != self.fulfilled).then_some(wish)
    }

    /// The wish of this number has been fulfilled; a later one has not.
    pub(super) fn fulfil(&mut self, wish: u32) {
        self.fulfilled = wish;
    }

    /// Lets calls go on for `ns`, whatever is wished.
    pub(super) fn rest(&mut self, ns: u64) {
        self.rests_until_ns = clock::now_ns().saturating_add(ns);
    }
}

/// Aim for all devices at one time.
pub(super) struct Aim<'a> {
    state: &'a State,
    /// The wish by which everything is to leave; none while that rests.
    pub(super) wish: Option<u32>,
}

/// Aim for one device.
#[derive(Clone, Copy)]
pub(super) struct DeviceAim {
    /// Bytes that may be on the card.
    pub(super) ceiling_bytes: u64,
    /// Calls may use the memory once all of it is there.
    pub(super) runs: bool,
    /// Bytes of copies on the host that are made ahead, and kept.
    pub(super) keep_bytes: u64,
}

impl<'a> Aim<'a> {
    pub(super) fn now(state: &'a State, tenant: &Tenant, wish: &Wish) -> Self {
        let standing = wish.standing(tenant);
        Self { state, wish: standing.filter(|_| clock::now_ns() >= wish.rests_until_ns) }
    }

    /// The aim for the device of this number, as it is now.
    pub(super) fn of(&self, device: CUdevice) -> DeviceAim {
        let order = device::memory_order(device);
        DeviceAim {
            ceiling_bytes: match (self.wish, order) {
                (Some(_), _) => 0,
                (None, Some(order)) => order.allowed_bytes,
                // The driver would take more of managed memory, and push other parts out for it.
                (None, None) if self.state.chunks.managed_bytes(device) > 0 => {
                    device::total_bytes(device)
                }
                (None, None) => u64::MAX,
            },
            runs: self.wish.is_none() && order.is_none_or(|order| order.runs()),
            keep_bytes: order.map_or(0, |order| order.keep_bytes),
        }
    }

    /// The devices that this process has met.
    pub(super) fn devices() -> impl Iterator<Item = CUdevice> {
        device::all_met().map(|device: &Device| device.ordinal)
    }

    /// Whether more of the device's memory stays on the card than may be.
    pub(super) fn is_over(&self, device: CUdevice) -> bool {
        self.state.chunks.staying_bytes(device) > self.of(device).ceiling_bytes
    }

    /// Whether calls may go on as they do: nothing is to leave.
    pub(super) fn is_open(&self) -> bool {
        Self::devices().all(|device| self.of(device).runs && !self.is_over(device))
    }

    /// Whether any of the memory is on its way: there is more than may be, or less than there is room for.
    pub(super) fn is_to_move(&self) -> bool {
        Self::devices().any(|device| {
            let resident_bytes = self.state.chunks.resident_bytes(device);
            let ceiling_bytes = self.of(device).ceiling_bytes;
            let has_room = resident_bytes < ceiling_bytes;
            resident_bytes > ceiling_bytes || has_room && self.is_in_need(device)
        })
    }

    /// Whether some of the device's memory is away that calls cannot do without, or that has room.
    pub(super) fn is_in_need(&self, device: CUdevice) -> bool {
        let chunks = &self.state.chunks;
        let is_any_away = chunks.away_bytes(device) > 0;
        is_any_away && {
            let resident_bytes = chunks.resident_bytes(device);
            let room_bytes = self.of(device).ceiling_bytes.saturating_sub(resident_bytes);
            !chunks.may_be_used(device, room_bytes)
        }
    }

    /// Says that calls which wait for memory wait in vain, where an owner does; whether one does. What is away may be another
    /// process's of the tenant, which does not wait: none of them runs before all of it is there.
    pub(super) fn tell_locked_out(&self) -> bool {
        let is_out = |device: &&Device| {
            let order = device::memory_order(device.ordinal).filter(|order| !order.runs());
            let out = order.and_then(|order| order.locked_out()).filter(|_| self.wish.is_none());
            out.inspect(|out| tell_no_room(device, *out)).is_some()
        };
        device::all_met().find(is_out).is_some()
    }

    /// Whether that is so of any device.
    pub(super) fn is_any_in_need(&self) -> bool {
        Self::devices().any(|device| self.is_in_need(device))
    }
}

/// Says that memory of the device which is away cannot come back: there is no room for it.
fn tell_no_room(device: &Device, out: LockedOutWords) {
    let total_bytes = device.total_bytes();
    let foreign_bytes = u64::from(out.foreign_mib).saturating_mul(1 << 20);
    let others_bytes = total_bytes.saturating_sub(out.room_bytes).saturating_sub(foreign_bytes);
    reason::tell(
        Reason::NoRoom,
        format_args!(
            "device {}: {} of this tenant have no room there, and calls that need them fail from here on: {} can be had; of \
             {} contexts, pools and other memory of tenants that does not move have {}, and programs of no tenant {} (`divvy \
             ps` names them)",
            device.ordinal.unsigned_abs(),
            Size(out.needed_bytes),
            Size(out.room_bytes),
            Size(total_bytes),
            Size(others_bytes),
            Size(foreign_bytes)
        ),
    );
}
