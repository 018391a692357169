//! The device plugin as a process: with a kubelet, an API server and a daemon that are the test's, killed and terminated.

mod nodes;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use divvy_kube::kubelet::wire::deviceplugin::device_plugin_client::DevicePluginClient;
use divvy_kube::kubelet::wire::deviceplugin::registration_server::{
    Registration, RegistrationServer,
};
use divvy_kube::kubelet::wire::deviceplugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, Empty, RegisterRequest,
};
use divvy_kube::kubelet::wire::podresources::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use divvy_kube::kubelet::wire::podresources::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
    ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, PodResources,
};
use nodes::AgentNode;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};

const ID: &str = "01010101-8g-30c-0";

/// A kubelet that registers, and lists one container with these devices.
#[derive(Clone, Default)]
struct SmallKubelet(Arc<Mutex<(Vec<RegisterRequest>, Vec<String>)>>);

#[tonic::async_trait]
impl Registration for SmallKubelet {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        self.0.lock().unwrap().0.push(request.into_inner());
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for SmallKubelet {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let device_ids = self.0.lock().unwrap().1.clone();
        let devices = ContainerDevices {
            resource_name: "divvy.dev/gpu-8g-30c".to_owned(),
            device_ids,
            topology: None,
        };
        let container =
            ContainerResources { devices: vec![devices], ..ContainerResources::default() };
        let pod = PodResources { containers: vec![container], ..PodResources::default() };
        Ok(Response::new(ListPodResourcesResponse { pod_resources: vec![pod] }))
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

impl SmallKubelet {
    /// Serves below the node's folder.
    fn start(node: &AgentNode) -> Self {
        let it = Self::default();
        let listen = |path: &str| {
            let path = PathBuf::from(node.path(path));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            UnixListenerStream::new(UnixListener::bind(path).unwrap())
        };
        let registering = listen("device-plugins/kubelet.sock");
        let listing = listen("pod-resources/kubelet.sock");
        let (registration, lister) =
            (RegistrationServer::new(it.clone()), PodResourcesListerServer::new(it.clone()));
        tokio::spawn(Server::builder().add_service(registration).serve_with_incoming(registering));
        tokio::spawn(Server::builder().add_service(lister).serve_with_incoming(listing));
        it
    }
}

async fn allocate(node: &AgentNode) -> Result<ContainerAllocateResponse, Status> {
    let path = node.path("device-plugins/divvy-8g-30c.sock");
    let endpoint = Endpoint::from_shared(format!("unix:{path}")).unwrap();
    let mut client = DevicePluginClient::new(endpoint.connect().await.unwrap());
    let devices_ids = vec![ID.to_owned()];
    let request =
        AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] };
    let answer = client.allocate(request).await?.into_inner();
    Ok(answer.container_responses[0].clone())
}

/// A process of ours, which ends with the test whatever comes of that.
struct OwnProcess(Child);

