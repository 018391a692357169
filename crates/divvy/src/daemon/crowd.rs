//! The connections that are open, and which of them goes when another one comes.
//!
//! Each connection has a thread of its own, so there is a bound. What is kept open without a question
//! must not keep others out: where there is no place left, or a user has all that it may, the oldest
//! connection goes that nothing is being answered on. It is one of whoever has the most ([`Quota`]), or
//! of anybody where all have one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::quota::{self, Quota, Verdict};
use super::timed::Socket;

/// The connections, each somebody's.
pub(super) struct Crowd<K> {
    quota: Quota,
    open: Mutex<Open<K>>,
}

struct Open<K> {
    /// In the order in which they came.
    entries: Vec<CrowdEntry<K>>,
    next: u64,
}

struct CrowdEntry<K> {
    number: u64,
    who: K,
    is_answered: bool,
    stream: Arc<dyn Socket>,
}

/// A place among the connections, given back when dropped.
pub(super) struct CrowdPlace<K: Copy + Ord> {
    crowd: Arc<Crowd<K>>,
    number: u64,
}

/// An answer that is being made on a connection.
pub(super) struct Answering<'a, K: Copy + Ord>(&'a CrowdPlace<K>);

impl<K: Copy + Ord> Drop for Answering<'_, K> {
    fn drop(&mut self) {
        self.0.mark(false);
    }
}

impl<K: Copy + Ord> Crowd<K> {
    pub(super) fn new(quota: Quota) -> Arc<Self> {
        let open = Mutex::new(Open { entries: Vec::new(), next: 0 });
        Arc::new(Self { quota, open })
    }

    /// A place for a connection of `who`, which another one may have to leave; `None` while all that
    /// could are being answered.
    pub(super) fn enter(
        self: &Arc<Self>,
        who: K,
        stream: Arc<dyn Socket>,
    ) -> Option<CrowdPlace<K>> {
        let mut open = self.lock();
        let held = quota::count(open.entries.iter().map(|entry| entry.who));
        match self.quota.judge(&held, who) {
            Verdict::Free => {}
            Verdict::Instead(greediest) => open.close_oldest(|one| one == greediest)?,
            Verdict::None if held.contains_key(&who) => open.close_oldest(|one| one == who)?,
            Verdict::None => open.close_oldest(|_| true)?,
        }
        let number = open.next;
        open.next += 1;
        open.entries.push(CrowdEntry { number, who, is_answered: false, stream });
        Some(CrowdPlace { crowd: Arc::clone(self), number })
    }

    fn lock(&self) -> MutexGuard<'_, Open<K>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Ord> Open<K> {
    fn close_oldest(&mut self, is_one_of: impl Fn(K) -> bool) -> Option<()> {
        let may_go = |entry: &CrowdEntry<K>| is_one_of(entry.who) && !entry.is_answered;
        let at = self.entries.iter().position(may_go)?;
        self.entries.remove(at).stream.close();
        Some(())
    }
}

impl<K: Copy + Ord> CrowdPlace<K> {
    /// Does what an answer takes; meanwhile the connection stays.
    pub(super) fn answer<T>(&self, answer: impl FnOnce() -> T) -> T {
        let _answering = self.answering();
        answer()
    }

    /// The connection stays until this is dropped.
    pub(super) fn answering(&self) -> Answering<'_, K> {
        self.mark(true);
        Answering(self)
    }

    fn mark(&self, is_answered: bool) {
        let mut open = self.crowd.lock();
        if let Some(entry) = open.entries.iter_mut().find(|entry| entry.number == self.number) {
            entry.is_answered = is_answered;
        }
    }
}

impl<K: Copy + Ord> Drop for CrowdPlace<K> {
    fn drop(&mut self) {
        self.crowd.lock().entries.retain(|entry| entry.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    type Connection = (Option<CrowdPlace<u32>>, UnixStream);

    fn connect(crowd: &Arc<Crowd<u32>>, who: u32) -> Connection {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        (crowd.enter(who, Arc::new(ours)), theirs)
    }

    fn is_open((_, stream): &Connection) -> bool {
        (&mut &*stream).read(&mut [0; 1]).is_err()
    }

    #[test]
    fn silent_ones_leave_the_oldest_first_and_those_of_the_greediest() {
        let crowd = Crowd::new(Quota { most: 4, most_of_one: 3 });
        let ones: Vec<_> = (0..4).map(|_| connect(&crowd, 1)).collect();
        assert_eq!(ones.iter().map(is_open).collect::<Vec<_>>(), [false, true, true, true]);
        let two = connect(&crowd, 2);
        let three = connect(&crowd, 3);
        assert_eq!(ones.iter().map(is_open).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(is_open(&two) && is_open(&three));
        let four = connect(&crowd, 4);
        assert!(is_open(&two) && is_open(&three) && is_open(&four));
        // All have one, and the first to come has been silent for the longest.
        let fifth = connect(&crowd, 5);
        assert!(is_open(&fifth) && !is_open(ones.last().unwrap()) && is_open(&two));
        drop((ones, two, three, four, fifth));
        assert!(crowd.lock().entries.is_empty(), "places come back");
    }

    #[test]
    fn who_is_being_answered_stays() {
        let crowd = Crowd::new(Quota { most: 2, most_of_one: 1 });
        let one = connect(&crowd, 1);
        let place = one.0.as_ref().unwrap();
        place.answer(|| assert!(connect(&crowd, 1).0.is_none()));
        assert!(is_open(&one));
        assert!(connect(&crowd, 1).0.is_some());
        assert!(!is_open(&one));
    }
}
