//! A node of a test's own: folders, cards, the prepare core on both, and a kubelet that is a server and a client on real sockets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use super::super::desk::ShareDesk;
use super::super::endpoint::PluginSockets;
use super::super::service::GiveBy;
use super::super::times::PluginTimes;
use super::super::{SharePlugin, size::ShareSize};
use super::books::{card, cards};
use super::{A, B, size};
use crate::cards::{CardBook, CardTerms};
use crate::cluster::PluginNode;
use crate::event::EventLog;
use crate::kubelet::AgentState;
use crate::kubelet::wire::agent::StateRequest;
use crate::kubelet::wire::agent::agent_server::Agent;
use crate::kubelet::wire::deviceplugin::device_plugin_client::DevicePluginClient;
use crate::kubelet::wire::deviceplugin::registration_server::{Registration, RegistrationServer};
use crate::kubelet::wire::deviceplugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, Empty, RegisterRequest,
};
use crate::kubelet::wire::podresources::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use crate::kubelet::wire::podresources::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
    ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, PodResources,
};
use crate::prepare::tests::FakeNode;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that must come.
pub(super) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub(super) fn quick() -> PluginTimes {
    PluginTimes {
        look: Duration::from_millis(5),
        poll: Duration::from_millis(5),
        unseen: Duration::from_secs(3600),
        begins: Duration::from_secs(3600),
        patience: Duration::ZERO,
        answer: Duration::from_secs(10),
    }
}

pub(super) fn good_node() -> PluginNode {
    PluginNode { refusal: None, has_cdi: true }
}

/// The node.
pub(super) struct PluginTestNode {
    pub(super) node: FakeNode,
    base: PathBuf,
    pub(super) cards: watch::Sender<CardBook>,
    pub(super) judged: watch::Sender<PluginNode>,
    pub(super) times: PluginTimes,
    pub(super) by: GiveBy,
    pub(super) sizes: Vec<ShareSize>,
    pub(super) log: EventLog,
}

/// A plugin that runs.
pub(super) struct RunningPlugin {
    pub(super) state: AgentState,
    ending: watch::Sender<bool>,
    task: JoinHandle<Result<(), String>>,
}

impl RunningPlugin {
    /// Ends it as SIGTERM does.
    pub(super) async fn terminate(self) {
        self.ending.send_replace(true);
        self.task.await.unwrap().unwrap();
    }

    /// Ends it in the middle of whatever it does.
    pub(super) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Words of a condition that is not met; `None` where it is.
    pub(super) async fn missing(&self, name: &str) -> Option<String> {
        let state = self.state.state(Request::new(StateRequest {})).await.unwrap().into_inner();
        match state.conditions.into_iter().find(|it| it.name == name) {
            Some(condition) => (!condition.met).then_some(condition.message),
            None => Some("it has not begun".to_owned()),
        }
    }
}

impl PluginTestNode {
    pub(super) fn new(name: &str) -> Self {
        let node = FakeNode::new(name);
        let base = node.places.state.parent().unwrap().to_owned();
        Self {
            base,
            node,
            cards: watch::Sender::new(cards(&[card(A, 80), card(B, 80)])),
            judged: watch::Sender::new(good_node()),
            times: quick(),
            by: GiveBy::Auto,
            sizes: vec![size("8g-30c"), size("40g-50c")],
            log: EventLog::memory(),
        }
    }

    pub(super) fn plugin(&self) -> RunningPlugin {
        let desk = ShareDesk::new(
            self.node.core(),
            &self.sizes,
            CardTerms::default(),
            self.times,
            self.log.clone(),
        );
        let state = AgentState::default();
        let plugin = SharePlugin {
            desk: Arc::new(desk),
            sockets: PluginSockets::of(&self.base, &self.sizes).unwrap(),
            by: self.by,
            cards: self.cards.subscribe(),
            node: self.judged.subscribe(),
            state: state.clone(),
            lister: Mutex::default(),
        };
        let (ending, ended) = watch::channel(false);
        let ready = self.base.join("state/plugin.sock");
        let task = tokio::spawn(async move { plugin.serve(&ready, ended).await });
        RunningPlugin { state, ending, task }
    }

