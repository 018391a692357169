//! The agent as a process: with an API server and a daemon that are threads of the test, killed and terminated.

mod nodes;

use divvy_kube::kubelet::wire::dra_v1;
use divvy_kube::kubelet::wire::dra_v1::dra_plugin_client::DraPluginClient;
use divvy_kube::kubelet::wire::registration::registration_client::RegistrationClient;
use divvy_kube::kubelet::wire::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use nodes::{AgentNode, DRIVER, UUID};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

async fn channel(path: &str) -> Channel {
    Endpoint::from_shared(format!("unix:{path}")).unwrap().connect().await.unwrap()
}

/// The kubelet's handshake.
async fn register(node: &AgentNode) -> PluginInfo {
    let path = node.path(&format!("plugins_registry/{DRIVER}/reg.sock"));
    let mut client = RegistrationClient::new(channel(&path).await);
    let info = client.get_info(InfoRequest {}).await.unwrap().into_inner();
    let status = RegistrationStatus { plugin_registered: true, error: String::new() };
    client.notify_registration_status(status).await.unwrap();
    info
}

/// A request for the claim `team/train`, if that has this UID.
fn claim_named(uid: &str) -> dra_v1::NodePrepareResourcesRequest {
    let (namespace, name) = ("team".to_owned(), "train".to_owned());
    let claims = vec![dra_v1::Claim { namespace, uid: uid.to_owned(), name }];
    dra_v1::NodePrepareResourcesRequest { claims }
}

async fn prepare(endpoint: &str, uid: &str) -> dra_v1::NodePrepareResourceResponse {
    let mut client = DraPluginClient::new(channel(endpoint).await);
    let answer = client.node_prepare_resources(claim_named(uid)).await.unwrap().into_inner();
    answer.claims[uid].clone()
}

async fn unprepare(endpoint: &str, uid: &str) -> String {
    let mut client = DraPluginClient::new(channel(endpoint).await);
    let claim = dra_v1::Claim { uid: uid.to_owned(), ..dra_v1::Claim::default() };
    let request = dra_v1::NodeUnprepareResourcesRequest { claims: vec![claim] };
    let answer = client.node_unprepare_resources(request).await.unwrap().into_inner();
    answer.claims[uid].error.clone()
}

/// The answer of a readiness probe that the page shows.
fn page_example() -> Value {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/kubernetes-agent.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```json").nth(1).unwrap().split("```").next().unwrap();
    serde_json::from_str(example).unwrap()
}

