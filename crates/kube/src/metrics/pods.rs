//! Pods of the node that have our shares, as the kubelet lists them.
//!
//! Promises: an answer within [`PATIENCE`], of a bounded size, or words. What is no share of ours is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Endpoint;

use crate::kubelet::wire::podresources::pod_resources_lister_client::PodResourcesListerClient;
use crate::kubelet::wire::podresources::{ListPodResourcesRequest, ListPodResourcesResponse};
use crate::prepare::tenant_of_device;

/// Time for the kubelet's answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The largest list: the kubelet itself sends no larger one.
const MOST_BYTES: usize = 16 << 20;

/// Pods and containers that share a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TenantPods {
    pub(super) pods: BTreeSet<String>,
    pub(super) containers: BTreeSet<String>,
}

/// Those of each tenant, by its id.
///
/// # Errors
/// In words.
pub(super) async fn list(socket: &Path) -> Result<BTreeMap<String, TenantPods>, String> {
    let listed = timeout(PATIENCE, ask(socket)).await;
    let listed = listed.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
    listed.map(by_tenant).map_err(|why| format!("{}: {why}", socket.display()))
}

async fn ask(socket: &Path) -> Result<ListPodResourcesResponse, String> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()));
    let channel = endpoint.map_err(|error| error.to_string())?.connect().await;
    let channel = channel.map_err(|error| error.to_string())?;
    let mut client = PodResourcesListerClient::new(channel).max_decoding_message_size(MOST_BYTES);
    let answer = client.list(ListPodResourcesRequest {}).await;
    answer.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
}

fn by_tenant(listed: ListPodResourcesResponse) -> BTreeMap<String, TenantPods> {
    let mut tenants: BTreeMap<String, TenantPods> = BTreeMap::new();
    for pod in listed.pod_resources {
        for container in pod.containers {
            let claims = container.dynamic_resources.iter();
            let devices = claims.flat_map(|it| &it.claim_resources).flat_map(|it| &it.cdi_devices);
            for id in devices.filter_map(|device| tenant_of_device(&device.name)) {
                let tenant = tenants.entry(id.to_owned()).or_default();
                tenant.pods.insert(pod.name.clone());
                tenant.containers.insert(container.name.clone());
            }
        }
    }
    tenants
}
