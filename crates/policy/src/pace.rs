//! The virtual clock of a cap: device time is paid for in wall time, `cost / share`.
//!
//! One shared word, `paid_at`, says when everything charged so far is paid. Work is admitted while that
//! lies in the past; once it does not, the gate closes until a burst's worth of credit has grown. The
//! closed time is chosen so that the account is exact when it ends, whatever the work was: no gain to
//! tune, no dependence on the card.
//!
//! Promises: debt is never forgiven; credit for idleness is at most one quantum of device time; a
//! changed share values old debt anew, once, whoever sees the change first; a process that dies leaves
//! at most what it had charged. Any number of processes share the words without a lock.
//!
//! Does not measure, wait or read a clock.

use divvy_abi::config::PPM;

use crate::scaled::scaled;

/// Device time that may be used at once when nothing was used before.
const BEGIN_NS: u64 = 4_000_000;

/// The words that all processes of a tenant share, on one device. Loads and exchanges are of single
/// words; no order between two words is relied on.
pub trait Clock {
    /// When everything charged is paid; 0 before the first charge.
    fn paid_at_ns(&self) -> u64;
    /// Replaces it if it is still `old`; the error is what it is now.
    ///
    /// # Errors
    /// The word's value, when it is not `old`.
    fn replace_paid_at_ns(&self, old: u64, new: u64) -> Result<(), u64>;
    /// The share that debt is valued at, in millionths; 0 before the first charge.
    fn share_ppm(&self) -> u64;
    /// Replaces it if it is still `old`.
    ///
    /// # Errors
    /// The word's value, when it is not `old`.
    fn replace_share_ppm(&self, old: u64, new: u64) -> Result<(), u64>;
    /// Until when the gate is closed; 0 while it is open.
    fn closed_until_ns(&self) -> u64;
    /// Says so.
    fn set_closed_until_ns(&self, until_ns: u64);
    /// The word of [`agreed_ns`].
    fn saves(&self) -> u64;
    /// Says so.
    fn set_saves(&self, word: u64);
}

/// How long the most that any process saves up binds the others.
const AGREED_MS: u64 = 1_000;
/// Bits of [`Clock::saves`] that say how much, in microseconds; the others say when, in milliseconds.
const SAVES_BITS: u32 = 24;

/// The most that any process of the tenant has had its cap save up of late, where this one wants `own_ns`: one that
/// keeps less would take what another has saved.
pub fn agreed_ns(clock: &impl Clock, now_ns: u64, own_ns: u64) -> u64 {
    const MOST_US: u64 = (1 << SAVES_BITS) - 1;
    let (now_ms, own_us) = (now_ns / 1_000_000, own_ns.div_ceil(1_000).min(MOST_US));
    let said = clock.saves();
    let (said_ms, said_us) = (said >> SAVES_BITS, said & MOST_US);
    // A time to come is nobody's.
    let age_ms = (now_ms & (u64::MAX >> SAVES_BITS)).wrapping_sub(said_ms);
    let holds = age_ms < AGREED_MS;
    if !holds || own_us > said_us || (own_us == said_us && age_ms > AGREED_MS / 10) {
        clock.set_saves(now_ms << SAVES_BITS | own_us);
    }
    if holds { own_ns.max(said_us.saturating_mul(1_000)) } else { own_ns }
}

/// A cap on a tenant's device time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cap {
    /// Share of the device's time in millionths, at least 1.
    pub share_ppm: u64,
    /// Most credit that idleness leaves, in device time. A burst is half of it, so that who wakes late
    /// loses nothing.
    pub quantum_ns: u64,
    /// Start of work whose charge may be wrong; `u64::MAX` for none. Payments of wall time since then are kept,
    /// however large, until that charge is put right.
    pub unsettled_since_ns: u64,
}

/// Whether work may be submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapState {
    /// It may.
    Open,
    /// Not before this time.
    Closed {
        /// CLOCK_MONOTONIC.
        until_ns: u64,
    },
}

