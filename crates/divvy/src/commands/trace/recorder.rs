//! Readings of a tenant's gates, turned into events of the Chrome trace format.
//!
//! Pure: readings and their times come in, events come out. Promises: every interval begins at the
//! first reading that showed it and ends at the first that did not; intervals of one track do not
//! overlap; counters are rates over fixed intervals. What a tenant wrote is a claim: numbers that run
//! backwards count as none.

use std::collections::BTreeMap;

use divvy_abi::config::{GateLine, gate};
use divvy_page::ResidenceEntry;
use divvy_page::reader::GateEntry;
use divvy_policy::turns::WANT_NS;
use serde_json::{Value, json};

use super::memory::{MEMORY_TRACKS, MemoryEvent, MemoryRow};

/// Time over which rates are taken.
const RATE_NS: u64 = 10_000_000;
/// Most that a wish may be older than the closing as it was seen.
const SEEN_NS: u64 = 1_000_000;

/// A tenant on a device at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Whether `divvy set --pause` stopped it.
    pub(super) is_paused: bool,
    /// The gate as its owner wrote it.
    pub(super) line: GateLine,
    /// Until when the tenant's own cap keeps it closed.
    pub(super) closed_until_ns: u64,
    /// All its processes together.
    pub(super) sum: GateEntry,
    /// Their memory that may leave; `None` where the tenant does not oversubscribe.
    pub(super) memory: Option<ResidenceEntry>,
}

/// An event of the trace.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Event {
    name: String,
    /// X an interval, C a counter, M a name.
    ph: &'static str,
    /// Microseconds since the trace began.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// The device's row, until it is placed among other tenants'.
    pid: u32,
    tid: u32,
    args: Value,
}

impl Event {
    /// The same in a file in which this tenant's first row is process `first`.
    pub(super) fn placed(&self, first: u32) -> Self {
        Self { pid: self.pid.saturating_add(first), ..self.clone() }
    }
}

/// The tracks of one device, in their order on the screen.
const TRACKS: [&str; 4] =
    ["gate", "throttled by its cap", "waiting for a turn", "work on the device"];

/// An interval that has not ended.
#[derive(Clone, Debug, PartialEq)]
struct Open {
    name: &'static str,
    turn: u64,
    active: u32,
    since_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Row {
    open: [Option<Open>; TRACKS.len()],
    before: Option<GateEntry>,
    /// Where the running interval of rates began, and the counters then.
    rates: Option<(u64, GateEntry)>,
    memory: MemoryRow,
}

/// Recording of one tenant.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    start_ns: u64,
    rows: BTreeMap<usize, Row>,
    events: Vec<Event>,
}

