//! Marks of one lane: a ring of timing events, with the work submitted before each.
//!
//! Only the thread that holds the lane's claim changes the ring; the words are atomic so that the rest may look. A
//! probe's first event is not in the ring: other threads may mark between its two.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::atomic::{AtomicU32, AtomicU64};

/// Places of the ring.
pub(super) const MARKS: u32 = 32;

/// Events of a lane: one for each place of the ring, behind them those that begin probes.
pub(super) const EVENTS: u32 = 2 * MARKS;

/// One mark.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Estimate of all work submitted before it, in nanoseconds, since the lane began.
    pub(super) submitted_ns: u64,
    /// Time just before its recording, by the host's clock.
    pub(super) at_ns: u64,
    /// True if it stands behind all of the context's work, not one stream's.
    pub(super) is_whole: bool,
    /// The turn it was recorded in.
    pub(super) epoch: u64,
    /// True if an earlier mark was incomplete when it was recorded, and nothing came between.
    pub(super) linked: bool,
    /// Contexts that worked on the device when it was recorded, at least 1.
    pub(super) sharers: u32,
    /// The probe that it ends; `None` for a mark without one.
    pub(super) probe: Option<Probe>,
    /// Key and charge of the launch before it, where the mark is that launch's own; not beside a probe.
    pub(super) followed: Option<(u64, u64)>,
    /// Its place in a window of several streams'.
    pub(super) edge: Edge,
}

/// Place of a mark in a window in which several streams are measured together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// In no window.
    #[default]
    Outside,
    /// Within: the work since the mark before it is in the window.
    Within,
    /// Within, and the last mark that is.
    Last,
    /// Teaching mark: the work since the mark before it is measured by itself.
    Teaches,
    /// Mark behind the teaching ones, which teaches nothing.
    After,
}

/// The launch between a probe's two events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Probe {
    /// The launch's key.
    pub(super) key: u64,
    /// Its charge.
    pub(super) charged_ns: u64,
    /// Charges that it stands for: no less than its own.
    pub(super) stands_ns: u64,
    /// Time at which the probe was begun, by the host's clock.
    pub(super) at_ns: u64,
    /// The event before it.
    pub(super) event: u32,
    /// Host time between the two submissions, which a drained device spent waiting; 0 where the device had work
    /// meanwhile, so that nothing but the launch lies between the events.
    pub(super) gap_ns: u64,
    /// True if the device had work when the event was recorded, so that it may not have waited for all of the gap.
    pub(super) is_behind: bool,
}

/// The first half of a probe. The event is the ticket's until it is a mark's, or given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probed {
    pub(super) event: u32,
    pub(super) at_ns: u64,
    /// Work that the driver had been given.
    pub(super) since_ns: u64,
    /// Charges that the launch stands for.
    pub(super) stands_ns: u64,
}

#[derive(Debug)]
struct Place {
    submitted_ns: AtomicU64,
    at_ns: AtomicU64,
    epoch: AtomicU64,
    /// Bits: 1 linked, 2 probed, 4 followed, the edge from the fourth bit on, 64 behind, 128 whole, the sharers from
    /// the ninth.
    flags: AtomicU32,
    key: AtomicU64,
    charged_ns: AtomicU64,
    stands_ns: AtomicU64,
    probe_at_ns: AtomicU64,
    gap_ns: AtomicU64,
    probe_event: AtomicU32,
}

impl Place {
    const fn new() -> Self {
        Self {
            submitted_ns: AtomicU64::new(0),
            at_ns: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            key: AtomicU64::new(0),
            charged_ns: AtomicU64::new(0),
            stands_ns: AtomicU64::new(0),
            probe_at_ns: AtomicU64::new(0),
            gap_ns: AtomicU64::new(0),
            probe_event: AtomicU32::new(0),
        }
    }
}

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    places: [Place; MARKS as usize],
    head: AtomicU32,
    tail: AtomicU32,
}

impl Ring {
    pub(super) const fn new() -> Self {
        Self {
            places: [const { Place::new() }; MARKS as usize],
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
        }
    }

    /// Counts the marks that have not been settled; to a thread without the claim, the count of a moment ago, or more.
    pub(super) fn pending(&self) -> u32 {
        // The tail is read first: the head that is read then is no older.
        let tail = self.tail.load(Acquire);
        self.head.load(Acquire).wrapping_sub(tail)
    }

