//! Connection to the API server, by a file that KUBECONFIG names or by the pod's own account.
//!
//! Promises: nothing is asked before the client is used; nothing is tried again behind its user's back.

use std::time::Duration;

use kube::config::{Config, InferConfigError};

use crate::lenient;

/// Time for a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A client of the API server.
///
/// # Errors
/// In words, with the fix.
pub(crate) async fn connect() -> Result<kube::Client, String> {
    let config = Config::infer().await.map_err(|error: InferConfigError| {
        format!(
            "no API server is configured; run in a pod with a service account, or set KUBECONFIG: {error}"
        )
    })?;
    lenient::client(bounded(config))
        .map_err(|error| format!("a client of the API server cannot be made: {error}"))
}

/// A configuration with the time for a connection, and nothing that is tried again.
pub(crate) fn bounded(mut config: Config) -> Config {
    config.connect_timeout = Some(CONNECT_PATIENCE);
    // Users have paces of their own, and the kubelet asks again.
    config.default_retry = false;
    config
}
