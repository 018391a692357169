//! Events on pods and the node, as `kubectl describe` shows them.
//!
//! An agent writes events of its own node alone, and names a claim there in words. With a right to events of claims, the token
//! of one node could write into each namespace. The kubelet says on the pod why a claim is not prepared.
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

/// The sender of events.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    /// Name of the program's instance.
    pub(crate) instance: String,
    /// The node that it writes about; a program without a node writes about pods alone.
    pub(crate) node: Option<String>,
    pub(crate) times: ClusterTimes,
}

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
    /// A claim; its events are on the node.
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
    by: EventSender,
    mut queue: mpsc::Receiver<ClusterEvent>,
    failed: watch::Sender<Option<String>>,
) {
    let mut limiter = EventLimiter::new(by.times.event, Instant::now());
    while let Some(event) = queue.recv().await {
        if !limiter.lets(&event, Instant::now()) {
            continue;
        }
        let Some(event) = of(&event, &by, Timestamp::now()) else { continue };
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

/// The object that is sent; `None` where this program may not write about that.
fn of(event: &ClusterEvent, by: &EventSender, now: Timestamp) -> Option<Event> {
    let of_node = |name: &str, uid: &str| ObjectReference {
        kind: Some("Node".to_owned()),
        api_version: Some("v1".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    };
    let mut note = event.note.clone();
    let regarding = match &event.about {
        EventObject::Claim { namespace, name, .. } => {
            note = format!("claim {namespace}/{name}: {note}");
            let node = by.node.as_ref()?;
            // The kubelet's own events have the name there, and people's tools look for both.
            of_node(node, node)
        }
        EventObject::Pod { namespace, name, uid } => ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.clone()),
            ..of_node(name, uid)
        },
        EventObject::Node { name, uid } => of_node(name, uid),
    };
    let mut end = note.len().min(MOST_NOTE_BYTES);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.truncate(end);
    // Events of objects without a namespace are in this one.
    let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let name = regarding.name.as_deref().unwrap_or_default();
    Some(Event {
        metadata: ObjectMeta {
            namespace: Some(namespace),
            name: Some(format!("{}.{:x}", cut_name(name), now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        regarding: Some(regarding),
        event_time: Some(MicroTime(now)),
        type_: Some(if event.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(event.reason.clone()),
        note: Some(note),
        action: Some("Divvy".to_owned()),
        reporting_controller: Some(DRIVER.to_owned()),
        reporting_instance: Some(by.instance.clone()),
        ..Event::default()
    })
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
    fn an_agent_tells_of_its_node_alone_and_shortly() {
        let agent = EventSender {
            instance: "agent-1".to_owned(),
            node: Some("n1".to_owned()),
            times: ClusterTimes::default(),
        };
        let about = EventObject::Claim {
            namespace: "team".to_owned(),
            name: "c".repeat(253),
            uid: "u".to_owned(),
        };
        let told = ClusterEvent { about, note: "ü".repeat(1000), ..event("A", "") };
        let made = of(&told, &agent, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(made.metadata.namespace.as_deref(), Some("default"));
        let regarding = made.regarding.unwrap();
        assert_eq!((regarding.kind.as_deref(), regarding.namespace), (Some("Node"), None));
        assert_eq!(regarding.name.as_deref(), Some("n1"));
        let note = made.note.unwrap();
        assert!(note.starts_with("claim team/ccc") && note.len() <= 1000, "{note}");
        let node = of(&event("A", "x"), &agent, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(node.metadata.namespace.as_deref(), Some("default"));
        // A controller tells of pods, in their namespace, and has no node.
        let controller = EventSender { node: None, ..agent };
        assert_eq!(of(&told, &controller, Timestamp::UNIX_EPOCH), None);
        let about = EventObject::Pod {
            namespace: "team".to_owned(),
            name: "p".repeat(253),
            uid: "u".to_owned(),
        };
        let told = ClusterEvent { about, ..told };
        let made = of(&told, &controller, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(made.metadata.namespace.as_deref(), Some("team"));
        assert!(made.metadata.name.unwrap().len() <= 253 && made.note.unwrap().len() <= 1000);
    }
}
