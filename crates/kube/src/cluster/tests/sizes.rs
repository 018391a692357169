//! Sizes against an API server: what is wished comes to be, once, and is told once; whatever is not of this node is left alone.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::api::resource::v1::ResourceClaim;

use super::*;
use crate::event::EventLog;
use crate::prepare::{
    ClaimSize, HeldClaim, PrepareError, PrepareReason, ResizeFailure, ResizedClaim,
};

const KEY: &str = "team/train";
const MADE: &str = "2026-01-01T00:00:00Z";

/// Claims of the node, and what was done with them.
#[derive(Debug)]
struct SizeHolder {
    world: Mutex<Holding>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Holding {
    held: Vec<HeldClaim>,
    resized: Vec<(String, Option<u64>)>,
    faults: VecDeque<ResizeFailure>,
}

impl SizeHolder {
    fn new(uids: &[&str]) -> Arc<Self> {
        let holder = Self { world: Mutex::default(), changes: watch::Sender::new(0) };
        holder.hold(uids);
        Arc::new(holder)
    }

    fn world(&self) -> MutexGuard<'_, Holding> {
        self.world.lock().unwrap()
    }

    /// Claims of these UIDs, all of one name, are prepared here.
    fn hold(&self, uids: &[&str]) {
        let held = |uid: &&str| HeldClaim {
            uid: (*uid).to_owned(),
            namespace: "team".to_owned(),
            name: "train".to_owned(),
            size: None,
            shares: BTreeSet::new(),
            tenants: Vec::new(),
        };
        self.world().held = uids.iter().map(held).collect();
        self.changes.send_modify(|changes| *changes += 1);
    }
}

impl HeldClaims for SizeHolder {
    async fn held(&self) -> Result<Vec<HeldClaim>, PrepareError> {
        Ok(self.world().held.clone())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl SizedClaims for SizeHolder {
    async fn resize(
        &self,
        claim: ResourceClaim,
        size: Option<ClaimSize>,
    ) -> Result<ResizedClaim, ResizeFailure> {
        let mut world = self.world();
        if let Some(fault) = world.faults.pop_front() {
            return Err(fault);
        }
        let memory_bytes = size.as_ref().and_then(|size| size.memory_bytes);
        let uid = claim.metadata.uid.unwrap();
        world.resized.push((uid.clone(), memory_bytes));
        if let Some(held) = world.held.iter_mut().find(|held| held.uid == uid) {
            held.size = size;
        }
        Ok(ResizedClaim { memory_bytes, cores_percent: Some(30), held: Vec::new() })
    }
}

fn claim(uid: &str, made: &str) -> Value {
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {},
        "metadata": { "namespace": "team", "name": "train", "uid": uid, "creationTimestamp": made } })
}

async fn api() -> FakeApi {
    let api = FakeApi::start(good_node()).await;
    api.world().claims.insert(KEY.to_owned(), claim("uid-1", MADE));
    api
}

/// A task of the sizes of node n1.
struct Sizes {
    running: JoinHandle<()>,
    log: EventLog,
    _state: watch::Sender<ClusterState>,
}

impl Sizes {
    fn start(api: &FakeApi, holder: &Arc<SizeHolder>) -> Self {
        let options = ClusterOptions { times: quick(), ..ClusterOptions::of("n1", "none") };
        let (state, seen) =
            watch::channel(ClusterState { is_publisher: true, ..ClusterState::default() });
        let (claims, log) = (KubeClaims::new(api.client()), EventLog::memory());
        let task =
            SizeTask::new(api.client(), options, seen, (holder.clone(), claims), log.clone());
        Self { running: tokio::spawn(task.run()), log, _state: state }
    }

    async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
    }
}

/// Waits until the object says so, and nothing is written any more.
async fn says(api: &FakeApi, reason: &str) {
    until(api, reason, || api.world().sizes.reason(KEY) == reason).await;
}

/// How often a status was written, but for those of the probe.
fn written(api: &FakeApi) -> usize {
    let world = api.world();
    world.sizes.written.iter().filter(|status| status["claimUID"] != "probe").count()
}

/// Sizes that were set, but for the probe's.
fn resized(holder: &SizeHolder) -> Vec<Option<u64>> {
    let world = holder.world();
    let own = world.resized.iter().filter(|(uid, _)| uid != "probe");
    own.map(|(_, memory_bytes)| *memory_bytes).collect()
}

