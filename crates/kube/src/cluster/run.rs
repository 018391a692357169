//! Loop of the cluster's side: hears the watch, looks at the node, and writes what [`super::slices::decide`] says, one request
//! after another.
//!
//! A write's answer is entered at once; one that meets a conflict is read again; any other failure is tried again, later and
//! later. Promises: one write at a time; the loop ends when nobody keeps the book of cards any more, and leaves the slices
//! as they are, for an agent that is restarted finds them so.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::StreamExt;

use super::events::{self, ClusterEvent, EventObject, EventQueue};
use super::node::NodeFacts;
use super::options::{ClusterOptions, ClusterState};
use super::pace::{Pace, jittered};
use super::slices::decide::{DecidedSet, SliceWrite, WriteVerb, decide};
use super::slices::pool::NodePool;
use super::slices::same::drops_shares;
use super::slices::store::SliceStore;
use super::verdict::{NODE_ACCEPTED, NodeReason, NodeRefusal, NodeVerdict};
use crate::cards::{CardBook, CardHealth};
use crate::file_lock::FileLock;
use crate::lenient::{Item, mapped};

/// Task of the cluster's side.
pub struct ClusterTask {
    client: kube::Client,
    slices: Api<ResourceSlice>,
    options: ClusterOptions,
    book: watch::Receiver<CardBook>,
    verdict: watch::Sender<NodeVerdict>,
    state: watch::Sender<ClusterState>,
    events: EventQueue,
    queue: Option<mpsc::Receiver<ClusterEvent>>,
    facts: Option<NodeFacts>,
    store: SliceStore,
    /// Publisher's: in a rolling update two agents run, perhaps of versions that publish different things, and would undo each
    /// other's writes for as long as both live. The one that has it writes, the other looks on.
    lock: Option<FileLock>,
    last: Option<DecidedSet>,
    pace: Pace,
    shares: ApiShares,
    problems: BTreeMap<Doing, String>,
    /// Health of cards that people were told of.
    told: CardBook,
    /// Refusals that people were told of, and when they last were.
    refused: (Vec<NodeRefusal>, Instant),
}

/// Things that are done, each of which may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Watch,
    Look,
    Lock,
    Write,
}

/// Whether the API server keeps what makes a device shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApiShares {
    NotTried,
    Kept,
    Dropped,
}

impl std::fmt::Debug for ClusterTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterTask").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Failure of a write.
enum WriteFailure {
    /// The slice is another version than was thought, or not there.
    Stale(String),
    /// Anything else, in words.
    Other(String),
}

impl ClusterTask {
    pub(super) fn new(
        client: kube::Client,
        options: ClusterOptions,
        book: watch::Receiver<CardBook>,
        (verdict, state): (watch::Sender<NodeVerdict>, watch::Sender<ClusterState>),
        (events, queue): (EventQueue, mpsc::Receiver<ClusterEvent>),
    ) -> Self {
        Self {
            slices: Api::all(client.clone()),
            client,
            options,
            book,
            verdict,
            state,
            events,
            queue: Some(queue),
            facts: None,
            store: SliceStore::default(),
            lock: None,
            last: None,
            pace: Pace::default(),
            shares: ApiShares::NotTried,
            problems: BTreeMap::new(),
            told: CardBook::default(),
            refused: (Vec::new(), Instant::now()),
        }
    }

    /// Runs until nobody keeps the book of cards.
    pub async fn run(mut self) {
        let (failed, mut failures) = watch::channel(None);
        let Some(queue) = self.queue.take() else { return };
        let ClusterOptions { instance, node, times, .. } = self.options.clone();
        let sender = events::EventSender { instance, node: Some(node), times };
        let sending = events::send(self.client.clone(), sender, queue, failed);
        let state = self.state.clone();
        let telling = async move {
            while failures.changed().await.is_ok() {
                let words = failures.borrow_and_update().clone();
                state.send_if_modified(|state| {
                    let is_news = state.event_problem != words;
                    state.event_problem = words;
                    is_news
                });
            }
        };
        tokio::select! {
            () = self.keep() => {}
            () = async { tokio::join!(sending, telling); } => {}
        }
    }

