//! Loop of preemption: hears of pods that wait to be placed, looks at the cluster where one of them may preempt, and evicts.
//!
//! Promises: a victim is evicted by its UID, after the Eviction API was asked about all of them without doing it: a budget that one
//! would break (429) spares that pod, and others are looked for. Three requests that write for each victim, one of them without
//! effect, and an event for the pod that waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{Api, ListParams, PostParams};
use kube::core::response::Status;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use super::decide::{ClusterShares, PodKey, PodWish, Preemption, decide};
use super::node::{self, NodeAmounts};
use super::nominate::{MOST_TIMES, Nominations};
use super::{read, words};
use crate::cluster::{ClusterEvent, EventObject, EventQueue};
use crate::controller::lease::Leadership;
use crate::driver::DRIVER;
use crate::event::EventLog;
use crate::lenient::{Item, mapped};

/// Pods that are not placed.
const WAITING: &str = "spec.nodeName=,status.phase=Pending";
/// Objects of a page of a list.
const PAGE: u32 = 500;
/// Time for all that is listed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at the cluster, and until it is looked at again for the same pod.
const GAP: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(30);
/// Pods that are spared in one look, one after another.
const MOST_SPARED: usize = 16;

/// Options of preemption.
#[derive(Clone, Debug)]
pub(in crate::controller) struct PreemptOptions {
    /// Classes of shares, beside those that Divvy brings.
    pub(in crate::controller) classes: Vec<String>,
}

/// Task of preemption.
pub(in crate::controller) struct PreemptTask {
    client: kube::Client,
    leadership: Leadership,
    events: EventQueue,
    log: EventLog,
    options: PreemptOptions,
    /// Pods that wait and may preempt, by UID.
    waiting: BTreeMap<String, Pod>,
    /// Time of the next look for each.
    due: BTreeMap<String, Instant>,
    nominations: Nominations,
    /// Last word on why nobody was evicted, by UID.
    told: BTreeMap<String, String>,
}

/// Cluster as it was looked at.
struct Look {
    shares: ClusterShares,
    claims: Vec<ResourceClaim>,
    nodes: Vec<Node>,
    used: BTreeMap<String, NodeAmounts>,
}

/// Outcome of the Eviction API.
enum Evicted {
    Yes,
    /// A budget does not allow it.
    Spared,
    Failed(String),
}

impl PreemptTask {
    pub(in crate::controller) fn new(
        client: kube::Client,
        leadership: Leadership,
        events: EventQueue,
        log: EventLog,
        options: PreemptOptions,
    ) -> Self {
        let (waiting, due, nominations, told) = Default::default();
        Self { client, leadership, events, log, options, waiting, due, nominations, told }
    }