impl OwnProcess {
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A plugin that is registered and ready, started while the test's own runtime goes on.
async fn started(node: &Arc<AgentNode>) -> OwnProcess {
    let of = node.clone();
    let starting = tokio::task::spawn_blocking(move || {
        OwnProcess(of.plugin(&[], "the kubelet has registered divvy.dev/gpu-8g-30c"))
    });
    let plugin = starting.await.unwrap();
    // The node is looked at beside that.
    while ready(node).await.0 != 0 {}
    plugin
}

async fn ready(node: &Arc<AgentNode>) -> (i32, Value) {
    let node = node.clone();
    let asking = tokio::task::spawn_blocking(move || {
        let output = node.plugin_command(&["--ready", "--json"]).output().unwrap();
        (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
    });
    asking.await.unwrap()
}

fn files(node: &AgentNode) -> usize {
    std::fs::read_dir(node.path("cdi")).map_or(0, Iterator::count)
}

/// The answer of a readiness probe that the page shows.
fn page_example() -> Value {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/kubernetes-plugin.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```json").nth(1).unwrap().split("```").next().unwrap();
    serde_json::from_str(example).unwrap()
}

#[tokio::test]
async fn a_share_outlives_a_plugin_that_is_killed_and_one_that_is_terminated() {
    let node = Arc::new(AgentNode::new("plugin"));
    let _daemon = node.daemon();
    let kubelet = SmallKubelet::start(&node);
    let plugin = started(&node).await;
    let request = kubelet.0.lock().unwrap().0[0].clone();
    assert_eq!((&*request.endpoint, &*request.version), ("divvy-8g-30c.sock", "v1beta1"));
    let mut shown = page_example();
    shown["pid"] = json!(plugin.0.id());
    assert_eq!(ready(&node).await, (0, shown));
    let first = allocate(&node).await.unwrap();
    assert_eq!((first.cdi_devices.len(), files(&node)), (2, 1));
    kubelet.0.lock().unwrap().1.push(ID.to_owned());

    plugin.kill();
    let (code, answer) = ready(&node).await;
    assert!(
        code == 1 && answer["error"].as_str().unwrap().contains("no plugin answers"),
        "{answer}"
    );
    let mut plugin = started(&node).await;
    assert_eq!((allocate(&node).await.unwrap(), files(&node)), (first, 1));

    nix::sys::signal::kill(nodes::pid(&plugin.0), nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = tokio::task::spawn_blocking(move || plugin.0.wait().unwrap());
    assert_eq!(ended.await.unwrap().code(), Some(0));
    assert!(!Path::new(&node.path("device-plugins/divvy-8g-30c.sock")).exists());
    assert_eq!(files(&node), 1);

    // Its pod ends while no plugin is there.
    kubelet.0.lock().unwrap().1.clear();
    let state = std::fs::read_to_string(node.path("state/checkpoint.json")).unwrap();
    assert!(state.contains("dp-01010101-8g-30c-0") && state.contains("\"shares\""), "{state}");
}

#[tokio::test]
async fn a_plugin_that_is_killed_while_it_allocates_leaves_what_the_next_finishes() {
    let node = Arc::new(AgentNode::new("plugin-midway"));
    let _daemon = node.daemon();
    let _kubelet = SmallKubelet::start(&node);
    let plugin = started(&node).await;
    // A daemon that takes connections and says nothing.
    let silent = node.silent_daemon();
    let of = node.clone();
    let call = tokio::spawn(async move { allocate(&of).await.map(|_| ()) });
    let checkpoint = node.path("state/checkpoint.json");
    while !std::fs::read_to_string(&checkpoint)
        .is_ok_and(|text| text.contains("dp-01010101-8g-30c-0"))
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    plugin.kill();
    assert!(call.await.unwrap().is_err());
    drop(silent);

    let _daemon = node.daemon();
    let plugin = started(&node).await;
    assert_eq!(allocate(&node).await.unwrap().cdi_devices.len(), 2);
    assert_eq!(files(&node), 1);
    plugin.kill();
}

#[test]
fn what_is_missing_is_named_before_anything_is_made() {
    let node = AgentNode::new("plugin-missing");
    let ended =
        |arguments: &[&str], configured| node.ended(node.plugin_command(arguments), configured);
    let long = format!("/{}", "k".repeat(100));
    for (arguments, configured, code, part) in [
        (&["--node-name", ""][..], true, 2, "NODE_NAME"),
        (&["--size", "8"], true, 2, "--size: \"8\" is no size"),
        (&["--size", "8g-130c"], true, 2, "there are 1 to 100"),
        (&["--size", "8g-30c", "--size", "8g-30c"], true, 2, "named twice"),
        (&["--slots", "0"], true, 2, "--slots"),
        (&["--give-by", "magic"], true, 2, "--give-by"),
        (&["--cdi", "cdi"], true, 2, "--cdi cdi"),
        (&["--kubelet-root", &long], true, 2, "--kubelet-root"),
        (&[], false, 125, "no API server is configured"),
    ] {
        let (found, told) = ended(arguments, configured);
        assert_eq!(found, code, "{told}");
        assert!(told.contains(part), "{told}");
    }
    assert!(!Path::new(&node.path("device-plugins")).exists());

    // Beside the agent, and beside another plugin, on one node.
    let agent = OwnProcess(node.agent(&[]));
    let (code, told) = ended(&[], true);
    assert!(code == 125 && told.contains("`divvy-kube agent`"), "{told}");
    agent.kill();
    let plugin = OwnProcess(node.plugin(&[], "device plugin on node node"));
    let (code, told) = ended(&[], true);
    assert!(code == 125 && told.contains("another `divvy-kube plugin`"), "{told}");
    let output = node.command(&[]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(told.contains("`divvy-kube plugin` sells this node's cards"), "{told}");
    plugin.kill();
}
