//! The agent of a node: `divvy-kube agent`, which ties the kubelet's side, the API server and the prepare core together.
//!
//! Promises: it serves on one thread, with others for what waits for a disk; it begins with neither daemon nor API server
//! there, and says of each claim what is missing; SIGTERM ends it when the calls that run are answered.
//!
//! Cards that the command line names are not published, and nobody asks whether the node may have them: that is for a cluster in
//! which somebody else publishes.
//!
//! Does not prepare, and does not publish: [`crate::prepare`] and [`crate::cluster`] do.

mod args;
mod node;
mod probe;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

pub(crate) use self::args::AgentArgs;
pub(crate) use self::node::{NodeArgs, enforces};
pub(crate) use self::probe::{AgentAnswer, ProbeArgs, ask};
use crate::cards::{CardBook, CardHealth, CardTerms, CardWatch, NodeCard, NodeCards};
use crate::cluster::{
    ClaimSource, Cluster, ClusterState, KubeClaims, SizeTask, connect, tell_claims,
};
use crate::driver::DRIVER;
use crate::ending::{AFTER_CALLS, told_to_end};
use crate::event::EventLog;
use crate::failure::{ServeFailure, failed};
use crate::kubelet::{self, AgentState, KubeletSockets, NodePlugin};
use crate::metrics::{self, AgentFacts, ClaimPage};
use crate::prepare::{NodeDaemon, NodeDisk};
use crate::seller::{Seller, SellerLock};

/// Threads for what blocks: the core's one, and looks at names.
const BLOCKING_THREADS: usize = 4;
/// Time after which what was left to do is tried again, and after which named cards are told of again.
const AGAIN: Duration = Duration::from_secs(10);
/// Condition of being ready: the node's slices are as they should be.
const PUBLISHED: &str = "published";

/// Runs the agent until it is told to end, or asks one that runs.
///
/// # Errors
/// [`ServeFailure`].
pub(crate) fn run(args: &AgentArgs) -> Result<AgentAnswer, ServeFailure> {
    let sockets = KubeletSockets::of(&args.node.kubelet_root, DRIVER, args.pod_uid.as_deref());
    let sockets = sockets.map_err(ServeFailure::Usage)?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build();
    let runtime = runtime.map_err(failed("the runtime cannot be made"))?;
    let answer = runtime.block_on(async {
        match ask("agent", &sockets.service, &args.probe).await {
            Some(answer) => Ok(answer),
            None => serve(args, &sockets).await.map(|()| AgentAnswer::default()),
        }
    });
    // Work that a call has left in a thread is not waited for: a killed agent leaves no less.
    runtime.shutdown_background();
    answer
}

async fn serve(args: &AgentArgs, sockets: &KubeletSockets) -> Result<(), ServeFailure> {
    let node = args.node.node()?;
    let cards = args.cards().map_err(ServeFailure::Usage)?;
    let metrics_at = args.metrics.as_deref().map(metrics::address).transpose();
    let metrics_at = metrics_at.map_err(ServeFailure::Usage)?;
    let client = connect().await.map_err(ServeFailure::Failed)?;
    let _seller =
        SellerLock::take(&args.node.state, Seller::Agent).map_err(ServeFailure::Failed)?;
    let log = EventLog::stderr().as_json(args.probe.json);
    let enforces = enforces();
    if enforces {
        log.say("SELinux enforces a policy: what containers mount must have a label of theirs");
    }
    let core = args.node.core(enforces)?;
    let (cards_tx, cards_rx) = watch::channel(NodeCards::default());
    let claims = KubeClaims::new(client.clone());
    let plugin = NodePlugin::new((DRIVER, node), claims, core, cards_rx, log.clone());
    let state = AgentState::default();
    let (mut beside, mut cluster_seen) = (None, None);
    let plugin = if cards.is_empty() {
        let (watch, book) = CardWatch::new(args.node.daemon());
        let (cluster, task) = Cluster::new(client.clone(), args.cluster(node), book.clone());
        tokio::spawn(watch.run());
        tokio::spawn(task.run());
        tokio::spawn(book_cards(book.clone(), args.node.terms(), cards_tx));
        tokio::spawn(tell_state(cluster.state.clone(), state.clone(), log.clone()));
        cluster_seen = Some(cluster.state.clone());
        beside = Some((cluster.clone(), book));
        plugin.under(cluster)
    } else {
        tokio::spawn(tell_cards(cards, cards_tx));
        plugin
    };
    let plugin = Arc::new(plugin);
    if let Some((cluster, book)) = beside {
        let told = tell_claims(plugin.clone(), book, cluster.state.clone(), cluster.events.clone());
        tokio::spawn(told);
        let (claims, options) = (KubeClaims::new(client.clone()), args.cluster(node));
        let node = (plugin.clone(), claims);
        tokio::spawn(SizeTask::new(client, options, cluster.state, node, log.clone()).run());
    }

    if let Some(address) = metrics_at {
        let (state, counts) = (state.clone(), plugin.counts());
        let facts = AgentFacts { state, cluster: cluster_seen, counts };
        let page = ClaimPage::new(node, facts, plugin.clone(), args.pod_resources.clone());
        tokio::spawn(metrics::serve(address, page, log.clone()));
    }

    let ending = told_to_end(&log, AFTER_CALLS)?;
    tokio::spawn(sweep(plugin.clone()));
    log.say(&format!("agent of {DRIVER} on node {node}, pid {}", std::process::id()));
    let served = kubelet::serve(sockets, plugin, state, ending).await;
    served.map_err(ServeFailure::Failed)?;
    log.say("ended");
    Ok(())
}