    /// Runs until `ending` says so; a request that has begun is ended first.
    pub(in crate::controller) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let config = watcher::Config::default().fields(WAITING).page_size(PAGE);
        let pods = watcher(Api::<Item<Pod>>::all(self.client.clone()), config).default_backoff();
        let mut pods = Box::pin(pods);
        let mut listed = None;
        let mut not_before = Instant::now();
        loop {
            let now = Instant::now();
            let mut until = now + AGAIN;
            if self.leadership.patience().is_some() {
                let next = self.next_look(now).map(|at| at.max(not_before));
                match next {
                    Some(at) if at <= now => {
                        self.look().await;
                        not_before = Instant::now() + GAP;
                        until = not_before;
                    }
                    Some(at) => until = at,
                    None => {}
                }
            }
            tokio::select! {
                biased;
                _ = ending.wait_for(|is_ending| *is_ending) => return,
                event = pods.next() => match event {
                    Some(Ok(event)) => self.hear(event, &mut listed),
                    Some(Err(error)) => {
                        self.log.tell("watch-failed", &format!("waiting pods cannot be watched: {error}"));
                    }
                    None => return,
                },
                () = self.leadership.changed() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    fn hear(&mut self, event: Event<Item<Pod>>, listed: &mut Option<BTreeMap<String, Pod>>) {
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        // A pod that is not understood preempts no other.
        let read = |item: Item<Pod>| {
            let metadata = item.metadata().clone();
            item.read().unwrap_or_else(|_| Pod { metadata, ..Pod::default() })
        };
        match mapped(event, read) {
            Event::Init => *listed = Some(BTreeMap::new()),
            Event::InitApply(pod) if may_preempt(&pod) => {
                listed.get_or_insert_default().insert(uid(&pod), pod);
            }
            Event::InitDone => self.waiting = listed.take().unwrap_or_default(),
            Event::Apply(pod) if may_preempt(&pod) => drop(self.waiting.insert(uid(&pod), pod)),
            Event::Apply(pod) | Event::Delete(pod) => drop(self.waiting.remove(&uid(&pod))),
            Event::InitApply(_) => {}
        }
        let waiting = &self.waiting;
        self.due.retain(|uid, _| waiting.contains_key(uid));
        self.told.retain(|uid, _| waiting.contains_key(uid));
        self.nominations.retain(|uid| waiting.contains_key(uid));
    }

    /// Time of the next look at the cluster; none while no pod waits that may preempt.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let due = self.waiting.keys().map(|uid| self.due.get(uid).copied());
        due.map(|at| at.unwrap_or(now)).min()
    }

    /// Looks at the cluster, and does what is to be done for those that are due, the highest priority first.
    async fn look(&mut self) {
        let now = Instant::now();
        let is_due = |uid: &String| self.due.get(uid).is_none_or(|at| *at <= now);
        let all: Vec<(String, Pod)> = self
            .waiting
            .iter()
            .filter(|(uid, _)| is_due(uid))
            .map(|(uid, pod)| (uid.clone(), pod.clone()))
            .collect();
        let mut due = Vec::new();
        for (uid, pod) in all {
            self.due.insert(uid.clone(), now + AGAIN);
            if self.nominations.lets(&uid, now) {
                due.push(pod);
            } else if let (true, Some(key)) =
                (self.nominations.is_exhausted(&uid, now), read::key(&pod))
            {
                let why =
                    format!("pods were evicted for it {MOST_TIMES} times, and it was not placed");
                self.say_why_not(&key, &why);
            }
        }
        if due.is_empty() {
            return;
        }
        due.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (std::cmp::Reverse(priority(pod)), created)
        });
        let look = match timeout(PATIENCE, self.read()).await {
            Ok(Ok(look)) => look,
            Ok(Err(error)) => {
                return self.log.tell("look-failed", &format!("shares cannot be read: {error}"));
            }
            Err(_) => return self.log.tell("look-failed", "shares were not told of in time"),
        };
        let Look { mut shares, claims, nodes, used } = look;
        let name = |it: &Option<String>| it.clone().unwrap_or_default();
        let places: Vec<(String, String)> = claims
            .iter()
            .map(|claim| (name(&claim.metadata.namespace), name(&claim.metadata.name)))
            .collect();
        let by_name: BTreeMap<(&str, &str), &ResourceClaim> =
            places.iter().map(|(a, b)| (a.as_str(), b.as_str())).zip(&claims).collect();
        for pod in due {
            let Some(key) = read::key(&pod) else { continue };
            let wants = match read::wants(&pod, &by_name, &|class| self.is_class(class)) {
                Ok(wants) if wants.is_empty() => continue,
                Ok(wants) => wants,
                Err(why) => {
                    self.say_why_not(&key, &why);
                    continue;
                }
            };
            if let Err(why) = words::waits_for_devices(&message(&pod).unwrap_or_default()) {
                self.say_why_not(&key, &format!("the scheduler says more than that: {why}"));
                continue;
            }
            let none = NodeAmounts::new();
            let fit = nodes.iter().filter_map(|node| {
                let name = node.metadata.name.as_ref()?;
                node::may_be_on(&pod, node, used.get(name).unwrap_or(&none)).then(|| name.clone())
            });
            let wish = PodWish { priority: priority(&pod), wants, nodes: fit.collect() };
            self.preempt(&key, &wish, &mut shares).await;
        }
    }

    /// Lists what is decided on. Pods come last: a holder of a claim that is none of them has ended.
    async fn read(&self) -> Result<Look, kube::Error> {
        let of_driver = format!("spec.driver={DRIVER}");
        let slices: Vec<ResourceSlice> = self.list(Some(&of_driver)).await?;
        let nodes: Vec<Node> = self.list(None).await?;
        let claims: Vec<ResourceClaim> = self.list(None).await?;
        let (mut holding, mut used) = (Vec::new(), BTreeMap::<String, NodeAmounts>::new());
        self.each(None, |pod: Pod| {
            let Some(held) = read::holding_pod(&pod) else { return };
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if !held.node.is_empty() && !matches!(phase, Some("Succeeded" | "Failed")) {
                node::add(used.entry(held.node.clone()).or_default(), &node::requests(&pod));
            }
            holding.push(held);
        })
        .await?;
        let shares = read::cluster_shares(&slices, &claims, holding);
        Ok(Look { shares, claims, nodes, used })
    }

    async fn list<K>(&self, fields: Option<&str>) -> Result<Vec<K>, kube::Error>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let mut all = Vec::new();
        self.each(fields, |it| all.push(it)).await?;
        Ok(all)
    }

    /// Calls with each object, which are read page by page.
    async fn each<K>(
        &self,
        fields: Option<&str>,
        mut call: impl FnMut(K),
    ) -> Result<(), kube::Error>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let api = Api::<Item<K>>::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector = fields.map(str::to_owned);
        loop {
            let page = api.list(&params).await?;
            for item in page.items {
                match item.read() {
                    Ok(it) => call(it),
                    Err(words) => {
                        let line = format!("{} {words}: passed over", K::kind(&()));
                        self.log.tell("not-understood", &line);
                    }
                }
            }
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            let Some(next) = next else { return Ok(()) };
            params.continue_token = Some(next);
        }
    }

    /// Whether devices of a class are of our cards.
    fn is_class(&self, class: &str) -> bool {
        class == DRIVER
            || class.strip_suffix(DRIVER).is_some_and(|before| before.ends_with('.'))
            || self.options.classes.iter().any(|known| known == class)
    }

    async fn preempt(&mut self, key: &PodKey, wish: &PodWish, shares: &mut ClusterShares) {
        let mut spared = BTreeSet::new();
        let kept = self.nominations.kept_from(&key.uid, Instant::now());
        let who = format!("pod {}/{}", key.namespace, key.name);
        while spared.len() < MOST_SPARED {
            let (node, victims) = match decide(shares, wish, &kept, &spared) {
                Preemption::Fits => return,
                Preemption::Nothing => break,
                Preemption::Evict { node, victims } => (node, victims),
            };
            let pods = victims.iter().filter_map(|at| shares.pods.get(*at));
            let keys: Vec<PodKey> = pods.map(|pod| pod.key.clone()).collect();
            match self.refused(&keys).await {
                Ok(None) => {}
                Ok(Some(uid)) => {
                    spared.insert(uid);
                    continue;
                }
                Err(words) => {
                    return self.log.tell("eviction-failed", &format!("{who}: {words}"));
                }
            }
            // Entered first: where something fails midway nobody else goes until it is over.
            let at = (node.as_str(), wish.priority);
            self.nominations.enter(&key.uid, at, &wish.wants, Instant::now());
            let mut gone = Vec::new();
            for (victim, at) in keys.iter().zip(victims) {
                match self.evict(victim, false).await {
                    Evicted::Yes => {
                        if let Some(pod) = shares.pods.get_mut(at) {
                            pod.is_ending = true;
                        }
                        self.say_evicted(victim, key, wish.priority);
                        gone.push(format!("{}/{}", victim.namespace, victim.name));
                    }
                    Evicted::Spared => {
                        self.log.tell("eviction-failed", &format!("{who}: a budget came between"));
                        break;
                    }
                    Evicted::Failed(words) => {
                        self.log.tell("eviction-failed", &format!("{who}: {words}"));
                        break;
                    }
                }
            }
            let note = format!("room is made for it on node {node}: {} evicted", gone.join(", "));
            self.log.tell("preempted", &format!("{who}: {note}"));
            return self.say(key, false, "DivvyPreempts", note);
        }
        let why = match spared.len() {
            0 => {
                "no pods of lower priority hold what it lacks on a node where it may be".to_owned()
            }
            count => format!("the disruption budgets of {count} pods do not let them go"),
        };
        self.say_why_not(key, &why);
    }

    /// The UID of one that may not go, where there is one.
    async fn refused(&self, victims: &[PodKey]) -> Result<Option<String>, String> {
        for victim in victims {
            match self.evict(victim, true).await {
                Evicted::Yes => {}
                Evicted::Spared => return Ok(Some(victim.uid.clone())),
                Evicted::Failed(words) => return Err(words),
            }
        }
        Ok(None)
    }

    async fn evict(&self, victim: &PodKey, dry_run: bool) -> Evicted {
        let Some(patience) = self.leadership.patience() else {
            return Evicted::Failed("the lease is lost".to_owned());
        };
        let PodKey { namespace, name, uid } = victim;
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        // The client's own call writes its options under a name that the API server does not know.
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "namespace": namespace, "name": name },
            "deleteOptions": { "preconditions": { "uid": uid } },
        });
        let params = PostParams { dry_run, ..PostParams::default() };
        let asked = pods.create_subresource::<_, Status>("eviction", name, &params, &eviction);
        match timeout(patience, asked).await {
            Ok(Ok(_)) => Evicted::Yes,
            Ok(Err(kube::Error::Api(status))) if [429, 500].contains(&status.code) => {
                // 500 is a pod with two budgets, which the API does not evict.
                Evicted::Spared
            }
            // It is gone, or another of its name.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 || status.code == 409 => {
                Evicted::Failed(format!("pod {namespace}/{name} is not there: {}", status.message))
            }
            Ok(Err(error)) => {
                Evicted::Failed(format!("pod {namespace}/{name} was not evicted: {error}"))
            }
            Err(_) => Evicted::Failed(format!("pod {namespace}/{name}: no answer in time")),
        }
    }

    fn say(&self, key: &PodKey, is_warning: bool, reason: &str, note: String) {
        let PodKey { namespace, name, uid } = key.clone();
        let about = EventObject::Pod { namespace, name, uid };
        self.events.say(ClusterEvent { about, is_warning, reason: reason.to_owned(), note });
    }

    fn say_evicted(&self, victim: &PodKey, by: &PodKey, priority: i32) {
        let note = format!(
            "evicted for pod {}/{} of priority {priority}, which waits for a share of a GPU",
            by.namespace, by.name
        );
        self.say(victim, false, "DivvyPreempted", note);
    }

    fn say_why_not(&mut self, key: &PodKey, why: &str) {
        if self.told.insert(key.uid.clone(), why.to_owned()).as_deref() == Some(why) {
            return;
        }
        let line = format!("pod {}/{}: nobody is evicted: {why}", key.namespace, key.name);
        self.log.tell("not-preempted", &line);
        self.say(key, false, "DivvyDoesNotPreempt", format!("nobody is evicted for it: {why}"));
    }
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// Words of the scheduler, where it has found no place.
fn message(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|it| it.type_ == "PodScheduled")?;
    let is_unplaced =
        scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    is_unplaced.then(|| scheduled.message.clone().unwrap_or_default())
}

/// Whether a pod waits for a place and may preempt for it. Those of priority 0, which is everybody's, may not.
fn may_preempt(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    priority(pod) > 0
        && spec.preemption_policy.as_deref() != Some("Never")
        && spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
        && pod.metadata.deletion_timestamp.is_none()
        && message(pod).is_some()
}
