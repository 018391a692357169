//! Look at the node for our device plugin: one GET in [`ClusterTimes::node`], and nothing else of the API server.
//!
//! Promises: the node is refused until it was looked at; where the API server is away, the last that was known stays.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use tokio::sync::watch;
use tokio::time::timeout;

use super::node::NodeFacts;
use super::pace::{ClusterTimes, jittered};
use super::verdict::PluginNode;
use crate::event::EventLog;

/// Keeps `seen` true until nobody wants to know.
pub async fn look_for_plugin(
    client: kube::Client,
    node: String,
    times: ClusterTimes,
    seen: watch::Sender<PluginNode>,
    log: EventLog,
) {
    let nodes = Api::<Node>::all(client);
    let mut said = None;
    while !seen.is_closed() {
        let words = match timeout(times.patience, nodes.get(&node)).await {
            Ok(Ok(found)) => {
                let next = NodeFacts::of(&found).for_plugin(&node);
                seen.send_if_modified(|now| {
                    let is_news = *now != next;
                    *now = next;
                    is_news
                });
                None
            }
            Ok(Err(error)) => Some(format!("node {node} cannot be read: {error}")),
            Err(_) => Some(format!("node {node} was not told of within {:?}", times.patience)),
        };
        let wait = if words.is_some() { times.retry } else { times.node };
        if words != said {
            log.say(words.as_deref().unwrap_or("the node was read"));
            said = words;
        }
        tokio::time::sleep(jittered(wait).max(Duration::from_millis(1))).await;
    }
}
