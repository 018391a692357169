//! Readings of a tenant's memory that may leave a device, turned into what is drawn of it.
//!
//! Pure. A movement is drawn once it has ended, by the process's own counters: they say how many bytes moved and in which
//! time, so that it begins and ends where it did but for the time between two readings. A wait begins where the process
//! says it did. Promises: intervals of one track do not overlap, and none begins before the first reading; a counter that
//! runs backwards is none.
//!
//! Does not know the trace's format: that is [`super::recorder`]'s.

use divvy_page::ResidenceEntry;

/// The tracks, in their order on the screen.
pub(super) const MEMORY_TRACKS: [&str; 3] =
    ["memory leaves", "memory comes back", "waiting for memory"];

/// Least time between two points of where memory is.
const PLACES_NS: u64 = 10_000_000;

/// Part of a trace about memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MemoryEvent {
    /// There is such memory: its tracks are named.
    Tracks,
    /// Bytes moved on this track, within `ns` as their processes measured it.
    Moved { track: usize, from_ns: u64, to_ns: u64, bytes: u64, ns: u64 },
    /// A call waited.
    Waited { from_ns: u64, to_ns: u64 },
    /// Where the memory is.
    Places { at_ns: u64, card_bytes: u64, away_bytes: u64 },
}

/// One direction of moving.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// The counters up to where it was drawn: bytes, and the time in which they moved.
    drawn: (u64, u64),
    ended_ns: u64,
}

impl Way {
    /// The movement since it was drawn last: from when, how many bytes, and in which time.
    fn moved(&mut self, now_ns: u64, (bytes, ns): (u64, u64)) -> Option<(u64, u64, u64)> {
        let moved_bytes = bytes.saturating_sub(self.drawn.0);
        let moved_ns = ns.saturating_sub(self.drawn.1);
        // Bytes are counted before their time: the next reading has both.
        if moved_bytes > 0 && ns == self.drawn.1 {
            return None;
        }
        self.drawn = (bytes, ns);
        if moved_bytes == 0 || moved_ns == 0 {
            return None;
        }
        let from_ns = now_ns.saturating_sub(moved_ns).max(self.ended_ns);
        self.ended_ns = now_ns;
        Some((from_ns, moved_bytes, moved_ns))
    }
}

/// The memory of one tenant on one device.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryRow {
    is_known: bool,
    ways: [Way; 2],
    /// Since when a call waits; and the end of the last such wait.
    waits: Option<Wait>,
    waited_ns: u64,
    /// When the places were drawn last, and which.
    places: Option<(u64, (u64, u64))>,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wait {
    /// As the process says it.
    said_ns: u64,
    /// As it is drawn.
    from_ns: u64,
}

impl MemoryRow {
    /// Takes a reading: what is to be drawn of it.
    pub(super) fn push(&mut self, now_ns: u64, entry: &ResidenceEntry) -> Vec<MemoryEvent> {
        let mut events = Vec::new();
        let counters = [(entry.out_bytes, entry.out_ns), (entry.in_bytes, entry.in_ns)];
        if !self.is_known {
            if *entry == ResidenceEntry::default() {
                return events;
            }
            self.is_known = true;
            self.ways = counters.map(|drawn| Way { drawn, ended_ns: now_ns });
            self.waited_ns = now_ns;
            events.push(MemoryEvent::Tracks);
        }
        for (track, (way, counted)) in self.ways.iter_mut().zip(counters).enumerate() {
            if let Some((from_ns, bytes, ns)) = way.moved(now_ns, counted) {
                events.push(MemoryEvent::Moved { track, from_ns, to_ns: now_ns, bytes, ns });
            }
        }
        let said_ns = Some(entry.waits_from_ns).filter(|said| *said != 0 && *said <= now_ns);
        if self.waits.map(|wait| wait.said_ns) != said_ns {
            events.extend(self.end_wait(now_ns));
            let from = |said_ns: u64| Wait { said_ns, from_ns: said_ns.max(self.waited_ns) };
            self.waits = said_ns.map(from);
        }
        let now = (entry.movable_bytes.saturating_sub(entry.away_bytes), entry.away_bytes);
        let is_due = self.places.is_none_or(|(at_ns, places)| {
            places != now && now_ns >= at_ns.saturating_add(PLACES_NS)
        });
        if is_due {
            self.places = Some((now_ns, now));
            let (card_bytes, away_bytes) = now;
            events.push(MemoryEvent::Places { at_ns: now_ns, card_bytes, away_bytes });
        }
        events
    }

