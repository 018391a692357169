//! Command line of `divvy-kube explain`.

/// Say why a pod with a share of a GPU waits.
///
/// Reads the pod, its claims, the cards that nodes publish and what claims have of them, from the API server that KUBECONFIG
/// names, with your own rights. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Name of the pod
    #[arg(value_name = "POD")]
    pub(super) pod: String,

    /// Its namespace, in the place of the context's
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,

    /// Context of the configuration, in the place of the current one
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,

    /// Print what was found as JSON
    #[arg(long)]
    pub(super) json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy-kube explain train-7
  divvy-kube explain -n team train-7 --json

Exit codes:
  0    nothing of Divvy's is in the pod's way
  1    the pod waits, and for what is said
  2    the command line cannot be understood
  125  the API server does not answer, or there is no such pod
  141  whoever read standard output closed it";
