//! Plugin: claims as the kubelet names them, to answers as it takes them, whichever the version of its service.
//!
//! Promises: one answer for each claim; one claim's failure is not the batch's; every call is answered in a bounded time,
//! while what it began goes on and is found by the next; the core does one call at a time. To take a claim back needs no
//! API server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::counts::{CallCounts, ClaimCall};
use crate::cards::{NodeCard, NodeCards};
use crate::cluster::{ClaimSource, Cluster, ClusterEvent, EventObject, allocated};
use crate::event::EventLog;
use crate::prepare::{
    AllocatedClaim, CheckpointMark, HostDisk, NodeDaemon, NodeDisk, PrepareCore, PrepareError,
    PrepareReason, PreparedShare,
};

/// Time for one call. The kubelet gives it 45 seconds.
pub const CALL_PATIENCE: Duration = Duration::from_secs(40);

/// A claim, as the kubelet names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimName {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Answer for one claim.
pub(super) type ClaimAnswer<T> = (String, Result<T, PrepareError>);

/// Plugin of one driver on one node.
#[derive(Debug)]
pub struct NodePlugin<S, D, K = HostDisk> {
    driver: String,
    pool: String,
    claims: Arc<S>,
    pub(super) core: Arc<PrepareCore<D, K>>,
    turn: Arc<Semaphore>,
    cards: watch::Receiver<NodeCards>,
    /// Whether the node's cards may be used, and who is told of claims that fail; absent in tests of the kubelet's side alone.
    cluster: Option<Cluster>,
    /// Number of calls that run.
    calls: watch::Sender<usize>,
    /// Changes with the claims that are prepared.
    pub(super) changes: watch::Sender<u64>,
    counts: CallCounts,
    patience: Duration,
    log: EventLog,
}

/// A call that runs, until this is dropped.
struct RunningCall<'a>(&'a watch::Sender<usize>);

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|calls| *calls -= 1);
    }
}

