//! Claims: read from the API server, and turned into what the prepare core takes.
//!
//! Promises: a claim is taken for the one that the kubelet names by its UID alone; results of other drivers are left to
//! them; nothing of an allocation is guessed, and what is missing is named.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::resource::v1::{
    DeviceAllocationConfiguration, DeviceRequestAllocationResult, ResourceClaim,
};

use crate::cards::NodeCard;
use crate::lenient::Item;
use crate::prepare::{
    AllocatedClaim, AllocatedShare, DriverConfig, ParametersOf, PrepareError, PrepareReason,
};
use crate::quantity;

/// How long the API server has for one claim. The kubelet gives a call 45 seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Place where claims are read.
pub trait ClaimSource: Send + Sync + 'static {
    /// Reads a claim.
    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<ResourceClaim, PrepareError>> + Send;
}

/// Claims of an API server.
#[derive(Clone)]
pub struct KubeClaims {
    client: kube::Client,
}

impl std::fmt::Debug for KubeClaims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KubeClaims")
    }
}

impl KubeClaims {
    /// Those that `client` may read.
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }
}

impl ClaimSource for KubeClaims {
    async fn get(&self, namespace: &str, name: &str) -> Result<ResourceClaim, PrepareError> {
        let claims = kube::Api::<Item<ResourceClaim>>::namespaced(self.client.clone(), namespace);
        match tokio::time::timeout(PATIENCE, claims.get(name)).await {
            Ok(Ok(claim)) => claim.read().map_err(|words| {
                PrepareError::new(PrepareReason::BadClaim, format!("claim {words}"))
            }),
            Ok(Err(error)) => Err(failure(namespace, name, &error)),
            Err(_) => Err(PrepareError::new(
                PrepareReason::ApiUnreachable,
                format!("claim {namespace}/{name}: no answer within {PATIENCE:?}"),
            )),
        }
    }
}

fn failure(namespace: &str, name: &str, error: &kube::Error) -> PrepareError {
    let (reason, why) = match error {
        kube::Error::Api(status) => {
            let reason = match status.code {
                404 => PrepareReason::ClaimChanged,
                401 | 403 => PrepareReason::ApiRefused,
                _ => PrepareReason::ApiUnreachable,
            };
            (reason, format!("{} ({})", status.message, status.code))
        }
        other => (PrepareReason::ApiUnreachable, chain(other)),
    };
    PrepareError::new(reason, format!("claim {namespace}/{name}: {why}"))
}

/// An error with its causes, of which each says what those before it do not.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}

/// The part of a claim that is `driver`'s, if it is the claim of this UID. `card_of` knows the cards of the node's `pool`.
///
/// # Errors
/// [`PrepareReason::ClaimChanged`], [`PrepareReason::BadClaim`], and those of `card_of`.
pub fn allocated(
    claim: &ResourceClaim,
    uid: &str,
    driver: &str,
    pool: &str,
    card_of: impl Fn(&str) -> Result<NodeCard, PrepareError>,
) -> Result<AllocatedClaim, PrepareError> {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let (namespace, name) = (text(&claim.metadata.namespace), text(&claim.metadata.name));
    let changed = |why: String| {
        let words = format!("claim {namespace}/{name} {why}");
        Err(PrepareError::new(PrepareReason::ClaimChanged, words))
    };
    let found = text(&claim.metadata.uid);
    if found != uid {
        return changed(format!("has UID {found:?}, the pod's had {uid:?}"));
    }
    let status = claim.status.as_ref();
    let Some(allocation) = status.and_then(|status| status.allocation.as_ref()) else {
        return changed("is not allocated".to_owned());
    };
    let devices = allocation.devices.as_ref();
    let results = devices.and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    let config = devices.and_then(|devices| devices.config.as_deref()).unwrap_or_default();
    let shares = results.iter().filter(|result| result.driver == driver);
    Ok(AllocatedClaim {
        uid: found,
        shares: shares.map(|result| share(result, pool, &card_of)).collect::<Result<_, _>>()?,
        config: config.iter().filter_map(|config| parameters(config, driver)).collect(),
        namespace,
        name,
    })
}

/// Does so with a claim's bytes as the API server sends them, and believes their UID; for fuzzers.
///
/// # Errors
/// In words.
pub fn allocated_of(bytes: &[u8], card: &NodeCard) -> Result<AllocatedClaim, String> {
    let claim: ResourceClaim = crate::lenient::object(bytes)?;
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let card_of = |_: &str| Ok(card.clone());
    allocated(&claim, &uid, crate::driver::DRIVER, "node", card_of)
        .map_err(|error| error.to_string())
}

