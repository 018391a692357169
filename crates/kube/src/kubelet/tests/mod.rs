//! Tests of the kubelet's side with a kubelet that is a client on real sockets, claims that are a map, and the prepare core on
//! a folder.

mod authorities;
mod claims;
mod instances;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

use super::wire::dra_v1::dra_plugin_client::DraPluginClient;
use super::wire::dra_v1::{self, NodePrepareResourceResponse};
use super::wire::registration::registration_client::RegistrationClient;
use super::wire::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use super::{AgentState, CallCounts, ClaimCall, KubeletSockets, NodePlugin, serve};
use crate::cards::{CardHealth, CardTerms, NodeCard, NodeCards};
use crate::cluster::{ClaimSource, Cluster};
use crate::event::EventLog;
use crate::prepare::{
    CreatedTenant, DaemonError, HostDisk, NodeDaemon, NodeDisk, NodeTenantLimits, PrepareCore,
    PrepareError, PreparePlaces, PrepareReason,
};

const DRIVER: &str = "gpu.divvy.dev";
const UUID: &str = "GPU-01010101-0101-0101-0101-010101010101";

/// Claims that an API server has, by namespace and name.
#[derive(Clone, Debug, Default)]
struct FakeClaims {
    claims: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Whether no server answers.
    is_away: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
}

impl ClaimSource for FakeClaims {
    async fn get(&self, namespace: &str, name: &str) -> Result<ResourceClaim, PrepareError> {
        self.asked.fetch_add(1, SeqCst);
        if self.is_away.load(SeqCst) > 0 {
            std::future::pending::<()>().await;
        }
        let found = self.claims.lock().unwrap().get(&format!("{namespace}/{name}")).cloned();
        let found = found
            .ok_or_else(|| PrepareError::new(PrepareReason::ClaimChanged, format!("no {name}")))?;
        Ok(serde_json::from_value(found).unwrap())
    }
}

/// Tenants of a daemon that all instances share.
#[derive(Clone, Debug, Default)]
struct FakeTenantDaemon {
    tenants: Arc<Mutex<BTreeMap<String, NodeTenantLimits>>>,
    /// Whether none answers, and how long a call takes until then.
    is_away: Arc<AtomicU64>,
    stuck_ms: Arc<AtomicU64>,
    /// Memory that each tenant holds.
    held_bytes: Arc<AtomicU64>,
}

impl FakeTenantDaemon {
    fn ids(&self) -> Vec<String> {
        self.tenants.lock().unwrap().keys().cloned().collect()
    }

    fn asked(&self) -> Result<(), DaemonError> {
        std::thread::sleep(Duration::from_millis(self.stuck_ms.load(SeqCst)));
        match self.is_away.load(SeqCst) {
            0 => Ok(()),
            _ => Err(DaemonError::Unreachable("no daemon answers".to_owned())),
        }
    }
}

impl NodeDaemon for FakeTenantDaemon {
    fn create(&self, id: &str, limits: &NodeTenantLimits) -> Result<CreatedTenant, DaemonError> {
        let is_new = !self.tenants.lock().unwrap().contains_key(id);
        Ok(CreatedTenant { directory: self.set(id, limits)?, is_new })
    }

    fn set(&self, id: &str, limits: &NodeTenantLimits) -> Result<String, DaemonError> {
        self.asked()?;
        self.tenants.lock().unwrap().insert(id.to_owned(), limits.clone());
        Ok(format!("/run/divvy/by-id/0/{id}"))
    }

    fn held(&self, _: &str) -> Result<BTreeMap<String, u64>, DaemonError> {
        let held = self.held_bytes.load(SeqCst);
        self.asked().map(|()| BTreeMap::from([(UUID.to_owned(), held)]))
    }

    fn limits(&self, id: &str) -> Result<Option<NodeTenantLimits>, DaemonError> {
        self.asked().map(|()| self.tenants.lock().unwrap().get(id).cloned())
    }

    fn remove(&self, id: &str) -> Result<(), DaemonError> {
        self.asked()?;
        self.tenants.lock().unwrap().remove(id);
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>, DaemonError> {
        self.asked().map(|()| self.ids())
    }
}

/// A node of a test's own: its folder, its claims, its daemon, and what all agents on it have said.
struct KubeletNode {
    base: PathBuf,
    claims: FakeClaims,
    daemon: FakeTenantDaemon,
    log: EventLog,
    cards: watch::Sender<NodeCards>,
    /// The cluster's side, where it is asked.
    cluster: Option<Cluster>,
    patience: Duration,
}

/// An agent that runs.
struct FakeAgent {
    sockets: KubeletSockets,
    ending: watch::Sender<bool>,
    task: JoinHandle<Result<(), String>>,
    counts: CallCounts,
}

impl KubeletNode {
    fn new(name: &str) -> Self {
        let own = format!("divvy-kubelet-{name}-{}", std::process::id());
        let base = std::env::temp_dir().join(own);
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(&base).unwrap();
        std::fs::write(base.join("libdivvy.so"), "").unwrap();
        let card = NodeCard {
            device: "gpu-0".to_owned(),
            gpu_uuid: UUID.to_owned(),
            health: CardHealth::Healthy,
            message: String::new(),
            offer: CardTerms::default().offer(80 << 30),
        };
        let cards = NodeCards { cards: vec![card], checked: Some(SystemTime::now()) };
        Self {
            base,
            claims: FakeClaims::default(),
            daemon: FakeTenantDaemon::default(),
            log: EventLog::memory(),
            cards: watch::channel(cards).0,
            cluster: None,
            patience: super::CALL_PATIENCE,
        }
    }

