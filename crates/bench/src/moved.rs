//! Movement of a tenant's memory, by what its processes count in its files.

use anyhow::Result;

use super::side::Tenancy;
use divvy_command::tenants::ledger::ResidenceUse;

/// A movement of less is no hand-over whose rate says something.
const LEAST_BYTES: u64 = 1 << 20;

/// One direction of movement: what it had moved when its last movement was over.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    bytes: u64,
    ns: u64,
}

impl Direction {
    /// Ends a movement, if there was one since the last; its bytes for each nanosecond.
    fn end(&mut self, bytes: u64, ns: u64) -> Option<f64> {
        let before = std::mem::replace(self, Self { bytes, ns });
        let moved = bytes.saturating_sub(before.bytes);
        let in_ns = ns.saturating_sub(before.ns);
        (moved >= LEAST_BYTES && in_ns > 0).then(|| moved as f64 / in_ns as f64)
    }
}

/// Movement of one tenant's memory since it was looked at first.
///
/// A movement is over when the other way begins: a tenant whose memory is away counts as moving until it is back.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    first: ResidenceUse,
    last: ResidenceUse,
    out: Direction,
    back: Direction,
    is_begun: bool,
    /// Bytes for each nanosecond of each time that some of it left, and came back.
    pub(super) outs: Vec<f64>,
    pub(super) ins: Vec<f64>,
}

impl Meter {
    /// Looks at a tenant; nothing is known of the sides that are not ours.
    pub(super) fn look(&mut self, tenancy: &Tenancy) -> Result<()> {
        if let Some(now) = residence(tenancy)? {
            self.take(now);
        }
        Ok(())
    }

    fn take(&mut self, now: ResidenceUse) {
        if !self.is_begun {
            (self.first, self.last, self.is_begun) = (now, now, true);
            self.out = Direction { bytes: now.out_bytes, ns: now.out_ns };
            self.back = Direction { bytes: now.in_bytes, ns: now.in_ns };
        }
        let comes_back = now.in_bytes != self.last.in_bytes;
        let leaves = now.out_bytes != self.last.out_bytes;
        self.last = now;
        if comes_back || !now.moving {
            self.outs.extend(self.out.end(now.out_bytes, now.out_ns));
        }
        if (leaves && !comes_back) || !now.moving {
            self.ins.extend(self.back.end(now.in_bytes, now.in_ns));
        }
    }

    /// Ends what is under way, since there will be no further look.
    pub(super) fn end(&mut self) {
        self.take(ResidenceUse { moving: false, ..self.last });
    }

    /// Bytes that have left.
    pub(super) fn out_bytes(&self) -> u64 {
        self.last.out_bytes.saturating_sub(self.first.out_bytes)
    }

    /// Bytes that have come back.
    pub(super) fn in_bytes(&self) -> u64 {
        self.last.in_bytes.saturating_sub(self.first.in_bytes)
    }

    /// Bytes that are on the host.
    pub(super) fn away_bytes(&self) -> u64 {
        self.last.away_bytes
    }

    /// Whether all that may leave has left, and nothing is on its way.
    pub(super) fn is_away(&self) -> bool {
        !self.last.moving && self.last.resident_bytes <= self.last.pinned_bytes
    }
}

/// Where the tenant's memory is; `None` on the sides that are not ours.
fn residence(tenancy: &Tenancy) -> Result<Option<ResidenceUse>> {
    let Some(tenant) = tenancy.ledger()? else { return Ok(None) };
    // Before its first block a process says nothing, and before its first context there is no device.
    let said = tenant.devices.first().and_then(|device| device.residence);
    Ok(Some(said.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_is_counted_once_it_rests() {
        let mut meter = Meter::default();
        let at = |out: u64, back: u64, moving: bool| ResidenceUse {
            out_bytes: out << 20,
            out_ns: out << 20,
            in_bytes: back << 20,
            in_ns: back << 19,
            moving,
            resident_bytes: 100,
            ..ResidenceUse::default()
        };
        // Movement before the first look is not the run's.
        meter.take(at(8, 8, false));
        meter.take(at(12, 8, true));
        meter.take(at(16, 8, false));
        meter.take(at(16, 10, true));
        meter.take(at(16, 12, false));
        meter.take(at(16, 12, false));
        assert_eq!((meter.outs.clone(), meter.ins.clone()), (vec![1.0], vec![2.0]));
        assert_eq!((meter.out_bytes(), meter.in_bytes()), (8 << 20, 4 << 20));
        assert!(!meter.is_away());
        meter.take(ResidenceUse { pinned_bytes: 100, ..at(16, 12, false) });
        assert!(meter.is_away());
    }

    #[test]
    fn memory_that_is_away_for_long_has_left_once() {
        let mut meter = Meter::default();
        let at = |out: u64, back: u64| ResidenceUse {
            out_bytes: out << 20,
            out_ns: out << 20,
            in_bytes: back << 20,
            in_ns: back << 20,
            moving: true,
            ..ResidenceUse::default()
        };
        for (out, back) in [(0, 0), (4, 0), (8, 0), (8, 0), (8, 4), (8, 8), (12, 8)] {
            meter.take(at(out, back));
        }
        assert_eq!((meter.outs.len(), meter.ins.len()), (1, 1), "{meter:?}");
        meter.end();
        assert_eq!((meter.outs.len(), meter.ins.len()), (2, 1), "{meter:?}");
    }
}