impl<S, D, K> NodePlugin<S, D, K>
where
    S: ClaimSource,
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    /// The plugin of `driver`, whose devices on this node are of `pool`.
    pub fn new(
        (driver, pool): (&str, &str),
        claims: S,
        core: PrepareCore<D, K>,
        cards: watch::Receiver<NodeCards>,
        log: EventLog,
    ) -> Self {
        Self {
            driver: driver.to_owned(),
            pool: pool.to_owned(),
            claims: Arc::new(claims),
            core: Arc::new(core),
            turn: Arc::new(Semaphore::new(1)),
            cards,
            cluster: None,
            calls: watch::Sender::new(0),
            changes: watch::Sender::new(0),
            counts: CallCounts::default(),
            patience: CALL_PATIENCE,
            log,
        }
    }

    /// The same where the cluster's side is asked whether a card may be used.
    #[must_use]
    pub fn under(self, cluster: Cluster) -> Self {
        Self { cluster: Some(cluster), ..self }
    }

    /// The same with another time for a call.
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Counts of what came of the calls.
    pub fn counts(&self) -> CallCounts {
        self.counts.clone()
    }

    pub(super) fn claims(&self) -> &Arc<S> {
        &self.claims
    }

    pub(super) fn driver(&self) -> &str {
        &self.driver
    }

    pub(super) fn pool(&self) -> &str {
        &self.pool
    }

    pub(super) fn cards(&self) -> watch::Receiver<NodeCards> {
        self.cards.clone()
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn log(&self) -> &EventLog {
        &self.log
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    fn call(&self) -> RunningCall<'_> {
        self.calls.send_modify(|calls| *calls += 1);
        RunningCall(&self.calls)
    }

    /// Waits until no call runs.
    pub(super) async fn idle(&self) {
        // The sender is here.
        let _ = self.calls.subscribe().wait_for(|calls| *calls == 0).await;
    }

    /// Prepares claims; the answers are in their order.
    pub(super) async fn prepare(
        &self,
        names: Vec<ClaimName>,
    ) -> Vec<ClaimAnswer<Vec<PreparedShare>>> {
        let _call = self.call();
        let begun = Instant::now();
        let deadline = begun + self.patience;
        let mut results = self.try_prepare(&names, deadline).await;
        let has = |results: &[Result<_, PrepareError>], reason| {
            results.iter().any(|it| matches!(it, Err(error) if error.reason == reason))
        };
        // Claims are read again, once: another agent may have changed the node, or a card be full of what is gone.
        if has(&results, PrepareReason::Overtaken)
            || has(&results, PrepareReason::CardFull) && self.take_back_gone(deadline).await > 0
        {
            results = self.try_prepare(&names, deadline).await;
        }
        self.changed();
        for (name, result) in names.iter().zip(&results) {
            self.counts.count(ClaimCall::Prepare, result);
            match result {
                Ok(shares) => self.say("prepared", name, begun, &cards_of(shares)),
                Err(error) => {
                    self.say("cannot prepare", name, begun, &error.to_string());
                    self.warn(name, "DivvyCannotPrepare", error);
                }
            }
        }
        names.into_iter().map(|name| name.uid).zip(results).collect()
    }

    /// Reads claims and has them prepared; the results are in their order.
    async fn try_prepare(
        &self,
        names: &[ClaimName],
        deadline: Instant,
    ) -> Vec<Result<Vec<PreparedShare>, PrepareError>> {
        let since = match self.mark(deadline).await {
            Ok(since) => since,
            Err(error) => return names.iter().map(|_| Err(error.clone())).collect(),
        };
        let read = self.read(names, deadline).await;
        let good: Vec<_> = read.iter().filter_map(|claim| claim.as_ref().ok().cloned()).collect();
        let mut done = Ok(Vec::new());
        if !good.is_empty() {
            done = self.in_turn(deadline, move |core| core.prepare_since(&good, since)).await;
        }
        let mut done = done.map(Vec::into_iter);
        let result = |read: Result<AllocatedClaim, PrepareError>| {
            read.and_then(|_| match &mut done {
                Ok(done) => done.next().map_or_else(|| Err(lost()), |answer| answer.result),
                Err(error) => Err(error.clone()),
            })
        };
        read.into_iter().map(result).collect()
    }

    /// The checkpoint's mark, before what a call is about is read.
    async fn mark(&self, deadline: Instant) -> Result<CheckpointMark, PrepareError> {
        let core = self.core.clone();
        let marking = tokio::task::spawn_blocking(move || core.mark());
        let mark = timeout_at(deadline, marking).await;
        mark.map_err(|_| too_late("the checkpoint was not read"))?.map_err(|_| lost())
    }

    /// Takes claims back; the answers are in their order.
    pub(super) async fn unprepare(&self, names: Vec<ClaimName>) -> Vec<ClaimAnswer<()>> {
        let _call = self.call();
        let begun = Instant::now();
        let uids: Vec<_> = names.iter().map(|name| name.uid.clone()).collect();
        let deadline = begun + self.patience;
        let done = match self.mark(deadline).await {
            Ok(since) => {
                self.in_turn(deadline, move |core| core.unprepare_since(&uids, since)).await
            }
            Err(error) => Err(error),
        };
        self.changed();
        let mut done = done.map(Vec::into_iter);
        let mut answers = Vec::with_capacity(names.len());
        for name in &names {
            let result = match &mut done {
                Ok(done) => done.next().map_or_else(|| Err(lost()), |answer| answer.result),
                Err(error) => Err(error.clone()),
            };
            self.counts.count(ClaimCall::Unprepare, &result);
            match &result {
                Ok(()) => self.say("took back", name, begun, "nothing of it is left"),
                Err(error) => self.say("cannot take back", name, begun, &error.to_string()),
            }
            answers.push((name.uid.clone(), result));
        }
        answers
    }

    /// Does what calls before have left to do; whether there is more to do.
    pub async fn sweep(&self) -> bool {
        let swept = self.in_turn(Instant::now() + self.patience, PrepareCore::sweep).await;
        match swept.and_then(|left| left) {
            Ok(left) => left > 0,
            Err(error) => {
                self.log.say(&format!("cannot finish what was left to do: {error}"));
                true
            }
        }
    }

    /// Reads all claims at once.
    async fn read(
        &self,
        names: &[ClaimName],
        deadline: Instant,
    ) -> Vec<Result<AllocatedClaim, PrepareError>> {
        let mut reading = JoinSet::new();
        for (at, name) in names.iter().cloned().enumerate() {
            let claims = self.claims.clone();
            reading.spawn(async move {
                let got = timeout_at(deadline, claims.get(&name.namespace, &name.name)).await;
                (at, got.unwrap_or_else(|_| Err(too_late("the claim was not read"))))
            });
        }
        let mut read: Vec<_> = names.iter().map(|_| Err(lost())).collect();
        while let Some(one) = reading.join_next().await {
            let Ok((at, got)) = one else { continue };
            let Some((name, place)) = names.get(at).zip(read.get_mut(at)) else { continue };
            *place = got.and_then(|claim| {
                let card_of = |device: &str| self.usable(device);
                allocated(&claim, &name.uid, &self.driver, &self.pool, card_of)
            });
        }
        read
    }

    /// The card that is this device, where it may be used.
    fn usable(&self, device: &str) -> Result<NodeCard, PrepareError> {
        let card = self.card(device)?;
        if let Some(cluster) = &self.cluster {
            let verdict = cluster.verdict.borrow().check(&card.gpu_uuid);
            verdict.map_err(|refusal| {
                let words = format!("{}: {}", refusal.reason.word(), refusal.words);
                PrepareError::new(PrepareReason::NodeRefused, words)
            })?;
        }
        Ok(card)
    }

    /// The card that is this device.
    pub(super) fn card(&self, device: &str) -> Result<NodeCard, PrepareError> {
        let cards = self.cards.borrow();
        if let Some(card) = cards.cards.iter().find(|card| card.device == device) {
            return Ok(card.clone());
        }
        let (reason, why) = match cards.checked {
            Some(_) => (PrepareReason::UnknownCard, "is none of this node's cards"),
            None => (PrepareReason::DaemonUnreachable, "is not known before the daemon answers"),
        };
        Err(PrepareError::new(reason, format!("device {device} {why}")))
    }

    /// Has the core do something when it is free. What has begun holds the turn until it is done, waited for or not.
    pub(super) async fn in_turn<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce(&PrepareCore<D, K>) -> T + Send + 'static,
    ) -> Result<T, PrepareError> {
        let late = |why| move |_| too_late(why);
        let turn = timeout_at(deadline, self.turn.clone().acquire_owned()).await;
        let turn = turn.map_err(late("calls before it have not ended"))?.map_err(|_| lost())?;
        let core = self.core.clone();
        let working = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // An agent that was stopped meanwhile does nothing late: another one may have been asked since.
            (Instant::now() < deadline).then(|| work(&core))
        });
        let done = timeout_at(deadline, working).await.map_err(late("it goes on"))?;
        done.map_err(|_| lost())?.ok_or_else(|| too_late("it was not begun in time"))
    }

    /// Says it on the claim too, where people look.
    fn warn(&self, name: &ClaimName, reason: &str, error: &PrepareError) {
        let Some(cluster) = &self.cluster else { return };
        let ClaimName { uid, namespace, name } = name.clone();
        cluster.events.say(ClusterEvent {
            about: EventObject::Claim { namespace, name, uid },
            is_warning: true,
            reason: reason.to_owned(),
            note: error.to_string(),
        });
    }

    fn say(&self, done: &str, name: &ClaimName, begun: Instant, words: &str) {
        let ClaimName { uid, namespace, name } = name;
        let ms = begun.elapsed().as_millis();
        let words = format!("{done} claim {namespace}/{name} ({uid}) in {ms} ms: {words}");
        self.log.tell(&done.replace(' ', "-"), &words);
    }
}

fn cards_of(shares: &[PreparedShare]) -> String {
    let names: Vec<_> = shares.iter().map(|share| &*share.device).collect();
    format!("shares of {}", names.join(", "))
}

fn too_late(why: &str) -> PrepareError {
    PrepareError::new(PrepareReason::TimedOut, why)
}

/// A task that ended without an answer.
pub(super) fn lost() -> PrepareError {
    too_late("the work ended without an answer")
}
