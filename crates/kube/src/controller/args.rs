//! Command line of `divvy-kube controller`.

use std::time::Duration;

use super::lease::LeaseTimes;
use super::preempt::PreemptOptions;
use super::templates::TemplateTimes;

/// Make templates for pods written for HAMi, and preempt for claims, in a cluster.
///
/// Several may run; the one that holds the lease writes. Speaks to the API server that KUBECONFIG or the pod's service account
/// names, until SIGTERM. What happens is told on standard error, a line each.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ControllerArgs {
    /// Make no templates
    #[arg(long)]
    pub(super) no_templates: bool,

    /// Time after which a template that no pod names is removed
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(super) keep_templates: u32,

    /// Evict pods of lower priority for a pod that waits for a share; not where the scheduler preempts for claims itself
    #[arg(long)]
    pub(super) preempt: bool,

    /// A device class of yours whose devices are all of Divvy's cards, beside those that it brings; may be repeated
    #[arg(long = "class", value_name = "NAME", requires = "preempt")]
    pub(super) classes: Vec<String>,

    /// Namespace of the lease
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "divvy-system")]
    pub(super) namespace: String,

    /// Name of this instance, such as the pod's
    #[arg(long, value_name = "NAME", env = "POD_NAME", default_value = "divvy-controller")]
    pub(super) pod_name: String,

    /// Time after which the lease of an instance that is gone is taken by another
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u32).range(2..=600))]
    pub(super) lease: u32,

    /// Print what happens as JSON, an object a line
    // Manifests have it, so that arguments added to theirs may have it again.
    #[arg(long, overrides_with = "json")]
    pub(super) json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy-kube controller
  divvy-kube controller --no-templates --preempt --json

Exit codes:
  0    ended as it was told to
  2    the command line, or its environment, cannot be understood; nothing was started
  125  no API server is configured";

impl ControllerArgs {
    pub(super) fn lease(&self) -> LeaseTimes {
        LeaseTimes { duration: seconds(self.lease) }
    }

    /// Times of the templates, where any are made.
    pub(super) fn templates(&self) -> Option<TemplateTimes> {
        (!self.no_templates).then(|| TemplateTimes { idle: seconds(self.keep_templates) })
    }

    /// Options of preemption, where there is any.
    pub(super) fn preempts(&self) -> Option<PreemptOptions> {
        self.preempt.then(|| PreemptOptions { classes: self.classes.clone() })
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}
