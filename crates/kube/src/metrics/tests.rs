//! The page over HTTP, with pods from a kubelet that is a thread of the test.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener};
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::{AgentFacts, ClaimPage, address, agent, page, serve};
use crate::cluster::{ClusterState, HeldClaims, NodeReason, NodeRefusal, NodeVerdict};
use crate::event::EventLog;
use crate::kubelet::AgentState;
use crate::kubelet::wire::podresources as wire;
use crate::kubelet::wire::podresources::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use crate::prepare::{HeldClaim, HeldTenant, PrepareError};

const TENANT: &str = "claim.uid-1.0123456789abcdef";

/// A kubelet that lists one pod of two containers, and counts how often it is asked.
#[derive(Clone, Default)]
struct FakeLister(Arc<AtomicU32>);

#[tonic::async_trait]
impl PodResourcesLister for FakeLister {
    async fn list(
        &self,
        _: Request<wire::ListPodResourcesRequest>,
    ) -> Result<Response<wire::ListPodResourcesResponse>, Status> {
        self.0.fetch_add(1, SeqCst);
        let device = |name: &str| wire::CdiDevice { name: name.to_owned() };
        let resource = wire::ClaimResource {
            cdi_devices: vec![
                device("nvidia.com/gpu=GPU-1"),
                device(&format!("divvy.dev/share={TENANT}")),
                device("divvy.dev/share=../etc"),
            ],
            ..wire::ClaimResource::default()
        };
        let claim = wire::DynamicResource {
            claim_resources: vec![resource],
            ..wire::DynamicResource::default()
        };
        let container = |name: &str| wire::ContainerResources {
            name: name.to_owned(),
            dynamic_resources: vec![claim.clone()],
            ..wire::ContainerResources::default()
        };
        let pod = wire::PodResources {
            name: "train-0".to_owned(),
            namespace: "team".to_owned(),
            containers: vec![container("main"), container("side")],
            ..wire::PodResources::default()
        };
        Ok(Response::new(wire::ListPodResourcesResponse { pod_resources: vec![pod] }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<wire::AllocatableResourcesRequest>,
    ) -> Result<Response<wire::AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("of no use here"))
    }

    async fn get(
        &self,
        _: Request<wire::GetPodResourcesRequest>,
    ) -> Result<Response<wire::GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("of no use here"))
    }
}

struct OneClaim;

