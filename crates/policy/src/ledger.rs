//! The memory ledger's protocol: ask, hold.
//!
//! One truth: per process slot two words of one device, `held` and `asking`. There is no shared
//! total to corrupt, no sequence lock and no semaphore. Two properties are model-checked
//! (`tests/ledger_model.rs`):
//!
//! 1. the sum of `held` never exceeds the limit;
//! 2. a request is refused only if `held + n` exceeded the limit at some instant of the call.
//!
//! For the first, a writer adds to `held` before it takes from `asking`, and a reader loads `asking`
//! before `held`, so a sum may count a request twice and never misses one. For the second, a refusal
//! rests on a snapshot: `held` carries a change counter in its upper 16 bits, and two readings of all
//! slots with equal counters mean that between them nothing changed. (The counter wraps after 65,536
//! changes of one process between two readings of one word. A hash of the words in place of their
//! counters' sum was tried; the model check found a collision within three changes.)
//!
//! Does not call a driver, hold a lock or read a clock; [`Admission`] brings what the slow path
//! needs.

/// Bytes of a word; the counter is above.
const BYTES_MASK: u64 = (1 << 48) - 1;
/// One change.
const CHANGE: u64 = 1 << 48;

/// Largest request the ledger can express, in bytes.
pub const MAX_REQUEST_BYTES: u64 = 1 << 46;

/// The two words of every slot of one device. All operations are SeqCst.
pub trait Slots {
    /// Slots to look at: every slot ever claimed is below it.
    fn high(&self) -> usize;
    /// The slot's `asking`.
    fn asking(&self, slot: usize) -> u64;
    /// The slot's `held` word, counter included.
    fn held_word(&self, slot: usize) -> u64;
    /// Adds `delta` to `asking`, wrapping.
    fn add_asking(&self, slot: usize, delta: u64);
    /// Adds `delta` to the `held` word, wrapping.
    fn add_held_word(&self, slot: usize, delta: u64);
    /// Makes the `held` word `new` if it is `old`; else what it is.
    fn replace_held_word(&self, slot: usize, old: u64, new: u64) -> Result<(), u64>;
}

/// Services that the slow path needs, all of them under the tenant's admission lock.
pub trait Admission {
    /// Zeroes the slots of dead processes.
    fn reap(&mut self);
    /// Lets others settle; false once the deadline has passed.
    fn pause(&mut self) -> bool;
}

/// Why a request for memory was not granted: one answer from here to the program's return code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryRefusal {
    /// Held bytes and the request together exceed the limit.
    OverLimit {
        /// Bytes the tenant holds on the device.
        held_bytes: u64,
    },
    /// Others kept asking until the deadline, or the admission lock was not to be had in time.
    Contended,
    /// The process has no slot of the ledger, or cannot reach the slow path. Never the ledger's own answer: it is
    /// who maps the ledger that finds out.
    Detached,
}

/// Bytes in a `held` word.
pub const fn held_bytes(word: u64) -> u64 {
    word & BYTES_MASK
}

/// The change counter of a `held` word: 16 bits that only grow, and wrap.
pub const fn changes(word: u64) -> u64 {
    word / CHANGE
}

/// Takes `bytes` without waiting, and returns the tenant's total as seen: all held and asked bytes, these included.
/// `None` when the slow path ([`admit`]) must decide.
///
/// Cost: two atomic additions, one load pair per slot below `high`, two more additions.
pub fn ask<S: Slots>(slots: &S, me: usize, bytes: u64, limit_bytes: u64) -> Option<u64> {
    if bytes > MAX_REQUEST_BYTES {
        return None;
    }
    slots.add_asking(me, bytes);
    let total = sum(slots);
    if total > limit_bytes {
        slots.add_asking(me, bytes.wrapping_neg());
        return None;
    }
    hold(slots, me, bytes);
    slots.add_asking(me, bytes.wrapping_neg());
    Some(total)
}

/// Whether `held` alone and `bytes` exceed the limit, by a snapshot: the bytes held, if so. `None` when
/// they do not, or when no snapshot was to be had. Needs no lock; the caller has reaped the dead.
pub fn over<S: Slots>(slots: &S, bytes: u64, limit_bytes: u64) -> Option<u64> {
    snapshot(slots).filter(|held| held.saturating_add(bytes) > limit_bytes)
}

/// Decides a request that [`ask`] did not grant, and returns the total as [`ask`] does. The caller holds the
/// admission lock.
///
/// # Errors
/// [`MemoryRefusal::OverLimit`] by a snapshot of what is held; [`MemoryRefusal::Contended`] at the end of `world`'s
/// patience.
pub fn admit<S: Slots, A: Admission>(
    slots: &S,
    me: usize,
    bytes: u64,
    limit_bytes: u64,
    world: &mut A,
) -> Result<u64, MemoryRefusal> {
    loop {
        // Each time round: an asker that dies meanwhile would never settle.
        world.reap();
        if let Some(held_bytes) = over(slots, bytes, limit_bytes) {
            return Err(MemoryRefusal::OverLimit { held_bytes });
        }
        if let Some(total_bytes) = ask(slots, me, bytes, limit_bytes) {
            return Ok(total_bytes);
        }
        if !world.pause() {
            return Err(MemoryRefusal::Contended);
        }
    }
}

/// Adds `bytes` to what `me` holds, without asking: for what the driver took already.
pub fn hold<S: Slots>(slots: &S, me: usize, bytes: u64) {
    slots.add_held_word(me, (bytes & BYTES_MASK).wrapping_add(CHANGE));
}

