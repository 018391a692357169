//! Endpoint of one size: its socket beside the kubelet's, and its registration, for as long as the plugin runs.
//!
//! A kubelet that starts removes all sockets of its folder and makes its own anew: the endpoint is bound again then, and
//! registered. So it is where the kubelet has stopped watching the list, which it does not begin again by itself.
//!
//! Promises: looks at files, never waits for them; a kubelet that is away is waited for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tonic::service::Routes;
use tonic::transport::Endpoint;

use super::desk::ShareDesk;
use super::pods::last;
use super::service::{GiveBy, SizeService, options};
use super::size::ShareSize;
use crate::cluster::PluginNode;
use crate::kubelet::wire::deviceplugin::RegisterRequest;
use crate::kubelet::wire::deviceplugin::device_plugin_server::DevicePluginServer;
use crate::kubelet::wire::deviceplugin::registration_client::RegistrationClient;
use crate::kubelet::{AgentState, PinnedFile, REGISTERED, ServedSocket, serve_socket};
use crate::prepare::{NodeDaemon, NodeDisk};

/// Version of the kubelet's service.
const VERSION: &str = "v1beta1";
/// Looks after which a list that nobody watches is registered again.
const MOST_IDLE_LOOKS: u32 = 10;
/// Time for connections to close at the end, beside what a call may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The longest path of a socket.
const MOST_PATH_BYTES: usize = 107;

/// Places where the kubelet is found, and finds us.
#[derive(Clone, Debug)]
pub(super) struct PluginSockets {
    /// The kubelet's folder of device plugins.
    folder: PathBuf,
    /// Socket on which it lists what pods have.
    pub(super) pods: PathBuf,
}

impl PluginSockets {
    /// Below the kubelet's folder, for these sizes.
    ///
    /// # Errors
    /// In words, where a path is too long.
    pub(super) fn of(root: &Path, sizes: &[ShareSize]) -> Result<Self, String> {
        let folder = root.join("device-plugins");
        let sockets = Self { folder, pods: root.join("pod-resources/kubelet.sock") };
        let paths = sizes.iter().map(|size| sockets.endpoint(*size));
        match paths
            .chain([sockets.pods.clone()])
            .find(|path| path.as_os_str().len() > MOST_PATH_BYTES)
        {
            None => Ok(sockets),
            Some(path) => Err(format!(
                "{} has more than the {MOST_PATH_BYTES} bytes of a socket's path; give a shorter --kubelet-root",
                path.display()
            )),
        }
    }

    fn kubelet(&self) -> PathBuf {
        self.folder.join("kubelet.sock")
    }

    /// Socket of a size.
    pub(super) fn endpoint(&self, size: ShareSize) -> PathBuf {
        self.folder.join(name(size))
    }
}

fn name(size: ShareSize) -> String {
    format!("divvy-{size}.sock")
}

/// Registrations of all sizes, which are one condition.
#[derive(Clone, Debug)]
pub(super) struct Registrations {
    state: AgentState,
    all: Arc<Mutex<BTreeMap<ShareSize, Result<(), String>>>>,
}

impl Registrations {
    pub(super) fn new(state: AgentState, sizes: impl Iterator<Item = ShareSize>) -> Self {
        let waits = || Err("the kubelet was not asked yet".to_owned());
        let all = sizes.map(|size| (size, waits())).collect();
        let new = Self { state, all: Arc::new(Mutex::new(all)) };
        new.tell();
        new
    }

    /// Sets one; whether that changed anything.
    fn set(&self, size: ShareSize, result: Result<(), String>) -> bool {
        let before =
            self.all.lock().unwrap_or_else(PoisonError::into_inner).insert(size, result.clone());
        self.tell();
        before != Some(result)
    }

    fn tell(&self) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = all.iter().find_map(|(size, result)| Some((size, result.as_ref().err()?)));
        let (met, words) = match missing {
            None => {
                let names: Vec<_> = all.keys().map(|size| size.resource()).collect();
                (true, format!("the kubelet has registered {}", names.join(", ")))
            }
            Some((size, why)) => (false, format!("{}: {why}", size.resource())),
        };
        self.state.set(REGISTERED, met, words);
    }
}

