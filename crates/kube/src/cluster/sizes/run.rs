//! Loop of the sizes: hears the watch and what the node prepares, resizes what is to be, and then writes one status after another.
//!
//! Work that was done is remembered with what it was done for, and done again where that is another: a wish, a claim, or the size that
//! the node says it has. So nothing is lost that an instance before this one had begun. One instance of a node does all of it, the
//! one that publishes.
//!
//! Promises: limits come before words about them; what fails is tried again, later and later, and holds up nothing else; where the
//! API server has no such kind, all stays as it is, and it is asked again now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use super::object::{self, SizeObject, key};
use super::verdict::{SizeReason, SizeVerdict};
use crate::cluster::claims::ClaimSource;
use crate::cluster::held::SizedClaims;
use crate::cluster::objects::{KeptObject, ObjectStore};
use crate::cluster::options::{ClusterOptions, ClusterState};
use crate::cluster::pace::{ClusterTimes, Pace, jittered};
use crate::event::EventLog;
use crate::lenient::{Item, mapped};
use crate::prepare::{HeldClaim, PrepareReason, ResizeFailure};

/// The longest time between two changes of one claim: whoever changes a size again and again is heard so often.
const MOST_GAP: Duration = Duration::from_millis(200);
/// Objects of other nodes' claims that are kept; any may come to be of a claim here.
const MOST_OBJECTS: usize = 8192;
/// Time between two looks where nothing is heard of: another agent of the node may have prepared a claim, or taken one back, of which
/// its checkpoint tells.
const IDLE: Duration = Duration::from_secs(10);

/// Task of the sizes.
pub struct SizeTask<C, S> {
    client: kube::Client,
    options: ClusterOptions,
    times: ClusterTimes,
    state: watch::Receiver<ClusterState>,
    node: Arc<C>,
    claims: S,
    log: EventLog,
    objects: ObjectStore<SizeObject>,
    /// Work that was done, by the claim's key.
    done: BTreeMap<String, DoneSize>,
    /// Whether there were more objects than are kept.
    is_full: bool,
    /// The last thing that went wrong with all of it.
    problem: Option<String>,
}

/// Work that was done for a claim.
#[derive(Debug, Default)]
struct DoneSize {
    /// For which object; none where there was none.
    of: Option<SizeObject>,
    uids: BTreeSet<String>,
    verdict: Option<SizeVerdict>,
    /// Whether it is to be tried again.
    is_failed: bool,
    pace: Pace,
    writing: Pace,
}

impl<C, S> std::fmt::Debug for SizeTask<C, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SizeTask").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Claims by the key of their objects.
type HeldByKey = BTreeMap<String, Vec<HeldClaim>>;

impl DoneSize {
    /// Whether it is what is to be done for this object and these claims.
    fn is_for(&self, object: Option<&SizeObject>, held: &[HeldClaim]) -> bool {
        let is_same = match (&self.of, object) {
            (Some(one), Some(other)) => one.wishes_as(other),
            (None, None) => held.iter().all(|held| held.size.is_none()),
            _ => false,
        };
        // The node may have let go of a size, as of one that did not fit another allocation.
        let has_size = |verdict: &SizeVerdict| {
            let wish = object.and_then(|object| object.wish.as_ref().ok());
            let is_it = |held: &&HeldClaim| Some(&held.uid) == verdict.claim_uid.as_ref();
            let has = held.iter().find(is_it).is_some_and(|held| held.size.as_ref() == wish);
            verdict.reason != SizeReason::Resized || has
        };
        let uids: BTreeSet<String> = held.iter().map(|held| held.uid.clone()).collect();
        is_same
            && !self.is_failed
            && uids == self.uids
            && self.verdict.as_ref().is_none_or(has_size)
    }
}

impl<C: SizedClaims, S: ClaimSource> SizeTask<C, S> {
    /// One for the node whose claims `node` holds and `claims` reads; it acts where `state` says that this instance publishes.
    pub fn new(
        client: kube::Client,
        options: ClusterOptions,
        state: watch::Receiver<ClusterState>,
        (node, claims): (Arc<C>, S),
        log: EventLog,
    ) -> Self {
        let times = ClusterTimes { gap: options.times.gap.min(MOST_GAP), ..options.times };
        Self {
            client,
            options,
            times,
            state,
            node,
            claims,
            log,
            objects: ObjectStore::default(),
            done: BTreeMap::new(),
            is_full: false,
            problem: None,
        }
    }

    /// Runs until the cluster's side ends.
    pub async fn run(mut self) {
        if self.state.wait_for(|state| state.is_publisher).await.is_err() {
            return;
        }
        while self.keep().await {
            // The kind may come, and with it objects.
            tokio::time::sleep(jittered(self.times.node)).await;
        }
    }

