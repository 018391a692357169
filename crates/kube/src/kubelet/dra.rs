//! The kubelet's service for claims, in two versions over one [`NodePlugin`].

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::plugin::{ClaimName, NodePlugin};
use super::wire::{dra_v1, dra_v1beta1};
use crate::cluster::ClaimSource;
use crate::prepare::{NodeDaemon, NodeDisk, PreparedShare};

/// The service.
#[derive(Debug)]
pub(super) struct DraService<S, D, K>(pub(super) Arc<NodePlugin<S, D, K>>);

impl<S, D, K> Clone for DraService<S, D, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The request without its alternative: the kubelet knows no other name.
fn base(request: &str) -> String {
    request.split('/').next().unwrap_or_default().to_owned()
}

fn device_v1(share: PreparedShare) -> dra_v1::Device {
    dra_v1::Device {
        request_names: vec![base(&share.request)],
        pool_name: share.pool,
        device_name: share.device,
        cdi_device_ids: share.cdi_devices,
        share_id: share.share_id,
    }
}

fn device_v1beta1(share: PreparedShare) -> dra_v1beta1::Device {
    dra_v1beta1::Device {
        request_names: vec![base(&share.request)],
        pool_name: share.pool,
        device_name: share.device,
        cdi_device_ids: share.cdi_devices,
    }
}

macro_rules! serve {
    ($wire:ident, $device:ident) => {
        impl From<$wire::Claim> for ClaimName {
            fn from(claim: $wire::Claim) -> Self {
                let $wire::Claim { namespace, uid, name } = claim;
                Self { uid, namespace, name }
            }
        }

        #[tonic::async_trait]
        impl<S, D, K> $wire::dra_plugin_server::DraPlugin for DraService<S, D, K>
        where
            S: ClaimSource,
            D: NodeDaemon + Send + Sync + 'static,
            K: NodeDisk + Send + Sync + 'static,
        {
            async fn node_prepare_resources(
                &self,
                request: Request<$wire::NodePrepareResourcesRequest>,
            ) -> Result<Response<$wire::NodePrepareResourcesResponse>, Status> {
                let names = request.into_inner().claims.into_iter().map(Into::into).collect();
                let answers = self.0.prepare(names).await.into_iter();
                let claims = answers.map(|(uid, result)| {
                    let (devices, error) = match result {
                        Ok(shares) => (shares.into_iter().map($device).collect(), String::new()),
                        Err(error) => (Vec::new(), error.to_string()),
                    };
                    (uid, $wire::NodePrepareResourceResponse { devices, error })
                });
                let claims = claims.collect();
                Ok(Response::new($wire::NodePrepareResourcesResponse { claims }))
            }

            async fn node_unprepare_resources(
                &self,
                request: Request<$wire::NodeUnprepareResourcesRequest>,
            ) -> Result<Response<$wire::NodeUnprepareResourcesResponse>, Status> {
                let names = request.into_inner().claims.into_iter().map(Into::into).collect();
                let answers = self.0.unprepare(names).await.into_iter();
                let claims = answers.map(|(uid, result)| {
                    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
                    (uid, $wire::NodeUnprepareResourceResponse { error })
                });
                let claims = claims.collect();
                Ok(Response::new($wire::NodeUnprepareResourcesResponse { claims }))
            }
        }
    };
}

serve!(dra_v1, device_v1);
serve!(dra_v1beta1, device_v1beta1);

#[cfg(test)]
mod tests {
    use super::base;

    #[test]
    fn a_request_is_named_without_its_alternative() {
        assert_eq!((base("gpu"), base("gpu/large")), ("gpu".to_owned(), "gpu".to_owned()));
    }
}
