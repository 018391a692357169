//! The service: a thread that keeps memory where the owner wants it, and lets calls in while it is there.
//!
//! ```text
//!                        more is there than may be
//!       Open ------------------------------------------> (the door closes, work ends)
//!        ^ ^    not in time: calls go on for a while           |              |
//!        | +---------------------------------------------------+              v
//!        |                all is back that the program has                 Closed
//!        +-------------------------------------------------------------------+ |
//!         the driver will not give it back, or has no room for it for long   | |
//!                                                                   Lost <---+-+
//! ```
//!
//! Open: everything may be on the card and is; the thread sleeps until the orders change. Closed: memory moves, or is
//! away. Lost: bytes on the host cannot come back, though contexts answer that may use them; launches are refused from
//! then on, and the driver refuses copies, since nothing is mapped there. Where the contexts themselves are broken it
//! refuses all.
//!
//! Promises: it runs as long as the process; it sleeps in the kernel while there is nothing to do; it runs in no forked
//! child, which gets one of its own at its first block. The door opens onto no memory that is away and may be used.

use core::sync::atomic::Ordering::SeqCst;

use divvy_abi::usage::Stays;
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
/// Between two looks at captures: while others are kept from beginning, and while they are not.
const CAPTURE_NS: [u32; 2] = [500_000, 50_000_000];
/// How long it sleeps at most, while memory is on the card and while it is away.
const ON_CARD_NS: u64 = 1_000_000_000;
const AWAY_NS: u64 = 20_000_000;
/// Between two words about what is free on the card, at most, but while memory moves.
const TELLS_NS: u64 = 1_000_000_000;
/// Between two attempts to get room on the card, at first and at last.
const RETRY_NS: [u64; 2] = [500_000, 20_000_000];
/// So long a driver that refuses for another reason than room is asked again.
const REFUSALS_NS: u64 = 10_000_000_000;

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
        phase: Phase::Open,
        waits_from_ns: 0,
        refused_from_ns: 0,
        patience_ns: PATIENCE_NS[0],
        retry_ns: RETRY_NS[0],
        tidies_from_ns: 0,
        tells_from_ns: 0,
    };
    // Calls of it may be long: captures begin beside them, and are not disturbed.
    beside_captures(|| {
        loop {
            service.step();
        }
    });
}

/// Where the service is between two steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Calls go on.
    Open,
    /// The door is closed, and work that was submitted before has ended.
    Closed,
    /// Launches are refused.
    Lost,
}

/// The thread's own state.
struct Service {
    state: &'static State,
    tenant: &'static Tenant,
    wish: Wish,
    phase: Phase,
    /// Since when a call waits at the closed door; 0 for none.
    waits_from_ns: u64,
    /// Since when the driver refuses to give memory back for another reason than room; 0 for not.
    refused_from_ns: u64,
    patience_ns: u64,
    retry_ns: u64,
    /// When surplus copies may be given back again.
    tidies_from_ns: u64,
    /// When it says at the latest again what is free on the card.
    tells_from_ns: u64,
}

impl Service {
    /// One look at what is wanted, and what follows from it.
    fn step(&mut self) {
        // Read before what is looked at: a change in between is not slept through.
        let number = self.tenant.orders();
        let aim = Aim::now(self.state, self.tenant, &self.wish);
        match self.phase {
            Phase::Open => self.step_open(&aim, number),
            Phase::Closed => self.step_closed(&aim, number),
            Phase::Lost => self.sleep(number, ON_CARD_NS),
        }
    }

