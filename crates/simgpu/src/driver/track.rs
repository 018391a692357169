//! Where a stream is on the device's timeline while one of its operations runs.
//!
//! Promises: each piece of work begins where the one before it ended or when it was handed in,
//! whichever is later, in device time; what was handed in ahead is only waited for; after
//! [`Track::settle`] nothing handed in is left to wait for, whatever became of the operation.

use super::machine::{Lane, Load, Place};
use crate::clock::now_ns;
use crate::sys::driver::Answer;

/// The position of a stream.
pub(crate) struct Track<'a> {
    lane: &'a dyn Lane,
    at_ns: u64,
    /// Pieces handed in and not waited for.
    ahead: usize,
}

impl<'a> Track<'a> {
    /// A stream whose work before ended, and whose next is ready, at `at_ns` at the latest; `ahead`
    /// pieces of that next are handed in already.
    pub(crate) fn new(lane: &'a dyn Lane, at_ns: u64, ahead: usize) -> Self {
        Self { lane, at_ns, ahead }
    }

    /// Runs `work`, and returns when the device would have finished it.
    pub(crate) fn run(
        &mut self,
        place: Place,
        load: Load,
        amount: u64,
        work: &mut dyn FnMut(),
    ) -> Answer {
        let mut waits = self.ahead > 0;
        if !waits {
            waits = self.lane.submit(place, load, amount, self.at_ns)?;
            self.ahead += usize::from(waits);
        }
        work();
        if waits { self.wait() } else { Ok(()) }
    }

    fn wait(&mut self) -> Answer {
        self.ahead = self.ahead.saturating_sub(1);
        self.at_ns = self.at_ns.max(self.lane.wait()?);
        Ok(())
    }

    /// The lane, for handing in ahead; the caller says how much with [`Track::expect`].
    pub(crate) fn lane(&self) -> &'a dyn Lane {
        self.lane
    }

    /// `pieces` more were handed in.
    pub(crate) fn expect(&mut self, pieces: usize) {
        self.ahead += pieces;
    }

    /// Whether anything is handed in ahead.
    pub(crate) fn has_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// When what comes next begins: device time, or the present on a machine without time.
    pub(crate) fn position_ns(&self) -> u64 {
        if self.lane.is_timed() { self.at_ns } else { now_ns() }
    }

    /// Something that took the host's time is over.
    pub(crate) fn catch_up(&mut self) {
        self.at_ns = self.at_ns.max(now_ns());
    }

    /// Waits for what was handed in and not run.
    pub(crate) fn settle(&mut self) -> Answer {
        while self.ahead > 0 {
            self.wait()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A device on which everything takes its amount, one after the other.
    #[derive(Default)]
    struct Played(Mutex<(u64, Vec<u64>)>);

    impl Lane for Played {
        fn is_timed(&self) -> bool {
            true
        }

        fn submit(&self, _: Place, _: Load, amount: u64, ready_ns: u64) -> Answer<bool> {
            let mut device = self.0.lock().expect("one thread");
            device.0 = device.0.max(ready_ns) + amount;
            let end_ns = device.0;
            device.1.push(end_ns);
            Ok(true)
        }

        fn wait(&self) -> Answer<u64> {
            Ok(self.0.lock().expect("one thread").1.remove(0))
        }
    }

    const PLACE: Place = Place { context: 0, machine_context: 0, width: 132 };

    #[test]
    fn work_follows_work_and_what_was_handed_in_ahead_is_not_handed_in_again() {
        let lane = Played::default();
        for amount in [100, 50] {
            assert!(lane.submit(PLACE, Load::Work, amount, 1_000).is_ok_and(|waits| waits));
        }
        let mut track = Track::new(&lane, 1_000, 2);
        let mut ran = 0;
        let mut ends = Vec::new();
        for amount in [100, 50, 7] {
            assert!(track.run(PLACE, Load::Work, amount, &mut || ran += 1).is_ok());
            ends.push(track.position_ns());
        }
        assert_eq!((ran, ends), (3, vec![1_100, 1_150, 1_157]));
        assert!(!track.has_ahead());
    }

    #[test]
    fn what_was_not_run_is_waited_for_all_the_same() {
        let lane = Played::default();
        for amount in [100, 50] {
            assert!(lane.submit(PLACE, Load::Work, amount, 0).is_ok());
        }
        let mut track = Track::new(&lane, 0, 2);
        assert!(track.settle().is_ok());
        assert_eq!(track.position_ns(), 150);
        assert!(lane.0.lock().expect("one thread").1.is_empty());
    }
}