impl HeldClaims for OneClaim {
    async fn held(&self) -> Result<Vec<HeldClaim>, PrepareError> {
        let (id, request) = (TENANT.to_owned(), "gpu".to_owned());
        let tenant = HeldTenant { id, request, cards: BTreeSet::new() };
        Ok(vec![HeldClaim {
            uid: "uid-1".to_owned(),
            namespace: "team".to_owned(),
            name: "train".to_owned(),
            size: None,
            shares: BTreeSet::new(),
            tenants: vec![tenant],
        }])
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}

fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("divvy-pods-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// An agent that is ready, on a node that is as `cluster` says.
fn facts(cluster: ClusterState) -> AgentFacts {
    let state = AgentState::default();
    state.set("registered", true, "the kubelet has registered it");
    let (met, words) = cluster.published();
    state.set("published", met, words);
    let cluster = Some(watch::channel(cluster).1);
    AgentFacts { state, cluster, counts: crate::kubelet::CallCounts::default() }
}

fn published() -> ClusterState {
    ClusterState { is_synced: true, is_settled: true, ..ClusterState::default() }
}

/// Serves the page, and says where.
async fn served(pods: &Path) -> SocketAddr {
    let log = EventLog::memory();
    let page = ClaimPage::new("n1", facts(published()), Arc::new(OneClaim), pods.to_owned());
    tokio::spawn(serve(address("127.0.0.1:0").unwrap(), page, log.clone()));
    loop {
        if let Some(line) = log.lines().first() {
            let at = line.trim_start_matches("metrics are served at http://");
            return at.trim_end_matches("/metrics").parse().unwrap();
        }
        tokio::task::yield_now().await;
    }
}

async fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn the_page_names_the_pods_of_each_tenant_and_asks_the_kubelet_seldom() {
    let (path, lister) = (socket("list"), FakeLister::default());
    let incoming = UnixListenerStream::new(UnixListener::bind(&path).unwrap());
    let server = tonic::transport::Server::builder()
        .add_service(PodResourcesListerServer::new(lister.clone()));
    tokio::spawn(server.serve_with_incoming(incoming));
    let at = served(&path).await;
    for _ in 0..20 {
        let answer = ask(at, "GET /metrics").await;
        let line = format!(
            "divvy_claim_info{{tenant=\"{TENANT}\",namespace=\"team\",claim=\"train\",request=\"gpu\",\
             pod=\"train-0\",container=\"main,side\",node=\"n1\"}} 1\n"
        );
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(&line), "{answer}");
        assert!(answer.contains("\ndivvy_agent_pods_known 1\n"), "{answer}");
        assert!(
            answer.contains("\ndivvy_agent_condition{condition=\"published\"} 1\n"),
            "{answer}"
        );
    }
    // The clock may have gone on by a period, under load.
    assert!(lister.0.load(SeqCst) < 20);
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn without_a_kubelet_and_for_whoever_asks_otherwise_there_is_an_answer() {
    let at = served(&socket("none")).await;
    let answer = ask(at, "GET /metrics").await;
    assert!(
        answer.contains("pod=\"\"") && answer.contains("\ndivvy_agent_pods_known 0\n"),
        "{answer}"
    );
    for (request, code) in [
        ("HEAD /metrics", "200"),
        ("POST /metrics", "405"),
        ("GET /", "404"),
        ("GET /metrics/../etc", "404"),
        ("\u{1}", "400"),
        (&format!("GET /{}", "a".repeat(70_000)), "431"),
    ] {
        let answer = ask(at, request).await;
        let shown: String = request.chars().take(40).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{shown}: {answer}");
    }
}

#[test]
fn an_address_has_a_port_or_gets_one() {
    for (text, at) in [
        ("10.0.0.7", "10.0.0.7:19438"),
        ("10.0.0.7:1", "10.0.0.7:1"),
        ("::1", "[::1]:19438"),
        ("[::1]:9", "[::1]:9"),
    ] {
        assert_eq!(address(text).unwrap().to_string(), at);
    }
    for text in ["", "localhost", "10.0.0.7:", "10.0.0.7:99999", "$(POD_IP)"] {
        assert!(address(text).unwrap_err().contains("--metrics"), "{text}");
    }
}

#[test]
fn the_page_on_metrics_has_them() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(page).unwrap();
    for metric in [
        page::CLAIM,
        page::PODS,
        agent::CONDITION,
        agent::REFUSED,
        agent::PREPARES,
        agent::UNPREPARES,
    ] {
        let page::PageMetric { name, kind, help } = metric;
        let (beginning, end) = (format!("| `{name}` | {kind} |"), format!("| {help} |"));
        let row = text.lines().find(|line| line.starts_with(&beginning));
        assert!(row.is_some_and(|row| row.ends_with(&end)), "{name}: {row:?}");
    }
}

#[test]
fn a_refused_node_is_told_with_its_reason_and_the_words_of_what_is_not_met() {
    let good = facts(published()).text();
    assert!(good.contains("\ndivvy_agent_condition{condition=\"registered\"} 1\n"), "{good}");
    assert!(!good.contains("\ndivvy_agent_node_refused{") && !good.contains("\n# published"));
    let refusal = ClusterState { refusal: NodeVerdict::default().refusal, ..published() };
    assert!(!facts(refusal).text().contains("\ndivvy_agent_node_refused{"), "not looked at yet");
    let words = "node n1: a \"plugin\"\nsells".to_owned();
    let refusal = Some(NodeRefusal { reason: NodeReason::SoldByPlugin, words });
    let refused = facts(ClusterState { refusal, is_publisher: true, ..published() }).text();
    for line in [
        "# TYPE divvy_agent_condition gauge",
        "divvy_agent_condition{condition=\"published\"} 0",
        "# published: sold-by-plugin: node n1: a \"plugin\" sells",
        "divvy_agent_node_refused{reason=\"sold-by-plugin\"} 1",
    ] {
        assert!(refused.lines().any(|it| it == line), "{line}: {refused}");
    }
}

#[test]
fn answers_to_the_kubelet_are_counters_that_begin_at_nothing() {
    let page = facts(published()).text();
    for line in [
        "# TYPE divvy_agent_prepares_total counter",
        "divvy_agent_prepares_total{result=\"prepared\"} 0",
        "divvy_agent_prepares_total{result=\"node-refused\"} 0",
        "divvy_agent_unprepares_total{result=\"taken-back\"} 0",
    ] {
        assert!(page.lines().any(|it| it == line), "{line}: {page}");
    }
}
