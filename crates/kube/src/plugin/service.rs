//! The kubelet's service for the devices of one size, over the [`ShareDesk`].
//!
//! Promises: each message of the list is the whole list, and there is one after each change; an answer has CDI devices, or
//! variables and mounts, never both.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt, wrappers::WatchStream};
use tonic::{Request, Response, Status};

use super::book::DeviceOffer;
use super::desk::{GivenShares, ShareDesk};
use super::size::ShareSize;
use crate::cluster::PluginNode;
use crate::kubelet::wire::deviceplugin::device_plugin_server::DevicePlugin;
use crate::kubelet::wire::deviceplugin::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, Device, DevicePluginOptions, Empty, ListAndWatchResponse,
    Mount, NumaNode, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, TopologyInfo,
};
use crate::prepare::{NodeDaemon, NodeDisk};

/// Variable by which NVIDIA's container toolkit gives a container its cards.
const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";

/// Way in which a container is given its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GiveBy {
    /// CDI where kubelet and runtime surely know it, mounts elsewhere.
    Auto,
    /// CDI devices.
    Cdi,
    /// Variables and mounts.
    Mounts,
}

/// The service.
#[derive(Debug)]
pub(super) struct SizeService<D, K> {
    pub(super) size: ShareSize,
    pub(super) desk: Arc<ShareDesk<D, K>>,
    pub(super) by: GiveBy,
    pub(super) node: watch::Receiver<PluginNode>,
    /// Whether the plugin ends.
    pub(super) ending: watch::Receiver<bool>,
    /// Number of lists that are watched.
    pub(super) watched: watch::Sender<usize>,
}

/// A list that is watched, until this is dropped.
struct WatchedList(watch::Sender<usize>);

impl WatchedList {
    fn of(watched: &watch::Sender<usize>) -> Self {
        watched.send_modify(|count| *count += 1);
        Self(watched.clone())
    }
}

impl Drop for WatchedList {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Options of a size, for the kubelet.
pub(super) fn options() -> DevicePluginOptions {
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
}

fn device(offer: &DeviceOffer) -> Device {
    let topology =
        offer.numa_node.map(|node| TopologyInfo { nodes: vec![NumaNode { id: node.into() }] });
    let health = if offer.is_healthy { "Healthy" } else { "Unhealthy" };
    Device { id: offer.id.clone(), health: health.to_owned(), topology }
}

fn by_cdi(given: GivenShares) -> ContainerAllocateResponse {
    let cdi_devices = given.cdi_devices.into_iter().map(|name| CdiDevice { name }).collect();
    ContainerAllocateResponse { cdi_devices, ..ContainerAllocateResponse::default() }
}

fn by_mounts(given: GivenShares) -> Result<ContainerAllocateResponse, Status> {
    let mut envs: std::collections::HashMap<_, _> = given.edits.env.into_iter().collect();
    envs.insert(VISIBLE.to_owned(), given.cards.join(","));
    let mut mounts = Vec::new();
    for mount in given.edits.mounts {
        let host_path = mount.host_path.to_str().map(str::to_owned);
        let host_path = host_path.ok_or_else(|| {
            Status::internal(format!("{} is no UTF-8", mount.host_path.display()))
        })?;
        let (container_path, read_only) = (mount.container_path, mount.is_read_only);
        mounts.push(Mount { container_path, host_path, read_only });
    }
    Ok(ContainerAllocateResponse { envs, mounts, ..ContainerAllocateResponse::default() })
}

type ListStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl<D, K> DevicePlugin for SizeService<D, K>
where
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    type ListAndWatchStream = ListStream;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(options()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<ListStream>, Status> {
        self.desk.log().say(&format!("the kubelet watches {}", self.size.resource()));
        let watched = WatchedList::of(&self.watched);
        let lists = WatchStream::new(self.desk.list(self.size)).map(Some);
        let ending = WatchStream::new(self.ending.clone()).filter(|is_ending| *is_ending);
        let lists = lists.merge(ending.map(|_| None)).take_while(Option::is_some);
        Ok(Response::new(Box::pin(lists.filter_map(move |list| {
            let _watched = &watched;
            let devices = list?.iter().map(device).collect();
            Some(Ok(ListAndWatchResponse { devices }))
        }))))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let mut container_responses = Vec::new();
        for one in request.into_inner().container_requests {
            let count = usize::try_from(one.allocation_size).unwrap_or(0);
            let (available, must) = (&one.available_device_i_ds, &one.must_include_device_i_ds);
            let device_i_ds = self.desk.preferred(available, must, count).await;
            container_responses.push(ContainerPreferredAllocationResponse { device_i_ds });
        }
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let mut container_responses = Vec::new();
        for one in request.into_inner().container_requests {
            let (has_cdi, refusal) = {
                let node = self.node.borrow();
                (node.has_cdi, node.refusal.clone())
            };
            if let Some(refusal) = refusal {
                return Err(Status::failed_precondition(format!(
                    "{}: {}",
                    refusal.reason.word(),
                    refusal.words
                )));
            }
            let given = self
                .desk
                .give(self.size, &one.devices_ids)
                .await
                .map_err(Status::failed_precondition)?;
            container_responses.push(match self.by {
                GiveBy::Cdi => by_cdi(given),
                GiveBy::Auto if has_cdi => by_cdi(given),
                GiveBy::Auto | GiveBy::Mounts => by_mounts(given)?,
            });
        }
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
