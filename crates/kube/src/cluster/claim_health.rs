//! Health of cards, said on the claims that have a share of them, where people look for why a pod fails.
//!
//! The kubelet shows it in the pod's status by itself, from the stream of health, from Kubernetes 1.36 on with the words. Promises: a card
//! that fails, or is not there any more, is an event of each of its claims, once; so is its recovery. One instance of a node says so,
//! the one that publishes. Nothing is said while nobody can tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::events::{ClusterEvent, EventObject, EventQueue};
use super::held::HeldClaims;
use super::options::ClusterState;
use crate::cards::{CardBook, CardHealth};
use crate::prepare::HeldClaim;

/// Claims that were told of a card that fails, by the card's UUID: UIDs.
type ToldClaims = BTreeMap<String, BTreeSet<String>>;

/// Tells for as long as the book is kept.
pub async fn tell_claims<C: HeldClaims>(
    node: Arc<C>,
    mut book: watch::Receiver<CardBook>,
    mut state: watch::Receiver<ClusterState>,
    events: EventQueue,
) {
    if state.wait_for(|state| state.is_publisher).await.is_err() {
        return;
    }
    let mut changes = node.changes();
    let mut told = ToldClaims::new();
    loop {
        let now = book.borrow_and_update().clone();
        if now.is_known
            && now.doubt.is_none()
            && let Ok(held) = node.held().await
        {
            decide(&now, &held, &mut told).into_iter().for_each(|event| events.say(event));
        }
        let goes_on = tokio::select! {
            changed = book.changed() => changed.is_ok(),
            changed = changes.changed() => changed.is_ok(),
        };
        if !goes_on {
            return;
        }
    }
}

/// Events that are due.
fn decide(book: &CardBook, held: &[HeldClaim], told: &mut ToldClaims) -> Vec<ClusterEvent> {
    let mut events = Vec::new();
    let mut known = ToldClaims::new();
    for claim in held.iter().filter(|claim| !claim.name.is_empty()) {
        let cards: BTreeSet<&String> = claim.tenants.iter().flat_map(|it| &it.cards).collect();
        for uuid in cards {
            let device = book.devices.iter().find(|device| device.uuid == *uuid);
            let ill = match device {
                None => Some("it is not among the node's cards any more"),
                Some(it) if it.health == CardHealth::Unhealthy => Some(it.message.as_str()),
                Some(_) => None,
            };
            let is_well = device.is_some_and(|device| device.health == CardHealth::Healthy);
            let was_told = told.get(uuid).is_some_and(|uids| uids.contains(&claim.uid));
            match ill {
                Some(why) if !was_told => {
                    let words = format!("{uuid} has failed: {why}");
                    events.push(event(claim, true, "DivvyCardUnhealthy", words));
                }
                None if was_told && is_well => {
                    let words = format!("{uuid} works again");
                    events.push(event(claim, false, "DivvyCardRecovered", words));
                }
                _ => {}
            }
            // One of which nobody can say how it is has not recovered by that.
            if ill.is_some() || was_told && !is_well {
                known.entry(uuid.clone()).or_default().insert(claim.uid.clone());
            }
        }
    }
    *told = known;
    events
}

fn event(claim: &HeldClaim, is_warning: bool, reason: &str, note: String) -> ClusterEvent {
    let HeldClaim { uid, namespace, name, .. } = claim.clone();
    let about = EventObject::Claim { namespace, name, uid };
    ClusterEvent { about, is_warning, reason: reason.to_owned(), note }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::BookedDevice;
    use crate::prepare::HeldTenant;

    fn claim(uid: &str, cards: &[&str]) -> HeldClaim {
        let cards = cards.iter().map(|&card| card.to_owned()).collect();
        HeldClaim {
            uid: uid.to_owned(),
            name: uid.to_owned(),
            tenants: vec![HeldTenant { cards, ..HeldTenant::default() }],
            ..HeldClaim::default()
        }
    }

    fn book(cards: &[(&str, CardHealth)]) -> CardBook {
        let device = |&(uuid, health): &(&str, CardHealth)| BookedDevice {
            uuid: uuid.to_owned(),
            health,
            message: "row 7".to_owned(),
            ..BookedDevice::default()
        };
        let devices = cards.iter().map(device).collect();
        CardBook { devices, is_known: true, ..CardBook::default() }
    }

    #[test]
    fn a_card_that_fails_is_told_to_its_claims_once_and_so_is_its_recovery() {
        use CardHealth::{Healthy, Unhealthy, Unknown};
        let held =
            [claim("a", &["GPU-1"]), claim("b", &["GPU-1", "GPU-2"]), claim("c", &["GPU-2"])];
        let mut told = ToldClaims::new();
        let mut say = |cards: &[(&str, CardHealth)], held: &[HeldClaim]| -> Vec<String> {
            let events = decide(&book(cards), held, &mut told);
            let words = |event: ClusterEvent| match event.about {
                EventObject::Claim { name, .. } => {
                    format!("{name} {}: {}", event.reason, event.note)
                }
                EventObject::Node { .. } | EventObject::Pod { .. } => String::new(),
            };
            events.into_iter().map(words).collect()
        };
        assert!(say(&[("GPU-1", Healthy), ("GPU-2", Unknown)], &held).is_empty());
        let ill = [("GPU-1", Unhealthy), ("GPU-2", Healthy)];
        let words = "DivvyCardUnhealthy: GPU-1 has failed: row 7";
        assert_eq!(say(&ill, &held[..1]), [format!("a {words}")]);
        assert_eq!(say(&ill, &held), [format!("b {words}")], "one that came later");
        assert!(say(&[("GPU-1", Unknown), ("GPU-2", Healthy)], &held).is_empty());
        assert!(say(&ill, &held).is_empty(), "nothing new");
        let well = [("GPU-1", Healthy), ("GPU-2", Healthy)];
        assert_eq!(say(&well, &held).len(), 2);
        assert_eq!(say(&[("GPU-1", Healthy)], &held[2..]).len(), 1, "a card that is gone");
        assert!(say(&[("GPU-1", Healthy)], &held[2..]).is_empty());
    }
}
