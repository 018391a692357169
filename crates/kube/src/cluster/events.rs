//! Events on claims, pods and the node, as `kubectl describe` shows them.
//!
//! Promises: who says something never waits, and nothing depends on it: a queue that is full drops, and so does an API server
//! that refuses. What was said of an object is not said again within [`ClusterTimes::event`], and no more than [`BURST`] at once and one
//! in [`REFILL`] after that leave the node.
//!
//! Plain requests rather than a recorder's series: those need the right to change events, beside that to make them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use tokio::sync::{mpsc, watch};

use super::pace::ClusterTimes;
use crate::driver::DRIVER;

/// Events at once.
const BURST: u32 = 10;
/// Time in which one more may go.
const REFILL: Duration = Duration::from_secs(5);
/// Events that wait.
const QUEUE: usize = 64;
/// The longest text.
const MOST_NOTE_BYTES: usize = 1000;
/// Objects that are remembered.
const MOST_KNOWN: usize = 1024;
/// How long the API server has for one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The object.
    pub about: EventObject,
    /// Whether somebody has to do something.
    pub is_warning: bool,
    /// A word in CamelCase.
    pub reason: String,
    /// The same in a sentence.
    pub note: String,
}

/// Object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventObject {
    /// A claim.
    Claim {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// The node itself.
    Node {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

/// Queue of events, of which there may be many hands.
#[derive(Clone, Debug)]
pub struct EventQueue {
    sender: mpsc::Sender<ClusterEvent>,
}

impl EventQueue {
    pub(crate) fn new() -> (Self, mpsc::Receiver<ClusterEvent>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self { sender }, receiver)
    }

    /// Says something; where the queue is full, nothing.
    pub fn say(&self, event: ClusterEvent) {
        let _ = self.sender.try_send(event);
    }
}

/// Bound on events.
#[derive(Debug)]
struct EventLimiter {
    /// Time within which the same is not said again.
    again: Duration,
    said: BTreeMap<(EventObject, String), (String, Instant)>,
    left: u32,
    refilled: Instant,
}

impl EventLimiter {
    fn new(again: Duration, now: Instant) -> Self {
        Self { again, said: BTreeMap::new(), left: BURST, refilled: now }
    }

    fn lets(&mut self, event: &ClusterEvent, now: Instant) -> bool {
        let again = self.again;
        self.said.retain(|_, (_, at)| now.saturating_duration_since(*at) < again);
        let key = (event.about.clone(), event.reason.clone());
        if self.said.get(&key).is_some_and(|(note, _)| *note == event.note) {
            return false;
        }
        while self.left < BURST && now.saturating_duration_since(self.refilled) >= REFILL {
            self.left += 1;
            self.refilled += REFILL;
        }
        if self.left == 0 || self.said.len() >= MOST_KNOWN {
            return false;
        }
        if self.left == BURST {
            self.refilled = now;
        }
        self.left -= 1;
        self.said.insert(key, (event.note.clone(), now));
        true
    }
}

/// Sends what comes into the queue. `failed` has the last failure, in words.
pub(crate) async fn send(
    client: kube::Client,
    (instance, times): (String, ClusterTimes),
    mut queue: mpsc::Receiver<ClusterEvent>,
    failed: watch::Sender<Option<String>>,
) {
    let mut limiter = EventLimiter::new(times.event, Instant::now());
    while let Some(event) = queue.recv().await {
        if !limiter.lets(&event, Instant::now()) {
            continue;
        }
        let event = of(&event, &instance, Timestamp::now());
        let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
        let events = Api::<Event>::namespaced(client.clone(), namespace);
        let params = PostParams::default();
        let sent = tokio::time::timeout(PATIENCE, events.create(&params, &event)).await;
        let words = match sent {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("an event was refused: {error}")),
            Err(_) => Some(format!("an event was not taken within {PATIENCE:?}")),
        };
        failed.send_replace(words);
    }
}

fn of(event: &ClusterEvent, instance: &str, now: Timestamp) -> Event {
    let (kind, api_version, namespace, name, uid) = match &event.about {
        EventObject::Claim { namespace, name, uid } => {
            ("ResourceClaim", "resource.k8s.io/v1", Some(namespace.clone()), name, uid)
        }
        EventObject::Pod { namespace, name, uid } => {
            ("Pod", "v1", Some(namespace.clone()), name, uid)
        }
        // Events of objects without a namespace are in this one.
        EventObject::Node { name, uid } => ("Node", "v1", None, name, uid),
    };
    let mut end = event.note.len().min(MOST_NOTE_BYTES);
    while !event.note.is_char_boundary(end) {
        end -= 1;
    }
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.clone().unwrap_or_else(|| "default".to_owned())),
            name: Some(format!("{}.{:x}", cut_name(name), now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            kind: Some(kind.to_owned()),
            api_version: Some(api_version.to_owned()),
            namespace,
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        }),
        event_time: Some(MicroTime(now)),
        type_: Some(if event.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(event.reason.clone()),
        note: event.note.get(..end).map(str::to_owned),
        action: Some("Divvy".to_owned()),
        reporting_controller: Some(DRIVER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        ..Event::default()
    }
}

/// A name has 253 bytes at most, and the time is behind it.
fn cut_name(name: &str) -> &str {
    name.get(..220).unwrap_or(name).trim_end_matches(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str, note: &str) -> ClusterEvent {
        let about = EventObject::Node { name: "n1".to_owned(), uid: "u".to_owned() };
        let (reason, note) = (reason.to_owned(), note.to_owned());
        ClusterEvent { about, is_warning: true, reason, note }
    }

    #[test]
    fn what_was_said_is_not_said_again_soon_and_never_too_much() {
        let (now, again) = (Instant::now(), ClusterTimes::default().event);
        let mut limiter = EventLimiter::new(again, now);
        assert!(limiter.lets(&event("A", "x"), now));
        assert!(!limiter.lets(&event("A", "x"), now));
        assert!(limiter.lets(&event("A", "y"), now), "another note is news");
        let more = (0..100).filter(|at| limiter.lets(&event(&format!("B{at}"), ""), now)).count();
        assert_eq!(more, 8);
        let later = now + REFILL;
        assert!(limiter.lets(&event("C", ""), later) && !limiter.lets(&event("D", ""), later));
        assert!(limiter.lets(&event("A", "y"), now + again));
    }

    #[test]
    fn a_claims_event_is_in_its_namespace_and_short() {
        let about = EventObject::Claim {
            namespace: "team".to_owned(),
            name: "c".repeat(253),
            uid: "u".to_owned(),
        };
        let told = ClusterEvent { about, note: "ü".repeat(1000), ..event("A", "") };
        let made = of(&told, "agent-1", Timestamp::UNIX_EPOCH);
        assert_eq!(made.metadata.namespace.as_deref(), Some("team"));
        assert!(made.metadata.name.unwrap().len() <= 253 && made.note.unwrap().len() <= 1000);
        let node = of(&event("A", "x"), "agent-1", Timestamp::UNIX_EPOCH);
        assert_eq!(node.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(node.regarding.unwrap().namespace, None);
    }
}