    async fn keep(&mut self) {
        // One watch of this node's slices serves for ours and for those of other drivers.
        let selector = format!("spec.nodeName={}", self.options.node);
        let config = watcher::Config::default().fields(&selector);
        let slices = Api::<Item<ResourceSlice>>::all(self.client.clone());
        let mut slices = Box::pin(watcher(slices, config).default_backoff());
        let times = self.options.times;
        let (mut look_at, mut lock_at) = (Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            if now >= look_at {
                self.look().await;
                look_at = Instant::now() + jittered(times.node);
            }
            if self.lock.is_none() && now >= lock_at {
                self.try_lock();
                lock_at = now + times.lock;
            }
            self.judge();
            self.tell_health();
            let wait = self.step().await;
            let mut until = look_at;
            if self.lock.is_none() {
                until = until.min(lock_at);
            }
            if let Some(wait) = wait {
                until = until.min(Instant::now() + wait);
            }
            tokio::select! {
                event = slices.next() => match event {
                    Some(Ok(event)) => {
                        // An initial event comes before anything was asked.
                        if !matches!(event, watcher::Event::Init) {
                            self.note(Doing::Watch, None);
                        }
                        self.store.hear(mapped(event, understood));
                    }
                    Some(Err(error)) => {
                        let words = format!("the node's slices cannot be watched: {error}");
                        self.note(Doing::Watch, Some(words));
                    }
                    None => return,
                },
                changed = self.book.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    /// Looks at the node.
    async fn look(&mut self) {
        let nodes = Api::<Node>::all(self.client.clone());
        let (name, patience) = (self.options.node.clone(), self.options.times.patience);
        let words = match timeout(patience, nodes.get(&name)).await {
            Ok(Ok(node)) => {
                self.facts = Some(NodeFacts::of(&node));
                None
            }
            Ok(Err(error)) => Some(format!("node {name} cannot be read: {error}")),
            Err(_) => Some(format!("node {name} was not told of within {patience:?}")),
        };
        self.note(Doing::Look, words);
        if self.shares == ApiShares::Dropped {
            self.try_shares().await;
        }
    }

    /// Tries whether the API server still drops what makes a device shared; nothing is written.
    async fn try_shares(&mut self) {
        let facts = self.facts.as_ref();
        let ClusterOptions { node, runtimes, .. } = &self.options;
        let verdict = NodeVerdict::of(node, facts, &self.store.foreign(), false, runtimes);
        let pool = self.pool_by(&verdict);
        let Some(slice) = pool.and_then(|pool| pool.slice(0, 1)) else { return };
        let write = SliceWrite { verb: WriteVerb::Create, slice };
        if let Ok(tried) = self.put(&write, true).await
            && !drops_shares(&tried, &write.slice)
        {
            self.shares = ApiShares::Kept;
        }
    }

    fn try_lock(&mut self) {
        let words = match FileLock::try_alone(&self.options.lock) {
            Ok(lock) => {
                self.lock = lock;
                None
            }
            Err(error) => {
                let path = self.options.lock.display();
                Some(format!("{path} cannot be locked, so no slice is written: {error}"))
            }
        };
        self.note(Doing::Lock, words);
    }

    /// Judges the node again, and tells people of what has changed, or stands for long.
    fn judge(&mut self) {
        let ClusterOptions { node, runtimes, .. } = &self.options;
        let is_dropped = self.shares == ApiShares::Dropped;
        let facts = self.facts.as_ref();
        let next = NodeVerdict::of(node, facts, &self.store.foreign(), is_dropped, runtimes);
        let before = self.verdict.borrow().clone();
        let refusals = next.refusals(&self.book.borrow());
        let (told, at) = &self.refused;
        // One of two instances says again what stands.
        let is_again = self.lock.is_some() && at.elapsed() >= self.options.times.refusal;
        let is_due = |refusal: &&NodeRefusal| is_again || !told.contains(refusal);
        let due: Vec<_> = refusals.iter().filter(is_due).collect();
        for refusal in &due {
            self.say(true, refusal.reason.event(), refusal.words.clone());
        }
        let at = if due.is_empty() { *at } else { Instant::now() };
        self.refused = (refusals, at);
        if before == next {
            return;
        }
        for note in next.notes.iter().filter(|note| !before.notes.contains(note)) {
            self.say(true, "DivvyNodeNeedsSetting", note.clone());
        }
        if let (Some(before), None) = (&before.refusal, &next.refusal)
            && before.reason != NodeReason::NotLooked
        {
            let word = before.reason.word();
            let words = format!("the node's cards are published again: {word} is over");
            self.say(false, NODE_ACCEPTED, words);
        }
        self.verdict.send_replace(next);
    }

    /// Tells people of cards that fail or recover.
    fn tell_health(&mut self) {
        let book = self.book.borrow_and_update().clone();
        for device in &book.devices {
            let before = self.told.devices.iter().find(|known| known.name == device.name);
            let was_ill = before.is_some_and(|known| known.health == CardHealth::Unhealthy);
            let is_ill = device.health == CardHealth::Unhealthy;
            let uuid = &device.uuid;
            if is_ill && !was_ill {
                let words = format!("{uuid} is not offered any more: {}", device.message);
                self.say(true, "DivvyCardUnhealthy", words);
            } else if was_ill && device.health == CardHealth::Healthy {
                self.say(false, "DivvyCardRecovered", format!("{uuid} is offered again"));
            }
        }
        if book.is_known {
            self.told = book;
        }
    }

    fn say(&self, is_warning: bool, reason: &str, note: String) {
        let uid = self.facts.as_ref().map(|facts| facts.uid.clone()).unwrap_or_default();
        let about = EventObject::Node { name: self.options.node.clone(), uid };
        self.events.say(ClusterEvent { about, is_warning, reason: reason.to_owned(), note });
    }

    /// Does the next write, if one is due; how long to wait for it, if one is not.
    async fn step(&mut self) -> Option<Duration> {
        let is_publisher = self.lock.is_some();
        let is_synced = self.store.is_synced;
        let verdict = self.verdict.borrow().clone();
        let pool = self.pool_by(&verdict);
        let (doubt, left_out) = {
            let book = self.book.borrow();
            let unknown =
                || (!book.is_known).then(|| "the daemon has not told the cards yet".to_owned());
            (book.doubt.clone().or_else(unknown), verdict.left_out(&book))
        };
        let tell = |state: &mut ClusterState| {
            (state.is_publisher, state.is_synced) = (is_publisher, is_synced);
            (state.refusal, state.doubt, state.left_out) = (verdict.refusal, doubt, left_out);
        };
        let Some(pool) = pool else {
            self.report(tell);
            return None;
        };
        let decision = decide(&pool, self.store.own(), self.last.as_ref());
        let generation = decision.set.generation();
        let is_settled = decision.writes.is_empty();
        self.report(|state| {
            tell(state);
            (state.devices, state.is_settled) = (pool.count(), is_settled);
            state.generation = generation;
        });
        if is_settled {
            self.note(Doing::Write, None);
        }
        if !is_publisher {
            return None;
        }
        self.last = Some(decision.set);
        let write = decision.writes.into_iter().next()?;
        let wait = self.pace.wait(Instant::now());
        if !wait.is_zero() {
            return Some(wait);
        }
        let times = self.options.times;
        match self.write(&write).await {
            Ok(()) => {
                self.pace.succeeded(Instant::now(), &times);
                self.note(Doing::Write, None);
                self.report(|state| state.writes += 1);
            }
            Err(failure) => {
                self.pace.failed(Instant::now(), &times);
                let words = match failure {
                    WriteFailure::Other(words) => words,
                    WriteFailure::Stale(words) => {
                        self.read_again(&write.slice).await;
                        words
                    }
                };
                self.note(Doing::Write, Some(words));
            }
        }
        // The next one is decided by what is known then.
        Some(self.pace.wait(Instant::now()))
    }

    /// The pool that is wanted by this verdict; none while that is not known.
    fn pool_by(&self, verdict: &NodeVerdict) -> Option<NodePool> {
        let (facts, book) = (self.facts.as_ref()?, self.book.borrow());
        if !self.store.is_synced {
            return None;
        }
        if verdict.refusal.is_none() && !book.is_known {
            return None;
        }
        let ClusterOptions { node, terms, .. } = &self.options;
        Some(NodePool::of(node, &facts.uid, &book, verdict, *terms))
    }

    async fn write(&mut self, write: &SliceWrite) -> Result<(), WriteFailure> {
        if write.verb == WriteVerb::Delete {
            self.delete(&write.slice).await?;
            self.store.forget(name(&write.slice));
            return Ok(());
        }
        if self.shares != ApiShares::Kept {
            // Tried out first: a device without its fields would be given away whole.
            let tried = self.put(write, true).await?;
            if drops_shares(&tried, &write.slice) {
                self.shares = ApiShares::Dropped;
                return Err(WriteFailure::Other(format!(
                    "slice {} was not written: the API server drops what makes devices shared",
                    name(&write.slice)
                )));
            }
            self.shares = ApiShares::Kept;
        }
        let written = self.put(write, false).await?;
        if drops_shares(&written, &write.slice) {
            // The gate was turned off since it was tried.
            self.shares = ApiShares::Dropped;
        }
        self.store.enter(written);
        Ok(())
    }

    async fn put(&self, write: &SliceWrite, dry_run: bool) -> Result<ResourceSlice, WriteFailure> {
        let (slice, params) = (&write.slice, PostParams { dry_run, ..PostParams::default() });
        let put = async {
            match write.verb {
                WriteVerb::Replace => self.slices.replace(name(slice), &params, slice).await,
                WriteVerb::Create | WriteVerb::Delete => self.slices.create(&params, slice).await,
            }
        };
        let done = timeout(self.options.times.patience, put).await;
        outcome(done, &format!("slice {} was not written", name(slice)))
    }

    async fn delete(&self, slice: &ResourceSlice) -> Result<(), WriteFailure> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: slice.metadata.uid.clone(),
                resource_version: slice.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let deleting = self.slices.delete(name(slice), &params);
        let done = timeout(self.options.times.patience, deleting).await;
        outcome(done, &format!("slice {} was not removed", name(slice))).map(|_| ())
    }

    /// Reads a slice that is not as it was thought to be.
    async fn read_again(&mut self, slice: &ResourceSlice) {
        let name = name(slice);
        match timeout(self.options.times.patience, self.slices.get_opt(name)).await {
            Ok(Ok(Some(slice))) => self.store.enter(slice),
            Ok(Ok(None)) => self.store.forget(name),
            // The watch tells.
            Ok(Err(_)) | Err(_) => {}
        }
    }

    /// Notes what is wrong with one of the things that are done; `None` where nothing is.
    fn note(&mut self, of: Doing, words: Option<String>) {
        match words {
            Some(words) => drop(self.problems.insert(of, words)),
            None => drop(self.problems.remove(&of)),
        }
        let all: Vec<&str> = self.problems.values().map(String::as_str).collect();
        let problem = (!all.is_empty()).then(|| all.join("; "));
        self.report(|state| state.problem = problem);
    }

    fn report(&self, change: impl FnOnce(&mut ClusterState)) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        });
    }
}

/// A slice. A slice that is not understood is another driver's, and only its presence counts.
fn understood(item: Item<ResourceSlice>) -> ResourceSlice {
    let metadata = item.metadata().clone();
    item.read().unwrap_or_else(|_| ResourceSlice { metadata, ..ResourceSlice::default() })
}

fn name(slice: &ResourceSlice) -> &str {
    slice.metadata.name.as_deref().unwrap_or_default()
}

/// Answer of a request, or its failure in words.
fn outcome<T>(
    done: Result<Result<T, kube::Error>, tokio::time::error::Elapsed>,
    failed: &str,
) -> Result<T, WriteFailure> {
    match done {
        Ok(Ok(answer)) => Ok(answer),
        // Another version, none, or one of that name.
        Ok(Err(kube::Error::Api(status))) if [404, 409, 410].contains(&status.code) => {
            Err(WriteFailure::Stale(format!("{failed}: {}", status.message)))
        }
        Ok(Err(error)) => Err(WriteFailure::Other(format!("{failed}: {error}"))),
        Err(_) => Err(WriteFailure::Other(format!("{failed}: no answer in time"))),
    }
}
