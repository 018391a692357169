//! Part of the page that is about the agent itself: whether it is ready, whether the node is refused, and what came of the
//! kubelet's calls.
//!
//! Promises: values of labels are words of lists in the code, so that there are so many series and no more.

use std::fmt::Write;

use tokio::sync::watch;

use super::page::{PageMetric, head};
use crate::cluster::{ClusterState, NodeReason};
use crate::kubelet::{AgentState, CallCounts, ClaimCall};

pub(super) const CONDITION: PageMetric = PageMetric {
    name: "divvy_agent_condition",
    kind: "gauge",
    help: "1 where this condition of being ready is met, else 0; divvy kube agent --ready says why.",
};
pub(super) const REFUSED: PageMetric = PageMetric {
    name: "divvy_agent_node_refused",
    kind: "gauge",
    help: "1 while the node is refused, by the reason; absent where it is not.",
};
pub(super) const PREPARES: PageMetric = PageMetric {
    name: "divvy_agent_prepares_total",
    kind: "counter",
    help: "Answers to the kubelet for claims to be prepared: prepared, or the first word of the error.",
};
pub(super) const UNPREPARES: PageMetric = PageMetric {
    name: "divvy_agent_unprepares_total",
    kind: "counter",
    help: "Answers to the kubelet for claims to be taken back: taken-back, or the first word of the error.",
};

/// Agent, as its page tells of it.
#[derive(Clone, Debug)]
pub(crate) struct AgentFacts {
    /// Conditions of being ready.
    pub(crate) state: AgentState,
    /// State of the cluster's side; none where cards are named, which are not published.
    pub(crate) cluster: Option<watch::Receiver<ClusterState>>,
    /// Answers to the kubelet.
    pub(crate) counts: CallCounts,
}

impl AgentFacts {
    /// Its part of the page.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        head(&mut text, &CONDITION);
        for (name, condition) in self.state.conditions() {
            let met = u8::from(condition.met);
            let _ = writeln!(text, "{}{{condition=\"{name}\"}} {met}", CONDITION.name);
            if !condition.met {
                // For people; who reads metrics passes over it.
                let words = condition.message.replace(char::is_control, " ");
                let _ = writeln!(text, "# {name}: {words}");
            }
        }
        head(&mut text, &REFUSED);
        let refusal = self.cluster.as_ref().and_then(|cluster| cluster.borrow().refusal.clone());
        // A node that nobody has looked at is not ready, and nothing stands against it.
        if let Some(refusal) = refusal.filter(|it| it.reason != NodeReason::NotLooked) {
            let reason = refusal.reason.word();
            let _ = writeln!(text, "{}{{reason=\"{reason}\"}} 1", REFUSED.name);
        }
        for (metric, call) in [(PREPARES, ClaimCall::Prepare), (UNPREPARES, ClaimCall::Unprepare)] {
            head(&mut text, &metric);
            for (word, count) in self.counts.of(call) {
                let _ = writeln!(text, "{}{{result=\"{word}\"}} {count}", metric.name);
            }
        }
        text
    }
}