    /// True if one more mark can be recorded without losing the mark that is measured from.
    pub(super) fn has_place(&self) -> bool {
        self.pending() < MARKS - 2
    }

    /// True if one launch's mark has room: some places are left for the mark behind all launches.
    pub(super) fn has_room(&self) -> bool {
        self.pending() < MARKS - 4
    }

    /// Returns the event of the next mark.
    pub(super) fn next_event(&self) -> u32 {
        self.head.load(Relaxed) % MARKS
    }

    /// Returns the events of the newest and of the oldest mark that are not settled.
    pub(super) fn newest_and_oldest(&self) -> Option<(u32, u32)> {
        let head = self.head.load(Relaxed);
        (self.pending() != 0)
            .then(|| (head.wrapping_sub(1) % MARKS, self.tail.load(Relaxed) % MARKS))
    }

    fn place(&self, event: u32) -> Option<&Place> {
        self.places.get((event % MARKS) as usize)
    }

    /// Enters the mark that was recorded by [`Ring::next_event`].
    pub(super) fn push(&self, mark: Mark) {
        let event = self.next_event();
        let Some(place) = self.place(event) else { return };
        place.submitted_ns.store(mark.submitted_ns, Relaxed);
        place.at_ns.store(mark.at_ns, Relaxed);
        place.epoch.store(mark.epoch, Relaxed);
        let flags = u32::from(mark.linked)
            | u32::from(mark.probe.is_some()) << 1
            | u32::from(mark.followed.is_some()) << 2
            | (mark.edge as u32) << 3;
        let is_behind = mark.probe.is_some_and(|probe| probe.is_behind);
        let flags = flags | u32::from(is_behind) << 6 | u32::from(mark.is_whole) << 7;
        place.flags.store(flags | mark.sharers << 8, Relaxed);
        if let Some((key, charged_ns)) = mark.followed {
            place.key.store(key, Relaxed);
            place.charged_ns.store(charged_ns, Relaxed);
        }
        if let Some(probe) = mark.probe {
            place.key.store(probe.key, Relaxed);
            place.charged_ns.store(probe.charged_ns, Relaxed);
            place.stands_ns.store(probe.stands_ns, Relaxed);
            place.probe_at_ns.store(probe.at_ns, Relaxed);
            place.gap_ns.store(probe.gap_ns, Relaxed);
            place.probe_event.store(probe.event, Relaxed);
        }
        self.head.store(self.head.load(Relaxed).wrapping_add(1), Release);
    }

    /// Returns the oldest mark that is not settled, and its event.
    pub(super) fn oldest(&self) -> Option<(u32, Mark)> {
        if self.pending() == 0 {
            return None;
        }
        let event = self.tail.load(Relaxed) % MARKS;
        let place = self.place(event)?;
        let flags = place.flags.load(Relaxed);
        let probe = (flags & 2 != 0).then(|| Probe {
            key: place.key.load(Relaxed),
            charged_ns: place.charged_ns.load(Relaxed),
            stands_ns: place.stands_ns.load(Relaxed),
            at_ns: place.probe_at_ns.load(Relaxed),
            gap_ns: place.gap_ns.load(Relaxed),
            event: place.probe_event.load(Relaxed),
            is_behind: flags & 64 != 0,
        });
        let followed =
            (flags & 4 != 0).then(|| (place.key.load(Relaxed), place.charged_ns.load(Relaxed)));
        let edge = match flags >> 3 & 7 {
            0 => Edge::Outside,
            1 => Edge::Within,
            2 => Edge::Last,
            3 => Edge::Teaches,
            _ => Edge::After,
        };
        let mark = Mark {
            submitted_ns: place.submitted_ns.load(Relaxed),
            at_ns: place.at_ns.load(Relaxed),
            is_whole: flags & 128 != 0,
            epoch: place.epoch.load(Relaxed),
            linked: flags & 1 != 0,
            sharers: flags >> 8,
            probe,
            followed,
            edge,
        };
        Some((event, mark))
    }

    /// Forgets all marks.
    pub(super) fn clear(&self) {
        self.tail.store(self.head.load(Relaxed), Release);
    }

    /// Removes the oldest mark, now settled.
    pub(super) fn pop(&self) {
        self.tail.store(self.tail.load(Relaxed).wrapping_add(1), Release);
    }
}

/// Bits of the events that begin probes and are in use: from the first event's recording until the launch between the
/// two is measured, or cannot be.
///
/// The bits stand below the end of the number of the lane's life: a thread that comes back from the driver with a probe
/// of an earlier life gives nothing back.
#[derive(Debug)]
pub(super) struct Probes {
    word: AtomicU64,
}

