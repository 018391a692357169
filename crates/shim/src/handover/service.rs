//! The service: a thread that keeps memory where the owner wants it, and lets calls in while it is there.
//!
//! While everything may be on the card and is, the door is open, and the thread sleeps until the orders change. Else it
//! closes the door, lets work end, and moves what is to move; it opens again once all is back that the program has.
//! Promises: it sleeps in the kernel while there is nothing to do; it runs in no forked child, which gets one of its own
//! at its first block.

use core::sync::atomic::Ordering::SeqCst;

use divvy_page::Tenant;

use super::aim::{Aim, Wish};
use super::movement::{self, Moved};
use super::strays;
use crate::gate::{GATES, beside_captures};
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
/// Between two attempts to get room on the card, at first and at last.
const RETRY_NS: [u64; 2] = [500_000, 20_000_000];

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
    let mut service = Service {
        state,
        tenant,
        wish: Wish::before(tenant),
        is_closed: false,
        waits_from_ns: 0,
        patience_ns: PATIENCE_NS[0],
        retry_ns: RETRY_NS[0],
    };
    // Calls of it may be long: captures begin beside them, and are not disturbed.
    beside_captures(|| while service.step() {});
}

/// The thread's own state.
struct Service {
    state: &'static State,
    tenant: &'static Tenant,
    wish: Wish,
    /// The door is closed, and work that was submitted before has ended.
    is_closed: bool,
    /// Since when a call waits at the closed door; 0 for none.
    waits_from_ns: u64,
    patience_ns: u64,
    retry_ns: u64,
}

impl Service {
    /// One look at what is wanted, and what follows from it; false if memory is lost for good.
    fn step(&mut self) -> bool {
        // Read before what is looked at: a change in between is not slept through.
        let number = self.tenant.orders();
        let aim = Aim::now(self.state, self.tenant, &self.wish);
        if !self.is_closed {
            self.step_open(&aim, number);
            return true;
        }
        let state = self.state;
        self.note_waiting();
        movement::tell(aim.is_to_move(), self.waits_from_ns);
        strays::send_home(state);
        let left = movement::leave(state, &aim);
        // A call that wants memory back ends the wish, once it was fulfilled.
        // The owner's orders may have brought that about while it rested.
        let is_gone = !Aim::devices().any(|device| state.chunks.staying_bytes(device) > 0);
        if is_gone
            && state.door.is_wanted()
            && let Some(wish) = self.wish.standing(self.tenant)
        {
            self.wish.fulfil(wish);
            return true;
        }
        let moved = match left {
            Moved::All => movement::come_back(state, &aim),
            left => left,
        };
        if left == Moved::Waits {
            movement::tell_stayed(state);
            self.wish.rest(REST.saturating_mul(self.patience_ns));
        }
        match moved {
            Moved::Lost => {
                // The program's next call tells it more: of a context that is broken, or of a process that ends.
                log!(Info, "memory cannot leave the card any more, or come back to it");
                self.open();
                return false;
            }
            // Copies that are not kept go before it sleeps.
            Moved::All if aim.is_open() && !aim.is_any_in_need() => self.open(),
            _ => self.sleep_closed(&aim, number, moved),
        }
        true
    }

    /// Lets calls go on, or closes the door and waits for work to end.
    fn step_open(&mut self, aim: &Aim<'_>, number: u32) {
        if aim.is_open() {
            self.patience_ns = PATIENCE_NS[0];
            if GATES.captures() || !movement::prepare(self.state, aim) {
                movement::drop_copies(self.state, aim);
                movement::tell_free();
                let until_ns = clock::now_ns().saturating_add(ON_CARD_NS);
                self.tenant.wait_orders(number, until_ns);
            }
            return;
        }
        // While a stream captures, nobody is held back.
        if GATES.captures() {
            sleep_ns(CAPTURE_NS);
            return;
        }
        self.is_closed = self.close();
        let [first_ns, longest_ns] = PATIENCE_NS;
        if self.is_closed {
            (self.patience_ns, self.retry_ns) = (first_ns, RETRY_NS[0]);
            return;
        }
        clock::sleep_until(clock::now_ns().saturating_add(REST.saturating_mul(self.patience_ns)));
        self.patience_ns = self.patience_ns.saturating_mul(2).min(longest_ns);
    }

    /// Closes the door, if calls and work that are under way end in time.
    fn close(&self) -> bool {
        let deadline_ns = clock::now_ns().saturating_add(self.patience_ns);
        if !self.state.door.close(self.patience_ns) {
            return false;
        }
        // A capture that begins goes in by the door.
        let is_shut = !GATES.captures() && movement::is_drained(deadline_ns);
        if !is_shut {
            self.state.door.open();
        }
        is_shut
    }

    fn open(&mut self) {
        (self.is_closed, self.waits_from_ns) = (false, 0);
        // The driver may fetch from here on what is away.
        self.state.chunks.note_strays();
        movement::tell(false, 0);
        self.state.door.open();
    }

    fn note_waiting(&mut self) {
        if self.waits_from_ns == 0 && self.state.door.is_wanted() {
            self.waits_from_ns = clock::now_ns();
        }
    }

    /// Sleeps until there may be something to do: the orders change, a call wants in, or there may be room.
    fn sleep_closed(&mut self, aim: &Aim<'_>, number: u32, moved: Moved) {
        let [first_ns, longest_ns] = RETRY_NS;
        self.note_waiting();
        movement::tell(aim.is_to_move(), self.waits_from_ns);
        if !aim.is_to_move() {
            movement::drop_copies(self.state, aim);
        }
        if self.waits_from_ns == 0 && (aim.wish.is_some() || moved != Moved::Waits) {
            self.state.door.await_wanted(AWAY_NS);
            self.retry_ns = first_ns;
            return;
        }
        let until_ns = clock::now_ns().saturating_add(self.retry_ns);
        self.tenant.wait_orders(number, until_ns);
        self.retry_ns = match self.tenant.orders() == number {
            true => self.retry_ns.saturating_mul(2).min(longest_ns),
            false => first_ns,
        };
    }
}
