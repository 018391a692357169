//! Cluster: what the agent tells the API server, and asks of it.
//!
//! [`Cluster::new`] gives the parts that others look at, and a [`ClusterTask`] that keeps them true while it runs:
//!
//! ```ignore
//! let (watch, book) = CardWatch::new(DaemonSocket::at("/run/divvy/daemon.sock"));
//! let (cluster, task) = Cluster::new(client, ClusterOptions::of(node, state.join("publisher.lock")), book);
//! tokio::join!(watch.run(), task.run());        // beside the kubelet's services, which ask
//! cluster.verdict.borrow().check(&uuid)?;       // before a claim is prepared,
//! cluster.events.say(event);                    // which may say something on it
//! ```
//!
//! [`node`] judges the node, [`slices`] says what the pool of devices should be, [`run`] asks and writes, [`events`] tells
//! people. [`sizes`] gives running claims another size, as people ask by objects of our own.
//!
//! Promises: at most one write of a slice in [`ClusterTimes::gap`], none while all is as it should be; two watches, of this node's
//! slices and of sizes, and one GET of the node in [`ClusterTimes::node`]. Nothing lists or watches claims or pods. Where the API server is away, all
//! that is known stays.

mod claim_health;
mod claims;
mod connect;
mod events;
mod held;
mod look;
mod node;
mod objects;
mod options;
mod pace;
mod run;
mod runtime;
mod sizes;
mod slices;
#[cfg(test)]
mod tests;
mod verdict;

use tokio::sync::watch;

pub use self::claim_health::tell_claims;
pub(crate) use self::claims::chain;
pub use self::claims::{ClaimSource, KubeClaims, allocated, allocated_of};
pub(crate) use self::connect::{bounded, connect};
pub use self::events::{ClusterEvent, EventObject, EventQueue};
pub(crate) use self::events::{EventSender, send as send_events};
pub use self::held::{HeldClaims, SizedClaims};
pub use self::look::look_for_plugin;
pub use self::options::{ClusterOptions, ClusterState};
pub use self::pace::ClusterTimes;
pub(crate) use self::pace::jittered;
pub use self::run::ClusterTask;
pub use self::sizes::SizeTask;
pub(crate) use self::verdict::NODE_ACCEPTED;
pub use self::verdict::{NodeReason, NodeRefusal, NodeVerdict, PluginNode};
use crate::cards::CardBook;

/// Cluster's side of the agent.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Whether the node, and each card, may be used.
    pub verdict: watch::Receiver<NodeVerdict>,
    /// State, for people.
    pub state: watch::Receiver<ClusterState>,
    /// Events.
    pub events: EventQueue,
}

impl Cluster {
    /// The cluster's side of the agent, and what is to run for it. Nothing is asked before that.
    pub fn new(
        client: kube::Client,
        options: ClusterOptions,
        book: watch::Receiver<CardBook>,
    ) -> (Self, ClusterTask) {
        let (verdict, verdict_seen) = watch::channel(NodeVerdict::default());
        let (state, state_seen) = watch::channel(ClusterState::default());
        let (events, queue) = EventQueue::new();
        let task =
            ClusterTask::new(client, options, book, (verdict, state), (events.clone(), queue));
        (Self { verdict: verdict_seen, state: state_seen, events }, task)
    }
}