    /// Watches until there is nothing to watch; whether that may change.
    async fn keep(&mut self) -> bool {
        let all = Api::<Item<DynamicObject>>::all_with(self.client.clone(), &object::kind());
        let stream = watcher(all, watcher::Config::default()).default_backoff();
        let mut stream = Box::pin(stream);
        let mut changes = self.node.changes();
        loop {
            let wait = self.step().await.unwrap_or(IDLE);
            tokio::select! {
                event = stream.next() => match event {
                    Some(Ok(event)) => {
                        // A list that begins has not come yet.
                        if !matches!(event, Event::Init) {
                            self.note(None);
                        }
                        self.hear(event);
                    }
                    Some(Err(error)) => match missing(&error) {
                        Some(words) => {
                            self.note(Some(words));
                            return true;
                        }
                        None => self.note(Some(format!("sizes cannot be watched: {error}"))),
                    },
                    None => return false,
                },
                changed = changes.changed() => if changed.is_err() { return false },
                changed = self.state.changed() => if changed.is_err() { return false },
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn hear(&mut self, event: Event<Item<DynamicObject>>) {
        let event = mapped(event, |item| {
            let metadata = item.metadata().clone();
            let not_understood =
                DynamicObject { types: None, metadata, data: serde_json::Value::Null };
            SizeObject::of(&item.read().unwrap_or(not_understood))
        });
        if let Event::InitApply(object) | Event::Apply(object) = &event {
            let is_known =
                |key: &str| self.objects.get(key).is_some() || self.done.contains_key(key);
            if self.objects.count() >= MOST_OBJECTS && !is_known(&object.key()) {
                if !std::mem::replace(&mut self.is_full, true) {
                    let words =
                        format!("there are more than {MOST_OBJECTS} sizes: some are not heard");
                    self.log.say(&words);
                }
                return;
            }
        }
        self.objects.hear(event);
    }

    /// Does what is due; how long to wait for the next thing, if there is one.
    async fn step(&mut self) -> Option<Duration> {
        if !self.objects.is_synced {
            return None;
        }
        let held = match self.node.held().await {
            Ok(held) => held,
            Err(error) => {
                self.note(Some(format!("the claims of this node are not known: {error}")));
                return Some(self.times.retry);
            }
        };
        let mut by_key = HeldByKey::new();
        for held in held.into_iter().filter(|held| !held.name.is_empty()) {
            by_key.entry(key(&held.namespace, &held.name)).or_default().push(held);
        }
        let mut waits = Vec::new();
        for (key, held) in &by_key {
            waits.extend(self.see(key, held).await);
        }
        self.release(&by_key);
        waits.extend(self.write().await);
        waits.into_iter().min()
    }

    /// Does what is due for one claim.
    async fn see(&mut self, key: &str, held: &[HeldClaim]) -> Option<Duration> {
        let object = self.objects.get(key).cloned();
        let mut done = self.done.remove(key).unwrap_or_default();
        if !done.is_for(object.as_ref(), held) {
            let wait = done.pace.wait(Instant::now());
            if !wait.is_zero() {
                self.done.insert(key.to_owned(), done);
                return Some(wait);
            }
            done.uids = held.iter().map(|held| held.uid.clone()).collect();
            (done.verdict, done.is_failed) = match &object {
                Some(object) => self.apply(object, held).await,
                None => (None, !self.restore(held).await),
            };
            done.of = object;
            match done.is_failed {
                true => done.pace.failed(Instant::now(), &self.times),
                false => done.pace.succeeded(Instant::now(), &self.times),
            }
        }
        let wait = done.is_failed.then(|| done.pace.wait(Instant::now()));
        // Of claims that have no object, and none of its sizes, nothing is to be remembered.
        if done.of.is_some() || done.is_failed {
            self.done.insert(key.to_owned(), done);
        }
        wait
    }

    /// Applies a wish; what has come of it, and whether it is to be tried again.
    async fn apply(&self, object: &SizeObject, held: &[HeldClaim]) -> (Option<SizeVerdict>, bool) {
        let node = &self.options.node;
        let not = |reason, uid: Option<&str>, message: String| {
            self.log.say(&format!("size of claim {}: {}", object.key(), message));
            let verdict = SizeVerdict::not(reason, message, node, uid, &object.status);
            (Some(verdict), reason == SizeReason::Failed)
        };
        let size = match &object.wish {
            Ok(size) => size,
            Err(why) => return not(SizeReason::Refused, None, why.clone()),
        };
        let claim = match self.claims.get(&object.namespace, &object.name).await {
            Ok(claim) => claim,
            Err(error) if error.reason == PrepareReason::ClaimChanged => return (None, false),
            Err(error) => return not(SizeReason::Failed, None, error.to_string()),
        };
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        // One of this name is here, and it is another: the node takes it back, or prepares this one, and tells.
        if !held.iter().any(|held| held.uid == uid) {
            return (None, false);
        }
        let bound = object.status.claim_uid.as_ref();
        let claim_made = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        if bound.is_some_and(|bound| *bound != uid) || object.created < claim_made {
            let words = "the object was made before the claim, for an earlier one of that name: delete it and make it again";
            return not(SizeReason::OlderThanClaim, Some(&uid), words.to_owned());
        }
        match self.node.resize(claim, Some(size.clone())).await {
            Ok(resized) => {
                let verdict = SizeVerdict::resized(node, &uid, &resized);
                self.log.say(&format!(
                    "size of claim {} ({uid}): {}",
                    object.key(),
                    verdict.message
                ));
                (Some(verdict), false)
            }
            Err(ResizeFailure::Refused(why)) => not(SizeReason::Refused, Some(&uid), why),
            Err(ResizeFailure::Failed(error)) => {
                not(SizeReason::Failed, Some(&uid), error.to_string())
            }
        }
    }

    /// Gives back what is claimed, where an object has gone; whether that is done.
    async fn restore(&self, held: &[HeldClaim]) -> bool {
        let mut is_done = true;
        for held in held.iter().filter(|held| held.size.is_some()) {
            let HeldClaim { uid, namespace, name, .. } = held;
            let claim = match self.claims.get(namespace, name).await {
                Ok(claim) if claim.metadata.uid.as_ref() == Some(uid) => claim,
                // Shares of one that has gone are soon taken back.
                other => {
                    is_done = false;
                    let words = other
                        .map_or_else(|error| error.to_string(), |_| "it is another's".to_owned());
                    self.log.say(&format!("size of claim {namespace}/{name} ({uid}): {words}"));
                    continue;
                }
            };
            let resized = self.node.resize(claim, None).await;
            is_done &= resized.is_ok();
            let words = match resized {
                Ok(_) => "as claimed, for its object has gone".to_owned(),
                Err(ResizeFailure::Refused(why)) => why,
                Err(ResizeFailure::Failed(error)) => error.to_string(),
            };
            self.log.say(&format!("size of claim {namespace}/{name} ({uid}): {words}"));
        }
        is_done
    }

    /// Lets go of objects whose claims this node has no more.
    fn release(&mut self, held: &HeldByKey) {
        let node = Some(self.options.node.as_str());
        let ours = self.objects.all().filter(|(key, object)| {
            !held.contains_key(*key) && object.status.node.as_deref() == node
        });
        let ours: BTreeMap<String, SizeVerdict> =
            ours.map(|(key, it)| (key.clone(), SizeVerdict::released(&it.status))).collect();
        self.done.retain(|key, _| held.contains_key(key) || ours.contains_key(key));
        for (key, verdict) in ours {
            let done = self.done.entry(key).or_default();
            let (pace, writing) = (done.pace, done.writing);
            *done = DoneSize { verdict: Some(verdict), pace, writing, ..DoneSize::default() };
        }
    }

    /// Writes the next status that is not as it should be; how long to wait for the one after it.
    async fn write(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let mut soonest = None;
        let mut next = None;
        for (key, done) in &self.done {
            let Some((verdict, object)) = done.verdict.as_ref().zip(self.objects.get(key)) else {
                continue;
            };
            let Some(patch) = verdict.patch(object, Timestamp::now()) else { continue };
            let wait = done.writing.wait(now);
            match next {
                None if wait.is_zero() => next = Some((key.clone(), object.clone(), patch)),
                _ => soonest = Some(soonest.map_or(wait, |other: Duration| other.min(wait))),
            }
        }
        let Some((key, object, patch)) = next else { return soonest };
        let written = self.put(&object, &patch).await.and_then(|object| {
            let object = SizeObject::of(&object);
            self.objects.enter(object.clone());
            let verdict = self.done.get(&key).and_then(|done| done.verdict.as_ref());
            match verdict.and_then(|verdict| verdict.patch(&object, Timestamp::now())) {
                None => Ok(()),
                Some(_) => Err(
                    "the API server keeps another: is the kind's definition older than this agent?"
                        .to_owned(),
                ),
            }
        });
        let Some(done) = self.done.get_mut(&key) else { return soonest };
        match written {
            Ok(()) => done.writing.succeeded(Instant::now(), &self.times),
            Err(words) => {
                done.writing.failed(Instant::now(), &self.times);
                let wait = done.writing.wait(Instant::now());
                soonest = Some(soonest.map_or(wait, |other| other.min(wait)));
                self.log.say(&format!("the status of size {key} was not written: {words}"));
            }
        }
        soonest
    }

    async fn put(
        &self,
        object: &SizeObject,
        patch: &serde_json::Value,
    ) -> Result<DynamicObject, String> {
        let SizeObject { namespace, name, .. } = object;
        let api =
            Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &object::kind());
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patching = api.patch_status(name, &params, &patch);
        match timeout(self.times.patience, patching).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    /// Says what is wrong, where that is another thing than before; `None` where nothing is.
    fn note(&mut self, problem: Option<String>) {
        if self.problem != problem {
            if let Some(words) = &problem {
                self.log.say(words);
            }
            self.problem = problem;
        }
    }
}

/// Words where the API server has no such kind, or does not let this account see it.
fn missing(error: &watcher::Error) -> Option<String> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)) = error else {
        return None;
    };
    match error {
        kube::Error::Api(status) if [403, 404].contains(&status.code) => Some(format!(
            "sizes are not to be had, and are asked for again: {} ({})",
            status.message, status.code
        )),
        _ => None,
    }
}
