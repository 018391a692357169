//! Pace of requests that change something: a gap after each, and longer ones with jitter after failures. Pure but for the jitter.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// Times of the cluster's side; tests have shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct ClusterTimes {
    /// Between two writes.
    pub gap: Duration,
    /// After a failure, and the longest after many; each is up to a half shorter by chance.
    pub retry: Duration,
    /// The longest after many failures.
    pub longest_retry: Duration,
    /// Between two looks at the node.
    pub node: Duration,
    /// Between two tries for the publisher's lock.
    pub lock: Duration,
    /// How long the API server has for an answer.
    pub patience: Duration,
    /// Time within which an event is not said again.
    pub event: Duration,
    /// Between two events of a refusal that stands; the API server forgets one after an hour.
    pub refusal: Duration,
}

impl Default for ClusterTimes {
    fn default() -> Self {
        Self {
            gap: Duration::from_secs(1),
            retry: Duration::from_secs(1),
            longest_retry: Duration::from_secs(60),
            node: Duration::from_secs(60),
            lock: Duration::from_secs(1),
            patience: Duration::from_secs(10),
            event: Duration::from_secs(600),
            refusal: Duration::from_secs(1800),
        }
    }
}

/// Time of the next write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    failures: u32,
    not_before: Option<Instant>,
}

impl Pace {
    /// A write that has succeeded.
    pub(super) fn succeeded(&mut self, now: Instant, times: &ClusterTimes) {
        *self = Self { failures: 0, not_before: Some(now + times.gap) };
    }

    /// A write that has failed.
    pub(super) fn failed(&mut self, now: Instant, times: &ClusterTimes) {
        let doublings = self.failures.min(16);
        let longest = times.retry.saturating_mul(1 << doublings).min(times.longest_retry);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + jittered(longest).max(times.gap));
    }

    /// How long to wait.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |then| then.saturating_duration_since(now))
    }
}

/// From a half of it to all of it.
pub(crate) fn jittered(longest: Duration) -> Duration {
    // Keys of a hasher are random; that is enough to keep a thousand nodes apart.
    let chance = RandomState::new().build_hasher().finish() % 1024;
    longest / 2 + longest / 2 * u32::try_from(chance).unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_wait_longer_and_longer_and_a_success_forgets_them() {
        let (times, now) = (ClusterTimes::default(), Instant::now());
        let mut pace = Pace::default();
        assert_eq!(pace.wait(now), Duration::ZERO);
        for doublings in 0..100_u32 {
            pace.failed(now, &times);
            let longest = Duration::from_secs(1 << doublings.min(6)).min(times.longest_retry);
            let wait = pace.wait(now);
            assert!(
                wait >= (longest / 2).max(times.gap) && wait <= longest,
                "{doublings}: {wait:?}"
            );
        }
        pace.succeeded(now, &times);
        assert_eq!(pace.wait(now), times.gap);
        assert_eq!(pace.wait(now + times.gap), Duration::ZERO);
    }
}