fn share(
    result: &DeviceRequestAllocationResult,
    pool: &str,
    card_of: &impl Fn(&str) -> Result<NodeCard, PrepareError>,
) -> Result<AllocatedShare, PrepareError> {
    let request = &result.request;
    let bad = |why: String| {
        PrepareError::new(PrepareReason::BadClaim, format!("request {request:?}: {why}"))
    };
    if result.pool != pool {
        let words = format!(
            "device {} is of pool {:?}, this node's is {pool:?}",
            result.device, result.pool
        );
        return Err(bad(words));
    }
    if result.admin_access == Some(true) {
        return Err(bad("adminAccess is not offered; ask for a share".to_owned()));
    }
    let consumed = |name: &str| {
        let quantity = result.consumed_capacity.as_ref().and_then(|all| all.get(name));
        let quantity = quantity.ok_or_else(|| {
            bad(format!("no consumedCapacity {name}; the API server and the scheduler need DRAConsumableCapacity"))
        })?;
        // A request of 30.5 has 30: the cards' policies round nothing (slices/pool.rs).
        quantity::given(&quantity.0)
            .map_err(|why| bad(format!("consumedCapacity {name} {} {why}", quantity.0)))
    };
    let (memory_bytes, cores) = (consumed("memory")?, consumed("cores")?);
    let NodeCard { gpu_uuid, offer, .. } = card_of(&result.device)?;
    Ok(AllocatedShare {
        request: request.clone(),
        pool: result.pool.clone(),
        device: result.device.clone(),
        gpu_uuid,
        share_id: result.share_id.clone(),
        memory_bytes,
        cores_percent: u32::try_from(cores).unwrap_or(u32::MAX),
        offer,
    })
}

fn parameters(config: &DeviceAllocationConfiguration, driver: &str) -> Option<DriverConfig> {
    let opaque = config.opaque.as_ref().filter(|opaque| opaque.driver == driver)?;
    // A source that is not known is bound as a claim is.
    let of = if config.source == "FromClass" { ParametersOf::Class } else { ParametersOf::Claim };
    let requests = config.requests.clone().unwrap_or_default();
    Some(DriverConfig { of, requests, parameters: opaque.parameters.0.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DRIVER: &str = "gpu.divvy.dev";

    fn read(claim: &Value) -> Result<AllocatedClaim, PrepareError> {
        let claim: ResourceClaim = serde_json::from_value(claim.clone()).unwrap();
        allocated(&claim, "uid-1", DRIVER, "node", |device| match device {
            "gpu-0" => Ok(NodeCard { gpu_uuid: "GPU-0".to_owned(), ..NodeCard::default() }),
            _ => Err(PrepareError::new(PrepareReason::UnknownCard, device)),
        })
    }

    fn claim() -> Value {
        json!({
            "metadata": { "namespace": "team", "name": "train", "uid": "uid-1" },
            "spec": {},
            "status": { "allocation": { "devices": {
                "results": [
                    { "request": "gpu", "driver": DRIVER, "pool": "node", "device": "gpu-0", "shareID": "s",
                      "consumedCapacity": { "memory": "8Gi", "cores": "30", "slots": "1" } },
                    { "request": "nic", "driver": "nic.example", "pool": "other", "device": "eth0" },
                ],
                "config": [
                    { "source": "FromClass", "opaque": { "driver": DRIVER, "parameters": { "a": 1 } } },
                    { "source": "FromClaim", "requests": ["gpu"],
                      "opaque": { "driver": DRIVER, "parameters": { "b": 2 } } },
                    { "source": "FromClaim", "opaque": { "driver": "nic.example", "parameters": {} } },
                ],
            } } },
        })
    }

    #[test]
    fn what_is_ours_is_taken_as_allocated() {
        let read = read(&claim()).unwrap();
        let share = AllocatedShare {
            request: "gpu".to_owned(),
            pool: "node".to_owned(),
            device: "gpu-0".to_owned(),
            gpu_uuid: "GPU-0".to_owned(),
            share_id: Some("s".to_owned()),
            memory_bytes: 8 << 30,
            cores_percent: 30,
            offer: None,
        };
        assert_eq!((&*read.uid, &*read.namespace, &*read.name), ("uid-1", "team", "train"));
        assert_eq!(read.shares, [share]);
        let config = |of, requests: &[&str], parameters| DriverConfig {
            of,
            requests: requests.iter().map(|&it| it.to_owned()).collect(),
            parameters,
        };
        assert_eq!(
            read.config,
            [
                config(ParametersOf::Class, &[], json!({ "a": 1 })),
                config(ParametersOf::Claim, &["gpu"], json!({ "b": 2 })),
            ]
        );
    }

    #[test]
    fn what_is_missing_or_another_is_named() {
        use PrepareReason::{BadClaim, ClaimChanged, UnknownCard};
        let result = "/status/allocation/devices/results/0";
        for (place, value, reason, part) in [
            ("/metadata/uid", json!("uid-2"), ClaimChanged, "\"uid-2\""),
            ("/status", json!({}), ClaimChanged, "not allocated"),
            ("/pool", json!("node-2"), BadClaim, "\"node-2\""),
            ("/device", json!("gpu-9"), UnknownCard, "gpu-9"),
            ("/adminAccess", json!(true), BadClaim, "adminAccess"),
            ("/consumedCapacity", json!(null), BadClaim, "DRAConsumableCapacity"),
            ("/consumedCapacity", json!({ "memory": "-1", "cores": "1" }), BadClaim, "memory -1"),
            ("/consumedCapacity", json!({ "memory": "1Gi" }), BadClaim, "cores"),
        ] {
            let mut claim = claim();
            let whole = claim.pointer(place).is_some();
            let (parent, key) = place.rsplit_once('/').unwrap();
            let parent = if whole { parent.to_owned() } else { format!("{result}{parent}") };
            claim.pointer_mut(&parent).unwrap()[key] = value;
            let error = read(&claim).unwrap_err();
            assert_eq!(error.reason, reason, "{error}");
            assert!(error.words.contains(part), "{error}");
        }
    }
}