/// Has another object's change come through, behind all that there was before.
async fn passes(api: &FakeApi, holder: &SizeHolder) {
    let before = api.count("GET /apis/resource.k8s.io/v1/namespaces/team/resourceclaims/probe");
    api.world().claims.insert("team/probe".to_owned(), claim("probe", MADE));
    let probe = HeldClaim {
        uid: "probe".to_owned(),
        namespace: "team".to_owned(),
        name: "probe".to_owned(),
        size: None,
        shares: BTreeSet::new(),
        tenants: Vec::new(),
    };
    holder.world().held.push(probe);
    api.world().sizes.put("team/probe", json!({ "cores": 1 }));
    let asked = || api.count("GET /apis/resource.k8s.io/v1/namespaces/team/resourceclaims/probe");
    until(api, "the probe", || {
        asked() > before && api.world().sizes.reason("team/probe") == "Resized"
    })
    .await;
    api.world().sizes.remove("team/probe");
    holder.world().held.retain(|held| held.uid != "probe");
}

#[tokio::test]
async fn a_wish_comes_to_be_is_told_once_and_goes_with_its_object() {
    let (api, holder) = (api().await, SizeHolder::new(&["uid-1"]));
    let sizes = Sizes::start(&api, &holder);
    api.world().sizes.put(KEY, json!({ "memory": "4Gi" }));
    says(&api, "Resized").await;
    let status = api.world().sizes.objects[KEY]["status"].clone();
    assert_eq!((&status["node"], &status["memory"]), (&json!("n1"), &json!("4Gi")));
    assert_eq!((&status["claimUID"], &status["observedGeneration"]), (&json!("uid-1"), &json!(1)));
    api.world().sizes.put(KEY, json!({ "memory": "2Gi" }));
    until(&api, "the second", || written(&api) == 2).await;
    passes(&api, &holder).await;
    assert_eq!(resized(&holder), [Some(4 << 30), Some(2 << 30)]);
    assert_eq!(written(&api), 2);
    api.world().sizes.remove(KEY);
    until(&api, "as claimed", || resized(&holder).last() == Some(&None)).await;
    assert_eq!(holder.world().held[0].size, None);
    sizes.kill().await;
}

#[tokio::test]
async fn an_instance_that_is_started_does_what_the_one_before_had_begun_and_tells_nothing_new() {
    let (api, holder) = (api().await, SizeHolder::new(&["uid-1"]));
    let first = Sizes::start(&api, &holder);
    api.world().sizes.put(KEY, json!({ "memory": "4Gi" }));
    says(&api, "Resized").await;
    first.kill().await;
    // Killed between the checkpoint and the daemon: the node says that it has the size, and its limits may be others.
    let second = Sizes::start(&api, &holder);
    until(&api, "again", || resized(&holder).len() == 2).await;
    passes(&api, &holder).await;
    assert_eq!(written(&api), 1);
    // An object that goes while nobody looks.
    second.kill().await;
    api.world().sizes.remove(KEY);
    let third = Sizes::start(&api, &holder);
    until(&api, "as claimed", || holder.world().held[0].size.is_none()).await;
    // Likewise while the watch is broken.
    api.world().sizes.put(KEY, json!({ "memory": "3Gi" }));
    until(&api, "the next", || holder.world().held[0].size.is_some()).await;
    {
        let mut world = api.world();
        world.sizes.drop_watches();
        world.sizes.remove(KEY);
    }
    until(&api, "as claimed", || holder.world().held[0].size.is_none()).await;
    third.kill().await;
}

#[tokio::test]
async fn a_wish_waits_for_its_claim_and_is_let_go_with_it() {
    let (api, holder) = (api().await, SizeHolder::new(&[]));
    let sizes = Sizes::start(&api, &holder);
    api.world().sizes.put(KEY, json!({ "memory": "4Gi" }));
    passes(&api, &holder).await;
    assert_eq!((written(&api), resized(&holder).len()), (0, 0), "it is not of this node");
    holder.hold(&["uid-1"]);
    says(&api, "Resized").await;
    holder.hold(&[]);
    says(&api, "NotPrepared").await;
    let status = api.world().sizes.objects[KEY]["status"].clone();
    assert_eq!((&status["node"], &status["memory"]), (&json!(""), &Value::Null));
    passes(&api, &holder).await;
    assert_eq!(written(&api), 2);
    // The claim comes back to this node.
    holder.hold(&["uid-1"]);
    says(&api, "Resized").await;
    sizes.kill().await;
}

