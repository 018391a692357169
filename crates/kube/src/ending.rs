//! End of a program that serves: SIGTERM, or SIGINT at a terminal.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::event::EventLog;
use crate::failure::{ServeFailure, failed};

/// Words of one that the kubelet calls.
pub(crate) const AFTER_CALLS: &str =
    "takes no more calls, and ends when those that run are answered";

/// Turns true when the process is told to end, which is said with `words` on what it does then.
///
/// # Errors
/// [`ServeFailure::Failed`].
pub(crate) fn told_to_end(
    log: &EventLog,
    words: &'static str,
) -> Result<watch::Receiver<bool>, ServeFailure> {
    let (ending_tx, ending) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed("SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed("SIGINT"))?;
    let told = log.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        told.tell("ending", &format!("{name}: {words}"));
        ending_tx.send_replace(true);
    });
    Ok(ending)
}