/// Tells of the cards in the book, with each look at them.
async fn book_cards(
    mut book: watch::Receiver<CardBook>,
    terms: CardTerms,
    cards_tx: watch::Sender<NodeCards>,
) {
    while book.changed().await.is_ok() {
        let cards = book.borrow_and_update().cards(terms);
        if cards.checked.is_some() {
            cards_tx.send_replace(cards);
        }
    }
}

/// Makes what the cluster's side says of itself a condition of being ready, and a line where it changes.
async fn tell_state(mut seen: watch::Receiver<ClusterState>, state: AgentState, log: EventLog) {
    loop {
        let (met, words) = seen.borrow_and_update().published();
        if state.set(PUBLISHED, met, &*words) {
            log.say(&format!("slices: {words}"));
        }
        if seen.changed().await.is_err() {
            return;
        }
    }
}

/// Tells of cards that the command line names. They are not looked at, so nothing is known of their health.
async fn tell_cards(named: Vec<(String, String)>, cards_tx: watch::Sender<NodeCards>) {
    let card = |(device, gpu_uuid): (String, String)| NodeCard {
        device,
        gpu_uuid,
        health: CardHealth::Unknown,
        message: "named by --card, not looked at".to_owned(),
        offer: None,
    };
    let cards: Vec<_> = named.into_iter().map(card).collect();
    loop {
        let cards = cards.clone();
        cards_tx.send_replace(NodeCards { cards, checked: Some(SystemTime::now()) });
        tokio::time::sleep(AGAIN).await;
    }
}

/// Does what instances before have left to do, until nothing is left.
async fn sweep<S, D, K>(plugin: Arc<NodePlugin<S, D, K>>)
where
    S: ClaimSource,
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    while plugin.sweep().await {
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{NodeReason, NodeRefusal};

    #[tokio::test]
    async fn a_refusal_is_a_condition_that_is_not_met_and_a_line() {
        let good = ClusterState {
            is_synced: true,
            is_publisher: true,
            is_settled: true,
            ..ClusterState::default()
        };
        let words = "node n1: a device plugin sells nvidia.com/gpu".to_owned();
        let refusal = Some(NodeRefusal { reason: NodeReason::SoldByPlugin, words });
        let (cluster, seen) = watch::channel(ClusterState { refusal, ..good.clone() });
        let (state, log) = (AgentState::default(), EventLog::memory());
        let telling = tokio::spawn(tell_state(seen, state.clone(), log.clone()));
        let told = async |count: usize| {
            while log.lines().len() < count {
                tokio::task::yield_now().await;
            }
            let (name, condition) = state.conditions().remove(0);
            assert_eq!((name, log.lines().len()), (PUBLISHED, count));
            assert_eq!(log.lines()[count - 1], format!("slices: {}", condition.message));
            (condition.met, condition.message)
        };
        let (met, words) = told(1).await;
        assert_eq!((met, words.starts_with("sold-by-plugin: node n1: ")), (false, true), "{words}");
        cluster.send_replace(good);
        assert_eq!(told(2).await, (true, "0 devices, generation 0".to_owned()));
        // A line is told once.
        cluster.send_modify(|state| state.writes += 1);
        drop(cluster);
        telling.await.unwrap();
        assert_eq!(log.lines().len(), 2);
    }
}
