//! The cluster's side against an API server of its own, over a real socket. No test waits for a time to pass: each waits for what
//! should come, or counts what happened while the node was looked at some more times.

mod answers;
mod api;
mod faults;
mod node;
mod publish;
mod size_api;
mod sizes;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::api::FakeApi;
use super::*;
use crate::cards::{BookedDevice, CardHealth, name_of};
use crate::driver::DRIVER;

const NAME: &str = "n1-gpu.divvy.dev-0";
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that may have devices.
fn good_node() -> Value {
    json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "n1", "uid": "node-uid" },
        "status": { "capacity": { "cpu": "8" }, "allocatable": { "cpu": "8" }, "nodeInfo": {
            "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.36.1",
            "architecture": "amd64", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
            "operatingSystem": "linux", "osImage": "", "systemUUID": "" } } })
}

fn card(uuid: &str) -> BookedDevice {
    BookedDevice {
        name: name_of(uuid).unwrap(),
        uuid: uuid.to_owned(),
        memory_bytes: 80 << 30,
        health: CardHealth::Healthy,
        ..BookedDevice::default()
    }
}

fn book(devices: &[BookedDevice]) -> CardBook {
    CardBook { devices: devices.to_vec(), is_known: true, ..CardBook::default() }
}

fn quick() -> ClusterTimes {
    ClusterTimes {
        gap: Duration::from_millis(5),
        retry: Duration::from_millis(5),
        longest_retry: Duration::from_millis(40),
        node: Duration::from_millis(20),
        lock: Duration::from_millis(10),
        patience: Duration::from_millis(400),
        ..ClusterTimes::default()
    }
}

/// An agent's cluster side.
struct Agent {
    cluster: Cluster,
    book: watch::Sender<CardBook>,
    running: JoinHandle<()>,
}

impl Agent {
    fn start(api: &FakeApi, change: impl FnOnce(&mut ClusterOptions)) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("divvy-cluster-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let lock: PathBuf = std::env::temp_dir().join(name);
        let mut options = ClusterOptions { times: quick(), ..ClusterOptions::of("n1", lock) };
        change(&mut options);
        let (book, receiver) = watch::channel(book(&[card("GPU-1"), card("GPU-2")]));
        let (cluster, task) = Cluster::new(api.client(), options, receiver);
        Self { cluster, book, running: tokio::spawn(task.run()) }
    }

    /// Ends it, as a signal would, with no word to the API server.
    async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
    }
}

/// Waits until it is so.
async fn until(api: &FakeApi, what: &str, is_so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    if waited.await.is_err() {
        let world = api.world();
        panic!("not so within {PATIENCE:?}: {what}; {:#?}\n{:?}", world.slices, world.requests);
    }
}

/// Waits until the node was looked at this many times more: time in which anything could have happened.
async fn looks(api: &FakeApi, count: usize) {
    let node = "GET /api/v1/nodes";
    let before = api.count(node);
    until(api, "looks at the node", || api.count(node) >= before + count).await;
}

/// Devices of all slices, as the API server has them.
fn devices(api: &FakeApi) -> Vec<String> {
    let world = api.world();
    let devices = world.slices.values().flat_map(|slice| {
        let own = (slice["spec"]["driver"] == DRIVER).then(|| slice["spec"]["devices"].as_array());
        own.flatten().cloned().unwrap_or_default()
    });
    devices.map(|device| device["name"].as_str().unwrap().to_owned()).collect()
}

async fn published(api: &FakeApi, names: &[&str]) {
    until(api, &format!("devices {names:?}"), || devices(api) == names).await;
}
