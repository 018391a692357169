//! Command line of `divvy-kube plugin`.

use std::path::PathBuf;

use super::service::GiveBy;
use super::size::DEFAULT_SIZES;
use crate::cluster::SLOTS;

/// Sell shares of a node's GPUs by sizes, as a device plugin.
///
/// For clusters without shared devices, which are those before Kubernetes 1.34. Each size is a resource that pods ask for, as
/// `divvy.dev/gpu-8g-30c` for 8 GiB and 30 % of a card's time. Never beside `divvy-kube agent` on one node, nor beside
/// another plugin that sells the same cards.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PluginArgs {
    /// Name of the node
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub(super) node_name: Option<String>,

    /// A size, GiB of memory and percent of the time; may be repeated
    #[arg(long = "size", value_name = "SIZE", default_values = DEFAULT_SIZES)]
    pub(super) sizes: Vec<String>,

    /// Shares that may be on a card at a time
    #[arg(long, value_name = "N", default_value_t = SLOTS, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) slots: u32,

    /// How a container is given its share
    #[arg(long, value_name = "WAY", value_enum, default_value_t = GiveBy::Auto)]
    pub(super) give_by: GiveBy,

    /// The kubelet's directory
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub(super) kubelet_root: PathBuf,

    /// Directory of CDI files, which the container runtime reads
    #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
    pub(super) cdi: PathBuf,

    /// Directory of the plugin's own state; the same path here as on the host, kept over reboots, and the agent's where there was one
    #[arg(long, value_name = "DIR", default_value = "/var/lib/divvy/kube")]
    pub(super) state: PathBuf,

    /// Socket of the node's daemon
    #[arg(long, value_name = "SOCKET", default_value = "/run/divvy/daemon.sock")]
    pub(super) daemon: PathBuf,

    /// Path of libdivvy.so; the same here as on the host
    #[arg(long, value_name = "FILE", default_value = "/opt/divvy/lib/libdivvy.so")]
    pub(super) library: PathBuf,

    /// Vendor and class of the CDI devices that bring a card's nodes and the driver's libraries
    #[arg(long, value_name = "KIND", default_value = "nvidia.com/gpu")]
    pub(super) card_kind: String,

    /// Ask the plugin that runs whether it is ready, and end: a readiness probe. The code is 1 where it is not
    #[arg(long)]
    pub(super) ready: bool,

    /// Print the answer of --ready as JSON
    #[arg(long, requires = "ready")]
    pub(super) json: bool,
}

const EXAMPLES: &str = "Examples:
  NODE_NAME=n1 divvy-kube plugin
  NODE_NAME=n1 divvy-kube plugin --size 8g-30c --size 40g-50c
  divvy-kube plugin --ready

Exit codes:
  0    ended as it was told to, or ready
  1    not ready, or no plugin answers (--ready)
  2    the command line, or its environment, cannot be understood; nothing was started
  125  a socket cannot be bound, another sells the node's cards, or no API server is configured";