    fn step_closed(&mut self, aim: &Aim<'_>, number: u32) {
        let state = self.state;
        self.note_waiting();
        movement::tell(aim.is_to_move(), self.waits_from_ns);
        strays::send_home(state);
        let left = movement::leave(state, aim);
        // A call that wants memory back ends the wish, once it was fulfilled.
        // The owner's orders may have brought that about while it rested.
        let is_gone = !Aim::devices().any(|device| state.chunks.staying_bytes(device) > 0);
        if is_gone
            && state.door.is_wanted()
            && let Some(wish) = self.wish.standing(self.tenant)
        {
            self.wish.fulfil(wish);
            return;
        }
        // It stays on the card, where calls find it.
        if left != Moved::All {
            movement::tell_stays(left.stays());
            movement::tell_stayed(state);
            self.wish.rest(REST.saturating_mul(self.patience_ns));
        } else if is_gone {
            movement::tell_stays(Stays::Not);
        }
        let moved = match left {
            Moved::All => movement::come_back(state, aim),
            _ => Moved::Waits,
        };
        let is_refused = moved == Moved::Refused;
        let is_back = moved == Moved::Dead || moved == Moved::All && !aim.is_any_in_need();
        if moved == Moved::Dead && aim.is_open() {
            movement::tell_lost(state, "its contexts are broken");
        }
        match (is_refused, self.refused_from_ns) {
            (false, _) => self.refused_from_ns = 0,
            (true, 0) => self.refused_from_ns = clock::now_ns(),
            (true, from_ns) if clock::now_ns().saturating_sub(from_ns) >= REFUSALS_NS => {
                movement::tell_lost(state, "the driver refuses it");
                return self.lose();
            }
            (true, _) => {}
        }
        if self.waits_from_ns != 0 && aim.tell_locked_out() {
            return self.lose();
        }
        match is_back && aim.is_open() {
            true => self.open(),
            false => self.sleep_closed(aim, number, moved),
        }
    }

    /// Lets calls go on, or closes the door and waits for work to end.
    fn step_open(&mut self, aim: &Aim<'_>, number: u32) {
        if aim.is_open() {
            self.patience_ns = PATIENCE_NS[0];
            if self.wish.standing(self.tenant).is_none() {
                movement::tell_stays(Stays::Not);
            }
            if GATES.captures() || !movement::prepare(self.state, aim) {
                self.tidy(aim);
                self.tell_free();
                self.sleep(number, ON_CARD_NS);
            }
            return;
        }
        // While a stream captures, no call is held back but those by which other captures begin: a program that always has
        // one open, now of this stream and now of that, is met between two.
        let [first_ns, longest_ns] = PATIENCE_NS;
        let until_ns = clock::now_ns().saturating_add(self.patience_ns);
        self.state.door.hold_captures(until_ns);
        let stays = match have_captures_ended(until_ns, CAPTURE_NS[0]) {
            true => self.close(),
            false => Stays::Capture,
        };
        self.state.door.hold_captures(0);
        match stays {
            Stays::Not => {
                self.phase = Phase::Closed;
                (self.patience_ns, self.retry_ns) = (first_ns, RETRY_NS[0]);
            }
            stays => {
                movement::tell_stays(stays);
                let rest_ns = REST.saturating_mul(self.patience_ns);
                self.rest(stays, clock::now_ns().saturating_add(rest_ns));
                self.patience_ns = self.patience_ns.saturating_mul(2).min(longest_ns);
            }
        }
    }

    /// Lets calls go on until then, or until no stream captures any more, where that is why memory stays.
    fn rest(&mut self, stays: Stays, until_ns: u64) {
        loop {
            self.tell_free_again();
            let look_ns = until_ns.min(clock::now_ns().saturating_add(TELLS_NS));
            let is_over = match stays {
                Stays::Capture => have_captures_ended(look_ns, CAPTURE_NS[1]),
                _ => {
                    clock::sleep_until(look_ns);
                    false
                }
            };
            if is_over || look_ns >= until_ns {
                return;
            }
        }
    }

    fn tell_free(&mut self) {
        movement::tell_free(self.state);
        self.tells_from_ns = clock::now_ns().saturating_add(TELLS_NS);
    }

    /// The same where it was not said for a second. Memory of no tenant's comes and goes whatever this process can do, and the
    /// owner learns of it by such words alone.
    fn tell_free_again(&mut self) {
        if clock::now_ns() >= self.tells_from_ns {
            self.tell_free();
        }
    }

