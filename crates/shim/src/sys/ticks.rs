//! A clock between two of its readings, by the processor's counter.
//!
//! The kernel's function waits for all that was begun before it reads the counter, which is much of what a reading
//! costs. Where it was read less than [`FRESH_TICKS`] ago the counter alone says the time as well.
//!
//! Promises: never more than [`FRESH_TICKS`] from a reading, and by a rate that was learnt over 10 ms and is
//! compared with each reading: nothing is assumed of the counter's frequency, or that it goes on through a
//! migration or a sleep. One that does not keep to its rate is learnt anew, and not used any more when that
//! happens often. Nobody waits: who meets another at the words reads the clock.
//!
//! Does not read a clock: that is [`super::clock`]'s. Without a counter known to be cheap (other processors than
//! x86-64) it has no answer.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

/// A reading says the time for so long: 65 us of the slowest counter, 20 as a rule.
const FRESH_TICKS: u64 = 1 << 16;
/// A reading between two of the counter that are farther apart was interrupted.
const HELD_UP_TICKS: u64 = 1_000;
/// Time over which the rate is learnt.
const LEARN_NS: u64 = 10_000_000;
/// Error of a reading: as much as one that is not taken for interrupted, and the error of a rate.
const SLACK_NS: u64 = 1_000;
const SLACK_PART: u64 = 1_024;
/// A counter that was learnt anew so often is none to go by.
const MOST_LEARNT: u32 = 16;

const FRACTION_BITS: u32 = 32;

/// Whether there is a counter that is known to be cheap to read.
pub(super) const IS_CHEAP: bool = cfg!(target_arch = "x86_64");

/// The counter; always 0 where there is none that is cheap to read.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the time-stamp counter, which every x86-64 processor has, and touches no memory. A thread to which
    // it is forbidden (`PR_SET_TSC`) ends by it as it does by the kernel's function where that reads the counter too.
    let ticks = unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    let ticks = 0;
    ticks
}

/// A clock by the counter.
#[derive(Debug)]
pub(super) struct Ticks {
    /// Odd while a thread changes the rest.
    version: AtomicU32,
    learnt: AtomicU32,
    /// The counter at the last reading, or at the one that the rate is learnt from, and what that said.
    at: AtomicU64,
    at_ns: AtomicU64,
    /// Nanoseconds of a tick, above its fraction; 0 while that is learnt.
    rate: AtomicU64,
}

