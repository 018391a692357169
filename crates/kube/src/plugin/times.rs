//! Times of the plugin; tests have shorter ones.

use std::time::Duration;

/// Times.
#[derive(Clone, Copy, Debug)]
pub(super) struct PluginTimes {
    /// Between two looks at the sockets' files.
    pub(super) look: Duration,
    /// Between two lists of what pods have.
    pub(super) poll: Duration,
    /// After which devices are taken back that were given to a pod which no list has ever named: it was refused, or has ended at
    /// once, or has them in an init container alone.
    pub(super) unseen: Duration,
    /// After which a kubelet that has begun knows its pods.
    pub(super) begins: Duration,
    /// How long a daemon that is away is waited for when a pod is admitted.
    pub(super) patience: Duration,
    /// How long the kubelet has for an answer.
    pub(super) answer: Duration,
}

impl Default for PluginTimes {
    fn default() -> Self {
        Self {
            look: Duration::from_secs(1),
            poll: Duration::from_secs(5),
            unseen: Duration::from_secs(60),
            begins: Duration::from_secs(300),
            patience: Duration::from_secs(20),
            answer: Duration::from_secs(10),
        }
    }
}