#[tokio::test]
async fn an_object_of_an_earlier_claim_of_the_name_is_not_applied() {
    let (api, holder) = (api().await, SizeHolder::new(&["uid-1"]));
    let sizes = Sizes::start(&api, &holder);
    api.world().sizes.put_made_at(KEY, json!({ "memory": "4Gi" }), "2025-12-31T23:59:59Z");
    says(&api, "OlderThanClaim").await;
    assert!(api.world().sizes.message(KEY).contains("delete it and make it again"));
    // One that was applied is bound to that claim, whatever the clocks say.
    api.world().sizes.remove(KEY);
    api.world().sizes.put(KEY, json!({ "memory": "4Gi" }));
    says(&api, "Resized").await;
    api.world().claims.insert(KEY.to_owned(), claim("uid-2", MADE));
    holder.hold(&["uid-1", "uid-2"]);
    says(&api, "OlderThanClaim").await;
    passes(&api, &holder).await;
    assert_eq!(resized(&holder), [Some(4 << 30)]);
    api.world().sizes.remove(KEY);
    api.world().sizes.put(KEY, json!({ "memory": "5Gi" }));
    says(&api, "Resized").await;
    assert_eq!(holder.world().held[1].size.as_ref().unwrap().memory_bytes, Some(5 << 30));
    sizes.kill().await;
}

#[tokio::test]
async fn what_is_refused_says_so_and_changes_nothing() {
    let (api, holder) = (api().await, SizeHolder::new(&["uid-1"]));
    let sizes = Sizes::start(&api, &holder);
    for (spec, part) in [
        (json!({ "memory": "-1" }), "is negative"),
        (json!({ "cores": 1e40 }), "spec.cores"),
        (json!("\u{1b}[2J"), "spec is missing"),
        (json!({ "memory": "9".repeat(10_000) }), "spec.memory"),
    ] {
        api.world().sizes.put(KEY, spec);
        until(&api, part, || api.world().sizes.message(KEY).contains(part)).await;
        assert_eq!(api.world().sizes.reason(KEY), "Refused");
    }
    holder.world().faults.push_back(ResizeFailure::Refused("too much".to_owned()));
    api.world().sizes.put(KEY, json!({ "memory": "9Gi" }));
    until(&api, "too much", || api.world().sizes.message(KEY) == "too much").await;
    passes(&api, &holder).await;
    assert_eq!((resized(&holder).len(), written(&api)), (0, 5));
    sizes.kill().await;
}

#[tokio::test]
async fn what_fails_is_tried_again() {
    let (api, holder) = (api().await, SizeHolder::new(&["uid-1"]));
    let away = PrepareError::new(PrepareReason::DaemonUnreachable, "no daemon answers");
    holder.world().faults.extend(vec![ResizeFailure::Failed(away); 3]);
    api.world().sizes.faults.extend([403, 409, 500]);
    let sizes = Sizes::start(&api, &holder);
    api.world().sizes.put(KEY, json!({ "memory": "4Gi" }));
    says(&api, "Resized").await;
    // A claim that cannot be read.
    api.world().claims.insert(KEY.to_owned(), json!(503));
    api.world().sizes.put(KEY, json!({ "memory": "2Gi" }));
    says(&api, "Failed").await;
    assert!(api.world().sizes.message(KEY).contains("api-unreachable"));
    api.world().claims.insert(KEY.to_owned(), claim("uid-1", MADE));
    says(&api, "Resized").await;
    // The same where an object has gone.
    let locked = PrepareError::new(PrepareReason::Locked, "another instance");
    holder.world().faults.extend(vec![ResizeFailure::Failed(locked); 3]);
    api.world().sizes.remove(KEY);
    until(&api, "as claimed", || holder.world().held[0].size.is_none()).await;
    assert!(sizes.log.lines().iter().any(|line| line.contains("locked: another instance")));
    sizes.kill().await;
}

#[tokio::test]
async fn without_the_kind_all_stays_as_it_is_until_it_comes() {
    let (api, holder) = (api().await, SizeHolder::new(&["uid-1"]));
    holder.world().held[0].size = Some(ClaimSize::default());
    api.world().sizes.is_missing = true;
    let sizes = Sizes::start(&api, &holder);
    let lists = || api.count("GET /apis/divvy.dev/v1/sharesizes");
    until(&api, "asked again", || lists() > 3).await;
    assert!(holder.world().held[0].size.is_some() && resized(&holder).is_empty());
    assert_eq!(sizes.log.lines().len(), 1, "{:?}", sizes.log.lines());
    api.world().sizes.is_missing = false;
    api.world().sizes.put(KEY, json!({ "memory": "4Gi" }));
    says(&api, "Resized").await;
    sizes.kill().await;
}