impl Cap {
    /// Wall time that pays for `device_ns`.
    pub fn wall_ns(self, device_ns: u64) -> u64 {
        scaled(device_ns, PPM, self.share_ppm.max(1))
    }

    /// Charges `device_ns`; a negative amount puts an estimate right.
    pub fn charge(self, clock: &impl Clock, now_ns: u64, device_ns: i64) {
        self.value_anew(clock, now_ns);
        let wall_ns = self.wall_ns(device_ns.unsigned_abs());
        let floor_ns = self.floor_ns(now_ns);
        update(clock, |paid_at_ns| {
            let from_ns = self.begun(paid_at_ns, now_ns).max(floor_ns);
            if device_ns < 0 {
                from_ns.saturating_sub(wall_ns).max(floor_ns)
            } else {
                from_ns.saturating_add(wall_ns)
            }
        });
    }

    /// Decides, and keeps the word that says until when the gate is closed.
    pub fn admit(self, clock: &impl Clock, now_ns: u64) -> CapState {
        self.value_anew(clock, now_ns);
        let floor_ns = self.floor_ns(now_ns);
        let paid_at_ns = update(clock, |paid_at_ns| self.begun(paid_at_ns, now_ns).max(floor_ns));
        let closed_until_ns = clock.closed_until_ns();
        // An open gate closes when its credit is spent; a closed one opens when a burst has grown.
        if closed_until_ns == 0 && paid_at_ns < now_ns {
            return CapState::Open;
        }
        let opens_at_ns = paid_at_ns.saturating_add(self.wall_ns(self.quantum_ns / 2));
        if opens_at_ns <= now_ns {
            clock.set_closed_until_ns(0);
            return CapState::Open;
        }
        clock.set_closed_until_ns(opens_at_ns);
        CapState::Closed { until_ns: opens_at_ns }
    }

    /// Whether it is owed more than so much device time.
    pub fn owes_more(self, clock: &impl Clock, now_ns: u64, device_ns: u64) -> bool {
        clock.paid_at_ns() > now_ns.saturating_add(self.wall_ns(device_ns))
    }

    /// `paid_at`, or where a clock begins that was never charged: nothing has been saved up.
    fn begun(self, paid_at_ns: u64, now_ns: u64) -> u64 {
        if paid_at_ns == 0 { now_ns.saturating_sub(self.wall_ns(BEGIN_NS)) } else { paid_at_ns }
    }

    /// The earliest `paid_at`: idleness has left a quantum of credit, and no more.
    fn floor_ns(self, now_ns: u64) -> u64 {
        now_ns.min(self.unsettled_since_ns).saturating_sub(self.wall_ns(self.quantum_ns))
    }

    /// Values what is owed at this share, where it was valued at another.
    fn value_anew(self, clock: &impl Clock, now_ns: u64) {
        let before_ppm = clock.share_ppm();
        if before_ppm == self.share_ppm
            || clock.replace_share_ppm(before_ppm, self.share_ppm).is_err()
            || before_ppm == 0
        {
            return;
        }
        update(clock, |paid_at_ns| {
            let owed_ns = paid_at_ns.saturating_sub(now_ns);
            let owed_ns = scaled(owed_ns, before_ppm, self.share_ppm.max(1));
            match owed_ns {
                0 => paid_at_ns,
                owed_ns => now_ns.saturating_add(owed_ns),
            }
        });
    }
}

/// Changes `paid_at` without a lock; what it is afterwards.
fn update(clock: &impl Clock, change: impl Fn(u64) -> u64) -> u64 {
    let mut old = clock.paid_at_ns();
    loop {
        let new = change(old);
        if new == old {
            return new;
        }
        match clock.replace_paid_at_ns(old, new) {
            Ok(()) => return new,
            Err(now) => old = now,
        }
    }
}