#[tokio::test]
async fn a_claim_outlives_an_agent_that_is_killed_and_one_that_is_terminated() {
    let node = AgentNode::new("process");
    let mut agent = node.agent(&[]);
    let (code, answer) = node.ready();
    assert_eq!((code, &answer["ready"]), (1, &json!(false)), "{answer}");
    assert_eq!(node.alive(), 0, "there, and not ready");
    let info = register(&node).await;
    let (code, answer) = node.ready();
    let mut shown = page_example();
    shown["pid"] = json!(agent.id());
    assert_eq!((code, answer), (0, shown));

    // No daemon yet: registered all the same, and said of the claim.
    let refused = prepare(&info.endpoint, "uid-train").await;
    assert!(refused.error.starts_with("daemon-unreachable: "), "{}", refused.error);
    let _daemon = node.daemon();
    let first = prepare(&info.endpoint, "uid-train").await;
    assert_eq!((&*first.error, first.devices.len()), ("", 1));
    assert_eq!(first.devices[0].cdi_device_ids[0], format!("nvidia.com/gpu={UUID}"));
    let other = prepare(&info.endpoint, "uid-2").await;
    assert!(other.error.starts_with("claim-changed: "), "{}", other.error);

    let tell = |signal| nix::sys::signal::kill(nodes::pid(&agent), signal).unwrap();
    tell(nix::sys::signal::Signal::SIGSTOP);
    assert_eq!(node.alive(), 1, "one that hangs");
    tell(nix::sys::signal::Signal::SIGCONT);
    assert_eq!(node.alive(), 0);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert_eq!(node.alive(), 1);
    let (code, answer) = node.ready();
    assert!(code == 1 && answer["error"].as_str().unwrap().contains("no agent answers"));
    let mut agent = node.agent(&[]);
    let info = register(&node).await;
    assert_eq!(prepare(&info.endpoint, "uid-train").await, first);

    nix::sys::signal::kill(nodes::pid(&agent), nix::sys::signal::Signal::SIGTERM).unwrap();
    // The kubelet is to hear that its connections end, meanwhile.
    let ended = tokio::task::spawn_blocking(move || agent.wait().unwrap());
    assert_eq!(ended.await.unwrap().code(), Some(0));
    let left = |folder: &str| std::fs::read_dir(node.path(folder)).unwrap().count();
    assert_eq!(
        (left(&format!("plugins_registry/{DRIVER}")), left(&format!("plugins/{DRIVER}"))),
        (0, 0)
    );
    assert_eq!(left("cdi"), 1);

    let mut agent = node.agent(&[]);
    for _ in 0..2 {
        assert_eq!(unprepare(&info.endpoint, "uid-train").await, "");
    }
    assert_eq!(left("cdi"), 0);
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[tokio::test]
async fn an_agent_that_is_killed_while_it_prepares_leaves_what_the_next_finishes() {
    let node = AgentNode::new("midway");
    let mut agent = node.agent(&[]);
    let endpoint = register(&node).await.endpoint;
    // A daemon that takes a connection and says nothing.
    let silent = node.silent_daemon();
    let mut client = DraPluginClient::new(channel(&endpoint).await);
    let call = tokio::spawn(async move {
        client.node_prepare_resources(claim_named("uid-train")).await.map(|_| ())
    });
    // The agent also asks how its daemon is: that a connection came says nothing of the claim.
    let checkpoint = std::path::PathBuf::from(node.path("state/checkpoint.json"));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(180);
    while !checkpoint.exists() && std::time::Instant::now() < deadline {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(checkpoint.exists() && !call.is_finished());
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(call.await.unwrap().is_err());
    drop(silent);

    let _daemon = node.daemon();
    let mut agent = node.agent(&[]);
    assert_eq!(register(&node).await.endpoint, endpoint);
    let answer = prepare(&endpoint, "uid-train").await;
    assert_eq!((&*answer.error, answer.devices.len()), ("", 1));
    assert_eq!(unprepare(&endpoint, "uid-train").await, "");
    assert_eq!(std::fs::read_dir(node.path("cdi")).unwrap().count(), 0);
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[test]
fn what_is_missing_is_named_before_anything_is_made() {
    let node = AgentNode::new("missing");
    let ended = |arguments: &[&str], configured| node.ended(node.command(arguments), configured);
    let long = format!("/{}", "k".repeat(100));
    for (arguments, configured, code, part) in [
        (&["--node-name", ""][..], true, 2, "NODE_NAME"),
        (&["--card", "gpu-0"], true, 2, "--card gpu-0"),
        (&["--card", "gpu-0=GPU-2"], true, 2, "named twice"),
        (&["--cdi", "cdi"], true, 2, "--cdi cdi"),
        (&["--kubelet-root", &long], true, 2, "--kubelet-root"),
        (&["--ready", "--alive"], true, 2, "cannot be used with"),
        (&["--metrics", "here"], true, 2, "--metrics here"),
        (&[], false, 125, "no API server is configured"),
    ] {
        let (found, told) = ended(arguments, configured);
        assert_eq!(found, code, "{told}");
        assert!(told.contains(part), "{told}");
    }
    assert!(!std::path::Path::new(&node.path("plugins")).exists());

    let mut agent = node.agent(&[]);
    let (code, told) = ended(&[], true);
    assert_eq!(code, 125);
    assert!(told.contains("another process answers on"), "{told}");
    agent.kill().unwrap();
    agent.wait().unwrap();
    let none: Value = node.ready().1;
    assert_eq!(none["schema"], 1);
}
