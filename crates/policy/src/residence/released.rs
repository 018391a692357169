//! Recent maximum of a tenant's resident bytes: the driver takes a while to have released bytes again.
//!
//! Promises: a level counts from the moment it was left for at least the span asked for, and at most an eighth longer;
//! constant size. Does not add up levels: bytes released and created again within the span are the same room.

/// Parts that the span is divided into.
const PARTS: u64 = 8;

/// Buckets: those of the span, and the one that is being filled.
const BUCKETS: usize = 9;

/// Levels that resident bytes fell from lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Released {
    buckets: [u64; BUCKETS],
    /// Number of the newest bucket.
    newest: u64,
}

impl Released {
    /// Forgets levels older than `span_ns`.
    pub(super) fn advance(&mut self, now_ns: u64, span_ns: u64) {
        let number = now_ns / (span_ns / PARTS).max(1);
        let steps = number.saturating_sub(self.newest);
        for step in 1..=steps.min(BUCKETS as u64) {
            let place = (self.newest.wrapping_add(step) % BUCKETS as u64) as usize;
            if let Some(bucket) = self.buckets.get_mut(place) {
                *bucket = 0;
            }
        }
        if steps >= BUCKETS as u64 {
            self.buckets = [0; BUCKETS];
        }
        self.newest = self.newest.max(number);
    }

    /// Notes that the level was `bytes` until now.
    pub(super) fn fell_from(&mut self, bytes: u64) {
        let place = (self.newest % BUCKETS as u64) as usize;
        if let Some(bucket) = self.buckets.get_mut(place) {
            *bucket = (*bucket).max(bytes);
        }
    }

    /// Highest level that still counts.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.buckets.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_counts_for_the_span_and_little_longer() {
        for start_ns in [0, 7, 999, 1_000_000, 123_456_789] {
            let mut released = Released::default();
            released.advance(start_ns, 8_000);
            released.fell_from(5);
            for after_ns in (0..20_000).step_by(100) {
                let mut then = released;
                then.advance(start_ns + after_ns, 8_000);
                match after_ns {
                    0..=8_000 => assert_eq!(then.peak_bytes(), 5, "{start_ns} + {after_ns}"),
                    9_001.. => assert_eq!(then.peak_bytes(), 0, "{start_ns} + {after_ns}"),
                    _ => {}
                }
            }
        }
    }
}
