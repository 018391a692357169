//! Device plugin of a node: `divvy-kube plugin`, which sells shares of its cards by sizes, for clusters without shared devices.
//!
//! ```text
//! kubelet ── device-plugins/divvy-<size>.sock ──▶ service ──▶ desk ──▶ book: what fits, on which card
//!         ◀── pod-resources/kubelet.sock ──────── pods ──────▶    └──▶ prepare: the node
//! ```
//!
//! [`endpoint`] is a size's socket and its registration, [`ids`] the names of devices, [`book`] and [`prefer`] are pure.
//!
//! **The kubelet never says that a container has ended.** So it is asked what pods have, again and again: devices that two lists
//! in a row do not name are taken back. Those that none ever named were given to a pod that was refused, and go after
//! [`times::PluginTimes::unseen`]; but a kubelet that begins does not know its pods at first, and has
//! [`times::PluginTimes::begins`]. One that does not answer takes back nothing.
//!
//! **Nothing is kept in memory alone.** The checkpoint of the prepare core names each claim with its devices before anything is
//! made; a plugin that starts makes its book of that and of the kubelet's list before it registers. What the list names is made again
//! then: after a reboot the kubelet starts containers with answers of the last boot, and does not ask.
//!
//! Promises: what pods have together never exceeds a card; nothing is sold while the node was not looked at, while another sells
//! its cards, or beside the agent.
//!
//! Does not know which pod asks: the kubelet does not say it.

mod args;
mod book;
mod desk;
mod endpoint;
mod ids;
mod pods;
mod prefer;
mod service;
mod size;
#[cfg(test)]
mod tests;
mod times;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::service::Routes;

pub(crate) use self::args::PluginArgs;
use self::book::PodList;
use self::desk::ShareDesk;
use self::endpoint::{PluginSockets, Registrations, SizeEndpoint};
use self::service::GiveBy;
use self::times::PluginTimes;
use crate::agent::{AgentAnswer, ask, enforces};
use crate::cards::{CardBook, CardWatch};
use crate::cluster::{ClusterTimes, PluginNode, connect, look_for_plugin};
use crate::ending::{AFTER_CALLS, told_to_end};
use crate::event::EventLog;
use crate::failure::{ServeFailure, failed};
use crate::kubelet::wire::agent::agent_server::AgentServer;
use crate::kubelet::{AgentState, PinnedFile, serve_socket};
use crate::prepare::{NodeDaemon, NodeDisk};
use crate::seller::{Seller, SellerLock};

/// Threads for what blocks: the core's one, and looks at names.
const BLOCKING_THREADS: usize = 4;
/// Socket in the state's folder that probes ask.
const READY_SOCKET: &str = "plugin.sock";
/// Time for the answers that are under way at the end.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// Condition of being ready: the node's cards are known, and may be sold.
const CARDS: &str = "cards";
/// Condition of being ready: the kubelet tells what pods have.
const PODS: &str = "pods";

/// Runs the plugin until it is told to end, or asks one that runs.
///
/// # Errors
/// [`ServeFailure`].
pub(crate) fn run(args: &PluginArgs) -> Result<AgentAnswer, ServeFailure> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build();
    let runtime = runtime.map_err(failed("the runtime cannot be made"))?;
    let answer = runtime.block_on(async {
        match ask("plugin", &args.node.state.join(READY_SOCKET), &args.probe).await {
            Some(answer) => Ok(answer),
            None => start(args).await.map(|()| AgentAnswer::default()),
        }
    });
    // Work that a call has left in a thread is not waited for: a killed plugin leaves no less.
    runtime.shutdown_background();
    answer
}

async fn start(args: &PluginArgs) -> Result<(), ServeFailure> {
    let node = args.node.node()?.to_owned();
    let sizes = size::sizes(&args.sizes).map_err(ServeFailure::Usage)?;
    let sockets =
        PluginSockets::of(&args.node.kubelet_root, &sizes).map_err(ServeFailure::Usage)?;
    let client = connect().await.map_err(ServeFailure::Failed)?;
    let _seller =
        SellerLock::take(&args.node.state, Seller::Plugin).map_err(ServeFailure::Failed)?;
    let log = EventLog::stderr().as_json(args.probe.json);
    let core = args.node.core(enforces())?;
    let desk = Arc::new(ShareDesk::new(
        core,
        &sizes,
        args.node.terms(),
        PluginTimes::default(),
        log.clone(),
    ));
    let (watch, cards) = CardWatch::new(args.node.daemon());
    let (node_tx, node_seen) = watch::channel(PluginNode::default());
    let ending = told_to_end(&log, AFTER_CALLS)?;
    tokio::spawn(watch.run());
    tokio::spawn(look_for_plugin(
        client,
        node.clone(),
        ClusterTimes::default(),
        node_tx,
        log.clone(),
    ));
    log.say(&format!("device plugin on node {node}, pid {}", std::process::id()));
    let plugin = SharePlugin {
        desk,
        sockets,
        by: args.give_by,
        cards,
        node: node_seen,
        state: AgentState::default(),
        lister: Mutex::default(),
    };
    plugin
        .serve(&args.node.state.join(READY_SOCKET), ending)
        .await
        .map_err(ServeFailure::Failed)?;
    log.say("ended");
    Ok(())
}

/// The plugin, with all that it looks at.
struct SharePlugin<D, K> {
    desk: Arc<ShareDesk<D, K>>,
    sockets: PluginSockets,
    by: GiveBy,
    cards: watch::Receiver<CardBook>,
    node: watch::Receiver<PluginNode>,
    state: AgentState,
    /// The kubelet that lists pods, and when it began.
    lister: Mutex<Option<(PinnedFile, Instant)>>,
}