    /// Has the API server know an allocated claim.
    fn allocate(&self, name: &str, uid: &str) {
        let result = json!({ "request": "gpu", "driver": DRIVER, "pool": "node", "device": "gpu-0", "shareID": uid,
            "consumedCapacity": { "memory": "8Gi", "cores": "30", "slots": "1" } });
        let claim = json!({
            "metadata": { "namespace": "team", "name": name, "uid": uid },
            "spec": {},
            "status": { "allocation": { "devices": { "results": [result] } } },
        });
        self.claims.claims.lock().unwrap().insert(format!("team/{name}"), claim);
    }

    async fn agent(&self, pod_uid: Option<&str>) -> FakeAgent {
        let places = PreparePlaces {
            state: self.base.join("state"),
            cdi: self.base.join("cdi"),
            library: self.base.join("libdivvy.so"),
            card_kind: "nvidia.com/gpu".to_owned(),
            boot_id: "boot-1".to_owned(),
        };
        let core = PrepareCore::new(places, self.daemon.clone());
        let (claims, log) = (self.claims.clone(), self.log.clone());
        let plugin = NodePlugin::new((DRIVER, "node"), claims, core, self.cards.subscribe(), log);
        let plugin = match self.cluster.clone() {
            Some(cluster) => plugin.under(cluster),
            None => plugin,
        };
        let plugin = Arc::new(plugin.within(self.patience));
        let counts = plugin.counts();
        let sockets = KubeletSockets::of(&self.base, DRIVER, pod_uid).unwrap();
        let (ending, ended) = watch::channel(false);
        let of = sockets.clone();
        let task =
            tokio::spawn(async move { serve(&of, plugin, AgentState::default(), ended).await });
        // A socket may be there that an instance before has left.
        let told = self.log.lines().len();
        while self.log.lines().len() == told && !task.is_finished() {
            tokio::task::yield_now().await;
        }
        FakeAgent { sockets, ending, task, counts }
    }

    fn cdi_files(&self) -> usize {
        HostDisk.names(&self.base.join("cdi")).unwrap().len()
    }
}

impl Drop for KubeletNode {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

impl FakeAgent {
    /// Ends it as SIGTERM does.
    async fn terminate(self) {
        self.ending.send_replace(true);
        self.task.await.unwrap().unwrap();
    }
}

async fn channel(path: &Path) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix:{}", path.display())).unwrap();
    endpoint.connect().await.unwrap()
}

/// The kubelet's handshake on a registration socket.
async fn register(path: &Path) -> PluginInfo {
    let mut client = RegistrationClient::new(channel(path).await);
    let info = client.get_info(InfoRequest {}).await.unwrap().into_inner();
    let status = RegistrationStatus { plugin_registered: true, error: String::new() };
    client.notify_registration_status(status).await.unwrap();
    info
}

type Answers = HashMap<String, NodePrepareResourceResponse>;

/// A kubelet's connection.
#[derive(Clone)]
struct FakeKubelet(DraPluginClient<Channel>);

impl FakeKubelet {
    async fn at(path: &Path) -> Self {
        Self(DraPluginClient::new(channel(path).await))
    }

    /// Asks for claims, by names and UIDs.
    async fn prepare(&mut self, claims: &[(&str, &str)]) -> Answers {
        let claims = claims.iter().map(|(name, uid)| claim(name, uid)).collect();
        let request = dra_v1::NodePrepareResourcesRequest { claims };
        self.0.node_prepare_resources(request).await.unwrap().into_inner().claims
    }

    /// Takes claims back; their errors, by UIDs.
    async fn unprepare(&mut self, claims: &[(&str, &str)]) -> BTreeMap<String, String> {
        let claims = claims.iter().map(|(name, uid)| claim(name, uid)).collect();
        let request = dra_v1::NodeUnprepareResourcesRequest { claims };
        let answer = self.0.node_unprepare_resources(request).await.unwrap().into_inner();
        answer.claims.into_iter().map(|(uid, it)| (uid, it.error)).collect()
    }
}

fn claim(name: &str, uid: &str) -> dra_v1::Claim {
    dra_v1::Claim { namespace: "team".to_owned(), uid: uid.to_owned(), name: name.to_owned() }
}
