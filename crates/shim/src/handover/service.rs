//! The service: a thread that moves memory when the owner wants it away, and brings it back when a call wants it.
//!
//! A wish of the owner's has a number, and is fulfilled once: what a call has brought back since stays until the next
//! wish. Promises: the thread sleeps in the kernel while there is nothing to do; it runs in no forked child, which gets
//! one of its own at its first block.

use core::sync::atomic::Ordering::SeqCst;

use divvy_page::Tenant;

use super::movement;
use crate::gate::GATES;
use crate::residence::state::{self, State};
use crate::sys::{clock, log, service, sleep_ns};
use crate::tenant;

/// How long calls and work that are under way are waited for: at first, and at last. Calls are held back meanwhile.
const PATIENCE_NS: [u64; 2] = [200_000_000, 2_000_000_000];
/// So many times as long nobody is held back after that.
const REST: u64 = 4;
/// Between two looks at a capture.
const CAPTURE_NS: u32 = 50_000_000;
/// How long it sleeps at most, while memory is on the card and while it is away.
const ON_CARD_NS: u64 = 1_000_000_000;
const AWAY_NS: u64 = 20_000_000;

/// Starts the thread, if it was not started yet.
pub(super) fn ensure(state: &'static State) {
    if state.service.load(SeqCst) != 0 || state.service.swap(1, SeqCst) != 0 {
        return;
    }
    if !service::start(run) {
        // The next block tries again; meanwhile all memory stays on the card.
        state.service.store(0, SeqCst);
        log!(Error, "no thread can be started: memory of this process cannot leave the card");
    }
}

fn run() {
    let (Some(state), Some(tenant)) = (state::get(), tenant::oversubscribed()) else { return };
    // A wish from before this process was there is not about its memory.
    let mut fulfilled = tenant.config().frozen;
    let [first_ns, longest_ns] = PATIENCE_NS;
    let mut patience_ns = first_ns;
    loop {
        let wish = tenant.frozen();
        if wish.is_multiple_of(2) || wish == fulfilled {
            tenant.wait_frozen(wish, clock::now_ns().saturating_add(ON_CARD_NS));
            continue;
        }
        // While a stream captures, nobody is held back.
        if GATES.captures() {
            sleep_ns(CAPTURE_NS);
            continue;
        }
        match fulfil(state, patience_ns) {
            Outcome::Away => {}
            Outcome::Stayed => {
                movement::tell_stayed(state);
                clock::sleep_until(
                    clock::now_ns().saturating_add(REST.saturating_mul(patience_ns)),
                );
                patience_ns = patience_ns.saturating_mul(2).min(longest_ns);
                continue;
            }
            Outcome::Lost => return,
        }
        patience_ns = first_ns;
        stay_away(state, tenant);
        if !bring_back(state) {
            return;
        }
        fulfilled = wish;
    }
}

/// Outcome of an attempt.
enum Outcome {
    /// Everything is away, and the door closed.
    Away,
    /// Everything is on the card, and the door open.
    Stayed,
    /// Some of it is away for good, since its context is broken or gone, and the door open.
    Lost,
}

/// Closes the door and moves everything away, if calls and work that are under way end within `patience_ns`.
fn fulfil(state: &'static State, patience_ns: u64) -> Outcome {
    let deadline_ns = clock::now_ns().saturating_add(patience_ns);
    // A capture that begins goes in by the door.
    if !state.door.close(patience_ns) {
        return Outcome::Stayed;
    }
    if GATES.captures() {
        state.door.open();
        return Outcome::Stayed;
    }
    movement::tell(true, 0);
    let is_all = movement::leave(state, deadline_ns);
    movement::tell(false, 0);
    match is_all {
        true => Outcome::Away,
        false if bring_back(state) => Outcome::Stayed,
        false => Outcome::Lost,
    }
}

/// Waits while the owner wishes memory away and no call wants in.
fn stay_away(state: &State, tenant: &Tenant) {
    while !state.door.is_wanted() && tenant.frozen() % 2 == 1 {
        state.door.await_wanted(AWAY_NS);
    }
}

/// Brings everything back and opens the door; false if some cannot come back.
fn bring_back(state: &'static State) -> bool {
    let waits_from_ns = if state.door.is_wanted() { clock::now_ns() } else { 0 };
    movement::tell(true, waits_from_ns);
    let is_all = movement::come_back(state);
    movement::tell(false, 0);
    if !is_all {
        // The program's next call tells it more: of a context that is broken, or of a process that ends.
        log!(Info, "memory could not be brought back to the card");
    }
    state.door.open();
    movement::drop_copies(state);
    is_all
}
