//! Page of the agent and its claims, made now and then for whoever asks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::agent::AgentFacts;
use super::{page, pods};
use crate::cluster::HeldClaims;

/// Time for which a page is good.
const PERIOD: Duration = Duration::from_secs(5);

/// The page.
pub(crate) struct ClaimPage<C> {
    node: String,
    claims: Arc<C>,
    agent: AgentFacts,
    /// The kubelet's socket.
    pods: PathBuf,
    made: Mutex<Option<(Instant, String)>>,
}

impl<C> std::fmt::Debug for ClaimPage<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimPage").field("pods", &self.pods).finish_non_exhaustive()
    }
}

impl<C: HeldClaims> ClaimPage<C> {
    /// One of an agent and the claims that `claims` holds, with pods by the socket `pods`.
    pub(crate) fn new(node: &str, agent: AgentFacts, claims: Arc<C>, pods: PathBuf) -> Self {
        Self { node: node.to_owned(), claims, agent, pods, made: Mutex::new(None) }
    }

    /// Its text.
    ///
    /// # Errors
    /// In words, where the claims are not known.
    pub(crate) async fn text(&self) -> Result<String, String> {
        // Others that ask meanwhile wait for the one that is being made.
        let mut made = self.made.lock().await;
        if let Some((at, text)) = &*made
            && at.elapsed() < PERIOD
        {
            return Ok(text.clone());
        }
        let held = self.claims.held().await.map_err(|error| error.to_string())?;
        let claims = page::text(&self.node, &held, &pods::list(&self.pods).await);
        let text = self.agent.text() + &claims;
        *made = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}
