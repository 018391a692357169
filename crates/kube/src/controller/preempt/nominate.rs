//! Nominations: pods for which others were evicted and that have not come yet. Pure: time is given to it.
//!
//! Promises: for a pod nobody is evicted again before its nomination is over, and no more than [`MOST_TIMES`] times in all. Until then
//! its room is kept from others of no higher priority.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::decide::{KeptRoom, WantedShare};

/// Time that victims have to end and the pod to be placed. Those that take longer count as gone when it is decided again.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
/// How often pods are evicted for one.
pub(super) const MOST_TIMES: u32 = 3;

#[derive(Debug)]
struct Nomination {
    node: String,
    priority: i32,
    wants: Vec<WantedShare>,
    until: Instant,
    times: u32,
}

/// Nominations by the UID of the pod.
#[derive(Debug, Default)]
pub(super) struct Nominations {
    all: BTreeMap<String, Nomination>,
}

impl Nominations {
    /// Whether others may be evicted for the pod.
    pub(super) fn lets(&self, uid: &str, now: Instant) -> bool {
        self.all.get(uid).is_none_or(|it| it.until <= now && it.times < MOST_TIMES)
    }

    /// Whether that is over for good.
    pub(super) fn is_exhausted(&self, uid: &str, now: Instant) -> bool {
        self.all.get(uid).is_some_and(|it| it.until <= now && it.times >= MOST_TIMES)
    }

    /// Enters a pod for which others are evicted.
    pub(super) fn enter(
        &mut self,
        uid: &str,
        (node, priority): (&str, i32),
        wants: &[WantedShare],
        now: Instant,
    ) {
        let times = self.all.get(uid).map_or(0, |it| it.times);
        let nomination = Nomination {
            node: node.to_owned(),
            priority,
            wants: wants.to_vec(),
            until: now + DEADLINE,
            times: times.saturating_add(1),
        };
        self.all.insert(uid.to_owned(), nomination);
    }

    /// Forgets those of pods that wait no more.
    pub(super) fn retain(&mut self, waits: impl Fn(&str) -> bool) {
        self.all.retain(|uid, _| waits(uid));
    }

    /// Room that is kept from the pod `uid`.
    pub(super) fn kept_from(&self, uid: &str, now: Instant) -> Vec<KeptRoom> {
        let others = self.all.iter().filter(|(other, it)| *other != uid && it.until > now);
        let room = |it: &Nomination| KeptRoom {
            node: it.node.clone(),
            priority: it.priority,
            wants: it.wants.clone(),
        };
        others.map(|(_, it)| room(it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_evicted_again_before_the_deadline_nor_for_ever() {
        let mut nominations = Nominations::default();
        let mut now = Instant::now();
        for _ in 0..MOST_TIMES {
            assert!(nominations.lets("a", now) && !nominations.is_exhausted("a", now));
            nominations.enter("a", ("n1", 5), &[], now);
            assert!(!nominations.lets("a", now) && nominations.lets("b", now));
            assert_eq!(nominations.kept_from("b", now).len(), 1);
            assert!(nominations.kept_from("a", now).is_empty());
            now += DEADLINE;
            assert!(nominations.kept_from("b", now).is_empty());
        }
        assert!(!nominations.lets("a", now) && nominations.is_exhausted("a", now));
        nominations.retain(|uid| uid != "a");
        assert!(nominations.lets("a", now));
    }
}