impl Ticks {
    pub(super) const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            learnt: AtomicU32::new(0),
            at: AtomicU64::new(0),
            at_ns: AtomicU64::new(0),
            rate: AtomicU64::new(0),
        }
    }

    /// The time when the counter says `ticks`, if it was read not long before.
    #[inline(always)]
    pub(super) fn now_ns(&self, ticks: u64) -> Option<u64> {
        let version = self.version.load(Acquire);
        let (at, at_ns) = (self.at.load(Relaxed), self.at_ns.load(Relaxed));
        let rate = self.rate.load(Relaxed);
        fence(Acquire);
        let since = ticks.wrapping_sub(at);
        let is_whole = version & 1 == 0 && self.version.load(Relaxed) == version;
        // The product of both is below 2^64: see `Ticks::learn`.
        (is_whole && rate != 0 && since < FRESH_TICKS)
            .then(|| at_ns.wrapping_add(since.wrapping_mul(rate) >> FRACTION_BITS))
    }

    /// Notes a reading between two of the counter.
    #[cold]
    #[inline(never)]
    pub(super) fn note(&self, before: u64, read_ns: u64, after: u64) {
        let took = after.wrapping_sub(before);
        let version = self.version.load(Relaxed);
        let is_usable = after != 0 && took <= HELD_UP_TICKS && version & 1 == 0;
        let mine = version.wrapping_add(1);
        if !is_usable || self.version.compare_exchange(version, mine, Acquire, Relaxed).is_err() {
            return;
        }
        fence(Release);
        let is_over = self.change(before.wrapping_add(took / 2), read_ns);
        // Once it is over the words count as being changed, for ever.
        if !is_over {
            self.version.store(mine.wrapping_add(1), Release);
        }
    }

    /// Takes a reading in; true where the counter is none to go by. One thread at a time.
    fn change(&self, at: u64, at_ns: u64) -> bool {
        let since = at.wrapping_sub(self.at.load(Relaxed));
        let since_ns = at_ns.wrapping_sub(self.at_ns.load(Relaxed));
        let rate = self.rate.load(Relaxed);
        let keeps = || {
            let ns = (u128::from(since) * u128::from(rate)) >> FRACTION_BITS;
            ns.abs_diff(since_ns.into()) <= u128::from(SLACK_NS + since_ns / SLACK_PART)
        };
        let rate = match rate {
            0 if self.at.load(Relaxed) == 0 => 0,
            0 if since_ns < LEARN_NS => return false,
            0 => Self::learn(since, since_ns),
            _ if keeps() => rate,
            _ => 0,
        };
        self.at.store(at, Relaxed);
        self.at_ns.store(at_ns, Relaxed);
        self.rate.store(rate, Relaxed);
        rate == 0 && self.learnt.fetch_add(1, Relaxed) >= MOST_LEARNT
    }

    /// The rate of so many ticks in such a time; 0 where none can be right: a counter of less than 1 MHz, or one
    /// that went back.
    fn learn(since: u64, since_ns: u64) -> u64 {
        let rate = (u128::from(since_ns) << FRACTION_BITS).checked_div(since.into()).unwrap_or(0);
        let most = 1_000_u64 << FRACTION_BITS;
        u64::try_from(rate).ok().filter(|rate| *rate <= most).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2.5 GHz: the reading that it says at `ns`.
    fn read(ticks: &Ticks, ns: u64, skew: u64) {
        let at = 1_000_000 + ns / 2 * 5 + skew;
        ticks.note(at - 50, ns, at + 50);
    }

    fn at(ns: u64) -> u64 {
        1_000_000 + ns / 2 * 5
    }

    #[test]
    fn between_readings_the_counter_says_the_time() {
        let ticks = Ticks::new();
        read(&ticks, 5_000, 0);
        assert_eq!(ticks.now_ns(at(5_100)), None, "its rate is not known");
        read(&ticks, 6_000_000, 0);
        assert_eq!(ticks.now_ns(at(6_000_100)), None, "nor after so short a time");
        read(&ticks, 20_000_000, 0);
        for ns in [20_000_000, 20_000_100, 20_020_000] {
            let said = ticks.now_ns(at(ns)).expect("fresh");
            assert!(said.abs_diff(ns) <= 1, "{said} for {ns}");
        }
        assert_eq!(ticks.now_ns(at(20_030_000)), None, "too long ago");
        assert_eq!(ticks.now_ns(at(19_999_000)), None, "before it");
        read(&ticks, 900_000_000, 0);
        assert!(ticks.now_ns(at(900_000_010)).is_some_and(|ns| ns.abs_diff(900_000_010) <= 1));
    }

    #[test]
    fn an_interrupted_reading_is_none() {
        let ticks = Ticks::new();
        read(&ticks, 5_000, 0);
        read(&ticks, 20_000_000, 0);
        ticks.note(at(20_100_000), 20_101_000, at(20_102_000));
        assert_eq!(ticks.now_ns(at(20_102_000)), None);
    }

    #[test]
    fn a_counter_that_jumps_is_learnt_anew_and_one_that_often_does_is_left_alone() {
        let ticks = Ticks::new();
        let mut now_ns = 5_000;
        for jump in 0..u64::from(MOST_LEARNT) {
            read(&ticks, now_ns, jump << 40);
            now_ns += 20_000_000;
            read(&ticks, now_ns, jump << 40);
            assert_eq!(ticks.now_ns(at(now_ns) + (jump << 40)), Some(now_ns));
            now_ns += 20_000;
        }
        for _ in 0..3 {
            read(&ticks, now_ns, 77 << 40);
            now_ns += 20_000_000;
        }
        assert_eq!(ticks.now_ns(at(now_ns - 20_000_000) + (77 << 40)), None);
    }

    #[test]
    fn without_a_counter_nothing_is_said() {
        let ticks = Ticks::new();
        for ns in [1, 20_000_000, 40_000_000] {
            ticks.note(0, ns, 0);
            assert_eq!(ticks.now_ns(0), None);
        }
    }
}
