//! State of the agent: conditions, each a word, that must all be met for it to be ready.
//!
//! Promises: a condition that was named and never set is not met. The list is what `divvy-kube agent --ready` prints.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tonic::{Request, Response, Status};

use super::wire::agent;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCondition {
    /// Whether it is met.
    pub met: bool,
    /// The same for people.
    pub message: String,
}

/// Conditions of an agent, by their names; a handle, of which all copies are one.
#[derive(Clone, Debug, Default)]
pub struct AgentState(Arc<Mutex<BTreeMap<&'static str, AgentCondition>>>);

impl AgentState {
    /// Sets a condition; whether that changed anything.
    pub fn set(&self, name: &'static str, met: bool, message: impl Into<String>) -> bool {
        let new = AgentCondition { met, message: message.into() };
        let mut all = self.all();
        if all.get(name) == Some(&new) {
            return false;
        }
        all.insert(name, new);
        true
    }

    /// Conditions by their names.
    pub fn conditions(&self) -> Vec<(&'static str, AgentCondition)> {
        self.all().iter().map(|(name, condition)| (*name, condition.clone())).collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<&'static str, AgentCondition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tonic::async_trait]
impl agent::agent_server::Agent for AgentState {
    async fn state(
        &self,
        _: Request<agent::StateRequest>,
    ) -> Result<Response<agent::StateResponse>, Status> {
        let condition = |(name, it): (&&str, &AgentCondition)| agent::Condition {
            name: (*name).to_owned(),
            met: it.met,
            message: it.message.clone(),
        };
        let conditions = self.all().iter().map(condition).collect();
        Ok(Response::new(agent::StateResponse { pid: std::process::id(), conditions }))
    }
}
