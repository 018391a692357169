//! Server: both sockets, from the first bind to the last answer.
//!
//! The service is bound before the registration, which is what the kubelet waits for; at the end the registration goes
//! first, so that no call comes to a socket that is closing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;

use super::authority::AuthorityStream;
use super::dra::DraService;
use super::health::HealthService;
use super::paths::KubeletSockets;
use super::plugin::NodePlugin;
use super::registration::{REGISTERED, RegistrationService};
use super::socket;
use super::state::AgentState;
use super::wire::agent::agent_server::AgentServer;
use super::wire::dra_v1::dra_plugin_server::DraPluginServer as V1;
use super::wire::dra_v1beta1::dra_plugin_server::DraPluginServer as V1Beta1;
use super::wire::health_v1::dra_resource_health_server::DraResourceHealthServer as HealthV1;
use super::wire::health_v1alpha1::dra_resource_health_server::DraResourceHealthServer as HealthV1Alpha1;
use super::wire::registration::registration_server::RegistrationServer;
use crate::cluster::ClaimSource;
use crate::prepare::{NodeDaemon, NodeDisk};

/// Time for connections to close on which no call runs. A kubelet that hangs is not waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Time between two looks at the sockets' files, which others can remove.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Serves the kubelet until `ending` turns true and what ran has ended.
///
/// # Errors
/// In words, where a socket cannot be bound or a server ends by itself.
pub async fn serve<S, D, K>(
    sockets: &KubeletSockets,
    plugin: Arc<NodePlugin<S, D, K>>,
    state: AgentState,
    ending: watch::Receiver<bool>,
) -> Result<(), String>
where
    S: ClaimSource,
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    let log = plugin.log().clone();
    state.set(REGISTERED, false, "the kubelet has not called yet");
    let registration = RegistrationService {
        driver: plugin.driver().to_owned(),
        endpoint: text(&sockets.service)?,
        state: state.clone(),
        log: log.clone(),
    };
    let health = HealthService {
        pool: plugin.pool().to_owned(),
        cards: plugin.cards(),
        ending: ending.clone(),
        log: log.clone(),
    };
    let claims = DraService(plugin.clone());
    let routes = Routes::new(V1::new(claims.clone()))
        .add_service(V1Beta1::new(claims))
        .add_service(HealthV1::new(health.clone()))
        .add_service(HealthV1Alpha1::new(health))
        .add_service(AgentServer::new(state.clone()));

    let (mut service, service_file) = start(&sockets.service, routes).await?;
    let routes = Routes::new(RegistrationServer::new(registration));
    let (mut registration, registration_file) = start(&sockets.registration, routes).await?;
    log.say(&format!("serves on {}", sockets.service.display()));
    log.say(&format!("waits for the kubelet at {}", sockets.registration.display()));

    let mut ended = ending;
    let failed = tokio::select! {
        _ = ended.wait_for(|is_ending| *is_ending) => None,
        result = &mut service.task => Some(format!("a server has ended: {result:?}")),
        result = &mut registration.task => Some(format!("a server has ended: {result:?}")),
        path = lost([&service_file, &registration_file]) => {
            Some(format!("{path} was removed, or is another's; to be bound again by a new agent"))
        }
    };
    if let Some(words) = failed {
        return Err(words);
    }
    state.set(REGISTERED, false, "the agent ends");
    drop(registration_file);
    registration.stop.send_replace(true);
    service.stop.send_replace(true);
    let patience = plugin.patience();
    if timeout(patience, plugin.idle()).await.is_err() {
        log.say(&format!("a call has not ended within {patience:?}, and is left"));
    }
    let closed = async { tokio::join!(&mut registration.task, &mut service.task) };
    let _ = timeout(LAST_WORDS, closed).await;
    drop(service_file);
    Ok(())
}

/// Waits until one of the sockets cannot be found any more by who looks for it; its path.
async fn lost(files: [&socket::SocketFile; 2]) -> String {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        if let Some(file) = files.iter().find(|file| !file.is_there()) {
            return file.path().display().to_string();
        }
    }
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().filter(|_| path.is_absolute());
    let words = || format!("{} is no absolute path in UTF-8", path.display());
    text.map(str::to_owned).ok_or_else(words)
}

/// A server of one socket.
struct Serving {
    task: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
    /// Has it take no more connections, and end when those there are have closed.
    stop: watch::Sender<bool>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn start(path: &Path, routes: Routes) -> Result<(Serving, socket::SocketFile), String> {
    let (listener, file) = socket::bind(path).await?;
    let (stop, mut stopped) = watch::channel(false);
    let server = Server::builder().add_routes(routes);
    let incoming = UnixListenerStream::new(listener);
    let incoming = incoming.map(|stream| stream.map(AuthorityStream::new));
    let task = tokio::spawn(server.serve_with_incoming_shutdown(incoming, async move {
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    }));
    Ok((Serving { task, stop }, file))
}