    /// Socket of a size.
    pub(super) fn socket(&self, of: &str) -> PathBuf {
        self.base.join(format!("device-plugins/divvy-{of}.sock"))
    }

    pub(super) async fn kubelet(&self) -> FakeDeviceKubelet {
        FakeDeviceKubelet::start(&self.base).await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.node.ids().is_empty() && self.node.files().is_empty() && self.node.claims().is_empty()
    }
}

#[derive(Default)]
struct KubeletState {
    /// Healthy and unhealthy devices by resource, as they were told last.
    lists: Mutex<BTreeMap<String, BTreeMap<String, bool>>>,
    endpoints: Mutex<BTreeMap<String, PathBuf>>,
    streams: Mutex<Vec<JoinHandle<()>>>,
    registrations: AtomicUsize,
    /// Containers, by a name: what they have of which resource.
    pods: Mutex<BTreeMap<String, (String, Vec<String>)>>,
    listed: AtomicUsize,
    is_silent: AtomicBool,
    /// Whether it was told of its pods.
    knows_none: AtomicBool,
    folder: Mutex<PathBuf>,
}

/// A kubelet: server of registrations and of the list of pods, client of what registers.
pub(super) struct FakeDeviceKubelet {
    state: Arc<KubeletState>,
    tasks: Vec<JoinHandle<()>>,
}

struct Serving(Arc<KubeletState>);

#[tonic::async_trait]
impl Registration for Serving {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        assert_eq!(request.version, "v1beta1");
        assert!(request.options.unwrap().get_preferred_allocation_available);
        let path = self.0.folder.lock().unwrap().join(&request.endpoint);
        let mut client = client(&path).await;
        let mut stream = client.list_and_watch(Empty {}).await?.into_inner();
        let (state, resource) = (self.0.clone(), request.resource_name.clone());
        self.0.endpoints.lock().unwrap().insert(request.resource_name, path);
        let streaming = tokio::spawn(async move {
            while let Ok(Some(list)) = stream.message().await {
                let devices =
                    list.devices.into_iter().map(|it| (it.id, it.health == "Healthy")).collect();
                state.lists.lock().unwrap().insert(resource.clone(), devices);
            }
            state.lists.lock().unwrap().remove(&resource);
        });
        self.0.streams.lock().unwrap().push(streaming);
        self.0.registrations.fetch_add(1, SeqCst);
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Serving {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        if self.0.is_silent.load(SeqCst) {
            return Err(Status::unavailable("not yet"));
        }
        let pod = |(name, (resource, ids)): (&String, &(String, Vec<String>))| {
            let devices = ContainerDevices {
                resource_name: resource.clone(),
                device_ids: ids.clone(),
                topology: None,
            };
            let container =
                ContainerResources { devices: vec![devices], ..ContainerResources::default() };
            PodResources {
                name: name.clone(),
                containers: vec![container],
                ..PodResources::default()
            }
        };
        let mut pod_resources: Vec<_> = self.0.pods.lock().unwrap().iter().map(pod).collect();
        // The plugin's own.
        pod_resources.push(PodResources::default());
        if self.0.knows_none.load(SeqCst) {
            pod_resources.clear();
        }
        self.0.listed.fetch_add(1, SeqCst);
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

pub(super) async fn client(path: &Path) -> DevicePluginClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", path.display())).unwrap();
    DevicePluginClient::new(endpoint.connect().await.unwrap())
}

impl FakeDeviceKubelet {
    async fn start(base: &Path) -> Self {
        let state = Arc::new(KubeletState::default());
        *state.folder.lock().unwrap() = base.join("device-plugins");
        let mut it = Self { state, tasks: Vec::new() };
        it.serve(base).await;
        it
    }

