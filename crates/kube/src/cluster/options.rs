//! Settings of the cluster's side, and the state that it tells of itself.
//!
//! Promises: plain values, and a sentence of them that names all that stands against the node. Does not read them from anywhere.

use std::path::PathBuf;

use super::pace::ClusterTimes;
use super::verdict::{NodeReason, NodeRefusal};
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
    /// Reason why none of the node's cards is published.
    pub refusal: Option<NodeRefusal>,
    /// Reason why the cards are not known, or not any more: no daemon, or a driver that does not answer it.
    pub doubt: Option<String>,
    /// Cards that are not published, and why.
    pub left_out: Vec<String>,
    /// The last thing that went wrong, in words; none when that is over.
    pub problem: Option<String>,
    /// The same of events.
    pub event_problem: Option<String>,
}

impl ClusterState {
    /// Whether the node offers what it has, and the same in words.
    ///
    /// A node that is refused, or whose cards nobody knows, is not ready: else nobody who looks at pods would see it. No rolling
    /// update hangs by that, though the DaemonSet waits for each new pod to be ready before it goes on to another node: as long
    /// as the old agent of the node lives it is the publisher, and the new one is ready by leaving that to it. A node whose old agent
    /// is dead holds the update up, as with any new agent that is not ready, until somebody deletes the old pod.
    pub fn published(&self) -> (bool, String) {
        let is_good = self.is_settled && self.refusal.is_none() && self.doubt.is_none();
        // An instance that leaves publishing to another is as good.
        (self.is_synced && (is_good || !self.is_publisher), self.words())
    }

    fn words(&self) -> String {
        let mut words = Vec::new();
        // A problem says why nobody has looked.
        let is_told = |refusal: &&NodeRefusal| {
            refusal.reason != NodeReason::NotLooked || self.problem.is_none()
        };
        if let Some(refusal) = self.refusal.as_ref().filter(is_told) {
            words.push(format!("{}: {}", refusal.reason.word(), refusal.words));
        }
        words.extend(self.problem.clone());
        words.extend(self.doubt.clone());
        if words.is_empty() {
            words.push(match self.is_synced {
                true => format!("{} devices, generation {}", self.devices, self.generation),
                false => "the node's slices were not listed yet".to_owned(),
            });
        }
        words.extend(self.left_out.iter().map(|why| format!("not published: {why}")));
        words.extend(self.event_problem.clone());
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled() -> ClusterState {
        ClusterState {
            is_synced: true,
            is_publisher: true,
            is_settled: true,
            devices: 2,
            generation: 7,
            ..ClusterState::default()
        }
    }

    fn refusal(reason: NodeReason) -> Option<NodeRefusal> {
        Some(NodeRefusal { reason, words: "node n1: why".to_owned() })
    }

    #[test]
    fn what_stands_against_the_node_is_named_and_keeps_it_from_being_ready() {
        let doubt = || Some("no NVML".to_owned());
        for (state, met, words) in [
            (settled(), true, "2 devices, generation 7"),
            (ClusterState::default(), false, "the node's slices were not listed yet"),
            (
                ClusterState { refusal: refusal(NodeReason::SoldByPlugin), ..settled() },
                false,
                "sold-by-plugin: node n1: why",
            ),
            (ClusterState { doubt: doubt(), ..settled() }, false, "no NVML"),
            (
                ClusterState {
                    refusal: refusal(NodeReason::NotLooked),
                    problem: Some("node n1 cannot be read".to_owned()),
                    ..settled()
                },
                false,
                "node n1 cannot be read",
            ),
            (
                ClusterState {
                    left_out: vec!["GPU-1 is told of twice".to_owned()],
                    event_problem: Some("an event was refused: no".to_owned()),
                    ..settled()
                },
                true,
                "2 devices, generation 7; not published: GPU-1 is told of twice; an event was refused: no",
            ),
            (
                ClusterState { refusal: refusal(NodeReason::GateOff), doubt: doubt(), ..settled() },
                false,
                "gate-off: node n1: why; no NVML",
            ),
        ] {
            assert_eq!(state.published(), (met, words.to_owned()), "{state:?}");
            // The new agent of a rolling update, which must not hold up the update of other nodes.
            let second = ClusterState { is_publisher: false, ..state.clone() };
            assert_eq!(second.published(), (state.is_synced, words.to_owned()), "{state:?}");
        }
    }
}
