//! Command line of `divvy-kube agent`.

use std::path::PathBuf;

use super::node::NodeArgs;
use super::probe::ProbeArgs;
use crate::cluster::ClusterOptions;

/// Prepare claims on a node, as the kubelet asks.
///
/// Registers the driver at the kubelet and serves it until SIGTERM. Reads each claim from the API server that KUBECONFIG or
/// the pod's service account names, and has the node's daemon make its tenants. What happens is told on standard error, a
/// line each.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,

    /// UID of the agent's pod, so that two may run while one replaces the other
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pub(super) pod_uid: Option<String>,

    /// Serve metrics of claims and their pods at this IP address, at port 19438 unless another is named
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,

    /// The kubelet's socket of which pods have what, for metrics
    #[arg(
        long,
        value_name = "SOCKET",
        default_value = "/var/lib/kubelet/pod-resources/kubelet.sock"
    )]
    pub(super) pod_resources: PathBuf,

    /// A container runtime that somebody vouches for, which knows CDI, as `kata` of kata://3.0.0; may be repeated
    #[arg(long = "runtime-with-cdi", value_name = "NAME")]
    pub(super) runtimes_with_cdi: Vec<String>,

    /// A card of the node, its device's name and its UUID, in the place of those that the daemon names, and not published; may
    /// be repeated
    #[arg(long = "card", value_name = "NAME=UUID")]
    pub(super) card: Vec<String>,

    #[command(flatten)]
    pub(super) probe: ProbeArgs,
}

const EXAMPLES: &str = "Examples:
  NODE_NAME=n1 divvy-kube agent
  divvy-kube agent --ready
  divvy-kube agent --alive

Exit codes:
  0    ended as it was told to, or ready (--ready), or there (--alive)
  1    not ready (--ready), or no agent answers (--ready, --alive)
  2    the command line, or its environment, cannot be understood; nothing was started
  125  a socket cannot be bound, or no API server is configured";

impl AgentArgs {
    /// Settings of the cluster's side.
    pub(super) fn cluster(&self, node: &str) -> ClusterOptions {
        let options = ClusterOptions::of(node, self.node.state.join("publisher.lock"));
        let instance = self.pod_uid.clone().unwrap_or_else(|| node.to_owned());
        ClusterOptions {
            instance,
            terms: self.node.terms(),
            runtimes: self.runtimes_with_cdi.clone(),
            ..options
        }
    }

    /// Cards that were named, as devices and UUIDs.
    ///
    /// # Errors
    /// In words, with the value.
    pub(super) fn cards(&self) -> Result<Vec<(String, String)>, String> {
        let mut cards: Vec<(String, String)> = Vec::new();
        for text in &self.card {
            let card = text.split_once('=').filter(|(device, uuid)| {
                !device.is_empty() && (uuid.starts_with("GPU-") || uuid.starts_with("MIG-"))
            });
            let (device, uuid) = card.ok_or_else(|| {
                format!("--card {text}: write a device's name and a UUID, such as gpu-0=GPU-5f…")
            })?;
            if cards.iter().any(|(other, _)| other == device) {
                return Err(format!("--card {text}: {device} is named twice"));
            }
            cards.push((device.to_owned(), uuid.to_owned()));
        }
        Ok(cards)
    }
}