/// The endpoint of one size.
#[derive(Debug)]
pub(super) struct SizeEndpoint<D, K> {
    pub(super) size: ShareSize,
    pub(super) desk: Arc<ShareDesk<D, K>>,
    pub(super) by: GiveBy,
    pub(super) node: watch::Receiver<PluginNode>,
    pub(super) sockets: PluginSockets,
    pub(super) registrations: Registrations,
    pub(super) ending: watch::Receiver<bool>,
}

impl<D, K> SizeEndpoint<D, K>
where
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    /// Serves until the plugin ends.
    pub(super) async fn run(self) {
        while !*self.ending.borrow() {
            let watched = watch::Sender::new(0);
            let service = SizeService {
                size: self.size,
                desk: self.desk.clone(),
                by: self.by,
                node: self.node.clone(),
                ending: self.ending.clone(),
                watched: watched.clone(),
            };
            let routes = Routes::new(DevicePluginServer::new(service));
            match serve_socket(&self.sockets.endpoint(self.size), routes).await {
                Ok(served) => self.keep(served, &watched).await,
                Err(why) => self.report(Err(why)),
            }
            self.pause().await;
        }
    }

    /// Keeps the endpoint registered until its socket is gone, or the plugin ends.
    async fn keep(&self, served: ServedSocket, watched: &watch::Sender<usize>) {
        let (mut registered, mut idle) = (None::<PinnedFile>, 0);
        loop {
            if *self.ending.borrow() {
                served.end(self.desk.times().patience + LAST_WORDS).await;
                return;
            }
            if !served.is_there() {
                self.report(Err(format!(
                    "{} was removed; it is bound again",
                    served.path().display()
                )));
                return;
            }
            if served.has_ended() {
                self.report(Err(format!("the server of {} has ended", served.path().display())));
                return;
            }
            idle = if *watched.borrow() > 0 { 0 } else { idle + 1 };
            let is_known = registered.as_ref().is_some_and(PinnedFile::is_there);
            if !is_known || idle > MOST_IDLE_LOOKS {
                idle = 0;
                let kubelet = PinnedFile::of(&self.sockets.kubelet());
                registered = match kubelet {
                    Ok(kubelet) => {
                        let result = self.register().await;
                        let is_registered = result.is_ok();
                        self.report(result);
                        is_registered.then_some(kubelet)
                    }
                    Err(error) => {
                        let path = self.sockets.kubelet();
                        self.report(Err(format!(
                            "the kubelet is away: {}: {error}",
                            path.display()
                        )));
                        None
                    }
                };
            }
            self.pause().await;
        }
    }

    async fn pause(&self) {
        let mut ending = self.ending.clone();
        let ended = async { drop(ending.wait_for(|is_ending| *is_ending).await) };
        let _ = timeout(self.desk.times().look, ended).await;
    }

    fn report(&self, result: Result<(), String>) {
        let words = match &result {
            Ok(()) => format!("the kubelet has registered {}", self.size.resource()),
            Err(why) => format!("{} is not registered: {why}", self.size.resource()),
        };
        // A registration is worth a line each time.
        let is_ok = result.is_ok();
        if self.registrations.set(self.size, result) || is_ok {
            self.desk.log().say(&words);
        }
    }

    async fn register(&self) -> Result<(), String> {
        let path = self.sockets.kubelet();
        let asking = async {
            let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()))
                .map_err(|error| last(&error))?;
            let channel = endpoint.connect().await.map_err(|error| last(&error))?;
            let request = RegisterRequest {
                version: VERSION.to_owned(),
                endpoint: name(self.size),
                resource_name: self.size.resource(),
                options: Some(options()),
            };
            let answer = RegistrationClient::new(channel).register(request).await;
            answer.map(|_| ()).map_err(|status| status.message().to_owned())
        };
        let patience = self.desk.times().answer;
        let asked = timeout(patience, asking).await;
        let answer = asked.unwrap_or_else(|_| Err(format!("no answer within {patience:?}")));
        answer.map_err(|why| {
            format!("the kubelet does not register it, on {}: {why}", path.display())
        })
    }
}