impl<D, K> SharePlugin<D, K>
where
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    /// Serves until `ending` turns true and what ran has ended.
    ///
    /// # Errors
    /// In words, where the socket `ready` cannot be bound.
    async fn serve(self, ready: &Path, ending: watch::Receiver<bool>) -> Result<(), String> {
        let ready = serve_socket(ready, Routes::new(AgentServer::new(self.state.clone()))).await?;
        self.state.set(CARDS, false, "the node's cards are not known yet");
        self.state.set(PODS, false, "the kubelet was not asked yet what pods have");
        let registrations = Registrations::new(self.state.clone(), self.desk.sizes());
        let mut endpoints = JoinSet::new();
        let mut ended = ending.clone();
        tokio::select! {
            _ = ended.wait_for(|is_ending| *is_ending) => {}
            () = self.keep_cards() => {}
            () = async {
                self.recover().await;
                for size in self.desk.sizes() {
                    let endpoint = SizeEndpoint {
                        size,
                        desk: self.desk.clone(),
                        by: self.by,
                        node: self.node.clone(),
                        sockets: self.sockets.clone(),
                        registrations: registrations.clone(),
                        ending: ending.clone(),
                    };
                    endpoints.spawn(endpoint.run());
                }
                self.keep_pods().await;
            } => {}
        }
        // Endpoints end by themselves, with the calls that run.
        let left = async { while endpoints.join_next().await.is_some() {} };
        if timeout(LAST_WORDS, left).await.is_err() {
            self.desk
                .log()
                .say(&format!("a call has not ended within {LAST_WORDS:?}, and is left"));
        }
        ready.end(Duration::ZERO).await;
        Ok(())
    }

    /// Keeps the book's cards true.
    async fn keep_cards(&self) {
        let (mut cards, mut node) = (self.cards.clone(), self.node.clone());
        let mut said = Vec::new();
        loop {
            let (book, seen) =
                (cards.borrow_and_update().clone(), node.borrow_and_update().clone());
            let left_out = self.desk.enter_cards(&book, &seen).await;
            for words in left_out.iter().filter(|words| !said.contains(*words)) {
                self.desk.log().say(&format!("not sold: {words}"));
            }
            said = left_out;
            let (met, words) = match (&seen.refusal, &book.doubt) {
                (Some(refusal), _) => {
                    (false, format!("{}: {}", refusal.reason.word(), refusal.words))
                }
                (None, Some(doubt)) => (false, doubt.clone()),
                (None, None) if !book.is_known => {
                    (false, "the daemon has not told the cards yet".to_owned())
                }
                (None, None) => (true, format!("{} devices", book.devices.len())),
            };
            if self.state.set(CARDS, met, &*words) {
                self.desk.log().say(&format!("cards: {words}"));
            }
            let changed = tokio::select! {
                changed = cards.changed() => changed,
                changed = node.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Makes the book again before anything is sold by it, however long that takes.
    async fn recover(&self) {
        let mut cards = self.cards.clone();
        let _ = cards.wait_for(|book| book.is_known).await;
        // The list before it is none.
        let (book, node) = (self.cards.borrow().clone(), self.node.borrow().clone());
        let _ = self.desk.enter_cards(&book, &node).await;
        loop {
            let recovered = match self.listed().await {
                Ok((list, began)) => {
                    self.desk.recover(&list, began).await.map_err(|error| error.to_string())
                }
                Err(why) => Err(why),
            };
            match recovered {
                Ok(count) => {
                    self.desk.log().say(&format!("{count} claims are known from before"));
                    return;
                }
                Err(why) => self.tell_pods(Err(&why)),
            }
            tokio::time::sleep(self.desk.times().look).await;
        }
    }

    /// Takes back what pods do not have any more.
    async fn keep_pods(&self) {
        loop {
            tokio::time::sleep(self.desk.times().poll).await;
            let turn = self.desk.turn().await;
            if let Ok((list, began)) = self.listed().await {
                self.desk.hear(&list, turn, began).await;
            }
        }
    }

    /// List of what pods have, and when the kubelet began that says so.
    async fn listed(&self) -> Result<(PodList, Instant), String> {
        let began = self.kubelet_began();
        let mut listed = pods::listed(&self.sockets.pods, self.desk.times().answer).await;
        if listed.is_ok() && self.kubelet_began() != began {
            listed = Err("the kubelet has begun again meanwhile".to_owned());
        }
        self.tell_pods(listed.as_ref().map(|list| list.groups.len()).map_err(String::as_str));
        listed.map(|list| (list, began))
    }

    /// When the kubelet began: its socket is as old as it is.
    fn kubelet_began(&self) -> Instant {
        let mut lister = self.lister.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, began)) = lister.as_ref().filter(|(file, _)| file.is_there()) {
            return *began;
        }
        let now = Instant::now();
        let Ok(file) = PinnedFile::of(&self.sockets.pods) else { return now };
        // Of the first that is found the file's clock tells, which may be wrong; what is not known is not long ago.
        let age = if lister.is_none() { file.age() } else { None };
        let began = age.and_then(|age| now.checked_sub(age)).unwrap_or(now);
        *lister = Some((file, began));
        began
    }

    fn tell_pods(&self, listed: Result<usize, &str>) {
        let (met, words) = match listed {
            Ok(count) => (true, format!("{count} containers have shares")),
            Err(why) => (false, why.to_owned()),
        };
        if self.state.set(PODS, met, &*words) && !met {
            self.desk.log().say(&words);
        }
    }
}
