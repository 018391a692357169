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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use serde_json::{Value, json};

    use super::super::health::CardHealth;
    use super::super::terms::CardTerms;
    use super::*;

    /// A daemon that answers so many questions, each with the next of these, and is gone then.
    fn daemon(path: &Path, answers: Vec<Value>) -> std::thread::JoinHandle<Vec<Value>> {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).unwrap();
        let path = path.to_owned();
        std::thread::spawn(move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 4];
                stream.read_exact(&mut head).unwrap();
                let mut body = vec![0; usize::try_from(u32::from_le_bytes(head)).unwrap()];
                stream.read_exact(&mut body).unwrap();
                asked.push(serde_json::from_slice::<Value>(&body).unwrap());
                let body = json!({ "version": 1, "answer": answer }).to_string();
                let length = u32::try_from(body.len()).unwrap().to_le_bytes();
                stream.write_all(&[&length[..], body.as_bytes()].concat()).unwrap();
            }
            std::fs::remove_file(path).unwrap();
            asked
        })
    }

    #[tokio::test]
    async fn a_daemon_that_goes_and_comes_leaves_the_book_in_doubt_and_mends_it() {
        let path = std::env::temp_dir().join(format!("divvy-cards-{}", std::process::id()));
        let (watch, mut book) = CardWatch::new(DaemonSocket::at(&path));
        let running = tokio::spawn(watch.every(Duration::from_millis(2)).run());
        let mut wait = async |is_so: &dyn Fn(&CardBook) -> bool| -> CardBook {
            book.wait_for(|book| is_so(book)).await.unwrap().clone()
        };
        let none = wait(&|book| book.checked.is_some()).await;
        assert!(!none.is_known && none.doubt.is_some());

        let card =
            |uuid: &str| json!({ "uuid": uuid, "memory_bytes": 80_u64 << 30, "health": "healthy" });
        let asking =
            json!({ "cards": { "detail": "the driver is being asked; ask again", "cards": [] } });
        let old = json!({ "error": { "code": "bad-request", "message": "unknown variant" } });
        let told = json!({ "cards": { "driver": "580.82.07", "cards": [card("GPU-1")] } });
        let served = daemon(&path, vec![asking, old, told]);
        let known = wait(&|book| book.is_known && book.doubt.is_none()).await;
        assert_eq!(known.devices[0].health, CardHealth::Healthy);
        let asked = tokio::task::spawn_blocking(|| served.join().unwrap()).await.unwrap();
        assert_eq!(asked, vec![json!({ "version": 1, "call": "cards" }); 3]);

        let away = wait(&|book| book.doubt.is_some()).await;
        assert_eq!((away.devices.len(), away.devices[0].health), (1, CardHealth::Unknown));
        assert!(away.devices[0].message.contains("no daemon answers at"), "{away:?}");
        assert_eq!(away.cards(CardTerms::default()).cards[0].gpu_uuid, "GPU-1");

        let told = json!({ "cards": { "cards": [card("GPU-1"), card("GPU-2")] } });
        let served = daemon(&path, vec![told]);
        let back = wait(&|book| book.devices.len() == 2).await;
        assert_eq!((back.doubt, back.driver.as_deref()), (None, Some("580.82.07")));
        served.join().unwrap();
        drop(book);
        running.await.unwrap();
    }
}