const BITS: u32 = u64::BITS / 2;
const _: () = assert!(MARKS == BITS);

impl Probes {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Returns the bits that a word holds for a life.
    fn bits(word: u64, life: u64) -> u32 {
        let is_of_it = (word ^ life << BITS) >> BITS == 0;
        if is_of_it { low(word) } else { 0 }
    }

    /// Takes an unused event. The caller holds the claim of this life.
    #[inline(never)]
    pub(super) fn take(&self, life: u64) -> Option<u32> {
        let take = |word: u64| {
            let bits = Self::bits(word, life);
            let taken = bits | bits.checked_add(1)?;
            Some(life << BITS | u64::from(taken))
        };
        let before = self.word.fetch_update(AcqRel, Acquire, take).ok()?;
        Some(MARKS.wrapping_add(Self::bits(before, life).trailing_ones()))
    }

    /// Gives an event back.
    #[inline(never)]
    pub(super) fn give_back(&self, life: u64, event: u32) {
        let bit = 1_u32.checked_shl(event.wrapping_sub(MARKS)).unwrap_or(0);
        let less = |word: u64| {
            let bits = Self::bits(word, life);
            (bits & bit != 0).then_some(word & !u64::from(bit))
        };
        let _ = self.word.fetch_update(AcqRel, Acquire, less);
    }
}

/// Returns the lower half of a word.
const fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_in_order_and_a_full_ring_says_so() {
        let ring = Ring::new();
        let edge = |nth| match nth % 5 {
            0 => Edge::Last,
            1 => Edge::Within,
            2 => Edge::After,
            3 => Edge::Teaches,
            _ => Edge::Outside,
        };
        let mut pushed = 0_u64;
        for round in 0..5 {
            while ring.has_place() {
                assert_eq!(u64::from(ring.next_event()), pushed % u64::from(MARKS));
                let probe = Probe {
                    key: pushed,
                    charged_ns: 1,
                    stands_ns: 1,
                    at_ns: 0,
                    event: 33,
                    gap_ns: round,
                    is_behind: pushed.is_multiple_of(2),
                };
                let probe = (pushed.is_multiple_of(3)).then_some(probe);
                ring.push(Mark {
                    submitted_ns: pushed,
                    at_ns: pushed * 3,
                    is_whole: pushed.is_multiple_of(4),
                    epoch: pushed / 7,
                    linked: pushed % 2 == 1,
                    sharers: 3,
                    probe,
                    followed: (probe.is_none() && pushed.is_multiple_of(5)).then_some((pushed, 9)),
                    edge: edge(pushed),
                });
                pushed += 1;
            }
            let first = pushed - u64::from(ring.pending());
            for expected in first..pushed {
                let (event, mark) = ring.oldest().expect("one");
                assert_eq!(u64::from(event), expected % u64::from(MARKS));
                assert_eq!((mark.submitted_ns, mark.linked), (expected, expected % 2 == 1));
                assert_eq!((mark.sharers, mark.edge), (3, edge(expected)));
                assert_eq!(
                    mark.probe.map(|p| (p.key, p.is_behind)),
                    (expected % 3 == 0).then_some((expected, expected % 2 == 0))
                );
                let is_followed = expected % 3 != 0 && expected % 5 == 0;
                assert_eq!(mark.followed, is_followed.then_some((expected, 9)));
                ring.pop();
            }
            assert!(ring.oldest().is_none() && ring.newest_and_oldest().is_none());
        }
    }

    #[test]
    fn a_probe_has_its_event_until_it_gives_it_back() {
        let probes = Probes::new();
        let all: Vec<_> = (0..MARKS).map(|_| probes.take(0).expect("one")).collect();
        assert_eq!(all, (MARKS..EVENTS).collect::<Vec<_>>());
        assert_eq!(probes.take(0), None);
        probes.give_back(0, MARKS + 7);
        assert_eq!(probes.take(0), Some(MARKS + 7));
        // Another life has all of them, and a thread of the last life can take none from it.
        assert_eq!(probes.take(1), Some(MARKS));
        probes.give_back(0, MARKS);
        assert_eq!(probes.take(1), Some(MARKS + 1));
        probes.give_back(1, MARKS);
        assert_eq!(probes.take(1), Some(MARKS));
    }
}
