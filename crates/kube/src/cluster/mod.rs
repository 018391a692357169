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
//! people.
//!
//! Promises: at most one write in [`ClusterTimes::gap`], none while all is as it should be; one watch, of this node's slices, and
//! one GET of the node in [`ClusterTimes::node`]. Nothing lists or watches claims or pods. Where the API server is away, all
//! that is known stays.

mod claims;
mod events;
mod instance;
mod node;
mod pace;
mod run;
mod runtime;
mod slices;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use tokio::sync::watch;

pub use self::claims::{ClaimSource, KubeClaims, allocated};
pub use self::events::{ClusterEvent, EventObject, EventQueue};
pub use self::node::{NodeReason, NodeRefusal, NodeVerdict};
pub use self::pace::ClusterTimes;
pub use self::run::ClusterTask;
pub use self::slices::pool::DRIVER;
use crate::cards::CardBook;

/// Claims that may share a card, where nobody says otherwise.
pub const SLOTS: u32 = 16;

/// Settings of the cluster's side.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The node's name, which is the pool's.
    pub node: String,
    /// Name of this instance in events, such as the pod's.
    pub instance: String,
    /// File by which one instance of a node is the publisher; the same for all of them.
    pub lock: PathBuf,
    /// Claims that may share a card.
    pub slots: u32,
    /// Container runtimes that somebody vouches for, as `kata` of `kata://3.0.0`.
    pub runtimes: Vec<String>,
    /// Times.
    pub times: ClusterTimes,
}

impl ClusterOptions {
    /// Those of `node`, and what is usual.
    pub fn of(node: impl Into<String>, lock: impl Into<PathBuf>) -> Self {
        let node = node.into();
        Self {
            instance: node.clone(),
            node,
            lock: lock.into(),
            slots: SLOTS,
            runtimes: Vec::new(),
            times: ClusterTimes::default(),
        }
    }
}

/// State of the cluster's side, for logs, metrics and a probe of readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// Whether this node's slices were listed.
    pub is_synced: bool,
    /// Whether this instance writes them.
    pub is_publisher: bool,
    /// Generation of the pool.
    pub generation: i64,
    /// Devices that should be in it.
    pub devices: usize,
    /// Whether it is as it should be, as far as the watch tells.
    pub is_settled: bool,
    /// Writes that were done.
    pub writes: u64,
    /// The last thing that went wrong, in words; none when that is over.
    pub problem: Option<String>,
    /// The same of events.
    pub event_problem: Option<String>,
}

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
