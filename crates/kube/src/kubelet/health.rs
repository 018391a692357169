//! Health of the node's cards: a list that whoever looks at the cards renews, and a stream of it for the kubelet.
//!
//! Promises: each message is the whole list; the stream ends with the agent. Nothing is sent before the cards were looked at.

use std::pin::Pin;
use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt, wrappers::WatchStream};
use tonic::{Request, Response, Status};

use super::wire::{health_v1, health_v1alpha1};
use crate::cards::{CardHealth, NodeCard, NodeCards};
use crate::event::EventLog;

/// Age at which the kubelet takes a card for unknown. A list is to be sent anew several times in that.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest message that the kubelet shows.
const MOST_MESSAGE_CHARS: usize = 1024;

/// The stream's service.
#[derive(Clone, Debug)]
pub(super) struct HealthService {
    pub(super) pool: String,
    pub(super) cards: watch::Receiver<NodeCards>,
    /// Whether the agent ends.
    pub(super) ending: watch::Receiver<bool>,
    pub(super) log: EventLog,
}

/// Message of either version.
type HealthStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl HealthService {
    fn watch<T: Send + 'static>(
        &self,
        version: &str,
        message: impl Fn(&str, &NodeCards, i64) -> T + Send + 'static,
    ) -> HealthStream<T> {
        self.log.say(&format!("the kubelet watches the cards' health, {version}"));
        let pool = self.pool.clone();
        let cards = WatchStream::new(self.cards.clone()).map(Some);
        let ending = WatchStream::new(self.ending.clone()).filter(|is_ending| *is_ending);
        let lists = cards.merge(ending.map(|_| None)).take_while(Option::is_some);
        Box::pin(lists.filter_map(move |list| {
            let list = list?;
            let since = list.checked?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Some(Ok(message(&pool, &list, i64::try_from(since.as_secs()).unwrap_or(i64::MAX))))
        }))
    }
}

fn cut(message: &str) -> String {
    message.chars().take(MOST_MESSAGE_CHARS).collect()
}

macro_rules! serve {
    ($wire:ident, $version:literal) => {
        #[tonic::async_trait]
        impl $wire::dra_resource_health_server::DraResourceHealth for HealthService {
            type NodeWatchResourcesStream = HealthStream<$wire::NodeWatchResourcesResponse>;

            async fn node_watch_resources(
                &self,
                _: Request<$wire::NodeWatchResourcesRequest>,
            ) -> Result<Response<Self::NodeWatchResourcesStream>, Status> {
                use $wire::{DeviceHealth, DeviceIdentifier, HealthStatus};
                let stream = self.watch($version, |pool, list, last_updated_time| {
                    let device = |card: &NodeCard| DeviceHealth {
                        device: Some(DeviceIdentifier {
                            pool_name: pool.to_owned(),
                            device_name: card.device.clone(),
                        }),
                        health: match card.health {
                            CardHealth::Unknown => HealthStatus::Unknown,
                            CardHealth::Healthy => HealthStatus::Healthy,
                            CardHealth::Unhealthy => HealthStatus::Unhealthy,
                        }
                        .into(),
                        last_updated_time,
                        health_check_timeout_seconds: HEALTH_TIMEOUT.as_secs().cast_signed(),
                        message: cut(&card.message),
                    };
                    let devices = list.cards.iter().map(device).collect();
                    $wire::NodeWatchResourcesResponse { devices }
                });
                Ok(Response::new(stream))
            }
        }
    };
}

serve!(health_v1, "v1");
serve!(health_v1alpha1, "v1alpha1");