/// Gives `bytes` back. Never more than `me` holds, whatever its threads do at once: the rest is
/// dropped, since a word below zero would read as 256 TiB and refuse everybody.
pub fn give_back<S: Slots>(slots: &S, me: usize, bytes: u64) {
    let mut word = slots.held_word(me);
    loop {
        let less = word.wrapping_add(CHANGE).wrapping_sub(bytes.min(held_bytes(word)));
        match slots.replace_held_word(me, word, less) {
            Ok(()) => return,
            Err(now) => word = now,
        }
    }
}

/// Takes everything from a dead process's slot. The caller holds the slot's liveness lock, so nobody
/// else writes there; the change counter goes on, or a snapshot could take two owners for one.
pub fn clear<S: Slots>(slots: &S, slot: usize) {
    slots.add_asking(slot, slots.asking(slot).wrapping_neg());
    slots.add_held_word(slot, CHANGE.wrapping_sub(held_bytes(slots.held_word(slot))));
}

/// Sum of all `held`: what a query is answered with. Not a snapshot.
pub fn used_bytes<S: Slots>(slots: &S) -> u64 {
    (0..slots.high())
        .fold(0, |sum: u64, slot| sum.saturating_add(held_bytes(slots.held_word(slot))))
}

/// Upper bound of all bytes held and asked for: `asking` before `held`, slot by slot.
fn sum<S: Slots>(slots: &S) -> u64 {
    let mut total = 0_u64;
    for slot in 0..slots.high() {
        let asking = slots.asking(slot);
        let held = held_bytes(slots.held_word(slot));
        total = total.saturating_add(asking).saturating_add(held);
    }
    total
}

/// Bytes held by all at one instant, or `None` when they changed while being read.
///
/// A slot's counter only grows, so two readings with the same sum of counters met the same words.
fn snapshot<S: Slots>(slots: &S) -> Option<u64> {
    let read = || {
        (0..slots.high()).fold((0_u64, 0_u64), |(bytes, sum), slot| {
            let word = slots.held_word(slot);
            (bytes.saturating_add(held_bytes(word)), sum.wrapping_add(changes(word)))
        })
    };
    let first = read();
    (first == read()).then_some(first.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    struct Plain(RefCell<Vec<(u64, u64)>>);

    impl Slots for Plain {
        fn high(&self) -> usize {
            self.0.borrow().len()
        }
        fn asking(&self, slot: usize) -> u64 {
            self.0.borrow()[slot].1
        }
        fn held_word(&self, slot: usize) -> u64 {
            self.0.borrow()[slot].0
        }
        fn add_asking(&self, slot: usize, delta: u64) {
            let word = &mut self.0.borrow_mut()[slot].1;
            *word = word.wrapping_add(delta);
        }
        fn add_held_word(&self, slot: usize, delta: u64) {
            let word = &mut self.0.borrow_mut()[slot].0;
            *word = word.wrapping_add(delta);
        }
        fn replace_held_word(&self, slot: usize, old: u64, new: u64) -> Result<(), u64> {
            let word = &mut self.0.borrow_mut()[slot].0;
            if *word != old {
                return Err(*word);
            }
            *word = new;
            Ok(())
        }
    }

    struct Nobody;
    impl Admission for Nobody {
        fn reap(&mut self) {}
        fn pause(&mut self) -> bool {
            false
        }
    }

    #[test]
    fn each_change_of_a_word_is_counted_above_its_bytes() {
        let slots = Plain(RefCell::new(vec![(0, 0); 2]));
        hold(&slots, 1, 4_096);
        hold(&slots, 1, 4_096);
        let word = slots.held_word(1);
        assert_eq!((changes(word), held_bytes(word)), (2, 8_192));
        give_back(&slots, 1, 4_096);
        assert_eq!(changes(slots.held_word(1)), 3);
    }

    #[test]
    fn fills_to_the_last_byte_and_refuses_the_next() {
        let slots = Plain(RefCell::new(vec![(0, 0); 3]));
        assert_eq!(ask(&slots, 1, 60, 100), Some(60));
        assert_eq!(ask(&slots, 2, 40, 100), Some(100));
        assert_eq!(ask(&slots, 2, 1, 100), None);
        assert_eq!(
            admit(&slots, 2, 1, 100, &mut Nobody),
            Err(MemoryRefusal::OverLimit { held_bytes: 100 })
        );
        give_back(&slots, 1, 60);
        assert_eq!(used_bytes(&slots), 40);
        assert_eq!(admit(&slots, 2, 60, 100, &mut Nobody), Ok(100));
    }

    #[test]
    fn an_absurd_request_is_refused_not_wrapped() {
        let slots = Plain(RefCell::new(vec![(0, 0); 2]));
        assert_eq!(ask(&slots, 1, u64::MAX, u64::MAX - 1), None);
        assert_eq!(
            admit(&slots, 1, u64::MAX, u64::MAX - 1, &mut Nobody),
            Err(MemoryRefusal::OverLimit { held_bytes: 0 })
        );
    }

    #[test]
    fn another_askers_bytes_count_until_it_settles() {
        let slots = Plain(RefCell::new(vec![(0, 0); 3]));
        slots.add_asking(1, 80);
        assert_eq!(ask(&slots, 2, 30, 100), None);
        assert_eq!(admit(&slots, 2, 30, 100, &mut Nobody), Err(MemoryRefusal::Contended));
    }

    #[test]
    fn giving_back_more_than_held_stops_at_zero() {
        let slots = Plain(RefCell::new(vec![(0, 0); 2]));
        hold(&slots, 1, 5);
        give_back(&slots, 1, 9);
        assert_eq!(used_bytes(&slots), 0);
    }
}
