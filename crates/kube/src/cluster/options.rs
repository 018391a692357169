//! Settings of the cluster's side, and the state that it tells of itself.
//!
//! Promises: plain values. Does not read them from anywhere.

use std::path::PathBuf;

use super::pace::ClusterTimes;
use crate::cards::CardTerms;

/// Settings of the cluster's side.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The node's name, which is the pool's.
    pub node: String,
    /// Name of this instance in events, such as the pod's.
    pub instance: String,
    /// File by which one instance of a node is the publisher; the same for all of them.
    pub lock: PathBuf,
    /// Terms on which its cards are sold.
    pub terms: CardTerms,
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
            terms: CardTerms::default(),
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
