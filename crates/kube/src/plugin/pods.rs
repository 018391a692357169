//! Pods of the node, as the kubelet lists them on `pod-resources/kubelet.sock`: which of our devices their containers have.
//!
//! Does not name pods: nothing here needs to know whose a device is.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Endpoint;

use super::book::PodList;
use super::ids::DeviceGroup;
use super::size::ShareSize;
use crate::kubelet::wire::podresources::pod_resources_lister_client::PodResourcesListerClient;
use crate::kubelet::wire::podresources::{ContainerResources, ListPodResourcesRequest};

/// The longest list, as the kubelet has it.
const MOST_BYTES: usize = 16 << 20;

/// The list.
///
/// # Errors
/// In words, with the socket.
pub(super) async fn listed(socket: &Path, patience: Duration) -> Result<PodList, String> {
    let asked = timeout(patience, ask(socket)).await;
    let answer = asked.unwrap_or_else(|_| Err(format!("no answer within {patience:?}")));
    answer.map_err(|why| {
        format!("the kubelet does not list what pods have, on {}: {why}", socket.display())
    })
}

async fn ask(socket: &Path) -> Result<PodList, String> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))
        .map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await.map_err(|error| last(&error))?;
    let mut client = PodResourcesListerClient::new(channel).max_decoding_message_size(MOST_BYTES);
    let answer = client
        .list(ListPodResourcesRequest {})
        .await
        .map_err(|status| status.message().to_owned())?;
    let pods = answer.into_inner().pod_resources;
    let groups = pods.iter().flat_map(|pod| &pod.containers).flat_map(groups_of).collect();
    Ok(PodList { pods: pods.len(), groups })
}

/// The end of a chain of errors, which has the reason.
pub(super) fn last(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Devices of a container, of each size by themselves, as they were asked for.
fn groups_of(container: &ContainerResources) -> Vec<DeviceGroup> {
    let mut groups: BTreeMap<ShareSize, DeviceGroup> = BTreeMap::new();
    for devices in &container.devices {
        // Several of one resource, where they are of several NUMA nodes.
        let Some(size) = ShareSize::of_resource(&devices.resource_name) else { continue };
        groups
            .entry(size)
            .or_default()
            .extend(devices.device_ids.iter().filter_map(|id| id.parse().ok()));
    }
    groups.into_values().filter(|group| !group.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::wire::podresources::ContainerDevices;

    #[test]
    fn devices_of_a_container_are_together_whatever_their_numa_node() {
        let devices = |resource: &str, ids: &[&str]| ContainerDevices {
            resource_name: resource.to_owned(),
            device_ids: ids.iter().map(|&id| id.to_owned()).collect(),
            topology: None,
        };
        let container = ContainerResources {
            devices: vec![
                devices("divvy.dev/gpu-8g-30c", &["0aaaaaaa-8g-30c-0"]),
                devices("nvidia.com/gpu", &["GPU-1"]),
                devices("divvy.dev/gpu-8g-30c", &["0bbbbbbb-8g-30c-1", "../x"]),
                devices("divvy.dev/gpu-1g-1c", &["0bbbbbbb-1g-1c-1"]),
                devices("divvy.dev/gpu-", &["0bbbbbbb-1g-1c-2"]),
                devices("divvy.dev/gpu-2g-1c", &["none"]),
            ],
            ..ContainerResources::default()
        };
        let groups = groups_of(&container);
        let texts: Vec<Vec<String>> =
            groups.iter().map(|group| group.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(
            texts,
            [vec!["0bbbbbbb-1g-1c-1"], vec!["0aaaaaaa-8g-30c-0", "0bbbbbbb-8g-30c-1"]]
        );
    }
}
