//! Messages between processes of a tenant on the host: boxes that count, as pipes and semaphores do.
//!
//! Promises: a process that hears takes one message, in no order of those that wait; messages of dead processes stay.

use super::sim_driver::in_run_ns;
use super::state::with;
use crate::choice::mix;
use crate::sched::{self, NEVER_NS, point};
use crate::site::Site;
use crate::world::words;

fn key(tenant: u32, number: u32) -> u64 {
    mix(mix(u64::from(tenant) << 32 | u64::from(number)) ^ 0x6d65_7373).max(1)
}

/// Puts a message into a tenant's box.
pub(super) fn tell(tenant: u32, number: u32) {
    point(Site::Wake);
    with(|world| {
        *world.messages.entry((tenant, number)).or_default() += 1;
        words::wake_all(world, 0, key(tenant, number), sched::now_ns());
    });
}

/// Takes a message from a tenant's box, and waits for one.
pub(super) fn hear(tenant: u32, number: u32) {
    loop {
        point(Site::Wait);
        let is_there = with(|world| {
            let count = world.messages.entry((tenant, number)).or_default();
            let is_there = *count != 0;
            *count = count.saturating_sub(1);
            is_there
        });
        if is_there {
            return;
        }
        sched::block(key(tenant, number), in_run_ns(NEVER_NS));
    }
}
