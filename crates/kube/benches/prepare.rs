//! Time that the agent takes to prepare claims, as a kubelet sees it, with 50 shares on the node; and the agent's memory.
//!
//! `DIVVY=/path/to/divvy cargo bench -p divvy-kube` measures with a real daemon, and without one with a thread that answers as
//! a daemon does. Claims come from a server on the loopback. Prints JSON.
//!
//! A call waits for the disk of the agent's state, which is below TMPDIR here; `sync` is what that alone takes. The CDI files,
//! which a node has on a tmpfs, are on one where there is `/dev/shm`.

#[path = "../tests/nodes/mod.rs"]
mod nodes;

use std::fs::File;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use divvy_kube::kubelet::wire::dra_v1;
use divvy_kube::kubelet::wire::dra_v1::dra_plugin_client::DraPluginClient;
use nodes::{AgentNode, DRIVER};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

/// Shares on the node before anything is measured.
const STANDING: usize = 50;
/// Calls of each kind.
const ROUNDS: usize = 200;
/// Claims at once.
const BATCH: usize = 8;

#[derive(Clone)]
struct BenchKubelet(DraPluginClient<Channel>);

fn claims(names: &[String]) -> Vec<dra_v1::Claim> {
    let claim = |name: &String| dra_v1::Claim {
        namespace: "team".to_owned(),
        uid: format!("uid-{name}"),
        name: name.clone(),
    };
    names.iter().map(claim).collect()
}

impl BenchKubelet {
    async fn prepare(&mut self, names: &[String]) -> Duration {
        let request = dra_v1::NodePrepareResourcesRequest { claims: claims(names) };
        let begun = Instant::now();
        let answer = self.0.node_prepare_resources(request).await.unwrap().into_inner();
        let took = begun.elapsed();
        assert_eq!(answer.claims.len(), names.len());
        assert!(answer.claims.values().all(|it| it.error.is_empty()), "{answer:?}");
        took
    }

    async fn unprepare(&mut self, names: &[String]) -> Duration {
        let request = dra_v1::NodeUnprepareResourcesRequest { claims: claims(names) };
        let begun = Instant::now();
        let answer = self.0.node_unprepare_resources(request).await.unwrap().into_inner();
        assert!(answer.claims.values().all(|it| it.error.is_empty()), "{answer:?}");
        begun.elapsed()
    }
}

fn names(kind: &str, round: usize, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("train-{kind}-{round}-{at}")).collect()
}

fn summary(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let ms = |percent: usize| {
        let at = (times.len() * percent).div_ceil(100).max(1) - 1;
        times[at].as_secs_f64() * 1e3
    };
    json!({ "calls": times.len(), "p50_ms": ms(50), "p99_ms": ms(99), "max_ms": ms(100) })
}

/// A field of a process's status, in KiB.
fn memory_kib(agent: &Child, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A daemon, and the path of its socket.
fn daemon(node: &AgentNode) -> (Option<Child>, String) {
    let Some(divvy) = std::env::var_os("DIVVY") else {
        return (None, node.daemon().display().to_string());
    };
    let home = node.path(&format!("divvy-{}", nix::unistd::geteuid()));
    std::fs::create_dir_all(&home).unwrap();
    let child = Command::new(divvy)
        .arg("daemon")
        .env("XDG_RUNTIME_DIR", node.path(""))
        .env("DIVVY_DEVICE_LOCKS", node.path("locks"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let socket = format!("{home}/daemon.sock");
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    (Some(child), socket)
}

/// Folder of CDI files.
fn cdi(node: &AgentNode) -> String {
    let own = format!("/dev/shm/divvy-agent-bench-{}", std::process::id());
    let is_made = std::fs::create_dir(&own).is_ok();
    if is_made { own } else { node.path("cdi") }
}

/// Times of a file that is written and waited for, as a checkpoint is.
fn sync_times(node: &AgentNode) -> Vec<Duration> {
    let write = |_| {
        let begun = Instant::now();
        let mut file = File::create(node.path("sync")).unwrap();
        file.write_all(&[b'x'; 16 << 10]).unwrap();
        file.sync_all().unwrap();
        begun.elapsed()
    };
    (0..ROUNDS).map(write).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let node = AgentNode::new("bench");
    let (daemon, socket) = daemon(&node);
    let cdi = cdi(&node);
    let agent = node.agent(&["--daemon", &socket, "--cdi", &cdi]);
    let begun_kib = memory_kib(&agent, "VmRSS:");
    let service = node.path(&format!("plugins/{DRIVER}/dra.sock"));
    let endpoint = Endpoint::from_shared(format!("unix:{service}")).unwrap();
    let mut kubelet = BenchKubelet(DraPluginClient::new(endpoint.connect().await.unwrap()));
    for round in 0..STANDING {
        kubelet.prepare(&names("standing", round, 1)).await;
    }
    let (mut one, mut back, mut batch, mut at_once) = (vec![], vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        let claims = names("one", round, 1);
        one.push(kubelet.prepare(&claims).await);
        back.push(kubelet.unprepare(&claims).await);

        let claims = names("batch", round, BATCH);
        batch.push(kubelet.prepare(&claims).await);
        kubelet.unprepare(&claims).await;

        // Calls of pods that come together: the last of them counts.
        let claims = names("once", round, BATCH);
        let mut calls = JoinSet::new();
        let begun = Instant::now();
        for name in claims.clone() {
            let mut kubelet = kubelet.clone();
            calls.spawn(async move { kubelet.prepare(&[name]).await });
        }
        calls.join_all().await;
        at_once.push(begun.elapsed());
        kubelet.unprepare(&claims).await;
    }
    let report = json!({
        "daemon": if daemon.is_some() { "divvy" } else { "thread" },
        "standing_shares": STANDING,
        "sync": summary(sync_times(&node)),
        "prepare_one": summary(one),
        "unprepare_one": summary(back),
        "prepare_batch_of_8": summary(batch),
        "prepare_8_calls_at_once": summary(at_once),
        "agent_rss_kib": { "begun": begun_kib, "now": memory_kib(&agent, "VmRSS:"),
            "most": memory_kib(&agent, "VmHWM:") },
    });
    println!("{report:#}");
    for mut child in [Some(agent), daemon].into_iter().flatten() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let _ = std::fs::remove_dir_all(cdi);
}
