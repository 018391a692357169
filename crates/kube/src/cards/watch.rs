//! Watch over the cards: asks the daemon every [`PERIOD`].
//!
//! Promises: one question at a time, on a thread of its own, so that a daemon that hangs holds up nothing; it ends when nobody
//! holds a receiver any more.

use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::answer;
use super::book::CardBook;
use crate::prepare::DaemonSocket;

/// Time between two questions. The kubelet takes a card for unknown after three of them.
pub const PERIOD: Duration = Duration::from_secs(10);
/// The same while nothing was ever told, as when daemon and agent start together.
const AT_FIRST: Duration = Duration::from_millis(500);

/// Watch over the cards behind a daemon's socket.
#[derive(Debug)]
pub struct CardWatch {
    daemon: DaemonSocket,
    period: Duration,
    at_first: Duration,
    book: watch::Sender<CardBook>,
}

impl CardWatch {
    /// One of `daemon`, and the book it keeps. Nothing is asked before it runs.
    pub fn new(daemon: DaemonSocket) -> (Self, watch::Receiver<CardBook>) {
        let (book, receiver) = watch::channel(CardBook::default());
        (Self { daemon, period: PERIOD, at_first: AT_FIRST, book }, receiver)
    }

    /// The same with another time between two questions, for tests.
    #[must_use]
    pub fn every(self, period: Duration) -> Self {
        Self { period, at_first: period, ..self }
    }

    /// Asks until nobody wants to know. Each look is sent, changed or not.
    pub async fn run(self) {
        while !self.book.is_closed() {
            let daemon = self.daemon.clone();
            let asked = tokio::task::spawn_blocking(move || answer::ask(&daemon)).await;
            let asked = asked.unwrap_or_else(|error| Err(format!("the question failed: {error}")));
            let now = SystemTime::now();
            self.book.send_modify(|book| {
                *book = match asked {
                    Ok(told) => book.after(told, now),
                    Err(why) => book.without(&why, now),
                }
            });
            let is_known = self.book.borrow().is_known;
            tokio::time::sleep(if is_known { self.period } else { self.at_first }).await;
        }
    }
}
