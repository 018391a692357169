//! Registration: what the kubelet is told on the socket that it finds, and what it tells.
//!
//! A refusal does not end the agent. The kubelet tries again by itself as long as the socket is there, and an agent that
//! ended would take the way to unprepare claims from pods that run. It is said, and the agent is not ready.

use tonic::{Request, Response, Status};

use super::state::AgentState;
use super::wire::registration::registration_server::Registration;
use super::wire::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use crate::event::EventLog;

/// Name of the condition.
pub const REGISTERED: &str = "registered";
/// Services, in the order in which the kubelet is to prefer them.
const SERVICES: [&str; 4] =
    ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"];

/// The service.
#[derive(Clone, Debug)]
pub(super) struct RegistrationService {
    pub(super) driver: String,
    /// Path of the other socket.
    pub(super) endpoint: String,
    pub(super) state: AgentState,
    pub(super) log: EventLog,
}

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: self.driver.clone(),
            endpoint: self.endpoint.clone(),
            supported_versions: SERVICES.map(str::to_owned).to_vec(),
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error } = request.into_inner();
        let words = match plugin_registered {
            true => format!("the kubelet has registered {}", self.driver),
            false => format!("the kubelet refuses {}, and is to try again: {error}", self.driver),
        };
        // A kubelet that restarts registers again, which is worth a line as well.
        self.log.say(&words);
        self.state.set(REGISTERED, plugin_registered, words);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