    /// Gives copies back that are not kept while memory is on the card: a part at a time, behind the closed door.
    fn tidy(&mut self, aim: &Aim<'_>) {
        let is_due = clock::now_ns() >= self.tidies_from_ns;
        if GATES.captures() || !is_due || !movement::has_surplus(self.state, aim) {
            return;
        }
        let rest_ns = match self.close() {
            Stays::Not => {
                self.drop_copies(aim);
                self.state.door.open();
                REST.saturating_mul(self.patience_ns)
            }
            // Calls were held back for nothing: not often.
            _ => REST.saturating_mul(PATIENCE_NS[1]),
        };
        self.tidies_from_ns = clock::now_ns().saturating_add(rest_ns);
    }

    /// As many as there is time for while calls are held back. The door is closed, and work has ended.
    fn drop_copies(&self, aim: &Aim<'_>) {
        let deadline_ns = clock::now_ns().saturating_add(PATIENCE_NS[0]);
        movement::drop_copies(self.state, aim, deadline_ns);
    }

    /// Closes the door, if calls and work that are under way end in time; else why not.
    fn close(&self) -> Stays {
        let deadline_ns = clock::now_ns().saturating_add(self.patience_ns);
        if !self.state.door.close(self.patience_ns) {
            return Stays::Calls;
        }
        let stays = if GATES.captures() {
            // One that begins goes in by the door.
            Stays::Capture
        } else if movement::is_drained(self.state, deadline_ns) && self.state.door.shut() {
            return Stays::Not;
        } else {
            Stays::Work
        };
        self.state.door.open();
        stays
    }

    fn open(&mut self) {
        (self.phase, self.waits_from_ns) = (Phase::Open, 0);
        // The driver may fetch from here on what is away.
        self.state.chunks.note_strays();
        movement::tell(false, 0);
        self.state.door.open();
    }

    /// Memory does not come back: no kernel that may use it reaches the driver again.
    fn lose(&mut self) {
        (self.phase, self.waits_from_ns) = (Phase::Lost, 0);
        movement::tell(false, 0);
        self.state.door.refuse();
    }

    fn note_waiting(&mut self) {
        if self.waits_from_ns == 0 && self.state.door.is_wanted() {
            self.waits_from_ns = clock::now_ns();
        }
    }

    /// Sleeps for `ns` at most, unless the orders are no longer those of `number`.
    fn sleep(&self, number: u32, ns: u64) {
        self.tenant.wait_orders(number, clock::now_ns().saturating_add(ns));
    }

    /// Sleeps until there may be something to do: the orders change, a call wants in, or there may be room.
    fn sleep_closed(&mut self, aim: &Aim<'_>, number: u32, moved: Moved) {
        let [first_ns, longest_ns] = RETRY_NS;
        self.note_waiting();
        movement::tell(aim.is_to_move(), self.waits_from_ns);
        if !aim.is_to_move() {
            self.drop_copies(aim);
        } else if moved == Moved::Waits {
            // The owner allows more than there is: something else than tenants has it.
            self.tell_free();
        }
        self.tell_free_again();
        if self.waits_from_ns == 0 && (aim.wish.is_some() || moved < Moved::Waits) {
            self.state.door.await_wanted(AWAY_NS);
            self.retry_ns = first_ns;
            return;
        }
        self.sleep(number, self.retry_ns);
        self.retry_ns = match self.tenant.orders() == number {
            true => self.retry_ns.saturating_mul(2).min(longest_ns),
            false => first_ns,
        };
    }
}

/// Waits until no stream captures; false if one does at `deadline_ns`.
fn have_captures_ended(deadline_ns: u64, look_ns: u32) -> bool {
    while GATES.captures() {
        if clock::now_ns() >= deadline_ns {
            return false;
        }
        sleep_ns(look_ns);
    }
    true
}
