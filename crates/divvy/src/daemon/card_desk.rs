//! Answers about the machine's cards.
//!
//! The driver is asked by a thread, and by one at a time, when somebody wants to know and the last answer is older than
//! [`FRESH`]. Promises: who asks waits for [`PATIENCE`] at most; where the driver hangs, one process and one thread wait
//! for it, and those who ask are told the last list, with the health of each card unknown. Nothing is asked while nobody
//! wants to know.
//!
//! Does not know what a card is: that is [`card_facts`].

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::thread::thread;
use crate::machine::{card_facts, gpus};
use crate::wire::Answer;
use crate::wire::cards::{CardList, DeviceHealth};

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(5);
/// How long who asks waits for a new one.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the driver may take before the last list is in doubt. Cards that sleep take a second each.
const DOUBT: Duration = Duration::from_secs(15);

/// State of the requests.
#[derive(Debug, Default)]
pub(super) struct CardDesk {
    known: Mutex<Known>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct Known {
    /// The last answer, and when it came.
    list: Option<(CardList, Instant)>,
    /// Since when the driver is being asked.
    asked: Option<Instant>,
}

/// Answers a request.
pub(super) fn answer(desk: &Arc<CardDesk>) -> Answer {
    Answer::Cards(desk.list(card_facts::ask))
}

impl CardDesk {
    /// The cards; `ask` asks the driver.
    fn list(self: &Arc<Self>, ask: impl FnOnce() -> CardList + Send + 'static) -> CardList {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = known.fresh() {
            return list;
        }
        if known.asked.is_none() {
            known.asked = Some(Instant::now());
            let desk = Arc::clone(self);
            let asking = thread("divvy cards", move || {
                let list = ask();
                let mut known = desk.known.lock().unwrap_or_else(PoisonError::into_inner);
                (known.list, known.asked) = (Some((list, Instant::now())), None);
                desk.told.notify_all();
            });
            if asking.is_err() {
                known.asked = None;
            }
        }
        let waits = |known: &mut Known| known.asked.is_some() && known.fresh().is_none();
        let waited = self.told.wait_timeout_while(known, PATIENCE, waits);
        let (known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        known.as_it_stands()
    }
}

impl Known {
    fn fresh(&self) -> Option<CardList> {
        let (list, at) = self.list.as_ref()?;
        (at.elapsed() < FRESH).then(|| list.clone())
    }

    /// The last answer, in doubt where the driver takes long.
    fn as_it_stands(&self) -> CardList {
        let Some((list, _)) = &self.list else {
            let why = "the driver is being asked; ask again";
            return card_facts::of_kernel(&gpus::list(Path::new(gpus::PROC)), why);
        };
        let mut list = list.clone();
        if self.asked.is_some_and(|since| since.elapsed() >= DOUBT) {
            doubt(&mut list);
        }
        list
    }
}

fn doubt(list: &mut CardList) {
    let why = format!("the driver has not answered for {} s", DOUBT.as_secs());
    for card in &mut list.cards {
        card.health = DeviceHealth::Unknown;
        card.detail = Some(why.clone());
    }
    list.detail = Some(why);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::wire::cards::CardReport;

    fn list(uuid: &str) -> CardList {
        let card = CardReport {
            uuid: uuid.to_owned(),
            health: DeviceHealth::Healthy,
            ..CardReport::default()
        };
        CardList { cards: vec![card], ..CardList::default() }
    }

    #[test]
    fn one_answer_serves_those_who_ask_soon_after() {
        let desk = Arc::new(CardDesk::default());
        assert_eq!(desk.list(|| list("GPU-1")), list("GPU-1"));
        assert_eq!(desk.list(|| panic!("asked again")), list("GPU-1"));
    }

    #[test]
    fn a_driver_that_hangs_is_asked_once_and_holds_nobody() {
        let desk = Arc::new(CardDesk::default());
        let (answer, hangs) = mpsc::channel::<CardList>();
        let first = desk.list(move || hangs.recv().unwrap());
        assert_eq!(first.detail.as_deref(), Some("the driver is being asked; ask again"));
        let second = desk.list(|| panic!("asked twice"));
        assert_eq!(second.detail, first.detail);
        answer.send(list("GPU-1")).unwrap();
        assert_eq!(desk.list(|| panic!("asked twice")), list("GPU-1"));
    }

    #[test]
    fn the_last_list_is_in_doubt_while_the_driver_hangs() {
        let long_ago = Instant::now().checked_sub(DOUBT).unwrap();
        let mut known = Known { list: Some((list("GPU-1"), long_ago)), asked: None };
        assert_eq!((known.fresh(), known.as_it_stands()), (None, list("GPU-1")));
        known.asked = Some(long_ago);
        let told = known.as_it_stands();
        assert_eq!(
            (told.cards[0].health, told.cards[0].uuid.as_str()),
            (DeviceHealth::Unknown, "GPU-1")
        );
        assert_eq!(told.detail.as_deref(), Some("the driver has not answered for 15 s"));
    }
}
