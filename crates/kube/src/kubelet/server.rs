//! Server: both sockets, from the first bind to the last answer.
//!
//! The service is bound before the registration, which is what the kubelet waits for; at the end the registration goes
//! first, so that no call comes to a socket that is closing.

use std::path::{Path, PathBuf};
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

    let mut service = serve_socket(&sockets.service, routes).await?;
    let routes = Routes::new(RegistrationServer::new(registration));
    let mut registration = serve_socket(&sockets.registration, routes).await?;
    log.say(&format!("serves on {}", sockets.service.display()));
    log.say(&format!("waits for the kubelet at {}", sockets.registration.display()));

    let mut ended = ending;
    let failed = tokio::select! {
        _ = ended.wait_for(|is_ending| *is_ending) => None,
        words = lost([&service, &registration]) => Some(words),
    };
    if let Some(words) = failed {
        return Err(words);
    }
    state.set(REGISTERED, false, "the agent ends");
    registration.stop();
    service.stop.send_replace(true);
    let patience = plugin.patience();
    if timeout(patience, plugin.idle()).await.is_err() {
        log.say(&format!("a call has not ended within {patience:?}, and is left"));
    }
    let closed = async { tokio::join!(&mut registration.task, &mut service.task) };
    let _ = timeout(LAST_WORDS, closed).await;
    Ok(())
}

/// Waits until one of the servers has ended, or its socket cannot be found any more by who looks for it; in words.
async fn lost(sockets: [&ServedSocket; 2]) -> String {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        for socket in sockets {
            let path = socket.path.display();
            if socket.has_ended() {
                return format!("the server of {path} has ended");
            }
            if !socket.is_there() {
                return format!(
                    "{path} was removed, or is another's; to be bound again by a new agent"
                );
            }
        }
    }
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().filter(|_| path.is_absolute());
    let words = || format!("{} is no absolute path in UTF-8", path.display());
    text.map(str::to_owned).ok_or_else(words)
}

/// A server of one socket, which ends with this.
#[derive(Debug)]
pub(crate) struct ServedSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
    /// Has it take no more connections, and end when those there are have closed.
    stop: watch::Sender<bool>,
    file: Option<socket::SocketFile>,
}

impl Drop for ServedSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ServedSocket {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its path still leads here.
    pub(crate) fn is_there(&self) -> bool {
        self.file.as_ref().is_some_and(socket::SocketFile::is_there)
    }

    /// Whether its server has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Removes the socket, and has the server end when its connections have closed.
    fn stop(&mut self) {
        self.file = None;
        self.stop.send_replace(true);
    }

    /// Ends it, with so much time for its connections.
    pub(crate) async fn end(mut self, patience: Duration) {
        self.stop();
        let _ = timeout(patience, &mut self.task).await;
    }
}

/// Serves on a socket.
///
/// # Errors
/// In words, where it cannot be bound.
pub(crate) async fn serve_socket(path: &Path, routes: Routes) -> Result<ServedSocket, String> {
    let (listener, file) = socket::bind(path).await?;
    let (stop, mut stopped) = watch::channel(false);
    let server = Server::builder().add_routes(routes);
    let incoming = UnixListenerStream::new(listener);
    let incoming = incoming.map(|stream| stream.map(AuthorityStream::new));
    let task = tokio::spawn(server.serve_with_incoming_shutdown(incoming, async move {
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    }));
    Ok(ServedSocket { path: path.to_owned(), task, stop, file: Some(file) })
}
