//! Memory of a tenant that may leave a device: where it is, whether the tenant runs or waits, and what moves.
//!
//! Pure. Speeds are over the time in which memory moved, not over all between two samples; a movement that has not ended
//! has no such time yet, and counts by what is away more or less. The names of the fields are a part of the JSON contract
//! of `divvy top --json`; they are only ever added to.

use crate::output::sizes;
use crate::tenants::ledger::{DeviceUse, ResidenceUse};

/// Columns of the table of tenants, where any of them has such memory.
pub(super) const HEAD: [&str; 4] = [">ON CARD", ">AWAY", "MEMORY", ">GB/S"];

/// A tenant's memory that may leave a device.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct PlacedMemory {
    pub(super) resident_bytes: u64,
    /// Of these, bytes that stay.
    pub(super) pinned_bytes: u64,
    pub(super) away_bytes: u64,
    /// The daemon's word for it: runs, restores, waits, rests, frozen, larger, pinned-out or bypassed.
    pub(super) status: Option<String>,
    pub(super) moving: bool,
    /// Time for which a call has been waiting for it; 0 for none.
    pub(super) waiting_ns: u64,
    /// Bytes a second while memory left; absent where none did.
    pub(super) out_bytes_per_second: Option<f64>,
    /// The same of what came back.
    pub(super) in_bytes_per_second: Option<f64>,
}

impl PlacedMemory {
    /// Of a tenant's device, with `earlier` of `over_ns` before; `None` where no memory may leave.
    pub(super) fn of(
        device: &DeviceUse,
        earlier: Option<&DeviceUse>,
        over_ns: u64,
    ) -> Option<Self> {
        let now = device.residence.as_ref()?;
        let before = earlier.and_then(|earlier| earlier.residence.as_ref());
        let speed = |moved: fn(&ResidenceUse) -> (u64, u64), started: fn(u64, u64) -> u64| {
            let before = before?;
            let ((bytes, ns), (bytes_before, ns_before)) = (moved(now), moved(before));
            let (bytes, ns) = (bytes.saturating_sub(bytes_before), ns.saturating_sub(ns_before));
            let (bytes, ns) = match (bytes, ns) {
                (0, _) | (_, 0) if now.moving => {
                    (started(before.away_bytes, now.away_bytes), over_ns)
                }
                ended => ended,
            };
            (bytes > 0 && ns > 0).then(|| bytes as f64 * 1e9 / ns as f64)
        };
        Some(Self {
            resident_bytes: now.resident_bytes,
            pinned_bytes: now.pinned_bytes,
            away_bytes: now.away_bytes,
            status: device.memory_status.clone(),
            moving: now.moving,
            waiting_ns: now.waiting_ns,
            out_bytes_per_second: speed(
                |memory| (memory.out_bytes, memory.out_ns),
                |before, now| now.saturating_sub(before),
            ),
            in_bytes_per_second: speed(
                |memory| (memory.in_bytes, memory.in_ns),
                |before, now| before.saturating_sub(now),
            ),
        })
    }

    /// Its cells of the table.
    fn cells(&self) -> [String; 4] {
        let [on_card, away] = [self.resident_bytes, self.away_bytes].map(sizes::text);
        [on_card, away, self.words(), self.speeds()]
    }

    /// The daemon's word for it, or what its processes say where there is none, and how long a call has waited.
    fn words(&self) -> String {
        let status = match (&self.status, self.waiting_ns, self.moving) {
            (Some(status), ..) => status.as_str(),
            (None, 1.., _) => "waits",
            (None, 0, true) => "moves",
            (None, 0, false) => "-",
        };
        match self.waiting_ns {
            0 => status.to_owned(),
            ns => format!("{status} {:.1} s", ns as f64 / 1e9),
        }
    }

    fn speeds(&self) -> String {
        let speed = |way: &str, speed: Option<f64>| speed.map(|s| format!("{way} {:.1}", s / 1e9));
        let speeds =
            [speed("out", self.out_bytes_per_second), speed("in", self.in_bytes_per_second)];
        match speeds.into_iter().flatten().collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "-".to_owned(),
            words => words,
        }
    }
}

/// The cells of a row, whether or not it has such memory.
pub(super) fn cells(memory: Option<&PlacedMemory>) -> [String; 4] {
    memory.map_or_else(|| ["-"; 4].map(str::to_owned), PlacedMemory::cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn device(residence: ResidenceUse, status: Option<&str>) -> DeviceUse {
        DeviceUse {
            residence: Some(residence),
            memory_status: status.map(str::to_owned),
            ..DeviceUse::default()
        }
    }

    fn shown(before: Option<ResidenceUse>, now: ResidenceUse, status: Option<&str>) -> [String; 4] {
        let before = before.map(|before| device(before, None));
        cells(PlacedMemory::of(&device(now, status), before.as_ref(), GB).as_ref())
    }

    #[test]
    fn speeds_are_of_the_time_in_which_memory_moved() {
        let before = ResidenceUse { in_bytes: 5 * GB, in_ns: 9, ..ResidenceUse::default() };
        let now = ResidenceUse {
            resident_bytes: 8 << 30,
            away_bytes: 4 << 30,
            out_bytes: 24 * GB,
            out_ns: GB / 2,
            in_bytes: 12 * GB,
            in_ns: 9 + GB / 5,
            ..ResidenceUse::default()
        };
        let all = ["8 GiB", "4 GiB", "runs", "out 48.0, in 35.0"];
        assert_eq!(shown(Some(before), now, Some("runs")), all);
        assert_eq!(shown(None, now, None)[2..], ["-", "-"], "of one sample there are none");
        assert_eq!(shown(Some(now), before, None)[3], "-", "counters that run backwards");
    }

    #[test]
    fn what_moves_still_counts_by_what_is_away() {
        let at =
            |away_bytes, moving| ResidenceUse { away_bytes, moving, ..ResidenceUse::default() };
        assert_eq!(
            shown(Some(at(3 * GB, false)), at(13 * GB, true), None)[2..],
            ["moves", "out 10.0"]
        );
        assert_eq!(shown(Some(at(3 * GB, true)), at(GB, true), None)[3], "in 2.0");
        assert_eq!(shown(Some(at(3 * GB, true)), at(GB, false), None)[3], "-");
    }

    #[test]
    fn a_wait_says_how_long_it_has_lasted() {
        let waits = ResidenceUse { waiting_ns: 3 * GB + GB / 10, ..ResidenceUse::default() };
        assert_eq!(shown(None, waits, Some("waits"))[2], "waits 3.1 s");
        assert_eq!(shown(None, waits, Some("restores"))[2], "restores 3.1 s");
        assert_eq!(shown(None, waits, None)[2], "waits 3.1 s", "without a daemon");
        assert_eq!(cells(PlacedMemory::of(&DeviceUse::default(), None, GB).as_ref()), ["-"; 4]);
    }
}
