//! Command line of `divvy-kube plugin`.

use super::service::GiveBy;
use super::size::DEFAULT_SIZES;
use crate::agent::{NodeArgs, ProbeArgs};

/// Sell shares of a node's GPUs by sizes, as a device plugin.
///
/// For clusters without shared devices, which are those before Kubernetes 1.35. Each size is a resource that pods ask for, as
/// `divvy.dev/gpu-8g-30c` for 8 GiB and 30 % of a card's time. Never beside `divvy-kube agent` on one node, nor beside
/// another plugin that sells the same cards.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PluginArgs {
    #[command(flatten)]
    pub(super) node: NodeArgs,

    /// A size, GiB of memory and percent of the time; may be repeated
    #[arg(long = "size", value_name = "SIZE", default_values = DEFAULT_SIZES)]
    pub(super) sizes: Vec<String>,

    /// How a container is given its share
    #[arg(long, value_name = "WAY", value_enum, default_value_t = GiveBy::Auto)]
    pub(super) give_by: GiveBy,

    #[command(flatten)]
    pub(super) probe: ProbeArgs,
}

const EXAMPLES: &str = "Examples:
  NODE_NAME=n1 divvy-kube plugin
  NODE_NAME=n1 divvy-kube plugin --size 8g-30c --size 40g-50c
  divvy-kube plugin --ready
  divvy-kube plugin --alive

Exit codes:
  0    ended as it was told to, or ready (--ready), or there (--alive)
  1    not ready (--ready), or no plugin answers (--ready, --alive)
  2    the command line, or its environment, cannot be understood; nothing was started
  125  a socket cannot be bound, another sells the node's cards, or no API server is configured";