    async fn serve(&mut self, base: &Path) {
        // As the kubelet does at its start.
        let folder = base.join("device-plugins");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(base.join("pod-resources")).unwrap();
        let pods = base.join("pod-resources/kubelet.sock");
        let _ = std::fs::remove_file(&pods);
        let registering =
            UnixListenerStream::new(UnixListener::bind(folder.join("kubelet.sock")).unwrap());
        let listing = UnixListenerStream::new(UnixListener::bind(pods).unwrap());
        let registration = RegistrationServer::new(Serving(self.state.clone()));
        let lister = PodResourcesListerServer::new(Serving(self.state.clone()));
        self.tasks.push(tokio::spawn(async move {
            Server::builder()
                .add_service(registration)
                .serve_with_incoming(registering)
                .await
                .unwrap();
        }));
        self.tasks.push(tokio::spawn(async move {
            Server::builder().add_service(lister).serve_with_incoming(listing).await.unwrap();
        }));
    }

    /// Stops watching, as a kubelet does that has lost a connection.
    pub(super) fn forget_streams(&self) {
        self.state.streams.lock().unwrap().drain(..).for_each(|stream| stream.abort());
        self.state.lists.lock().unwrap().clear();
    }

    /// Ends, and begins again, with the pods that it had or without having been told of any.
    pub(super) async fn restart(&mut self, node: &PluginTestNode, knows_none: bool) {
        self.forget_streams();
        for task in self.tasks.drain(..) {
            task.abort();
            let _ = task.await;
        }
        self.state.knows_none.store(knows_none, SeqCst);
        self.serve(&node.base).await;
    }

    /// Is told of its pods.
    pub(super) fn know_pods(&self) {
        self.state.knows_none.store(false, SeqCst);
    }

    pub(super) fn registrations(&self) -> usize {
        self.state.registrations.load(SeqCst)
    }

    pub(super) fn be_silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, SeqCst);
    }

    /// Waits until it was asked so often more.
    pub(super) async fn listed(&self, times: usize) {
        let before = self.state.listed.load(SeqCst);
        until("the list is asked for", async || self.state.listed.load(SeqCst) >= before + times)
            .await;
    }

    /// Healthy devices of a size, and the number of all.
    pub(super) fn told(&self, of: &str) -> Option<(Vec<String>, usize)> {
        let lists = self.state.lists.lock().unwrap();
        let list = lists.get(&size(of).resource())?;
        let healthy = list.iter().filter(|(_, is_healthy)| **is_healthy).map(|(id, _)| id.clone());
        Some((healthy.collect(), list.len()))
    }

    /// Waits until so many devices of a size are healthy.
    pub(super) async fn healthy(&self, of: &str, count: usize) -> Vec<String> {
        let has = async || self.told(of).is_some_and(|(healthy, _)| healthy.len() == count);
        until(&format!("{count} of {of} are healthy, not {:?}", self.told(of)), has).await;
        self.told(of).unwrap().0
    }

    /// Allocates devices to a container, by the socket of a size.
    pub(super) async fn ask(
        &self,
        of: &str,
        ids: &[&str],
    ) -> Result<ContainerAllocateResponse, Status> {
        let path = self.state.endpoints.lock().unwrap()[&size(of).resource()].clone();
        let devices_ids = ids.iter().map(|&id| id.to_owned()).collect();
        let request =
            AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] };
        let answer = client(&path).await.allocate(request).await?.into_inner();
        Ok(answer.container_responses.into_iter().next().unwrap())
    }

    /// The same, of a pod that is listed from then on.
    pub(super) async fn admit(
        &self,
        pod: &str,
        of: &str,
        ids: &[&str],
    ) -> ContainerAllocateResponse {
        let answer = self.ask(of, ids).await.unwrap();
        let ids = ids.iter().map(|&id| id.to_owned()).collect();
        self.state.pods.lock().unwrap().insert(pod.to_owned(), (size(of).resource(), ids));
        answer
    }

    pub(super) fn end(&self, pod: &str) {
        self.state.pods.lock().unwrap().remove(pod).unwrap();
    }
}

impl Drop for FakeDeviceKubelet {
    fn drop(&mut self) {
        self.forget_streams();
        self.tasks.drain(..).for_each(|task| task.abort());
    }
}