impl Recorder {
    /// Starts the clock.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
    }

    /// Names the tracks of `row`.
    pub(super) fn name(&mut self, row: usize, name: &str) {
        self.meta(row, "process_name", 0, json!({ "name": name }));
        self.name_tracks(row, 0, &TRACKS);
    }

    fn name_tracks(&mut self, row: usize, first: usize, tracks: &[&str]) {
        for (at, track) in (first..).zip(tracks) {
            self.meta(row, "thread_name", number(at), json!({ "name": track }));
            self.meta(row, "thread_sort_index", number(at), json!({ "sort_index": at }));
        }
    }

    fn meta(&mut self, row: usize, kind: &str, tid: u32, args: Value) {
        let (name, pid) = (kind.to_owned(), number(row));
        self.events.push(Event { name, ph: "M", ts: 0.0, dur: None, pid, tid, args });
    }

    /// Takes a reading of `row`.
    pub(super) fn push(&mut self, row: usize, now_ns: u64, reading: &Reading) {
        let mut state = self.rows.remove(&row).unwrap_or_default();
        let sum = reading.sum;
        let gate = gate_word(reading, now_ns);
        let closed_since_ns = match &state.open[0] {
            Some(open) if open.name == "closed" => open.since_ns,
            _ => now_ns,
        };
        let wants = sum.want_ns.saturating_add(SEEN_NS) >= closed_since_ns
            && now_ns.saturating_sub(sum.want_ns) < WANT_NS;
        let grew = state.before.is_some_and(|before| sum.used_ns > before.used_ns);
        let shown = [
            Some(gate),
            (reading.closed_until_ns > now_ns).then_some("throttled"),
            (gate == "closed" && wants).then_some("waiting"),
            (sum.busy_until_ns > now_ns || grew).then_some("work"),
        ];
        for (track, name) in shown.into_iter().enumerate() {
            let is_gate = track == 0;
            let next = name.map(|name| Open {
                name,
                turn: if is_gate { reading.line.epoch } else { 0 },
                active: if is_gate { reading.line.active } else { 0 },
                since_ns: now_ns,
            });
            let Some(open) = state.open.get_mut(track) else { continue };
            let is_same = match (&*open, &next) {
                (Some(a), Some(b)) => (a.name, a.turn, a.active) == (b.name, b.turn, b.active),
                (None, None) => true,
                _ => false,
            };
            if !is_same && let Some(ended) = std::mem::replace(open, next) {
                self.interval(row, track, &ended, now_ns);
            }
        }
        self.rates(row, now_ns, &mut state, sum);
        if let Some(memory) = &reading.memory {
            for event in state.memory.push(now_ns, memory) {
                self.memory(row, &event);
            }
        }
        state.before = Some(sum);
        self.rows.insert(row, state);
    }

    /// Ends every interval.
    pub(super) fn end(&mut self, now_ns: u64) {
        for (row, mut state) in std::mem::take(&mut self.rows) {
            if let Some(wait) = state.memory.end_wait(now_ns) {
                self.memory(row, &wait);
            }
            for (track, open) in state.open.iter().enumerate() {
                if let Some(open) = open {
                    self.interval(row, track, open, now_ns);
                }
            }
        }
    }

    /// The recorded events.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    fn interval(&mut self, row: usize, track: usize, open: &Open, now_ns: u64) {
        let args = match track {
            0 => json!({ "turn": open.turn, "active": open.active }),
            _ => json!({}),
        };
        self.span(row, track, open.name, (open.since_ns, now_ns), args);
    }

    fn span(&mut self, row: usize, track: usize, name: &str, between: (u64, u64), args: Value) {
        let (from_ns, to_ns) = between;
        self.events.push(Event {
            name: name.to_owned(),
            ph: "X",
            ts: self.microseconds(from_ns),
            dur: Some(to_ns.saturating_sub(from_ns) as f64 / 1000.0),
            pid: number(row),
            tid: number(track),
            args,
        });
    }

    /// Draws a part about memory; its tracks lie behind the others.
    fn memory(&mut self, row: usize, event: &MemoryEvent) {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        match *event {
            MemoryEvent::Tracks => self.name_tracks(row, TRACKS.len(), &MEMORY_TRACKS),
            MemoryEvent::Moved { track, from_ns, to_ns, bytes, ns } => {
                let name = if track == 0 { "out" } else { "in" };
                // Bytes a nanosecond are GB a second.
                let args = json!({ "bytes": bytes, "GB/s": bytes as f64 / ns.max(1) as f64 });
                self.span(row, TRACKS.len() + track, name, (from_ns, to_ns), args);
            }
            MemoryEvent::Waited { from_ns, to_ns } => {
                let track = TRACKS.len() + MEMORY_TRACKS.len() - 1;
                self.span(row, track, "waits for memory", (from_ns, to_ns), json!({}));
            }
            MemoryEvent::Places { at_ns, card_bytes, away_bytes } => {
                let args = json!({ "on the card": gib(card_bytes), "away": gib(away_bytes) });
                self.counter(row, "memory, GiB", at_ns, args);
            }
        }
    }

    fn counter(&mut self, row: usize, name: &str, at_ns: u64, args: Value) {
        let (ts, name) = (self.microseconds(at_ns), name.to_owned());
        self.events.push(Event { name, ph: "C", ts, dur: None, pid: number(row), tid: 0, args });
    }

    fn rates(&mut self, row: usize, now_ns: u64, state: &mut Row, sum: GateEntry) {
        let Some((since_ns, before)) = state.rates else {
            state.rates = Some((now_ns, sum));
            return;
        };
        let wall_ns = now_ns.saturating_sub(since_ns);
        if wall_ns < RATE_NS {
            return;
        }
        state.rates = Some((now_ns, sum));
        let part = |now: u64, then: u64| now.saturating_sub(then) as f64 / wall_ns as f64;
        let mut counter = |name: &str, args: Value| self.counter(row, name, since_ns, args);
        counter("device time, %", json!({ "used": 100.0 * part(sum.used_ns, before.used_ns) }));
        let launches = sum.launches.saturating_sub(before.launches);
        counter("launches", json!({ "launches": launches }));
        counter(
            "threads that wait",
            json!({
                "for the cap": part(sum.throttled_ns, before.throttled_ns),
                "for a turn": part(sum.waited_ns, before.waited_ns),
            }),
        );
    }

    fn microseconds(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.start_ns) as f64 / 1000.0
    }
}

/// Gate as launches see it: a closed one whose lease has passed is none.
fn gate_word(reading: &Reading, now_ns: u64) -> &'static str {
    match reading.line.gate {
        _ if reading.is_paused => "paused",
        gate::FREE => "free",
        gate::CLOSED if reading.line.lease_ns > now_ns => "closed",
        gate::CLOSED => "left by its daemon",
        gate::TURNS | gate::SHARED_TURNS if reading.line.lease_ns > now_ns => "turns inside",
        _ => "timed",
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