    /// Ends the wait that has not, if there is one.
    pub(super) fn end_wait(&mut self, now_ns: u64) -> Option<MemoryEvent> {
        let Wait { from_ns, .. } = self.waits.take()?;
        self.waited_ns = now_ns;
        Some(MemoryEvent::Waited { from_ns, to_ns: now_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const GIB: u64 = 1 << 30;

    fn all(readings: &[(u64, ResidenceEntry)]) -> Vec<MemoryEvent> {
        let mut row = MemoryRow::default();
        let mut events: Vec<_> =
            readings.iter().flat_map(|(ms, entry)| row.push(ms * MS, entry)).collect();
        events.extend(row.end_wait(readings.last().map_or(0, |(ms, _)| ms * MS)));
        events.retain(|event| !matches!(event, MemoryEvent::Places { .. }));
        events
    }

    fn entry() -> ResidenceEntry {
        ResidenceEntry { movable_bytes: 4 * GIB, ..ResidenceEntry::default() }
    }

    #[test]
    fn what_moved_is_drawn_where_it_did() {
        let out = |bytes, ms| ResidenceEntry { out_bytes: bytes, out_ns: ms * MS, ..entry() };
        let before = out(GIB, 7);
        let events = all(&[
            (0, ResidenceEntry::default()),
            (100, before),
            // Bytes are seen before their time, and time without bytes is none.
            (150, out(3 * GIB, 7)),
            (151, out(3 * GIB, 47)),
            (160, out(3 * GIB, 49)),
            (170, ResidenceEntry { in_bytes: GIB, in_ns: 500 * MS, ..out(3 * GIB, 49) }),
            (171, out(5 * GIB, 149)),
        ]);
        let moved = |track, from, to, bytes, ms| MemoryEvent::Moved {
            track,
            from_ns: from * MS,
            to_ns: to * MS,
            bytes,
            ns: ms * MS,
        };
        assert_eq!(
            events,
            [
                MemoryEvent::Tracks,
                moved(0, 111, 151, 2 * GIB, 40),
                // Not before the first reading, and not over another.
                moved(1, 100, 170, GIB, 500),
                moved(0, 151, 171, 2 * GIB, 100),
            ]
        );
    }

    #[test]
    fn waits_begin_where_the_process_says() {
        let waits = |ms: u64| ResidenceEntry { waits_from_ns: ms * MS, ..entry() };
        let events = all(&[
            (100, waits(20)),
            (110, waits(0)),
            (120, waits(115)),
            (130, waits(105)),
            (140, waits(900)),
            (150, waits(149)),
            (160, waits(149)),
        ]);
        let waited = |from, to| MemoryEvent::Waited { from_ns: from * MS, to_ns: to * MS };
        assert_eq!(
            events,
            [
                MemoryEvent::Tracks,
                waited(100, 110),
                waited(115, 130),
                waited(130, 140),
                waited(149, 160)
            ]
        );
    }

    #[test]
    fn places_are_drawn_when_they_change_and_not_too_often() {
        let mut row = MemoryRow::default();
        let mut drawn = Vec::new();
        for ms in 0..100 {
            let away_bytes = (ms.clamp(20, 50) - 20) << 20;
            let events = row.push(ms * MS, &ResidenceEntry { away_bytes, ..entry() });
            drawn.extend(events.into_iter().filter_map(|event| match event {
                MemoryEvent::Places { at_ns, card_bytes, away_bytes } => {
                    assert_eq!(card_bytes + away_bytes, 4 * GIB);
                    Some((at_ns / MS, away_bytes >> 20))
                }
                _ => None,
            }));
        }
        assert_eq!(drawn, [(0, 0), (21, 1), (31, 11), (41, 21), (51, 30)]);
    }

    #[test]
    fn counters_that_run_backwards_draw_nothing() {
        let most = ResidenceEntry { in_bytes: u64::MAX, in_ns: u64::MAX, ..entry() };
        assert_eq!(all(&[(1, most), (2, entry()), (3, entry())]), [MemoryEvent::Tracks]);
    }
}
